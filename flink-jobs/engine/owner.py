"""All trackers of one log owner, and the time they have been told. Plain Python, no Flink.

Time inside a tracker comes only from records: it is told a record's time before it is fed the
record, in live and in history alike, so that both give the same events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from detectors.catalogue import Detector, Tracker, detector, detectors_of
from detectors.migrations import facts
from detectors.stuns.tracker import Stun

Record = Mapping[str, Any]
"""The fields of schemas/log_line.v1, absent where unknown, and `event_time_us`."""

Written = tuple[str, Any]
"""The topic an event goes to, and the event; or `facts.TOPIC` and a fact for the second step."""


def epoch_microseconds(event_time: str) -> int:
    """`2012-03-23T16:22:51.876Z` as microseconds since 1970. Raises ValueError."""
    moment = datetime.fromisoformat(event_time)
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond


class Owner:
    """The trackers of one owner: (datastore, vm) for vmware.log, the host for everything else.

    In the second step, which is fed with facts, the owner is a migration.

    It is Flink's keyed state, so it can be pickled, and it is small: a tracker is made when the
    first line comes that concerns it, trackers forget by event time, and one that keeps nothing is
    dropped.
    """

    def __init__(self) -> None:
        self._trackers: dict[str, Tracker] = {}
        self._facts = facts.Facts()
        self._event_time_us = 0

    @property
    def event_time_us(self) -> int:
        """The newest time told so far, in microseconds since 1970."""
        return self._event_time_us

    @property
    def next_due_us(self) -> int | None:
        """The event time at which a tracker has something to do; None if none keeps anything."""
        dues = (each.next_due_us for each in (self._facts, *self._trackers.values()))
        return min((due for due in dues if due is not None), default=None)

    def feed(self, record: Record) -> Iterator[Written]:
        """The record's time, then the record, through every tracker that it concerns."""
        yield from self.tick(record["event_time_us"])
        if record["kind"] == "progress":
            yield from self.flush()
            return
        is_fact = record["kind"] == "fact"
        if not is_fact and _is_about_a_migration(record):
            yield from self._sent(self._facts.feed(record))
        for each in _detectors_for(record):
            if not is_fact and not each.concerns(record["message"]):
                continue
            tracker = self._trackers.get(each.name)
            if tracker is None:
                tracker = self._trackers[each.name] = each.tracker()
                list(tracker.tick(self._event_time_us))
            yield from self._written(each, tracker.feed(record))

    def tick(self, event_time_us: int) -> Iterator[Written]:
        """Tell every tracker the time. An older time than the newest changes nothing."""
        self._event_time_us = max(self._event_time_us, event_time_us)
        yield from self._sent(self._facts.tick(event_time_us))
        for name, tracker in list(self._trackers.items()):
            yield from self._written(detector(name), tracker.tick(event_time_us))
            if tracker.next_due_us is None:
                del self._trackers[name]

    def flush(self) -> Iterator[Written]:
        """Tell every tracker that a source has ended."""
        for name, tracker in self._trackers.items():
            yield from self._written(detector(name), tracker.flush())
        yield from self._sent(self._facts.flush())

    def _written(self, by: Detector, events: Iterable[Any]) -> Iterator[Written]:
        """What a detector tells, and what that tells of a migration."""
        for event in events:
            yield by.topic, event
            if isinstance(event, Stun) and by.owner != "migration":
                yield from self._sent(self._facts.tell(event))

    @staticmethod
    def _sent(told: Iterable[facts.Fact]) -> Iterator[Written]:
        return ((facts.TOPIC, fact) for fact in told)


def _is_about_a_migration(record: Record) -> bool:
    return any(each.concerns(record["message"]) for each in detectors_of("migration"))


def _detectors_for(record: Record) -> tuple[Detector, ...]:
    if record["kind"] == "fact":
        return detectors_of("migration")
    return detectors_of("vm" if record["source"] == "vmware_log" else "host")


def feed_in_order(
    owners: dict[str, Owner], records: Iterable[Record]
) -> Iterator[tuple[str, Written]]:
    """History: records of one instant, put back into the order in which they were written.

    Flink's batch sort knows only milliseconds and is not stable, and many lines share one.
    """
    for record in sorted(records, key=lambda each: (each["event_time_us"], each["kafka_offset"])):
        owner = owners.setdefault(record["owner"], Owner())
        for written in owner.feed(record):
            yield record["owner"], written
