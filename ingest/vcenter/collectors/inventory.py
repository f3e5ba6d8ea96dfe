"""Ships a vCenter's inventory, and the tasks that users requested, to Kafka.

Everything is read once a day, and changed objects whenever vCenter's events report a change. Only
parts that differ from what was sent before are sent again.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import orjson
from pyVmomi import vim

from stunwatch.detectors.events import content_hash, event_id, weighed_revision
from stunwatch.ingest.records import datastore_name, owner_key
from stunwatch.ingest.times import utc_text
from stunwatch.ingest.vcenter.inventory import (
    HOST_PATHS,
    VM_PATHS,
    Fact,
    Machine,
    Surroundings,
    host_parts,
    machine,
    mappings_part,
    shown_name,
)
from stunwatch.ingest.vcenter.positions import TOPIC as POSITIONS
from stunwatch.ingest.vcenter.positions import Positions
from stunwatch.ingest.vcenter.properties import Properties, read_all, read_some
from stunwatch.ingest.vcenter.session import Session
from stunwatch.ingest.vcenter.tasks import (
    ASKED_FOR,
    Snapshot,
    Task,
    changed_host,
    changed_vm,
    named,
    snapshots_in,
    task_in,
)
from stunwatch.inventory.items import Maker
from stunwatch.shipping import Batch, Shipper

INVENTORY: Final = "events.inventory"
TASKS: Final = "events.task"
DETECTOR: Final = "vcenter_tasks"
VERSION: Final = 1
"""Increase it if the same facts give other rows: the newer row wins."""

EVERY_S: Final = 60.0
"""How often events are read."""

SWEEPS_EVERY_S: Final = 24 * 3600.0
FIRST_EVENTS: Final = timedelta(hours=1)
"""How far back events are read if the last position is unknown."""

HOSTS_AT_ONCE: Final = 5
"""A host with 200 LUNs on four paths each returns a megabyte of data."""

_EVENTS: Final = "events"
"""The part whose position is a time instead of a fingerprint."""

MOST_EVENTS: Final = 1000
"""The most events that vCenter returns at once. If there are more, it returns the newest."""


@dataclass
class Memory:
    """The state that is kept across restarts."""

    shipped: dict[str, str] = field(default_factory=dict)
    """By part: the fingerprint of the facts that were sent last."""
    events_until: datetime | None = None


class Collector:
    """Collects the inventory and tasks of one vCenter."""

    def __init__(
        self, session: Session, send: Callable[[str, Batch], None], memory: Memory | None = None
    ) -> None:
        """`send` ships messages to a topic."""
        self.memory = memory or Memory()
        self._session = session
        self._send = send
        self._surroundings = Surroundings({}, {})
        self._hosts: dict[str, str] = {}
        """Host names by id."""
        self._machines: dict[str, Machine] = {}
        self._snapshots: dict[str, list[Snapshot]] = {}
        self._seen: set[int] = set()
        """Keys of the newest events."""

    def sweep(self) -> int:
        """Read everything; return the number of new items."""
        now = self._session.now()
        self._surroundings = _surroundings(self._session)
        self._hosts.clear()
        self._machines.clear()
        self._snapshots.clear()
        items = 0
        for moid, host in read_all(self._session, vim.HostSystem, HOST_PATHS, HOSTS_AT_ONCE):
            items += self._take_host(moid, host, now)
        for moid, vm in read_all(self._session, vim.VirtualMachine, VM_PATHS):
            items += self._take_vm(moid, vm, now)
        return items + sum(self._ship_mappings(moid, now) for moid in self._hosts)

    def follow(self) -> tuple[int, int]:
        """Read the events since the last call; return the number of new items and of tasks."""
        now = self._session.now()
        since = self.memory.events_until or now - FIRST_EVENTS
        events = [each for each in self._events(since, now) if each.key not in self._seen]
        tasks = [task for event in events if (task := task_in(event))]
        items = self._look_again(events, tasks, now)
        self.memory.events_until = now
        # An event may have the same time as the one before it.
        self._seen = {each.key for each in events}
        return items, len(tasks)

    def _look_again(self, events: list[Any], tasks: list[Task], now: datetime) -> int:
        hosts = {moid for each in events if (moid := changed_host(each))}
        vms = {moid for each in events if (moid := changed_vm(each))}
        vms |= {each.vm_moid for each in tasks if each.kind.startswith("snapshot")}
        before = {moid: self._snapshots.get(moid, []) for moid in vms}
        items = 0
        for moid, host in read_some(self._session, vim.HostSystem, HOST_PATHS, hosts).items():
            items += self._take_host(moid, host, now)
        found = read_some(self._session, vim.VirtualMachine, VM_PATHS, vms)
        ran_on = {self._machines[moid].host_moid for moid in vms if moid in self._machines}
        for moid in vms - found.keys():
            self._machines.pop(moid, None)
        for moid, vm in found.items():
            items += self._take_vm(moid, vm, now)
        runs_on = {self._machines[moid].host_moid for moid in found if moid in self._machines}
        for moid in sorted((ran_on | runs_on) & self._hosts.keys()):
            items += self._ship_mappings(moid, now)
        for task in named(tasks, before, self._snapshots):
            self._ship_task(task)
        return items

    def _take_host(self, moid: str, host: Properties, now: datetime) -> int:
        if host.get("runtime.connectionState") != "connected":
            # For a host that is disconnected, vCenter has old data; for a removed one, none.
            return 0
        self._hosts[moid] = shown_name(host)
        return sum(
            self._ship(f"{moid}/{part}", self._hosts[moid], facts, now)
            for part, facts in host_parts(moid, host, self._surroundings).items()
        )

    def _take_vm(self, moid: str, vm: Properties, now: datetime) -> int:
        self._snapshots[moid] = snapshots_in(vm.get("snapshot"))
        found = machine(moid, vm, self._surroundings)
        if found is None or found.host_moid not in self._hosts:
            self._machines.pop(moid, None)
            return 0
        self._machines[moid] = found
        return self._ship(moid, self._hosts[found.host_moid], found.facts, now)

    def _ship_mappings(self, host_moid: str, now: datetime) -> int:
        facts = mappings_part(
            each for each in self._machines.values() if each.host_moid == host_moid
        )
        return self._ship(f"{host_moid}/mappings", self._hosts[host_moid], facts, now)

    def _ship(self, part: str, host: str, facts: list[Fact], now: datetime) -> int:
        """Send a part's facts if they are new; return the number of items."""
        said = orjson.dumps([host, *map(asdict, facts)])
        fingerprint = hashlib.sha256(said).hexdigest()[:16]
        if self.memory.shipped.get(part) == fingerprint:
            return 0
        maker = Maker(host, _stamp(now), "live")
        items = [maker.item(each.kind, each.told_by, **dict(each.said)) for each in facts]
        key = owner_key(host).encode()
        self._send(INVENTORY, [{"key": key, "value": orjson.dumps(each)} for each in items])
        self.memory.shipped[part] = fingerprint
        return len(items)

    def _ship_task(self, task: Task) -> None:
        vcenter = str(self._session.address)
        vm = self._machines.get(task.vm_moid)
        host = self._hosts.get(task.host_moid, task.host_name)
        told = {
            "kind": task.kind,
            "user_name": task.user_name,
            "started_at": _stamp(task.asked_at),
            "host": host,
            "vm": vm.vm if vm else task.vm_name,
            "datastore": datastore_name(vm.datastore, host) if vm else "",
            "vm_name": task.vm_name,
            "snapshot_name": task.snapshot_name,
            "vcenter": vcenter,
            "task_key": task.key,
            "message": task.message,
        }
        # The snapshot's name may be found in one of several reads: prefer the row that has it.
        rank = int(bool(task.snapshot_name))
        event = {
            "event_id": event_id(DETECTOR, vcenter, task.key, told["started_at"]),
            "detector": DETECTOR,
            "revision": weighed_revision(1, rank, content_hash(told), VERSION, is_deleted=False),
            "is_deleted": 0,
            "run_id": "live",
            **told,
        }
        key = owner_key(told["host"]).encode()
        self._send(TASKS, [{"key": key, "value": orjson.dumps(event)}])

    def _events(self, since: datetime, until: datetime) -> Iterator[Any]:
        """Yield events, oldest first. If there are too many in a period, query its halves."""
        window = vim.event.EventFilterSpec.ByTime(beginTime=since, endTime=until)
        wanted = vim.event.EventFilterSpec(time=window, eventTypeId=list(ASKED_FOR))
        found = self._session.content.eventManager.QueryEvents(wanted)
        if len(found) >= MOST_EVENTS and until - since > timedelta(seconds=2):
            middle = since + (until - since) / 2
            yield from self._events(since, middle)
            yield from self._events(middle, until)
        else:
            yield from sorted(found, key=lambda each: int(each.key))


