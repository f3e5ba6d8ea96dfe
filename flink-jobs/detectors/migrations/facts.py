"""Facts about one migration from the logs of hosts and VMs, routed to one tracker.

A migration's ID is the same in the logs of both hosts and of the VM, which have different log keys.
So their lines are forwarded as facts: records whose log key is the migration ID. Facts stay inside
Flink.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from stunwatch.detectors.catalogue import detector
from stunwatch.detectors.records import is_continuation
from stunwatch.detectors.stuns.causes import CauseLine
from stunwatch.detectors.stuns.tracker import Stun
from stunwatch.detectors.stuns.tracker import read as read_vm_line

KIND = "migration"
"""The kind of a record that is a fact about a migration."""

_DETECTOR = detector("migrations")
_PATTERNS = _DETECTOR.patterns
_HOLD_US = _DETECTOR.thresholds["settles_after_seconds"] * 1_000_000
_KEEP_US = _DETECTOR.thresholds["keep_hours"] * 3600 * 1_000_000

# [6A623B90 verbose 'VMotionSrc (1418322799436303)']
# [Originator@6876 sub=Vcsvc.VMotionSrc.8311186098575749154 opID=ab12]
_ID_IN_HEAD = re.compile(
    r"(?:'VMotionSrc \(|sub=(?:\w+\.)*VMotionSrc(?:\.| \())(?P<id>\d{1,19})\b", re.ASCII
)

_STUNS_REMEMBERED = 64

_MOST_HELD = 64
"""A host migrates at most eight VMs at once (ESXi 8). Of more, the oldest is no longer held."""

Record = Mapping[str, Any]
Fact = dict[str, Any]


def is_host_stun(record: Record) -> bool:
    """True if hostd reports in this line how long a vMotion stunned its VM."""
    return _PATTERNS["source_stun"].search(record["message"]) is not None


def migration_id(record: Record) -> str:
    """Return the migration ID in a line, as a decimal number; empty if there is none."""
    if is_continuation(record):
        return ""
    if record["source"] == "vmware_log":
        line = read_vm_line(record)
        return line.migration_id if isinstance(line, CauseLine) else ""
    if found := _PATTERNS["source_stun"].search(record["message"]):
        named = found if found["id"] else _ID_IN_HEAD.search(record.get("head", ""))
        return str(int(named["id"])) if named else ""
    found = _PATTERNS["planned"].search(record["message"])
    return str(int(found["id"])) if found else ""


@dataclass
class Facts:
    """The facts from one log key.

    The host's stun is held back for a while: usually the VM's own log contains it, with more
    detail.
    """

    event_time_us: int = 0
    held: list[Fact] = field(default_factory=list)
    told: dict[str, str] = field(default_factory=dict)
    """The migration of a stun that was forwarded, by event_id."""
    forget_at_us: int = 0

    def feed(self, record: Record) -> Iterator[Fact]:
        """Yield the fact that a line contains."""
        about = migration_id(record)
        if not about:
            return
        fact = {**record, "kind": KIND, "owner": about}
        if is_host_stun(record):
            self.held.append(fact)
            if len(self.held) > _MOST_HELD:
                yield self.held.pop(0)
        else:
            yield fact

    def of_event(self, event: Any) -> Iterator[Fact]:
        """Yield the facts of a stun from the VM's own log."""
        if isinstance(event, Stun):
            yield from self._of_stun(event)

    def _of_stun(self, stun: Stun) -> Iterator[Fact]:
        before = self.told.pop(stun.event_id, None)
        if before and before != stun.migration_id:
            yield _fact(before, stun, is_deleted=1)
        if stun.migration_id:
            yield _fact(stun.migration_id, stun, stun.is_deleted)
            self.told[stun.event_id] = stun.migration_id
            self.forget_at_us = self.event_time_us + _KEEP_US
        if len(self.told) > _STUNS_REMEMBERED:
            del self.told[next(iter(self.told))]

    def advance_time(self, event_time_us: int) -> Iterator[Fact]:
        """Yield the facts that were held long enough."""
        self.event_time_us = max(self.event_time_us, event_time_us)
        if self.held:
            due = [fact for fact in self.held if _due_us(fact) <= self.event_time_us]
            self.held = [fact for fact in self.held if _due_us(fact) > self.event_time_us]
            yield from due
        if self.event_time_us >= self.forget_at_us:
            self.told.clear()

    def flush(self) -> Iterator[Fact]:
        """Yield all facts that are held."""
        yield from self.held
        self.held.clear()

    @property
    def next_timer_us(self) -> int | None:
        """When the next fact was held long enough; None if no state is kept."""
        dues = [_due_us(fact) for fact in self.held]
        return min([*dues, *([self.forget_at_us] if self.told else [])], default=None)


def _due_us(fact: Fact) -> int:
    due_us: int = fact["event_time_us"] + _HOLD_US
    return due_us


def _fact(about: str, stun: Stun, is_deleted: int) -> Fact:
    """Return a stun from the VM's own log as a record."""
    return {
        "owner": about,
        "kind": KIND,
        "source": "stuns",
        "event_time": stun.ended_at,
        "host": stun.host,
        "vm": stun.vm,
        "datastore": stun.datastore,
        "head": "",
        "message": orjson.dumps(
            [stun.event_id, stun.revision, is_deleted, stun.duration_us, stun.evidence[0]]
        ).decode(),
        "run_id": stun.run_id,
        "time_quality": "exact",
        "kafka_offset": 0,
    }
