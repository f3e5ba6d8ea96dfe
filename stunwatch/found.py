"""Counts the events that one replay produced, read from Kafka, by kind."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from stunwatch.access import Access
from stunwatch.detectors.catalogue import INCIDENTS_TOPIC
from stunwatch.incidents.wording import counted
from stunwatch.kafka import Offsets

Event = Mapping[str, Any]

PATIENCE_S: Final = 30.0
"""Counting gives up if Kafka sends no message for this long."""

UNREADABLE: Final = "unreadable_messages"
"""Name of the count of messages in event topics that are not events."""

COUNTDOWNS: Final = "sync_cr_countdowns"
"""A detector that shares its topic with other reservation conflicts."""


@dataclass(frozen=True)
class Kind:
    """A kind of event: its name in JSON, its singular and plural, and the command that lists it."""

    name: str
    one: str
    many: str
    command: str

    def words(self, count: int) -> str:
        """Return a count with its noun: `1 stun`, `1,200 stuns`."""
        return f"{count:,} {self.one if count == 1 else self.many}"


def _of_view(view: str) -> str:
    return f'stunwatch sql "SELECT * FROM {view} LIMIT 20"'


KINDS = {
    INCIDENTS_TOPIC: Kind("incidents", "incident", "incidents", "stunwatch incident list --all"),
    "events.stun": Kind("stuns", "stun", "stuns", "stunwatch sql longest_stuns"),
    COUNTDOWNS: Kind(
        "countdowns",
        "Sync CR count-down",
        "Sync CR count-downs",
        "stunwatch sql hosts_that_count_down",
    ),
    "events.reservation": Kind(
        "reservation_conflicts",
        "episode of reservation conflicts",
        "episodes of reservation conflicts",
        _of_view("reservation_conflicts"),
    ),
    "events.snapshot": Kind(
        "snapshot_operations",
        "snapshot operation",
        "snapshot operations",
        _of_view("snapshot_operations"),
    ),
    "events.latency": Kind(
        "latency_episodes",
        "latency episode",
        "latency episodes",
        "stunwatch sql latency_by_device",
    ),
    "events.scsi": Kind(
        "scsi_errors",
        "series of SCSI errors",
        "series of SCSI errors",
        "stunwatch sql scsi_errors_by_status",
    ),
    "events.path": Kind(
        "path_events", "path or volume event", "path and volume events", _of_view("path_events")
    ),
    "events.nfs": Kind(
        "nfs_servers",
        "outage of an NFS server",
        "outages of NFS servers",
        _of_view("nfs_servers"),
    ),
    "events.unmap": Kind("unmap_runs", "UNMAP run", "UNMAP runs", "stunwatch sql unmap_fallbacks"),
    "events.quality": Kind(
        "quality_events",
        "gap or throttling of logs",
        "gaps and throttlings of logs",
        "stunwatch sql what_is_missing",
    ),
}
"""Kinds by topic, or by detector if a topic has several kinds; in display order."""


def readable(value: bytes | None) -> Event | None:
    """Parse the event in a message; None if it is a tombstone or has no event id and revision."""
    try:
        event = orjson.loads(value or b"")
    except orjson.JSONDecodeError:
        return None
    if not isinstance(event, dict) or not isinstance(event.get("event_id"), str):
        return None
    revision = event.get("revision")
    return event if isinstance(revision, int) and not isinstance(revision, bool) else None


class Found:
    """Counts events. An event is counted once, with the state of its highest revision."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._last: dict[str, tuple[int, str, bool]] = {}
        self._unreadable = 0

    def read(self, topic: str, value: bytes | None) -> None:
        """Count one message. A message that is not an event is counted as unreadable."""
        event = readable(value)
        if event is None:
            self._unreadable += 1
        else:
            self.take(topic, event)

    def take(self, topic: str, event: Event) -> None:
        """Count one event. Events of other runs are ignored."""
        if event.get("run_id") != self._run_id:
            return
        detector = event.get("detector")
        kind = detector if detector in KINDS else topic
        if kind not in KINDS:
            return
        revision = event["revision"]
        before = self._last.get(event["event_id"])
        if before is None or before[0] <= revision:
            self._last[event["event_id"]] = revision, kind, bool(event.get("is_deleted"))

    def counts(self) -> dict[str, int]:
        """Return the number of events by the name of their kind; kinds without events are 0."""
        tally = Counter(kind for _, kind, is_deleted in self._last.values() if not is_deleted)
        counts = {each.name: tally[key] for key, each in KINDS.items()}
        return counts | {UNREADABLE: self._unreadable}


def in_words(counts: Mapping[str, int]) -> list[str]:
    """Return one line per kind that was found, with the command that lists its events."""
    rows = [
        (each.words(counts[each.name]), each.command)
        for each in KINDS.values()
        if counts.get(each.name)
    ]
    lines = ["Found no stuns, conflicts, latency or other events in these logs."]
    if rows:
        width = max(len(words) for words, _ in rows)
        lines = ["Found:", *(f"  {words:{width}}  {command}" for words, command in rows)]
    if unreadable := counts.get(UNREADABLE):
        lines.append(f"Skipped {counted(unreadable, 'message')} of event topics: not an event")
    return lines


def topics() -> list[str]:
    """Return the topics whose events are counted."""
    return [each for each in KINDS if each.startswith("events.")]


def count_events(
    access: Access, starts: Offsets, ends: Offsets, run_id: str, while_waiting: Callable[[], None]
) -> dict[str, int] | None:
    """Count a run's events in [starts, ends) of these topics; None if Kafka does not answer."""
    from confluent_kafka import Consumer, TopicPartition  # noqa: PLC0415 (in an extra)

    left = {place for place, end in ends.items() if end > starts[place]}
    found = Found(run_id)
    if not left:
        return found.counts()
    consumer = Consumer(
        access
        | {
            # Partitions are assigned by hand and nothing is committed; librdkafka requires a group
            # id anyway.
            "group.id": "stunwatch-watch-replay",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition(*place, starts[place]) for place in left])
        moved_at = time.monotonic()
        while left:
            messages = consumer.consume(1000, timeout=0.05)
            left -= set(_taken(messages, found, ends))
            if any(not each.error() for each in messages):
                moved_at = time.monotonic()
            elif time.monotonic() - moved_at > PATIENCE_S:
                return None
            else:
                while_waiting()
        return found.counts()
    finally:
        consumer.close()


def _taken(messages: Iterable[Any], found: Found, ends: Offsets) -> Iterable[tuple[str, int]]:
    """Count messages; yield the partitions that have been read to their end."""
    from confluent_kafka import KafkaError  # noqa: PLC0415 (in an extra)

    for message in messages:
        place = message.topic(), message.partition()
        if error := message.error():
            if error.code() == KafkaError._PARTITION_EOF:
                yield place
            continue
        if message.offset() < ends[place]:
            found.read(place[0], message.value())
        if message.offset() >= ends[place] - 1:
            yield place