def _surroundings(session: Session) -> Surroundings:
    clusters = read_all(session, vim.ComputeResource, ["name"])
    fields = session.content.customFieldsManager
    return Surroundings(
        clusters={moid: each["name"] for moid, each in clusters},
        attributes={each.key: each.name for each in fields.field} if fields else {},
    )


def _stamp(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S.%f}Z"


def run(
    session: Session,
    positions: Positions,
    shipper: Shipper,
    stop: threading.Event,
    say: Callable[[str], None],
    *,
    is_once: bool = False,
) -> None:
    """Follow the vCenter while it is in this collector's share; other collectors are on standby.

    Items are acknowledged before their fingerprints are written. Raises VCenterError or a subclass.
    """
    share = str(session.address)
    collector: Collector | None = None
    swept_at = float("-inf")
    while not stop.is_set():
        positions.poll(1.0)
        if not positions.is_mine(share):
            collector = None
            continue
        if collector is None:
            collector = Collector(session, shipper.send, _recalled(positions, share))
            swept_at = float("-inf")
        before = dict(collector.memory.shipped)
        items = tasks = 0
        if time.monotonic() - swept_at > SWEEPS_EVERY_S:
            items += collector.sweep()
            swept_at = time.monotonic()
        more, tasks = collector.follow()
        shipper.flush()
        _remember(collector.memory, before, positions, shipper, share)
        say(f"{items + more:,} items of inventory, {tasks:,} tasks")
        if is_once:
            break
        rest = time.monotonic() + EVERY_S
        while not stop.is_set() and time.monotonic() < rest:
            positions.poll(1.0)
    shipper.flush()


def _recalled(positions: Positions, share: str) -> Memory:
    """Return the state that the previous collector wrote."""
    said = {
        key.removeprefix(f"{share}/"): value.decode()
        for key, value in positions.all().items()
        if key.startswith(f"{share}/")
    }
    until = said.pop(_EVENTS, None)
    return Memory(said, datetime.fromisoformat(until) if until else None)


def _remember(
    memory: Memory, before: dict[str, str], positions: Positions, shipper: Shipper, share: str
) -> None:
    told = {part: each for part, each in memory.shipped.items() if before.get(part) != each}
    if memory.events_until is not None:
        told[_EVENTS] = utc_text(memory.events_until)
    shipper.send(
        POSITIONS,
        [positions.message(share, f"{share}/{part}", each.encode()) for part, each in told.items()],
    )
