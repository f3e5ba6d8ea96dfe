"""The stun of a migration, as the source host logs it.

hostd logs a duration and the migration, but not the VM. The VM's log contains the migration and the
VM. This tracker joins the two by the migration's ID. If the VM's own log contains the stun, there
must be no second row for it: an earlier row is retracted, and a row that another replay may write
is retracted in advance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import orjson

from stunwatch.detectors.catalogue import detector
from stunwatch.detectors.events import EVIDENCE_SHOWN, event_id, timestamp
from stunwatch.detectors.migrations.facts import migration_id
from stunwatch.detectors.point_events import Fact, Found, PointEvents
from stunwatch.detectors.records import has_own_time, verbatim
from stunwatch.detectors.stuns.tracker import Stun, severity

_DETECTOR = detector("migrations")
_PATTERNS = _DETECTOR.patterns
_LIMITS = _DETECTOR.thresholds
_LONGEST_STUN_US = _LIMITS["longest_stun_days"] * 24 * 3600 * 1_000_000

_NOWHERE = ("", "")
_MOST = 0x3FF


@dataclass(frozen=True, kw_only=True)
class MigrationFact(Fact):
    """A line about a migration, or a row derived from the VM's own log."""

    migration_id: str
    kind: str
    """`host_stun`, `planned`, `vm` (the VM's log contains the migration) or `vm_stun` (and the
    stun)."""
    duration_us: int = 0
    home: tuple[str, str] = _NOWHERE
    """The VM's datastore and name."""
    says: str = ""
    """Source and destination; for a `vm_stun` its event_id."""
    revision: int = 0
    is_deleted: int = 0


@dataclass
class Tracker(PointEvents[MigrationFact, Stun]):
    """Tracks the stuns of migrations."""

    keep_us: ClassVar[int] = _LIMITS["keep_hours"] * 3600 * 1_000_000

    def read(self, record: Mapping[str, Any]) -> MigrationFact | None:
        """Parse a line, or a row derived from the VM's own log, to a fact about a migration."""
        if record["source"] == "stuns":
            return _row_of_the_vm(record)
        about = migration_id(record)
        if not about or not has_own_time(record):
            return None
        kind, duration_us, says = "vm", 0, ""
        if found := _PATTERNS["source_stun"].search(record["message"]):
            kind, duration_us = "host_stun", int(found["microseconds"])
            if not 0 < duration_us <= _LONGEST_STUN_US:
                return None
        elif found := _PATTERNS["planned"].search(record["message"]):
            kind, says = "planned", f"{found['source']} to {found['destination']}"
        return MigrationFact(
            at_us=record["event_time_us"],
            offset=record.get("offset", -1),
            text=verbatim(record),
            host=record.get("host", ""),
            migration_id=about,
            kind=kind,
            duration_us=duration_us,
            home=_home(record) if kind == "vm" else _NOWHERE,
            says=says,
        )

    def group_of(self, fact: MigrationFact) -> str:
        """Return the migration: each one is independent."""
        return fact.migration_id

    def rows(self, facts: Sequence[MigrationFact], event_time_us: int) -> Iterator[Found[Stun]]:
        """Yield the host's row, and retractions of rows that must not exist."""
        host_stuns = [fact for fact in facts if fact.kind == "host_stun"]
        vm_stuns = [fact for fact in facts if fact.kind == "vm_stun"]
        newest: dict[str, MigrationFact] = {}
        for fact in vm_stuns:
            if fact.revision >= newest.get(fact.says, fact).revision:
                newest[fact.says] = fact
        told = [fact for fact in newest.values() if not fact.is_deleted]
        stun = min([*host_stuns, *told], key=lambda fact: (fact.kind, fact.order), default=None)
        if stun is None:
            return
        about_vm = [fact for fact in facts if fact.home != _NOWHERE]
        homes = sorted({fact.home for fact in about_vm} | {_NOWHERE})
        here = sorted({fact.home for fact in about_vm if fact.host == stun.host})
        home = next(iter([*here, *homes[1:]]), _NOWHERE)
        # Facts from the VM's own log outweigh any number of lines from hosts.
        hosts = len(facts) - len(about_vm)
        known = min(len(vm_stuns), _MOST) << 20 | min(len(about_vm), _MOST) << 10
        for each in homes:
            yield Found(
                _row(stun, each, facts),
                facts[0].at_us,
                facts[-1].at_us,
                lines=known | min(hosts, _MOST),
                is_deleted=bool(told) or each != home,
            )


def _home(record: Mapping[str, Any]) -> tuple[str, str]:
    return record.get("datastore", ""), record.get("vm", "")


def _row_of_the_vm(record: Mapping[str, Any]) -> MigrationFact:
    """Convert a row derived from the VM's own log to a fact."""
    each, revision, is_deleted, duration_us, text = orjson.loads(record["message"])
    return MigrationFact(
        at_us=record["event_time_us"],
        offset=-1,
        # Every revision is a separate fact.
        text=f"{text} {revision} {is_deleted}",
        host=record.get("host", ""),
        migration_id=record["owner"],
        kind="vm_stun",
        duration_us=duration_us,
        home=_home(record),
        says=each,
        revision=revision,
        is_deleted=is_deleted,
    )


def _row(stun: MigrationFact, home: tuple[str, str], facts: Sequence[MigrationFact]) -> Stun:
    datastore, vm = home
    plans = [fact for fact in facts if fact.kind == "planned"]
    named = [fact for fact in facts if fact.kind == "vm"]
    shown = [stun, *plans[:1], *(named[:1] if vm else [])]
    return Stun(
        # The VM's name is part of the ID: once it is known, the row is another one.
        event_id=event_id(_DETECTOR.name, stun.migration_id, datastore, vm),
        detector=_DETECTOR.name,
        revision=0,
        is_deleted=0,
        run_id="",
        host=stun.host,
        vm=vm,
        datastore=datastore,
        started_at=timestamp(stun.at_us - stun.duration_us),
        ended_at=timestamp(stun.at_us),
        duration_us=stun.duration_us,
        reported_us=None,
        measured_by="hostd",
        cause="vmotion",
        cause_detail=plans[0].says if plans else "",
        op_id="",
        migration_id=stun.migration_id,
        switchover_us=None,
        is_quiesced=None,
        is_cbt=None,
        severity=severity(stun.duration_us),
        evidence=list(dict.fromkeys(fact.text for fact in shown))[:EVIDENCE_SHOWN],
    )
