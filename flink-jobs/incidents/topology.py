"""The topology: the device of a datastore, and the array of a device.

Its source is `events.inventory`: loaded outputs, and log lines that name both a device and a
volume. The newest item counts. Without inventory, scopes are wider.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from stunwatch.incidents.configuration import MOST_HOSTS, MOST_TOLD_BY_LOGS

_NAA_6 = re.compile(r"naa\.6[0-9a-f]{31}")
_SERIAL_END = 4 + 16
"""Length of `naa.6` + company (6 hex digits) + vendor part (9), which most arrays fill with their
serial number; the rest identifies the LUN."""

_TEXTS = (
    *("device", "datastore", "datastore_uuid", "vendor", "model", "array_type", "path_policy"),
    *("alias", "host", "observed_at"),
)
"""The string fields of an item, all optional."""

_EXTENT_LISTS = ("vmfs extent list", "vcenter extents")
_MAPPING_LISTS = ("vmkfstools -q", "vcenter raw device mappings")
"""Sources of complete lists: a device that is not in the list did not exist at that time."""

_LOG = "log"
"""The source of items from log lines, which any sender may write."""

MOST_NAMES = 4
"""Other names of a host: its short name, its addresses, its UUID."""

_VML_HEAD = len("vml.0200040000")
"""Length of the prefix before the device's identifier and model. 04 is the number of the LUN, which
differs between hosts."""


Make = tuple[str, str]
"""Vendor and model, in capitals."""


@dataclass
class Listing:
    """A complete list of one host."""

    observed_at: str
    devices: set[str] = field(default_factory=set)
    is_complete: bool = False
    """True if the host confirmed that the list is complete."""


@dataclass
class Device:
    """A device in the inventory."""

    said_at: str = ""
    datastores: set[str] = field(default_factory=set)
    vendor: str = ""
    model: str = ""
    array_type: str = ""
    path_policy: str = ""
    is_local: bool = False
    is_perennially_reserved: bool = False
    other_names: set[str] = field(default_factory=set)

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Load state; that of an older version lacks fields."""
        vars(self).update(vars(Device()) | dict(state))


