"""All trackers of one log key, and their event time. Plain Python, no Flink.

Trackers take the time only from records: the time advances to that of a record before the record is
processed, live and in a replay alike, so that both produce the same events.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from operator import methodcaller
from typing import Any, Generic, TypeVar

from stunwatch.detectors.catalogue import (
    LONGEST_SEARCHED,
    Detector,
    Facts,
    Tracker,
    detector,
    detectors_of,
    detectors_with_facts,
)
from stunwatch.engine.failures import Failure

Record = Mapping[str, Any]
"""The fields of schemas/log_line.v1, missing if unknown, and `event_time_us`."""

Written = tuple[str, Any]
"""The topic of an event, and the event; or `FACTS` and a fact for the second step."""

FACTS = "facts"
"""Not a Kafka topic: the input of the second step."""

Machine = TypeVar("Machine", Tracker, Facts)

State = tuple[
    int, tuple[tuple[str, int | None, bytes], ...], tuple[tuple[str, int | None, bytes], ...]
]
"""The newest event time; per tracker, and per facts of a detector: name, next timer, pickled."""


def epoch_microseconds(event_time: str) -> int:
    """Parse `2012-03-23T16:22:51.876Z` to microseconds since 1970. Raise ValueError."""
    moment = datetime.fromisoformat(event_time)
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond


@dataclass(slots=True)
class _Kept(Generic[Machine]):
    """A tracker, or the facts of a detector, between records.

    It stays pickled until a record or a timer needs it, because most records concern one tracker of
    the many that a log key has.
    """

    machine: Machine | None = None
    pickled: bytes = b""
    """Empty if `machine` has been used since."""
    due_us: int | None = None
    """The event time of its next timer; None if it keeps no state."""

    def used(self) -> Machine:
        """Return the tracker or the facts, for a call that may change them."""
        if self.machine is None:
            self.machine = pickle.loads(self.pickled)  # noqa: S301 - Flink hands back its own state
        self.pickled = b""
        return self.machine

    def as_bytes(self) -> bytes:
        """Return it pickled."""
        self.pickled = self.pickled or pickle.dumps(self.machine, pickle.HIGHEST_PROTOCOL)
        return self.pickled


class Owner:
    """The trackers of one log key: (datastore, vm) for vmware.log, the host for other logs.

    In the second step, whose input are facts, the key is a migration or an operation.

    It is Flink's keyed state, so it must be picklable and small: a tracker is created at the first
    line that concerns it, trackers forget by event time, and a tracker without state is dropped. A
    record costs only the trackers that it concerns and those whose timer is due. The others are
    neither unpickled nor pickled, and get the time when they are next used.

    If `failures` is given, an error of a detector is appended to it, the detector loses its state
    for this key, and the others continue. Otherwise the error is raised, which tests use.
    """

    def __init__(self) -> None:
        self._trackers: dict[str, _Kept[Tracker]] = {}
        self._facts: dict[str, _Kept[Facts]] = {}
        self._event_time_us = 0

    def __getstate__(self) -> State:
        trackers, facts = (
            tuple((name, each.due_us, each.as_bytes()) for name, each in kept.items())
            for kept in (self._trackers, self._facts)
        )
        return self._event_time_us, trackers, facts

    def __setstate__(self, state: State) -> None:
        self._event_time_us, trackers, facts = state
        self._trackers = {name: _Kept(None, pickled, due) for name, due, pickled in trackers}
        self._facts = {name: _Kept(None, pickled, due) for name, due, pickled in facts}

    @property
    def event_time_us(self) -> int:
        """The newest event time so far, in microseconds since 1970."""
        return self._event_time_us

    @property
    def next_timer_us(self) -> int | None:
        """The event time of the next timer of any tracker; None if none keeps state."""
        kept: list[_Kept[Any]] = [*self._facts.values(), *self._trackers.values()]
        return min((each.due_us for each in kept if each.due_us is not None), default=None)

    def feed(self, record: Record, failures: list[Failure] | None = None) -> Iterator[Written]:
        """Advance to the record's time, then pass the record to every tracker that it concerns."""
        yield from self.advance_time(record["event_time_us"], failures, record)
        if record["kind"] == "progress":
            yield from self.flush(failures, record)
            return
        trackers: Iterable[Detector] = _reading_facts(record["kind"])
        if not trackers:
            if len(record["message"]) > LONGEST_SEARCHED:
                return  # same limit as in the JVM, for runs without it
            for each in detectors_with_facts():
                if each.concerns(record["message"]):
                    sent = partial(self._facts_in, each, record)
                    yield from self._guarded(each.name, sent, failures, record)
            of_key = detectors_of("vm" if record["source"] == "vmware_log" else "host")
            trackers = [each for each in of_key if each.concerns(record["message"])]
        for each in trackers:
            yield from self._guarded(each.name, partial(self._fed, each, record), failures, record)

    def advance_time(
        self,
        event_time_us: int,
        failures: list[Failure] | None = None,
        record: Record | None = None,
    ) -> Iterator[Written]:
        """Advance the time of the trackers whose timer is due.

        A time before the newest one changes nothing. `record` is the record that the time comes
        from, if any.
        """
        self._event_time_us = max(self._event_time_us, event_time_us)
        for kept, advanced in (
            (self._facts, self._facts_ticked),
            (self._trackers, self._tracker_ticked),
        ):
            for name in _due(kept, self._event_time_us):
                yield from self._guarded(name, partial(advanced, name), failures, record)

    def flush(
        self, failures: list[Failure] | None = None, record: Record | None = None
    ) -> Iterator[Written]:
        """Flush every tracker: a source has ended."""
        for kept, flushed in (
            (self._trackers, self._tracker_flushed),
            (self._facts, self._facts_flushed),
        ):
            for name in list(kept):
                yield from self._guarded(name, partial(flushed, name), failures, record)

    def sizes(self) -> dict[str, int]:
        """Return the pickled bytes of each detector."""
        sizes: Counter[str] = Counter()
        for kept in (self._facts, self._trackers):
            for name, each in kept.items():
                sizes[name] += len(each.as_bytes())
        return sizes

    def reset(self, name: str) -> None:
        """Drop the state of a detector."""
        self._trackers.pop(name, None)
        self._facts.pop(name, None)

    def _guarded(
        self,
        name: str,
        follows: Callable[[], Iterator[Written]],
        failures: list[Failure] | None,
        record: Record | None,
    ) -> Iterator[Written]:
        try:
            yield from follows()
        except Exception as error:
            self._fail(name, error, record, failures)

    def _fail(
        self,
        name: str,
        error: Exception,
        record: Record | None,
        failures: list[Failure] | None,
    ) -> None:
        if failures is None:
            raise error
        self.reset(name)
        failures.append(Failure(name, error, record))

    # -- Trackers

    def _fed(self, each: Detector, record: Record) -> Iterator[Written]:
        tracker = _used(self._trackers, each.name, each.tracker)
        yield from self._written(each, tracker.advance_time(self._event_time_us))
        yield from self._written(each, tracker.feed(record))
        _settle(self._trackers, each.name)

    def _tracker_ticked(self, name: str) -> Iterator[Written]:
        tracker = self._trackers[name].used()
        yield from self._written(detector(name), tracker.advance_time(self._event_time_us))
        _settle(self._trackers, name)

    def _tracker_flushed(self, name: str) -> Iterator[Written]:
        tracker = self._trackers[name].used()
        yield from self._written(detector(name), tracker.advance_time(self._event_time_us))
        yield from self._written(detector(name), tracker.flush())
        _settle(self._trackers, name)

    def _written(self, by: Detector, events: Iterable[Any]) -> Iterator[Written]:
        """Yield the events of a detector, and the facts in them for the second step."""
        for event in events:
            yield by.topic, event
            if not by.has_facts:
                for each in detectors_with_facts():
                    yield from self._facts_told(each, methodcaller("of_event", event))

    # -- Facts

    def _facts_in(self, each: Detector, record: Record) -> Iterator[Written]:
        yield from self._facts_told(each, methodcaller("feed", record))

    def _facts_told(
        self, each: Detector, told: Callable[[Facts], Iterable[dict[str, Any]]]
    ) -> Iterator[Written]:
        """Yield the facts that follow from a call of `Facts`."""
        facts = _used(self._facts, each.name, each.facts)
        yield from _sent(facts.advance_time(self._event_time_us))
        yield from _sent(told(facts))
        _settle(self._facts, each.name)

    def _facts_ticked(self, name: str) -> Iterator[Written]:
        facts = self._facts[name].used()
        yield from _sent(facts.advance_time(self._event_time_us))
        _settle(self._facts, name)

    def _facts_flushed(self, name: str) -> Iterator[Written]:
        facts = self._facts[name].used()
        yield from _sent(facts.advance_time(self._event_time_us))
        yield from _sent(facts.flush())
        _settle(self._facts, name)


