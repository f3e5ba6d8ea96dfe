"""Events in, incidents out: the same in both modes, whatever the order in which events come.

It is fed every event and told the time. From time to time it works out all incidents anew from the
signals it keeps and writes what differs from what it wrote. Plain Python, no Flink.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from detectors.events import EVIDENCE_SHOWN, content_hash, event_id, timestamp, weighed_revision
from incidents import usual_hours
from incidents.configuration import (
    CLOSING_US,
    HEARD_US,
    KEEP_US,
    MINUTE_US,
    PAUSE_US,
    RUNNING_US,
)
from incidents.grouping import Trouble, troubles
from incidents.next_steps import Case, Step, next_steps
from incidents.places import Places
from incidents.signals import Signal, reading, signal_of
from incidents.usual_hours import Bands
from incidents.verdict import confidence, missing, sentence, severity, since

INVENTORY_TOPIC = "events.inventory"
HEARD_TOPIC = "heard"
"""No topic of Kafka: the job itself says which hosts were heard when."""

DETECTOR = "incidents"

_STRETCH_US = 10 * MINUTE_US
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
    scope: str
    verdict: str
    confidence: str
    next_steps: list[Step]
    hosts: list[str]
    devices: list[str]
    datastores: list[str]
    vms: list[str]
    reporting_hosts: int
    missing: list[str]
    stun_count: int
    worst_stun_us: int
    conflict_count: int
    peak_davg_ms: float | None
    severity: str
    evidence_ids: list[str]
    evidence: list[str]


@dataclass
class Written:
    """What was written of an incident last."""

    row: Incident
    lines: int
    began_us: int
    ended_us: int | None


@dataclass
class Correlator:
    """All that is kept between events. `bands` and `places` may live elsewhere between calls."""

    run_id: str
    every_us: int
    """How often incidents are worked out, in event time."""
    now_us: int = 0
    signals: dict[str, Signal] = field(default_factory=dict)
    revisions: dict[str, int] = field(default_factory=dict)
    heard: dict[int, set[str]] = field(default_factory=dict)
    """The hosts heard in each stretch of ten minutes since 1970."""
    written: dict[str, Written] = field(default_factory=dict)
    is_dirty: bool = False
    looked_us: int = 0

    @property
    def next_due_us(self) -> int | None:
        """The event time at which there is something to do; None where nothing is kept."""
        if self.is_dirty:
            return self.looked_us + self.every_us
        changes = [
            each.ended_us + CLOSING_US
            for each in self.written.values()
            if each.row.state == "open" and each.ended_us is not None and not each.row.is_deleted
        ]
        if self.signals:
            changes.append(self.looked_us + KEEP_US // 4)
        return min(changes, default=None)

    def feed(
        self,
        topic: str,
        event: Mapping[str, Any],
        bands: Bands,
        places: Places,
        latest_us: int = 2**62,
    ) -> Iterator[Incident]:
        """Take in an event, a host that was heard, or an item of inventory.

        Nothing makes it later than `latest_us`. Raises BrokenEventError; then no signal has
        changed.
        """
        if topic == HEARD_TOPIC:
            with reading():
                heard_us, host = int(event["heard_us"]), str(event["host"])
            self.heard.setdefault(heard_us // _STRETCH_US, set()).add(host)
            yield from self.tick(min(heard_us, latest_us), places)
            return
        if topic == INVENTORY_TOPIC:
            with reading():
                places.learn(event)
            self.is_dirty = bool(self.signals)
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
        # First the time, so that what it closes is closed in both modes.
        yield from self.tick(min(signal.known_us, latest_us), places)
        self.revisions[name] = revision
        known = self.signals.get(name)
        self.signals[name] = self._judged(signal, bands, known)
        self.is_dirty = True

    def _judged(self, signal: Signal, bands: Bands, known: Signal | None) -> Signal:
        """A stun, and whether it is one as every week; it is learned from once."""
        if signal.kind != "stun":
            return signal
        owners = [f"datastore {signal.datastore}", f"vm {signal.datastore}/{signal.vm}"]
        is_usual = any(
            usual_hours.is_usual(bands, each, signal.at_us, signal.size) for each in owners
        )
        if known is None or known.size != signal.size:
            for each in owners:
                usual_hours.learn(bands, each, signal.at_us, signal.size)
        return replace(signal, is_usual=is_usual)

    def tick(self, now_us: int, places: Places) -> Iterator[Incident]:
        """Event time has come this far: what that opens, changes, closes or takes back."""
        self.now_us = max(self.now_us, now_us)
        due_us = self.next_due_us
        if due_us is not None and self.now_us >= due_us:
            yield from self.look(places)

    def look(self, places: Places) -> Iterator[Incident]:
        """Work out all incidents anew and write what differs."""
        self.is_dirty = False
        self.looked_us = self.now_us
        signals = [replace(each, host=self._host(each.host, places)) for each in self._signals()]
        found = {}
        for trouble in troubles(signals, places):
            written = self._written(trouble, places)
            found[written.row.event_id] = written
        for name, before in self.written.items():
            if name not in found and not before.row.is_deleted:
                self.written[name] = taken_back = _taken_back(before, self.now_us)
                yield taken_back.row
        for name, written in found.items():
            known = self.written.get(name)
            if known and _content(asdict(known.row)) == _content(asdict(written.row)):
                self.written[name] = replace(written, row=known.row)
                continue
            row = above(written.row, known.row.revision) if known else written.row
            self.written[name] = replace(written, row=row)
            yield row
        self._forget()

    def _signals(self) -> list[Signal]:
        """The signals; one that goes on unheard of for a day is over."""
        return [
            replace(each, until_us=each.at_us + RUNNING_US)
            if each.until_us is None and each.at_us + RUNNING_US < self.now_us
            else each
            for each in self.signals.values()
        ]

    def _host(self, name: str, places: Places) -> str:
        """Of `esx1` and `esx1.lab.example` the fuller, where there is one such host."""
        name = places.host(name)
        if "." in name or not name:
            return name
        heard = set().union(*self.heard.values())
        fuller = {each for each in heard if each.startswith(name + ".")}
        return fuller.pop() if len(fuller) == 1 else name

    def _written(self, trouble: Trouble, places: Places) -> Written:
        anchor = trouble.founding[0]
        ended_us = trouble.ended_us
        is_over = ended_us is not None and ended_us + CLOSING_US <= self.now_us
        state = "noted" if trouble.is_noted else "closed" if is_over else "open"
        signals = sorted(
            (*trouble.signals, *trouble.evidence), key=lambda each: (each.at_us, each.event_id)
        )
        stuns = [each for each in signals if each.kind == "stun"]
        heard = self._heard(trouble, places)
        lacking = missing(trouble, places, heard)
        names = {each.place for each in signals}
        plain = Incident(
            event_id=event_id(DETECTOR, anchor.event_id),
            detector=DETECTOR,
            revision=0,
            is_deleted=0,
            run_id="",
            detected_at=timestamp(trouble.founding[-1].known_us),
            opened_at=timestamp(trouble.began_us),
            closed_at=timestamp(ended_us) if is_over and ended_us is not None else None,
            state=state,
            scope=trouble.scope,
            verdict=sentence(trouble, places, heard),
            confidence=confidence(trouble, lacking),
            next_steps=[]
            if trouble.is_noted
            else next_steps(Case(trouble, places, is_over, since(trouble))),
            hosts=sorted({each.host for each in signals} - {""}),
            devices=sorted(_devices(signals)),
            datastores=sorted(_datastores(signals, names, places)),
            vms=sorted({each.vm for each in signals} - {""}),
            reporting_hosts=len(heard | {each.host for each in signals} - {""}),
            missing=lacking,
            stun_count=len(stuns),
            worst_stun_us=int(max((each.size for each in stuns), default=0)),
            conflict_count=sum(each.kind == "conflict" for each in signals),
            peak_davg_ms=max((each.size for each in signals if each.kind == "slow"), default=None),
            severity=severity(trouble),
            evidence_ids=[each.event_id for each in signals],
            evidence=_lines(trouble),
        )
        lines = sum(each.weight for each in signals)
        # What inventory tells makes a better row, whenever it was loaded.
        located = sum(name in places.devices for name in names)
        rank = int(is_over) << 6 | min(located, _MOST_LOCATED)
        revision = weighed_revision(lines, rank, content_hash(asdict(plain)), is_deleted=False)
        row = replace(plain, revision=revision, run_id=self.run_id)
        return Written(row, lines, trouble.began_us, ended_us)

    def _heard(self, trouble: Trouble, places: Places) -> set[str]:
        """The hosts heard in the hour before it could be told: the number is told once for all."""
        last = trouble.founding[-1].known_us // _STRETCH_US
        first = last - HEARD_US // _STRETCH_US
        return {
            self._host(name, places)
            for stretch, names in self.heard.items()
            if first <= stretch <= last
            for name in names
        }

    def _forget(self) -> None:
        """Forget what has been over for long; what still goes on keeps what it is made of."""
        oldest_us = self.now_us - KEEP_US
        kept = {
            name
            for each in self.written.values()
            if each.ended_us is None or each.ended_us + PAUSE_US >= oldest_us
            for name in each.row.evidence_ids
        }
        self.signals = {
            name: each
            for name, each in self.signals.items()
            if name in kept or each.until_us is None or each.until_us >= oldest_us
        }
        self.written = {
            name: each
            for name, each in self.written.items()
            if each.ended_us is None or each.ended_us + PAUSE_US >= oldest_us
        }
        self.revisions = {
            name: each for name, each in self.revisions.items() if name in self.signals
        }
        first = min([oldest_us, *(each.began_us for each in self.written.values())]) - HEARD_US
        self.heard = {
            stretch: each for stretch, each in self.heard.items() if stretch >= first // _STRETCH_US
        }


def superseded(
    shipped: Iterable[Mapping[str, Any]], found: Iterable[Incident], run_id: str
) -> Iterator[dict[str, Any]]:
    """The rows that put right what was told before: more lines made other incidents of it.

    `shipped` are the newest rows of the topic, `found` what is true now.
    """
    true = {each.event_id: each for each in found}
    members = {name for each in true.values() for name in each.evidence_ids}
    for row in shipped:
        now = true.get(row["event_id"])
        if now is None:
            if not row["is_deleted"] and members.intersection(row["evidence_ids"]):
                yield {**row, "revision": row["revision"] + 1, "is_deleted": 1, "run_id": run_id}
        elif now.revision <= row["revision"] and _content(asdict(now)) != _content(row):
            yield asdict(above(now, row["revision"]))


def above(row: Incident, revision: int) -> Incident:
    """The row, so that it stands over an earlier one, though that was made of more lines."""
    return replace(row, revision=max(row.revision, revision + 1))


def _content(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("revision", "run_id")}


def _taken_back(written: Written, now_us: int) -> Written:
    revision = weighed_revision(written.lines, _HIGHEST_RANK, 0, is_deleted=True)
    row = above(replace(written.row, revision=revision, is_deleted=1), written.row.revision)
    return replace(written, row=row, ended_us=now_us)


def _devices(signals: list[Signal]) -> set[str]:
    named = {each.device for each in signals}
    carrying = {each.place for each in signals if " " not in each.place}
    return (named | carrying) - {""}


def _datastores(signals: list[Signal], names: set[str], places: Places) -> set[str]:
    named = {places.datastore_name(each.datastore) for each in signals}
    carried = {each for name in names for each in places.datastores_on(name)}
    return (named | carried) - {""}


def _lines(trouble: Trouble) -> list[str]:
    """Lines as they were written, of the founding signals first."""
    signals = [*trouble.founding, *trouble.signals, *trouble.evidence]
    lines = dict.fromkeys(line for each in signals for line in each.evidence)
    return list(lines)[:EVIDENCE_SHOWN]