@dataclass
class Topology:
    """The whole inventory, with the hosts' names of devices and datastores."""

    devices: dict[str, Device] = field(default_factory=dict)
    carriers: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By name or UUID of a datastore: the time of the item, and its first device."""
    names: dict[str, str] = field(default_factory=dict)
    """The name of a datastore, by UUID."""
    aliases: dict[str, str] = field(default_factory=dict)
    """The shown name of a host, by other name."""
    extents: dict[str, Listing] = field(default_factory=dict)
    """By host: the devices on which it sees VMFS."""
    raw_mappings: dict[str, Listing] = field(default_factory=dict)
    """By host: the devices that its VMs use as RDMs, mostly by their vml. names."""
    listed: set[str] = field(default_factory=set)
    """The devices from other sources than log lines."""
    told_by_logs: dict[tuple[str, str, str], None] = field(default_factory=dict)
    """Device, UUID and name that log lines named together, the newest last."""
    evicted: int = 0
    """Number of items dropped because of a limit."""
    has_all_hosts: bool = True
    """False if there were more hosts than `most_hosts_count`. Then the lists prove nothing."""

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Load state; that of an older version lacks fields."""
        vars(self).update(vars(Topology()) | dict(state))

    def learn(self, item: Mapping[str, Any]) -> None:
        """Add an item (schemas/inventory_item.v1).

        Raises KeyError or TypeError if it breaks its schema; then nothing has changed.
        """
        for name in _TEXTS:
            if not isinstance(item.get(name, ""), str | None):
                raise TypeError(f"{name} {item[name]!r} is not a string")
        others = item.get("other_names") or []
        if not isinstance(others, list) or not all(isinstance(each, str) for each in others):
            raise TypeError(f"other_names {others!r} is not a list of strings")
        kind = item["kind"]
        if item["is_deleted"]:
            return
        if kind == "extent" and item["device"]:
            self._extent(item)
            self._bound(item)
        elif kind == "device":
            self._device(item)
        elif kind == "host_alias":
            self._alias(item["alias"], item["host"])
        if kind in ("listing", "extent") and item["told_by"] in _EXTENT_LISTS:
            self._list(self.extents, item)
        elif kind in ("listing", "raw_device_mapping") and item["told_by"] in _MAPPING_LISTS:
            self._list(self.raw_mappings, item)

    def _alias(self, alias: str, host: str) -> None:
        """Keep another name of a host, the newest ones if there are too many."""
        self.aliases.pop(alias, None)
        self.aliases[alias] = host
        if len(self.aliases) > MOST_NAMES * MOST_HOSTS:
            del self.aliases[next(iter(self.aliases))]
            self.evicted += 1

    def _list(self, listings: dict[str, Listing], item: Mapping[str, Any]) -> None:
        """Add an item to the list of its host; the newest list counts."""
        host, observed_at = item["host"] or "", item["observed_at"] or ""
        listing = listings.get(host)
        if listing is None and len(listings) >= MOST_HOSTS:
            self.has_all_hosts = False
            self.evicted += 1
            return
        if listing is None or listing.observed_at < observed_at:
            listing = listings[host] = Listing(observed_at)
        if listing.observed_at > observed_at:
            return
        if item["kind"] == "listing":
            listing.is_complete = True
        elif item["device"]:
            # Many hosts list the same devices.
            listing.devices.add(sys.intern(item["device"]))

    def _extent(self, item: Mapping[str, Any]) -> None:
        said = item["observed_at"]
        uuid, name, device = item["datastore_uuid"], item["datastore"], item["device"]
        for datastore in filter(None, (uuid, name)):
            before = self.carriers.get(datastore)
            # A datastore with several extents is located on the first one.
            if before is None or (before[0] < said and before[1] != device):
                self.carriers[datastore] = said, device
        if uuid and name:
            self.names[uuid] = name
        if name or uuid:
            self.devices.setdefault(device, Device()).datastores.add(name or uuid)

    def _bound(self, item: Mapping[str, Any]) -> None:
        """Drop the oldest items of log lines above their limit."""
        device = item["device"]
        if item["told_by"] != _LOG:
            self.listed.add(device)
            return
        pair = device, item["datastore_uuid"] or "", item["datastore"] or ""
        self.told_by_logs.pop(pair, None)
        self.told_by_logs[pair] = None
        if len(self.told_by_logs) <= MOST_TOLD_BY_LOGS:
            return
        device, uuid, name = next(iter(self.told_by_logs))
        del self.told_by_logs[device, uuid, name]
        self.evicted += 1
        if device in self.listed:
            return
        for datastore in (uuid, name):
            if self.device_of(datastore) == device:
                del self.carriers[datastore]
        if self.names.get(uuid) == name:
            del self.names[uuid]
        known = self.devices.get(device)
        if known:
            known.datastores -= {uuid, name}
            if known == Device():
                del self.devices[device]

    def _device(self, item: Mapping[str, Any]) -> None:
        self.listed.add(item["device"])
        device = self.devices.setdefault(item["device"], Device())
        device.other_names.update(item.get("other_names") or ())
        device.vendor = item.get("vendor") or device.vendor
        device.model = item.get("model") or device.model
        device.array_type = item.get("array_type") or device.array_type
        device.path_policy = item.get("path_policy") or device.path_policy
        device.is_local = item.get("is_local") or device.is_local
        device.is_perennially_reserved = (
            item.get("is_perennially_reserved") or device.is_perennially_reserved
        )

    def host(self, name: str) -> str:
        """The shown name of a host, by any name or address."""
        return self.aliases.get(name, name)

    def device_of(self, datastore: str) -> str:
        """The device of a datastore (name or UUID); empty if unknown."""
        return self.carriers[datastore][1] if datastore in self.carriers else ""

    def datastore_name(self, datastore: str) -> str:
        """The name of a datastore, by name or UUID."""
        return self.names.get(datastore, datastore)

    def datastores_on(self, device: str) -> set[str]:
        """The names of the datastores on a device."""
        known = self.devices.get(device)
        return {self.datastore_name(each) for each in known.datastores} if known else set()

    def is_mapped_raw(self, device: str) -> bool:
        """True if any host lists a VM that uses the device as an RDM."""
        known = self.devices.get(device, Device())
        names = {device, *known.other_names}
        units = {each[_VML_HEAD:] for each in names if each.startswith("vml.")} - {""}
        identifier = device.partition(".")[2]
        return any(
            mapped in names
            or (mapped.startswith("vml.") and mapped[_VML_HEAD:] in units)
            or (identifier and mapped[_VML_HEAD:].startswith(identifier))
            for listing in self.raw_mappings.values()
            for mapped in listing.devices
        )

    def vmfs_doubt(self, device: str, hosts: Iterable[str], others: Iterable[str]) -> str:
        """Why the inventory does not prove that a device holds VMFS and no VM uses it as an RDM.

        Empty if it does: `hosts` list VMFS on it, and they, the `others` and all hosts of the
        inventory have listed the raw device mappings of their VMs, none of which is this device.
        """
        known = self.devices.get(device)
        if known is None or not known.datastores:
            name = device.removeprefix("datastore ").removeprefix("path ")
            return f"the inventory does not list the contents of {name}"
        if self.is_mapped_raw(device):
            return f"a VM uses {device} as an RDM"
        if known.is_perennially_reserved:
            return f"{device} is marked perennially reserved"
        extents, mappings = self._complete(self.extents), self._complete(self.raw_mappings)
        concerned = {self.host(each) for each in hosts}
        for host in sorted(concerned):
            if device not in extents.get(host, ()):
                return f"the inventory of {host} lists no VMFS on {device}"
        everybody = {self.host(each) for each in (*others, *self.extents, *self.raw_mappings)}
        for host in sorted(concerned | everybody):
            if host not in mappings:
                return f"the inventory does not list the raw device mappings of {host}"
        return "" if self.has_all_hosts else f"the inventory has more than {MOST_HOSTS:,} hosts"

    def _complete(self, listings: Mapping[str, Listing]) -> dict[str, set[str]]:
        return {
            self.host(name): each.devices for name, each in listings.items() if each.is_complete
        }

    def array_of(self, device: str) -> str:
        """The identifier of the device's array; empty if unknown."""
        if _NAA_6.fullmatch(device):
            return device[:_SERIAL_END]
        return ""

    def make_of(self, device: str) -> Make | None:
        """Vendor and model of the device's array in the inventory; None if unknown."""
        known = self.devices.get(device)
        if known is None or not known.vendor:
            return None
        return known.vendor.strip().upper(), known.model.strip().upper()

    def arrays_known(self) -> int:
        """Number of arrays in the inventory, without local disks."""
        return len(
            {self.array_of(name) for name, each in self.devices.items() if not each.is_local} - {""}
        )
