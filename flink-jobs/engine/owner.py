"""All trackers of one log owner, and the time they have been told. Plain Python, no Flink.

Time inside a tracker comes only from records: it is told a record's time before it is fed the
record, in live and in history alike, so that both give the same events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from detectors.catalogue import Tracker, detector, detectors_of

Record = Mapping[str, Any]
"""The fields of schemas/log_line.v1, absent where unknown, and `event_time_us`."""

Written = tuple[str, dict[str, Any]]
"""The topic an event goes to, and the event."""


def epoch_microseconds(event_time: str) -> int:
    """`2012-03-23T16:22:51.876Z` as microseconds since 1970. Raises ValueError."""
    moment = datetime.fromisoformat(event_time)
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond


class Owner:
    """The trackers of one owner: (datastore, vm) for vmware.log, the host for everything else.

    It is Flink's keyed state, so it can be pickled, and it is small: a tracker is made when the
    first line comes that concerns it, trackers forget by event time, and one that keeps nothing is
    dropped.
    """

    def __init__(self) -> None:
        self._trackers: dict[str, Tracker] = {}
        self._event_time_us = 0

    @property
    def event_time_us(self) -> int:
        """The newest time told so far, in microseconds since 1970."""
        return self._event_time_us

    @property
    def next_due_us(self) -> int | None:
        """The event time at which a tracker has something to do; None if none keeps anything."""
        dues = (tracker.next_due_us for tracker in self._trackers.values())
        return min((due for due in dues if due is not None), default=None)

    def feed(self, record: Record) -> Iterator[Written]:
        """The record's time, then the record, through every tracker that it concerns."""
        yield from self.tick(record["event_time_us"])
        if record["kind"] == "progress":
            yield from self.flush()
            return
        message = record["message"]
        for each in detectors_of("vm" if record["source"] == "vmware_log" else "host"):
            if not each.concerns(message):
                continue
            tracker = self._trackers.get(each.name)
            if tracker is None:
                tracker = self._trackers[each.name] = each.tracker()
                list(tracker.tick(self._event_time_us))
            for event in tracker.feed(record):
                yield each.topic, event

    def tick(self, event_time_us: int) -> Iterator[Written]:
        """Tell every tracker the time. An older time than the newest changes nothing."""
        self._event_time_us = max(self._event_time_us, event_time_us)
        for name, tracker in list(self._trackers.items()):
            for event in tracker.tick(event_time_us):
                yield detector(name).topic, event
            if tracker.next_due_us is None:
                del self._trackers[name]

    def flush(self) -> Iterator[Written]:
        """Tell every tracker that a source has ended."""
        for name, tracker in self._trackers.items():
            for event in tracker.flush():
                yield detector(name).topic, event


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