def _used(kept: dict[str, _Kept[Machine]], name: str, new: Callable[[], Machine]) -> Machine:
    """Return the tracker or the facts of a detector, new ones if there are none."""
    if name not in kept:
        kept[name] = _Kept(new())
    return kept[name].used()


def _settle(kept: dict[str, _Kept[Machine]], name: str) -> None:
    """Note the next timer after a call, or drop what keeps no state.

    It may be gone already, because one of its events could not be written.
    """
    if each := kept.get(name):
        each.due_us = each.used().next_timer_us
        if each.due_us is None:
            del kept[name]


def _due(kept: Mapping[str, _Kept[Any]], event_time_us: int) -> list[str]:
    """Return the detectors whose timer is due."""
    return [
        name
        for name, each in kept.items()
        if each.due_us is not None and each.due_us <= event_time_us
    ]


def _sent(facts: Iterable[dict[str, Any]]) -> Iterator[Written]:
    return ((FACTS, fact) for fact in facts)


@cache
def _reading_facts(kind: str) -> tuple[Detector, ...]:
    """Return the detectors whose facts have this kind; none if it is the kind of a line."""
    return tuple(each for each in detectors_with_facts() if each.owner == kind)


def feed_in_order(
    owners: dict[str, Owner],
    records: Iterable[Record],
    failures: list[Failure] | None = None,
) -> Iterator[tuple[str, Written]]:
    """Yield what follows from records, in the order of their time, without Flink."""
    for record in sorted(records, key=lambda each: (each["event_time_us"], each["kafka_offset"])):
        owner = owners.setdefault(record["owner"], Owner())
        for written in owner.feed(record, failures):
            yield record["owner"], written
