"""The correlator: events in, incidents out; the same live and in a replay, in any order of events.

It receives every event and the time. Periodically it recalculates all incidents from the stored
signals and writes those that changed. Plain Python, no Flink.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import islice
from typing import Any

from stunwatch.detectors.catalogue import INCIDENTS_TOPIC
from stunwatch.detectors.events import (
    EVIDENCE_SHOWN,
    changed,
    content_hash,
    event_id,
    timestamp,
    weighed_revision,
)
from stunwatch.incidents import seasonal_baseline
from stunwatch.incidents.configuration import (
    CLOSING_US,
    FASTEST_CLOCK_US,
    KEEP_US,
    MOST_AWAITED,
    MOST_SIGNALS,
    PAUSE_US,
    RUNNING_US,
    SEEN_US,
)
from stunwatch.incidents.figures import figures
from stunwatch.incidents.grouping import Trouble, troubles
from stunwatch.incidents.hosts_seen import STRETCH_US, HostsSeen
from stunwatch.incidents.next_steps import Case, Step, conflict_holds_until_us, next_steps
from stunwatch.incidents.seasonal_baseline import Bands
from stunwatch.incidents.signals import Signal, microseconds, reading, signal_of
from stunwatch.incidents.suspects import suspect
from stunwatch.incidents.topology import Topology
from stunwatch.incidents.verdict import confidence, missing, sentence, severity, since

INVENTORY_TOPIC = "events.inventory"
SEEN_TOPIC = "seen"
"""Not a Kafka topic: the job itself reports when hosts were seen."""

DETECTOR = "incidents"
VERSION = 4
"""Raised when the same events give other incidents or texts: the newer row wins."""

_MOST_REVISION = 2**63 - 1
_MOST_LOCATED = 63
_HIGHEST_RANK = 127


@dataclass(frozen=True)
class Incident:
    """A row of schemas/incident.v1."""

    event_id: str
    detector: str
    revision: int
    is_deleted: int
    run_id: str
    detected_at: str
    opened_at: str
    closed_at: str | None
    state: str
    suspect: str
    scope: str
    verdict: str
    confidence: str
    next_steps: list[Step]
    hosts: list[str]
    devices: list[str]
    paths: list[str]
    datastores: list[str]
    vms: list[str]
    reporting_hosts: int
    missing: list[str]
    stun_count: int
    worst_stun_us: int
    conflict_count: int
    failed_command_count: int
    peak_davg_ms: float | None
    peak_ms: float | None
    peak_metric: str | None
    peak_source: str | None
    severity: str
    evidence_ids: list[str]
    evidence: list[str]


@dataclass
class Written:
    """The last written row of an incident."""

    row: Incident
    lines: int
    began_us: int
    ended_us: int | None
    held_until_us: int | None
    """Until when its stuck reservation counts as held: its next steps change then."""
    detected_us: int
    """Hosts seen in the hour before this time belong to the row."""
    is_awaited: bool = False
    """The job wrote this row before a crash, after the checkpoint from which it continues. Its
    signals may not all be there again."""


@dataclass
class Correlator:
    """The state between events, without `bands` and `topology`, which the caller stores.

    It is bounded (incidents.yaml), whatever names and times events contain. `evicted` counts the
    dropped items.
    """

    run_id: str
    every_us: int
    """Interval between calculations of incidents, in event time."""
    now_us: int = 0
    began_us: int = 0
    """When the job was submitted that began this state, by the wall clock."""
    signals: dict[str, Signal] = field(default_factory=dict)
    revisions: dict[str, int] = field(default_factory=dict)
    hosts_seen: HostsSeen = field(default_factory=HostsSeen)
    written: dict[str, Written] = field(default_factory=dict)
    is_dirty: bool = False
    looked_us: int = 0
    most_signals: int = MOST_SIGNALS
    signals_evicted: int = 0
    signals_ahead: int = 0
    """Number of events dated too far in the future."""
    baseline_hours_count: int = 0
    """Number of owners in `bands`; counted here, because counting there is slow."""
    baseline_hours_evicted: int = 0

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Load state; that of an older version lacks fields."""
        vars(self).update(vars(Correlator("", 0)) | dict(state))

    @property
    def evicted(self) -> int:
        """Number of items dropped because of the limits, since the state began."""
        return self.signals_evicted + self.hosts_seen.evicted + self.baseline_hours_evicted

    @property
    def is_nearly_full(self) -> bool:
        """True if signals may soon be dropped: their incidents must be calculated before."""
        return len(self.signals) >= self._kept_signals

    @property
    def _kept_signals(self) -> int:
        """Number of signals that stay if there are too many."""
        return self.most_signals * 9 // 10

    @property
    def next_timer_us(self) -> int | None:
        """The event time of the next timer; None without state."""
        if self.is_dirty:
            return self.looked_us + self.every_us
        changes = [
            each.ended_us + CLOSING_US
            for each in self.written.values()
            if each.row.state == "open" and each.ended_us is not None and not each.row.is_deleted
        ]
        changes += [
            each.held_until_us
            for each in self.written.values()
            if each.held_until_us is not None and each.held_until_us > self.looked_us
        ]
        if self.signals or self.hosts_seen.hosts or self.written:
            changes.append(self.looked_us + KEEP_US // 4)
        return min(changes, default=None)

    def feed(
        self,
        topic: str,
        event: Mapping[str, Any],
        bands: Bands,
        topology: Topology,
        latest_us: int = 2**62,
        until_us: int = 2**62,
    ) -> Iterator[Incident]:
        """Process an event, a host that was seen, an item of inventory, or an incident.

        An incident is one that the job wrote before a crash and after its last checkpoint.
        The time does not advance beyond `until_us`. An event dated further after `latest_us` than a
        clock may be fast makes no incident. Raises BrokenEventError; then no signal has changed.
        """
        if topic == SEEN_TOPIC:
            with reading():
                seen_us, host = min(int(event["seen_us"]), latest_us), str(event["host"])
            if self._is_news(host, seen_us):
                self.is_dirty = True
            self.hosts_seen.add(host, seen_us)
            yield from self.advance_time(min(seen_us, until_us), topology)
            return
        if topic == INVENTORY_TOPIC:
            with reading():
                topology.learn(event)
            self.is_dirty = bool(self.signals)
            return
        if topic == INCIDENTS_TOPIC:
            self._await(event)
            return
        with reading():
            signal = signal_of(topic, event)
            name, revision = str(event["event_id"]), int(event["revision"])
            is_deleted = bool(event["is_deleted"])
        if revision < self.revisions.get(name, 0):
            return
        if signal is None or is_deleted:
            if self.signals.pop(name, None):
                self.revisions[name] = revision
                self.is_dirty = True
            return
        if _newest_us(signal) > latest_us + FASTEST_CLOCK_US:
            self.signals_ahead += 1
            return
        # Advance the time first: incidents then close at the same point live and in a replay.
        yield from self.advance_time(min(signal.known_us, until_us), topology)
        self.revisions[name] = revision
        known = self.signals.pop(name, None)
        self.signals[name] = self._judged(signal, bands, known)
        self.is_dirty = True
        if len(self.signals) > self.most_signals:
            yield from self._evict()

    def _await(self, event: Mapping[str, Any]) -> None:
        """Remember a row that this state has not written, until its signals are there again."""
        with reading():
            row = Incident(**event)
            known = self.written.get(row.event_id)
            newest = known.row.revision if known else -1
            if row.run_id != self.run_id or not newest < row.revision < _MOST_REVISION:
                return
            detected_us, began_us = microseconds(row.detected_at), microseconds(row.opened_at)
            ended_us = microseconds(row.closed_at) if row.closed_at else None
            if row.is_deleted:
                ended_us = self.now_us
            set(map(str.encode, row.evidence_ids))
        if sum(each.is_awaited for each in self.written.values()) < MOST_AWAITED:
            self.written[row.event_id] = Written(
                row, 0, began_us, ended_us, None, detected_us, is_awaited=True
            )
            self.is_dirty = True

    def stop_waiting(self) -> None:
        """Treat rows from before a crash like all others: their lines have been read again."""
        for name, each in self.written.items():
            if each.is_awaited:
                self.written[name] = replace(each, is_awaited=False)
                self.is_dirty = True

    def _stays(self, written: Written, found: Written | None) -> bool:
        """True for a row from before a crash that the signals do not show yet, or not any more.

        Without an end, its last signals may be missing; a retracted one may appear for a while.
        """
        row = written.row
        return written.is_awaited and (
            bool(row.is_deleted)
            or not self.signals.keys() >= set(row.evidence_ids)
            or (found is not None and row.state == "closed" and found.row.state == "open")
        )

    def _is_news(self, host: str, seen_us: int) -> bool:
        """True if a host was seen late: written rows do not count it yet."""
        return any(
            self.hosts_seen.is_news(host, seen_us, each.detected_us - SEEN_US, each.detected_us)
            for each in self.written.values()
        )

    def _evict(self) -> Iterator[Incident]:
        """Drop a tenth of the signals, those added longest ago first.

        Their incidents are closed with all their signals: the rest must not become a new incident.
        """
        many = len(self.signals) - self._kept_signals
        gone = set(islice(self.signals, many))
        for name, each in list(self.written.items()):
            if gone.isdisjoint(each.row.evidence_ids):
                continue
            gone.update(each.row.evidence_ids)
            del self.written[name]
            if each.row.state == "open" and not each.row.is_deleted:
                closed_at = timestamp(max(self.now_us, each.began_us))
                row = replace(each.row, state="closed", closed_at=closed_at)
                yield above(row, each.row.revision)
        before = len(self.signals)
        for name in gone:
            self.signals.pop(name, None)
            self.revisions.pop(name, None)
        self.signals_evicted += before - len(self.signals)

    def _judged(self, signal: Signal, bands: Bands, known: Signal | None) -> Signal:
        """The signal; a stun with `is_usual`. Each stun updates the baseline once."""
        if signal.kind != "stun":
            return signal
        owners = [f"datastore {signal.datastore}", f"vm {signal.datastore}/{signal.vm}"]
        is_usual = any(
            seasonal_baseline.is_usual(bands, each, signal.at_us, signal.size) for each in owners
        )
        if known is None or known.size != signal.size:
            for each in owners:
                self.baseline_hours_count += seasonal_baseline.learn(
                    bands, each, signal.at_us, signal.size
                )
            if self.baseline_hours_count > seasonal_baseline.MOST_OWNERS:
                self.baseline_hours_count, evicted = seasonal_baseline.evict(bands)
                self.baseline_hours_evicted += evicted
        return changed(signal, is_usual=True) if is_usual else signal

    def advance_time(self, now_us: int, topology: Topology) -> Iterator[Incident]:
        """Advance the event time; yields incidents that changed, closed or were retracted."""
        self.now_us = max(self.now_us, now_us)
        due_us = self.next_timer_us
        if due_us is not None and self.now_us >= due_us:
            yield from self.look(topology)

    def look(self, topology: Topology) -> Iterator[Incident]:
        """Recalculate all incidents; yields those that changed."""
        self.is_dirty = False
        self.looked_us = self.now_us
        fuller = self.hosts_seen.fuller_names()
        volumes = _volumes(self.signals.values())
        # Most signals have the full name already. A copy of each would take a tenth of a look.
        signals = [
            each
            if (host := _host(each.host, topology, fuller)) == each.host
            and each.datastore not in volumes
            else changed(each, host=host, datastore=volumes.get(each.datastore, each.datastore))
            for each in self._signals()
        ]
        names = {name: _host(name, topology, fuller) for name in self.hosts_seen.hosts}

        @cache
        def seen_before(stretch: int) -> frozenset[str]:
            # An hour has whole stretches, so incidents detected in the same one share the hosts.
            last_us = stretch * STRETCH_US
            seen = self.hosts_seen.between(last_us - SEEN_US, last_us)
            return frozenset(names[each] for each in seen)

        found = {}
        for trouble in troubles(signals, topology):
            detected_us = trouble.founding[-1].known_us
            written = self._written(trouble, topology, seen_before(detected_us // STRETCH_US))
            found[written.row.event_id] = written
        standing = {
            name for name, each in self.written.items() if self._stays(each, found.get(name))
        }
        for name, before in self.written.items():
            if name not in found and name not in standing and not before.row.is_deleted:
                self.written[name] = retracted = _retracted(before, self.now_us)
                yield retracted.row
        for name, written in found.items():
            if name in standing:
                continue
            known = self.written.get(name)
            if known and is_same(vars(known.row), vars(written.row)):
                self.written[name] = replace(written, row=known.row)
                continue
            row = above(written.row, known.row.revision) if known else written.row
            self.written[name] = replace(written, row=row)
            yield row
        self._forget()

    def _signals(self) -> list[Signal]:
        """The signals; an open one without news for a day has ended."""
        return [
            replace(each, until_us=each.at_us + RUNNING_US)
            if each.until_us is None and each.at_us + RUNNING_US < self.now_us
            else each
            for each in self.signals.values()
        ]

    def _written(self, trouble: Trouble, topology: Topology, seen: frozenset[str]) -> Written:
        """The row of an incident. `seen`: the hosts seen in the hour before it was detected."""
        anchor = trouble.founding[0]
        detected_us = trouble.founding[-1].known_us
        ended_us = trouble.ended_us
        is_over = ended_us is not None and ended_us + CLOSING_US <= self.now_us
        state = "noted" if trouble.is_noted else "closed" if is_over else "open"
        signals = sorted(
            (*trouble.signals, *trouble.evidence), key=lambda each: (each.at_us, each.event_id)
        )
        known = figures(trouble, topology, seen)
        lacking = missing(trouble, topology, seen)
        names = {each.place for each in signals}
        plain = Incident(
            event_id=event_id(DETECTOR, anchor.event_id),
            detector=DETECTOR,
            revision=0,
            is_deleted=0,
            run_id="",
            detected_at=timestamp(detected_us),
            opened_at=timestamp(trouble.began_us),
            closed_at=timestamp(ended_us) if is_over and ended_us is not None else None,
            state=state,
            suspect=suspect(trouble),
            scope=trouble.scope,
            verdict=sentence(trouble, topology, known),
            confidence=confidence(trouble, lacking),
            next_steps=[]
            if trouble.is_noted
            else next_steps(Case(trouble, topology, self.now_us, since(trouble), seen)),
            hosts=list(known.hosts),
            devices=list(known.devices),
            paths=list(known.paths),
            datastores=list(known.datastores),
            vms=list(known.vms),
            reporting_hosts=known.reporting_hosts,
            missing=lacking,
            stun_count=known.stun_count,
            worst_stun_us=known.worst_stun_us,
            conflict_count=known.conflict_count,
            failed_command_count=known.failed_command_count,
            peak_davg_ms=known.peak_davg_ms,
            peak_ms=known.peak.ms if known.peak else None,
            peak_metric=known.peak.metric if known.peak else None,
            peak_source=known.peak.source if known.peak else None,
            severity=severity(trouble),
            evidence_ids=[each.event_id for each in signals],
            evidence=_lines(trouble),
        )
        lines = sum(each.weight for each in signals)
        # A row with more inventory wins, whenever it was loaded.
        located = sum(name in topology.devices for name in names)
        rank = int(is_over) << 6 | min(located, _MOST_LOCATED)
        # Not `asdict`: it copies every list, which would take a fifth of a look.
        revision = weighed_revision(
            lines, rank, content_hash(vars(plain)), VERSION, is_deleted=False
        )
        row = replace(plain, revision=revision, run_id=self.run_id)
        held_until_us = conflict_holds_until_us(trouble)
        return Written(row, lines, trouble.began_us, ended_us, held_until_us, detected_us)

    def _forget(self) -> None:
        """Drop closed incidents after a while; open ones keep their signals."""
        oldest_us = self.now_us - KEEP_US
        kept = {
            name
            for each in self.written.values()
            if not each.row.is_deleted
            and (each.ended_us is None or each.ended_us + PAUSE_US >= oldest_us)
            for name in each.row.evidence_ids
        }
        self.signals = {
            name: each
            for name, each in self.signals.items()
            if name in kept or _until_us(each) >= oldest_us
        }
        self.written = {
            name: each
            for name, each in self.written.items()
            if each.ended_us is None or each.ended_us + PAUSE_US >= oldest_us
        }
        self.revisions = {
            name: each for name, each in self.revisions.items() if name in self.signals
        }
        first_us = min([oldest_us, *(each.began_us for each in self.written.values())])
        self.hosts_seen.forget_before(first_us - SEEN_US)


def superseded(
    shipped: Iterable[Mapping[str, Any]], found: Iterable[Incident], run_id: str
) -> Iterator[dict[str, Any]]:
    """The rows that correct earlier ones, after more lines have changed the incidents.

    `shipped` are the newest rows of the topic, `found` the current incidents.
    """
    true = {each.event_id: each for each in found}
    members = {name for each in true.values() for name in each.evidence_ids}
    for row in shipped:
        now = true.get(row["event_id"])
        if now is None:
            if not row["is_deleted"] and members.intersection(row["evidence_ids"]):
                yield {**row, "revision": row["revision"] + 1, "is_deleted": 1, "run_id": run_id}
        elif now.revision <= row["revision"] and not is_same(asdict(now), row):
            yield asdict(above(now, row["revision"]))


def above(row: Incident, revision: int) -> Incident:
    """The row with a revision above an earlier one, even if that had more lines."""
    return replace(row, revision=max(row.revision, revision + 1))


def is_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """True if two rows show the same, whatever their revisions and runs are."""
    return _content(one) == _content(other)


def _content(row: Mapping[str, Any]) -> dict[str, Any]:
    shown = {name: value for name, value in row.items() if name not in ("revision", "run_id")}
    # ClickHouse stores milliseconds.
    shown["detected_at"] = row["detected_at"][: len("2012-03-23T16:22:51.876")]
    return shown


def _volumes(signals: Iterable[Signal]) -> dict[str, str]:
    """Return the names of NFS volumes by UUID, which is all that lines about APD contain.

    Of several names, the first one counts.
    """
    named = [each for each in signals if each.volume]
    named.sort(key=lambda each: (each.at_us, each.event_id), reverse=True)
    return {each.datastore: each.volume for each in named}


def _host(name: str, topology: Topology, fuller: Mapping[str, str]) -> str:
    """`esx1.lab.example` instead of `esx1`, if exactly one host has this first label."""
    name = topology.host(name)
    return fuller.get(name, name)


def _until_us(signal: Signal) -> int:
    """Until when it counts as open."""
    return signal.at_us + RUNNING_US if signal.until_us is None else signal.until_us


def _newest_us(signal: Signal) -> int:
    """The latest time in it."""
    return max(signal.at_us, signal.known_us, signal.until_us or 0)


def _retracted(written: Written, now_us: int) -> Written:
    revision = weighed_revision(written.lines, _HIGHEST_RANK, 0, VERSION, is_deleted=True)
    row = above(replace(written.row, revision=revision, is_deleted=1), written.row.revision)
    return replace(written, row=row, ended_us=now_us)


def _lines(trouble: Trouble) -> list[str]:
    """Log lines, verbatim, those of the founding signals first."""
    signals = [*trouble.founding, *trouble.signals, *trouble.evidence]
    lines = dict.fromkeys(line for each in signals for line in each.evidence)
    return list(lines)[:EVIDENCE_SHOWN]
