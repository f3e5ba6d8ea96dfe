"""What vCenter knows of hosts, their storage and their VMs becomes facts of the inventory.

A fact has a kind, who told it, and fields of schemas/inventory_item.v1: what `esxcli` says of a
host, vCenter says too, in other words. Facts come in parts, each the whole of what is said of one
subject at one moment: a part that is equal to the one before tells of no change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ingest.vcenter.names import folder_in, host_name, volume_path
from ingest.vcenter.properties import Properties

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
"""Who tells what, as esxcli's commands are named in items that they told."""

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
"""By the beginning of the API's class: esxcli's word."""

_SUPPORT: Final = {
    "vStorageSupported": "supported",
    "vStorageUnsupported": "unsupported",
    "vStorageUnknown": "unknown",
}
_64_BITS: Final = 0xFFFFFFFFFFFFFFFF


@dataclass(frozen=True)
class Fact:
    """One thing that vCenter says of a host. `said` are the item's fields, in their order."""

    kind: str
    told_by: str
    said: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Surroundings:
    """What an object's own properties do not tell."""

    clusters: Mapping[str, str]
    """By managed-object id, the name."""
    attributes: Mapping[int, str]
    """By key, the name of a custom attribute."""


def shown_name(host: Properties) -> str:
    """The host's name as its log lines have it."""
    own = host.get("config.network.dnsConfig")
    return host_name(host["name"], own and own.hostName, own and own.domainName)


def host_parts(moid: str, host: Properties, surroundings: Surroundings) -> dict[str, list[Fact]]:
    """What is said of a host, by subject."""
    return {
        "host": list(_names(moid, host, surroundings)),
        "storage": [*_extents(host), *_devices(host), *_paths(host)],
    }


@dataclass(frozen=True)
class Machine:
    """What is said of a VM."""

    host_moid: str
    """The host that runs it, who says it all."""
    vm: str
    datastore: str
    facts: list[Fact]
    mappings: list[Fact]
    """Of its raw device mappings; what a host says of them is said of all its VMs at once."""


def machine(moid: str, vm: Properties, surroundings: Surroundings) -> Machine | None:
    """None for a template, and for a VM whose files or host are not known."""
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
    """The raw device mappings of all VMs of a host, which has no others."""
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
    """The multipathing of LUNs, by the LUN's key."""
    multipath = host.get("config.storageDevice.multipathInfo")
    return {each.lun: each for each in multipath.lun} if multipath else {}


def _transport(transport: Any) -> str | None:
    name = type(transport).__name__.rpartition(".")[2].removesuffix("TargetTransport")
    return _TRANSPORTS.get(name)


def _target(transport: Any) -> str:
    """The array's port as esxcli writes it; of iSCSI its name alone."""
    if hasattr(transport, "portWorldWideName"):
        # The API's numbers have a sign.
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
    """Tags, and custom attributes as `name=value`."""
    attributes: Iterable[Any] = known.get("customValue") or ()
    named = {
        f"{surroundings.attributes[each.key]}={each.value}"
        for each in attributes
        if each.key in surroundings.attributes and each.value
    }
    return sorted(named | {each.key for each in known.get("tag") or ()})
