"""Finds tasks that stun VMs, and changes to hosts and VMs, in vCenter's events.

A task's event contains the user, the task, the VM and the time, but not the name of the snapshot.
The name is found by comparing the VM's snapshots before and after.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

KINDS: Final = {
    "createSnapshot": "snapshot_create",
    "createSnapshotEx": "snapshot_create",
    "Snapshot.remove": "snapshot_remove",
    "removeAllSnapshots": "snapshot_remove_all",
    "Snapshot.revert": "snapshot_revert",
    "revertToCurrentSnapshot": "snapshot_revert",
    "consolidateDisks": "consolidate",
    "migrate": "migrate",
    "relocate": "relocate",
    "Drm.ExecuteVMotionLRO": "migrate",
    "enterMaintenanceMode": "maintenance_enter",
    "exitMaintenanceMode": "maintenance_exit",
}
"""By the end of vCenter's name of the task (`VirtualMachine.createSnapshot`)."""

CHANGES_A_HOST: Final = frozenset(
    {
        *("EnteredMaintenanceModeEvent", "ExitMaintenanceModeEvent"),
        *("HostAddedEvent", "HostConnectedEvent"),
        *("DatastoreDiscoveredEvent", "DatastoreRemovedOnHostEvent", "DatastoreRenamedOnHostEvent"),
        *("VMFSDatastoreCreatedEvent", "VMFSDatastoreExpandedEvent", "VMFSDatastoreExtendedEvent"),
    }
)
"""Events after which the known data on their host may be outdated."""

CHANGES_A_VM: Final = frozenset(
    {
        *("VmCreatedEvent", "VmClonedEvent", "VmDeployedEvent", "VmRegisteredEvent"),
        *("VmRemovedEvent", "VmRenamedEvent", "VmReconfiguredEvent"),
        *("VmMigratedEvent", "DrsVmMigratedEvent", "VmRelocatedEvent"),
    }
)
"""Events after which the known data on their VM may be outdated."""

ASKED_FOR: Final = ("TaskEvent", *sorted(CHANGES_A_HOST | CHANGES_A_VM))
"""The event types to read, by their names in a filter."""

_STORAGE_TASKS: Final = ("StorageSystem.", "DatastoreSystem.")
"""Tasks that rescan, or that change path policies, extents or mounts."""

_CLOCKS_DIFFER: Final = timedelta(seconds=5)
"""Tolerance between clocks: a snapshot's time is the host's, a task's time is vCenter's."""


@dataclass(frozen=True)
class Snapshot:
    """One snapshot of a VM."""

    id: int
    name: str
    created_at: datetime


@dataclass(frozen=True)
class Task:
    """An operation that a user or a program requested."""

    key: str
    """vCenter's id, `task-4711`; not unique over years."""
    kind: str
    """One of the values of KINDS."""
    user_name: str
    asked_at: datetime
    host_moid: str
    host_name: str
    """The host's name in vCenter."""
    vm_moid: str
    """Empty for a task on a host."""
    vm_name: str
    message: str
    snapshot_name: str = ""
    """Empty if unknown."""


def task_in(event: Any) -> Task | None:
    """Return an event's task; None if it has none or one of no interest."""
    info: Any = getattr(event, "info", None)
    kind = _kind(getattr(info, "descriptionId", None) or "")
    if kind is None:
        return None
    return Task(
        key=info.key,
        kind=kind,
        user_name=event.userName or "",
        asked_at=event.createdTime,
        host_moid=event.host.host._moId if event.host else "",
        host_name=event.host.name if event.host else "",
        vm_moid=event.vm.vm._moId if event.vm else "",
        vm_name=event.vm.name if event.vm else "",
        message=event.fullFormattedMessage or "",
    )


def changed_host(event: Any) -> str | None:
    """Return the id of the host to read again after this event; None if there is none."""
    if event.host is None:
        return None
    described = getattr(getattr(event, "info", None), "descriptionId", "") or ""
    is_of_storage = any(each in described for each in _STORAGE_TASKS)
    return event.host.host._moId if is_of_storage or _type(event) in CHANGES_A_HOST else None


def changed_vm(event: Any) -> str | None:
    """Return the id of the VM to read again after this event; None if there is none."""
    is_change = event.vm is not None and _type(event) in CHANGES_A_VM
    return event.vm.vm._moId if is_change else None


def _type(event: Any) -> str:
    return type(event).__name__.rpartition(".")[2]


def _kind(description_id: str) -> str | None:
    return next(
        (
            kind
            for ending, kind in KINDS.items()
            if description_id == ending or description_id.endswith(f".{ending}")
        ),
        None,
    )


def snapshots_in(tree: Any) -> list[Snapshot]:
    """Return the snapshots in a VM's property `snapshot` as a flat list."""
    return list(_flat(tree.rootSnapshotList)) if tree is not None else []


def _flat(branches: Iterable[Any]) -> Iterator[Snapshot]:
    for each in branches:
        yield Snapshot(each.id, each.name, each.createTime)
        yield from _flat(each.childSnapshotList)


def named(
    tasks: Iterable[Task],
    before: Mapping[str, list[Snapshot]],
    after: Mapping[str, list[Snapshot]],
) -> Iterator[Task]:
    """Yield the tasks with the names of their snapshots, by comparing each VM's snapshots.

    A snapshot that was created and removed in between appears only in the VM's own log.
    """
    for task in tasks:
        had, has = before.get(task.vm_moid, []), after.get(task.vm_moid, [])
        if task.kind == "snapshot_create":
            made = [each for each in has if each.created_at >= task.asked_at - _CLOCKS_DIFFER]
            made.sort(key=lambda each: each.created_at)
            yield replace(task, snapshot_name=made[0].name) if made else task
        elif task.kind == "snapshot_remove":
            left = {each.id for each in has}
            gone = [each for each in had if each.id not in left]
            yield replace(task, snapshot_name=gone[0].name) if len(gone) == 1 else task
        else:
            yield task
