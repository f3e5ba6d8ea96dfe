"""Converts esxcli outputs to messages for `events.inventory` (schemas/inventory_item.v1).

An item contains what one output reports about one object. A field that the output does not have is
null. The views combine the outputs on a device by the time at which they were taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from stunwatch.detectors.events import content_hash, event_id, timestamp, weighed_revision
from stunwatch.ingest.records import datastore_name
from stunwatch.inventory.outputs import DEVICE, Entry, Output, listed

DETECTOR = "inventory"
VERSION = 1
"""Increase it if the same facts give other rows: the newer row wins."""
COMPLETE = ("vmfs extent list", "vmkfstools -q")
"""Commands that list all objects on a host: an object that is not in the list does not exist."""

_DEVICE = re.compile(DEVICE)
# Software iSCSI puts the session before the target. The session changes with the next reboot.
_SESSION = re.compile(r"[0-9a-f]{12},(?=iqn\.|eui\.|naa\.)")
# /vmfs/volumes/5f2a77c1-9be0d6d2-41aa-0025b5aa00b1/mail01/mail01.vmx
_VOLUME_FILE = re.compile(r"/vmfs/volumes/(?P<volume>[^/]+)/(?P<vm>[^/]+)/.+")
# Default names of hosts, and addresses that many hosts have on internal networks.
_NO_NAME = re.compile(r"localhost(?:\..*)?|127\..*|169\.254\..*|0\.0\.0\.0", re.IGNORECASE)


@dataclass(frozen=True)
class Item:
    """One message of `events.inventory`. The fields are described in schemas/inventory_item.v1."""

    event_id: str
    detector: str
    revision: int
    is_deleted: int
    run_id: str
    host: str
    kind: str
    told_by: str
    observed_at: str
    device: str = ""
    partition: int | None = None
    datastore_uuid: str = ""
    datastore: str = ""
    alias: str = ""
    vm: str = ""
    path: str = ""
    vendor: str | None = None
    model: str | None = None
    size_mb: int | None = None
    is_ssd: bool | None = None
    is_local: bool | None = None
    is_boot: bool | None = None
    is_perennially_reserved: bool | None = None
    multipath_plugin: str | None = None
    array_type: str | None = None
    path_policy: str | None = None
    path_policy_config: str | None = None
    vaai: str | None = None
    vaai_ats: str | None = None
    vaai_clone: str | None = None
    vaai_zero: str | None = None
    vaai_delete: str | None = None
    transport: str | None = None
    paths: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    other_names: list[str] = field(default_factory=list)
    evidence: list[str] = field(default_factory=list)
    moid: str = ""
    name: str = ""
    cluster: str = ""
    is_in_maintenance: bool | None = None
    tags: list[str] = field(default_factory=list)


def host_named_in(outputs: Iterable[Output]) -> str | None:
    """Return the host's own name, the longest that `system hostname get` contains."""
    for output in outputs:
        if output.command == "system hostname get":
            return next(iter(_names(output)), None)
    return None


