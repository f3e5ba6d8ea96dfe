"""Writes esxcli outputs about a host's storage, for `stunwatch inventory load`."""

from __future__ import annotations

from collections.abc import Iterator

from stunwatch.simulation.fleet import Datastore, Host
from stunwatch.simulation.sites import Site


def inventory(site: Site, host: Host, policies: dict[str, str] | None = None) -> str:
    """Return all outputs as one terminal session. `policies`: changed path policies, by array."""
    lines = list(_names(host))
    lines += _old_extents(host) if host.era.is_yearless else _extents(host)
    lines += _devices(site, host)
    lines += _multipathing(site, host, policies or {})
    if not host.era.is_yearless:
        lines += _paths(site, host)
    return "\n".join(lines) + "\n"


def _names(host: Host) -> Iterator[str]:
    label, _, domain = host.name.partition(".")
    yield "~ # esxcli system hostname get"
    yield f"   Domain Name: {domain}"
    yield f"   Fully Qualified Domain Name: {host.name}"
    yield f"   Host Name: {label}"


def _extents(host: Host) -> Iterator[str]:
    width = max(len("Volume Name"), *(len(each.name) for each in host.datastores))
    yield "~ # esxcli storage vmfs extent list"
    yield f"{'Volume Name':{width}}  {'VMFS UUID':35}  Extent Number  {'Device Name':36}  Partition"
    yield f"{'-' * width}  {'-' * 35}  {'-' * 13}  {'-' * 36}  {'-' * 9}"
    for each in host.datastores:
        yield f"{each.name:{width}}  {each.uuid}  {0:>13}  {each.device}  {1:>9}"
    yield ""


def _old_extents(host: Host) -> Iterator[str]:
    yield "~ # esxcfg-scsidevs -m"
    for each in host.datastores:
        disk = f"{each.device}:1"
        yield f"{disk:64} /vmfs/devices/disks/{disk} {each.uuid}  0  {each.name}"


def _title(site: Site, datastore: Datastore) -> str:
    make = site.make_of(datastore)
    kind = "iSCSI Disk" if make.is_iscsi else "Fibre Channel Disk"
    said = f"Local {make.vendor} Disk" if datastore.is_local else f"{make.vendor} {kind}"
    return f"{said} ({datastore.device})"


def _devices(site: Site, host: Host) -> Iterator[str]:
    part = "corestorage" if host.era.is_yearless else "storage core"
    yield f"~ # esxcli {part} device list"
    for each in host.datastores:
        make = site.make_of(each)
        yield each.device
        yield f"   Display Name: {_title(site, each)}"
        yield "   Size: 2097152"
        yield "   Device Type: Direct-Access "
        yield "   Multipath Plugin: NMP"
        yield f"   Devfs Path: /vmfs/devices/disks/{each.device}"
        yield f"   Vendor: {make.vendor:8}"
        yield f"   Model: {make.model:16}"
        yield "   Is Pseudo: false"
        yield "   Status: on"
        yield f"   Is Local: {'true' if each.is_local else 'false'}"
        yield "   Is Removable: false"
        if not host.era.is_yearless:
            yield "   Is SSD: false"
            yield "   Is Perennially Reserved: false"
        yield ""
    yield host.boot_device
    yield f"   Display Name: Local USB Direct-Access ({host.boot_device})"
    yield "   Size: 7600"
    yield f"   Devfs Path: /vmfs/devices/disks/{host.boot_device}"
    yield "   Vendor: SIM     "
    yield "   Model: USB STICK       "
    yield "   Is Local: true"
    yield "   Is Removable: true"
    if not host.era.is_yearless:
        yield "   Is Boot USB Device: true"
    yield ""


def _policy(site: Site, policies: dict[str, str], datastore: Datastore) -> tuple[str, str]:
    """Return name and configuration of the path selection policy."""
    policy = policies.get(datastore.array.name, site.policy_of(datastore))
    if policy == "VMW_PSP_RR":
        return policy, "{policy=rr,iops=1000,bytes=10485760,useANO=0;lastPathIndex=1}"
    path = path_to(site, datastore, 0)
    return policy, f"{{preferred={path};current={path}}}"


def _multipathing(site: Site, host: Host, policies: dict[str, str]) -> Iterator[str]:
    yield f"~ # esxcli {'' if host.era.is_yearless else 'storage '}nmp device list"
    for each in host.datastores:
        policy, configuration = _policy(site, policies, each)
        working = [path_to(site, each, side) for side in (0, 1)]
        yield each.device
        yield f"   Device Display Name: {_title(site, each)}"
        yield f"   Storage Array Type: {site.make_of(each).array_type}"
        yield f"   Path Selection Policy: {policy}"
        yield f"   Path Selection Policy Device Config: {configuration}"
        yield f"   Working Paths: {', '.join(working[:1] if 'FIXED' in policy else working)}"
        yield ""


def _paths(site: Site, host: Host) -> Iterator[str]:
    yield "~ # esxcli storage core path list"
    for each in host.datastores:
        transport = _transport(site, each)
        adapter_name = {
            "fc": f"fc.2000{host.number:012x}:2100{host.number:012x}",
            "iscsi": f"iqn.1998-01.com.vmware:{host.label}-5a1b2c3d",
            "parallel": "parallel.vmhba0",
        }[transport]
        for side in (0, 1):
            path = path_to(site, each, side)
            adapter, channel, target, lun = path.split(":")
            port = _port(transport, each, side)
            uid = f"{adapter_name}-{port}-{each.device}"
            yield uid
            yield f"   UID: {uid}"
            yield f"   Runtime Name: {path}"
            yield f"   Device: {each.device}"
            yield f"   Device Display Name: {_title(site, each)}"
            yield f"   Adapter: {adapter}"
            yield f"   Channel: {channel[1:]}"
            yield f"   Target: {target[1:]}"
            yield f"   LUN: {lun[1:]}"
            yield "   Plugin: NMP"
            yield "   State: active"
            yield f"   Transport: {transport}"
            yield f"   Adapter Identifier: {adapter_name}"
            yield f"   Target Identifier: {port}"
            yield ""


def _transport(site: Site, datastore: Datastore) -> str:
    if datastore.is_local:
        return "parallel"
    return "iscsi" if site.make_of(datastore).is_iscsi else "fc"


def _port(transport: str, datastore: Datastore, side: int) -> str:
    """Return an array's node and port; for iSCSI a session, and the volume's own target."""
    if transport == "iscsi":
        group = datastore.array.datastores[0].device[12:21]
        volume = f"0-8a0906-{group}-{datastore.device[-16:]}-vol{datastore.lun}"
        return f"00023d00000{side + 1},iqn.2001-05.com.equallogic:{volume},t,1"
    if transport == "fc":
        node = datastore.array.datastores[0].device[-10:]
        return f"fc.50060a{node}:50060{side}{node}a"
    return f"parallel.vmhba0:{side}"


def path_to(site: Site, datastore: Datastore, side: int) -> str:
    """Return a path to a LUN, by the first adapter or port (side 0) or the second (side 1)."""
    if datastore.is_local:
        return f"vmhba0:C0:T{1 + side}:L0"
    if site.make_of(datastore).is_iscsi:
        return f"vmhba37:C{side}:T{datastore.lun}:L0"
    target = site.targets_of(datastore)[side]
    return f"vmhba{2 + target % 2}:C0:T{target}:L{datastore.lun}"
