"""Who asked vCenter for what: its events tell of tasks that stop VMs, and of what changed.

A task's event says who, what, on which VM and when; the name of the snapshot it does not say. That
is found by what snapshots the VM had before and has after.
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
"""By the end of what vCenter calls the task (`VirtualMachine.createSnapshot`)."""

CHANGES_A_HOST: Final = frozenset(
    {
        *("EnteredMaintenanceModeEvent", "ExitMaintenanceModeEvent"),
        *("HostAddedEvent", "HostConnectedEvent"),
        *("DatastoreDiscoveredEvent", "DatastoreRemovedOnHostEvent", "DatastoreRenamedOnHostEvent"),
        *("VMFSDatastoreCreatedEvent", "VMFSDatastoreExpandedEvent", "VMFSDatastoreExtendedEvent"),
    }
)
"""Events after which what is known of their host is no longer sure."""

CHANGES_A_VM: Final = frozenset(
    {
        *("VmCreatedEvent", "VmClonedEvent", "VmDeployedEvent", "VmRegisteredEvent"),
        *("VmRemovedEvent", "VmRenamedEvent", "VmReconfiguredEvent"),
        *("VmMigratedEvent", "DrsVmMigratedEvent", "VmRelocatedEvent"),
    }
)
"""The same of their VM."""

ASKED_FOR: Final = ("TaskEvent", *sorted(CHANGES_A_HOST | CHANGES_A_VM))
"""What is read of all that a vCenter logs, by the names that a filter takes."""

_STORAGE_TASKS: Final = ("StorageSystem.", "DatastoreSystem.")
"""Tasks that rescan, or change path policies, extents and mounts."""

_CLOCKS_DIFFER: Final = timedelta(seconds=5)
"""A snapshot's time is the host's, a task's is vCenter's."""


@dataclass(frozen=True)
class Snapshot:
    """One of a VM's."""

    id: int
    name: str
    created_at: datetime


@dataclass(frozen=True)
class Task:
    """Something that somebody asked for."""

    key: str
    """vCenter's own, `task-4711`; not unique over years."""
    kind: str
    """One of KINDS' values."""
    user_name: str
    asked_at: datetime
    host_moid: str
    host_name: str
    """What vCenter calls it."""
    vm_moid: str
    """Empty where it is about a host."""
    vm_name: str
    message: str
    snapshot_name: str = ""
    """Empty where it cannot be told."""


def task_in(event: Any) -> Task | None:
    """The task that an event tells of; None where it is none that counts here."""
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
    """The id of the host that is to be looked at again after this event."""
    if event.host is None:
        return None
    described = getattr(getattr(event, "info", None), "descriptionId", "") or ""
    is_of_storage = any(each in described for each in _STORAGE_TASKS)
    return event.host.host._moId if is_of_storage or _type(event) in CHANGES_A_HOST else None


def changed_vm(event: Any) -> str | None:
    """The id of the VM that is to be looked at again after this event."""
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
    """A VM's property `snapshot`, without its branches."""
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
    """The tasks with the names of their snapshots, by what each VM had before them and has after.

    What was made and removed in between is told by the VM's own log alone.
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