def items_of(
    outputs: Iterable[Output],
    host: str,
    observed_at_us: int,
    run_id: str,
    given_name: str | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield the messages, each once.

    `observed_at_us` is when the outputs were taken, in microseconds since 1970. `given_name` is the
    user's name for the host, if the host's own name is longer.
    """
    maker = _OutputMaker(host, timestamp(observed_at_us), run_id)
    made: dict[str, Item] = {}
    if given_name not in (None, host):
        alias = maker.item("host_alias", "user", alias=given_name)
        made[alias.event_id] = alias
    for output in outputs:
        for item in maker.items(output):
            made[item.event_id] = item
    for item in made.values():
        yield asdict(item)


class Maker:
    """Makes the items of one host at one time."""

    def __init__(self, host: str, observed_at: str, run_id: str) -> None:
        """`observed_at` is a UTC time with six fraction digits."""
        self._host = host
        self._observed_at = observed_at
        self._run_id = run_id

    def item(self, kind: str, told_by: str, **said: Any) -> Item:
        """Return an item of this host and time, with its event id."""
        if "datastore" in said:
            said["datastore"] = datastore_name(said["datastore"], self._host)
        item = Item(
            event_id="",
            detector=DETECTOR,
            revision=0,
            is_deleted=0,
            run_id="",
            host=self._host,
            kind=kind,
            told_by=told_by,
            observed_at=self._observed_at,
            **said,
        )
        what = (item.device, str(item.partition), item.datastore_uuid, item.alias, item.path)
        revision = weighed_revision(1, 0, content_hash(asdict(item)), VERSION, is_deleted=False)
        anchor = (item.host, item.observed_at, kind, told_by, *what)
        return replace(
            item,
            event_id=event_id(DETECTOR, *anchor),
            revision=revision,
            run_id=self._run_id,
        )


class _OutputMaker(Maker):
    def items(self, output: Output) -> Iterator[Item]:
        """Yield the items of one output."""
        if output.command in COMPLETE:
            yield self.item("listing", output.command)
        match output.command:
            case "vmfs extent list":
                yield from map(self._extent, output.entries)
            case "vmkfstools -q":
                yield from map(self._raw_device_mapping, output.entries)
            case "vm process list":
                yield from self._virtual_machines(output.entries)
            case "core path list":
                yield from self._paths(output.entries)
            case "system hostname get" | "system uuid get" | "network ip interface ipv4 get":
                for alias in _names(output):
                    if alias != self._host:
                        yield self.item("host_alias", output.command, alias=alias)
            case _:
                for entry in output.entries:
                    if _DEVICE.fullmatch(entry["device"]):
                        yield self._device(output.command, entry)

    def _extent(self, entry: Entry) -> Item:
        return self.item(
            "extent",
            "vmfs extent list",
            device=entry["devicename"],
            partition=_number(entry.get("partition")),
            datastore_uuid=entry["vmfsuuid"],
            datastore=entry.get("volumename", ""),
        )

    def _raw_device_mapping(self, entry: Entry) -> Item:
        where = _VOLUME_FILE.fullmatch(entry["disk"])
        return self.item(
            "raw_device_mapping",
            "vmkfstools -q",
            device=entry["mapsto"],
            path=entry["disk"],
            datastore=where["volume"] if where else "",
            vm=where["vm"] if where else "",
        )

    def _virtual_machines(self, entries: Iterable[Entry]) -> Iterator[Item]:
        for entry in entries:
            where = _VOLUME_FILE.fullmatch(entry["configfile"])
            if where:
                yield self.item(
                    "virtual_machine",
                    "vm process list",
                    path=entry["configfile"],
                    datastore=where["volume"],
                    # The name that its log has: the folder's, which a rename does not change.
                    vm=where["vm"],
                )

    def _device(self, command: str, entry: Entry) -> Item:
        is_list = command == "core device list"
        return self.item(
            "device",
            command,
            device=entry["device"],
            vendor=_said(entry.get("vendor")),
            model=_said(entry.get("model")),
            size_mb=_number(entry.get("size")) if is_list else None,
            is_ssd=_truth(entry.get("isssd")),
            is_local=_truth(entry.get("islocal")),
            # `nmp device list` reports only USB boot devices, and so does ESXi 5.0 in all commands.
            is_boot=_truth(entry.get("isbootdevice") or entry.get("isbootusbdevice"))
            if is_list
            else None,
            is_perennially_reserved=_truth(entry.get("isperenniallyreserved")),
            multipath_plugin=_said(entry.get("multipathplugin")),
            array_type=_said(entry.get("storagearraytype")),
            path_policy=_said(entry.get("pathselectionpolicy") or entry.get("pathselectionscheme")),
            path_policy_config=_said(
                entry.get("pathselectionpolicydeviceconfig")
                or entry.get("pathselectionschemeconfig")
            ),
            vaai=_said(entry.get("vaaistatus")),
            vaai_ats=_said(entry.get("atsstatus")),
            vaai_clone=_said(entry.get("clonestatus")),
            vaai_zero=_said(entry.get("zerostatus")),
            vaai_delete=_said(entry.get("deletestatus")),
            other_names=listed(entry.get("otheruids", "")),
        )

    def _paths(self, entries: Iterable[Entry]) -> Iterator[Item]:
        by_device: dict[str, list[Entry]] = {}
        for entry in entries:
            if _DEVICE.fullmatch(entry["device"]):
                by_device.setdefault(entry["device"], []).append(entry)
        for device, paths in by_device.items():
            yield self.item(
                "device",
                "core path list",
                device=device,
                transport=_said(paths[0].get("transport")),
                paths=sorted({path["runtimename"] for path in paths}),
                targets=sorted(
                    {_SESSION.sub("", path.get("targetidentifier", "")) for path in paths} - {""}
                ),
            )


def _names(output: Output) -> list[str]:
    """Return a host's names, the longest first; empty for outputs that contain none."""
    fields = {
        "system hostname get": ("fullyqualifieddomainname", "hostname"),
        "system uuid get": ("systemuuid",),
        "network ip interface ipv4 get": ("ipv4address",),
    }.get(output.command, ())
    names = [entry.get(each, "") for each in fields for entry in output.entries]
    return [name for name in dict.fromkeys(names) if name and not _NO_NAME.fullmatch(name)]


def _said(value: str | None) -> str | None:
    return value or None


def _truth(value: str | None) -> bool | None:
    return {"true": True, "false": False}.get((value or "").lower())


def _number(value: str | None) -> int | None:
    """Parse a number of at most 18 digits; ClickHouse cannot store larger ones."""
    return int(value) if value and len(value) <= 18 and value.isdecimal() else None
