"""Converts vCenter's data on hosts, their storage and their VMs to inventory facts.

A fact has a kind, a source, and fields of schemas/inventory_item.v1. vCenter reports the same facts
on a host as `esxcli`, in other terms. Facts are grouped in parts. A part is everything reported
about one subject at one moment; if a part equals the previous one, nothing has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from stunwatch.ingest.vcenter.names import folder_in, host_name, volume_path
from stunwatch.ingest.vcenter.properties import Properties

HOST_PATHS: Final = (
    "name",
    "parent",
    "runtime.connectionState",
    "runtime.inMaintenanceMode",
    "hardware.systemInfo.uuid",
    "config.network.dnsConfig",
    "config.network.vnic",
    "config.storageDevice.scsiLun",
    "config.storageDevice.multipathInfo",
    "config.fileSystemVolume.mountInfo",
    "customValue",
    "tag",
)
VM_PATHS: Final = (
    "name",
    "runtime.host",
    "config.files.vmPathName",
    "config.template",
    "config.hardware.device",
    "snapshot",
    "customValue",
    "tag",
)

NAMES: Final = "vcenter names"
EXTENTS: Final = "vcenter extents"
RAW_DEVICE_MAPPINGS: Final = "vcenter raw device mappings"
"""Sources of facts, in place of the esxcli command in items from esxcli."""

_TRANSPORTS: Final = {
    "FibreChannel": "fc",
    "FibreChannelOverEthernet": "fcoe",
    "InternetScsi": "iscsi",
    "SerialAttached": "sas",
    "ParallelScsi": "parallel",
    "BlockAdapter": "block",
    "Pcie": "pcie",
    "Rdma": "rdma",
    "Tcp": "tcp",
}
"""esxcli's term, by the beginning of the API's class name."""

_SUPPORT: Final = {
    "vStorageSupported": "supported",
    "vStorageUnsupported": "unsupported",
    "vStorageUnknown": "unknown",
}
_64_BITS: Final = 0xFFFFFFFFFFFFFFFF


@dataclass(frozen=True)
class Fact:
    """One fact that vCenter reports about a host. `said` are the item's fields, in order."""

    kind: str
    told_by: str
    said: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Surroundings:
    """Names that an object's own properties do not contain."""

    clusters: Mapping[str, str]
    """Cluster names by managed-object id."""
    attributes: Mapping[int, str]
    """Names of custom attributes by key."""


def shown_name(host: Properties) -> str:
    """Return the host's name as its log lines spell it."""
    own = host.get("config.network.dnsConfig")
    return host_name(host["name"], own and own.hostName, own and own.domainName)


def host_parts(moid: str, host: Properties, surroundings: Surroundings) -> dict[str, list[Fact]]:
    """Return the facts on a host, by subject."""
    return {
        "host": list(_names(moid, host, surroundings)),
        "storage": [*_extents(host), *_devices(host), *_paths(host)],
    }


@dataclass(frozen=True)
class Machine:
    """The facts on a VM."""

    host_moid: str
    """The host that runs the VM. It is the source of these facts."""
    vm: str
    datastore: str
    facts: list[Fact]
    mappings: list[Fact]
    """The VM's raw device mappings. Those of all VMs of a host form one part."""


def machine(moid: str, vm: Properties, surroundings: Surroundings) -> Machine | None:
    """Return a VM's facts; None for a template, or if its files or its host are unknown."""
    path = vm.get("config.files.vmPathName")
    if not path or vm.get("config.template") or "runtime.host" not in vm:
        return None
    datastore, file = volume_path(path)
    said = _fact(
        "virtual_machine",
        "vcenter virtual machines",
        path=file,
        datastore=datastore,
        vm=folder_in(path),
        moid=moid,
        name=vm["name"],
        tags=_tags(vm, surroundings),
    )
    mappings = list(_raw_device_mappings(vm))
    return Machine(vm["runtime.host"]._moId, folder_in(path), datastore, [said], mappings)


def mappings_part(machines: Iterable[Machine]) -> list[Fact]:
    """Return the raw device mappings of all VMs of a host, as one complete list."""
    found = [each for one in machines for each in one.mappings]
    return [_fact("listing", RAW_DEVICE_MAPPINGS), *sorted(found, key=lambda each: each.said)]


def _fact(kind: str, told_by: str, **said: Any) -> Fact:
    return Fact(kind, told_by, tuple(said.items()))


def _names(moid: str, host: Properties, surroundings: Surroundings) -> Iterator[Fact]:
    parent = host.get("parent")
    yield _fact(
        "host",
        "vcenter hosts",
        moid=moid,
        name=host["name"],
        cluster=surroundings.clusters.get(parent._moId, "") if parent else "",
        is_in_maintenance=host.get("runtime.inMaintenanceMode"),
        tags=_tags(host, surroundings),
    )
    shown = shown_name(host)
    addresses = [each.spec.ip.ipAddress for each in host.get("config.network.vnic") or ()]
    others = (host["name"], host.get("hardware.systemInfo.uuid"), *addresses)
    for alias in dict.fromkeys(filter(None, others)):
        if alias != shown and not alias.startswith(("127.", "169.254.")):
            yield _fact("host_alias", NAMES, alias=alias)


def _extents(host: Properties) -> Iterator[Fact]:
    mounted = host.get("config.fileSystemVolume.mountInfo")
    if mounted is None:
        return
    yield _fact("listing", EXTENTS)
    for each in mounted:
        for extent in getattr(each.volume, "extent", ()):
            yield _fact(
                "extent",
                EXTENTS,
                device=extent.diskName,
                partition=extent.partition,
                datastore_uuid=each.volume.uuid,
                datastore=each.volume.name,
            )


def _devices(host: Properties) -> Iterator[Fact]:
    units = _units(host)
    for lun in host.get("config.storageDevice.scsiLun") or ():
        if lun.lunType != "disk":
            continue
        unit = units.get(lun.key)
        array_type = unit.storageArrayTypePolicy if unit else None
        capacity = getattr(lun, "capacity", None)
        yield _fact(
            "device",
            "vcenter devices",
            device=lun.canonicalName,
            vendor=(lun.vendor or "").strip() or None,
            model=(lun.model or "").strip() or None,
            size_mb=capacity.block * capacity.blockSize >> 20 if capacity else None,
            is_ssd=getattr(lun, "ssd", None),
            is_local=getattr(lun, "localDisk", None),
            is_perennially_reserved=getattr(lun, "perenniallyReserved", None),
            array_type=array_type.policy if array_type else None,
            path_policy=unit.policy.policy if unit and unit.policy else None,
            vaai=_SUPPORT.get(lun.vStorageSupport or ""),
            other_names=sorted({each.id for each in lun.descriptor if each.id.startswith("vml.")}),
        )


def _paths(host: Properties) -> Iterator[Fact]:
    units = _units(host)
    for lun in host.get("config.storageDevice.scsiLun") or ():
        paths = units[lun.key].path if lun.lunType == "disk" and lun.key in units else ()
        if paths:
            yield _fact(
                "device",
                "vcenter paths",
                device=lun.canonicalName,
                transport=_transport(paths[0].transport),
                paths=sorted({each.name for each in paths}),
                targets=sorted({_target(each.transport) for each in paths} - {""}),
            )


def _units(host: Properties) -> dict[str, Any]:
    """Return the multipathing of each LUN, by the LUN's key."""
    multipath = host.get("config.storageDevice.multipathInfo")
    return {each.lun: each for each in multipath.lun} if multipath else {}


def _transport(transport: Any) -> str | None:
    name = type(transport).__name__.rpartition(".")[2].removesuffix("TargetTransport")
    return _TRANSPORTS.get(name)


def _target(transport: Any) -> str:
    """Return the array's port as esxcli writes it; for iSCSI only its name."""
    if hasattr(transport, "portWorldWideName"):
        # The API returns signed numbers.
        node = transport.nodeWorldWideName & _64_BITS
        return f"fc.{node:016x}:{transport.portWorldWideName & _64_BITS:016x}"
    return getattr(transport, "iScsiName", "") or ""


def _raw_device_mappings(vm: Properties) -> Iterator[Fact]:
    for disk in vm.get("config.hardware.device") or ():
        backing: Any = getattr(disk, "backing", None)
        # Only a raw device mapping's backing names a device and a file.
        if not getattr(backing, "deviceName", None) or not getattr(backing, "fileName", None):
            continue
        datastore, path = volume_path(backing.fileName)
        yield _fact(
            "raw_device_mapping",
            RAW_DEVICE_MAPPINGS,
            device=backing.deviceName,
            path=path,
            datastore=datastore,
            vm=folder_in(backing.fileName),
        )


def _tags(known: Properties, surroundings: Surroundings) -> list[str]:
    """Return tags, and custom attributes as `name=value`."""
    attributes: Iterable[Any] = known.get("customValue") or ()
    named = {
        f"{surroundings.attributes[each.key]}={each.value}"
        for each in attributes
        if each.key in surroundings.attributes and each.value
    }
    return sorted(named | {each.key for each in known.get("tag") or ()})
