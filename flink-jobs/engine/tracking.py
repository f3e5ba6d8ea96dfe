"""The trackers of all log keys in one task of Flink. Tracking.java calls them. Plain Python."""

from __future__ import annotations

import json
import logging
import pickle
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import orjson

from stunwatch.detectors.bounds import EVICTED
from stunwatch.engine.failures import REJECTED_TOPIC, Failure, Limit, rejected_line
from stunwatch.engine.history import seen, sendable
from stunwatch.engine.owner import FACTS, Owner, Written, epoch_microseconds
from stunwatch.engine.owners import BUCKETS, LIVE, Name, Owners, bucket_of_owner
from stunwatch.incidents.configuration import FASTEST_CLOCK_US
from stunwatch.incidents.correlator import SEEN_TOPIC

RECORD_FIELDS = (
    "owner",
    "event_time",
    "kind",
    "source",
    "program",
    "host",
    "vm",
    "datastore",
    "severity",
    "thread",
    "op_id",
    "head",
    "message",
    "file",
    "generation",
    "offset",
    "run_id",
    "time_quality",
    "kafka_offset",
)
"""The fields of a record that trackers read: those of schemas/log_line.v1 that say what was logged
where, the log key, and the offset in Kafka."""

_TYPES: Final = {**dict.fromkeys(RECORD_FIELDS, str), "offset": int, "kafka_offset": int}
"""The types of these fields."""

_MOST: Final = 2**63
"""Offsets are smaller: those of files and of Kafka are 64-bit numbers with a sign."""

Row = tuple[str, str, str]
"""A row of `events` in jobs/detect.sql: topic, key and the event as JSON. For a fact: `FACTS`, its
bucket, and the fact as JSON."""

Told = tuple[int, list[Row]]
"""The time of the bucket's next timer in ms since 1970, 0 if there is no new one; and rows."""

MOST_STATE_BYTES: Final = 64 << 20
"""The most bytes of pickled state of one task. Flink keeps them in the JVM's heap, in a checkpoint
old and new ones. A usual log key has two kilobytes."""

TIMER_GRID_MS: Final = 500
"""A bucket has at most one timer in this time, because every timer costs a call of Python."""

RESUMED_MS: Final = 10_000
STARTED_MS: Final = 60_000
"""After a start, silence counts from 10 s after the first live record, or from a minute after the
start if none comes. Before that, lines of the interruption are unread. As in SampleWindows.java."""

_OF_EVERY_RECORD = frozenset({"owner", "kind", "run_id"})
_NEEDED = {
    "line": _OF_EVERY_RECORD | {"source", "message", "time_quality"},
    "seen": _OF_EVERY_RECORD | {"host"},
}
"""The required fields of a record, by kind."""

_LOG = logging.getLogger(__name__)


def wall_clock_ms() -> int:
    """Return the wall-clock time in ms since 1970."""
    return time.time_ns() // 1_000_000


def to_record(
    text: str, log_key: str | None = None, kafka_offset: int | None = None
) -> dict[str, Any] | None:
    """Parse a message with its log key and offset to the record that trackers read.

    A fact contains both. NULL is the same as a missing field.

    Return None if a field is missing or invalid: the message violates its schema, and ClickHouse,
    which reads the same topic, stores it in rejected_lines with the reason.
    """
    record: dict[str, Any] = {}
    try:
        for name, value in _parsed(text).items():
            wanted = _TYPES.get(name)
            if wanted is None or value is None:
                continue
            if type(value) is not wanted:
                return None
            if isinstance(value, int) and not -_MOST <= value < _MOST:
                return None
            record[name] = value
        if log_key is not None:
            record |= {"owner": log_key, "kafka_offset": kafka_offset}
        record["event_time_us"] = epoch_microseconds(record["event_time"])
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError):
        return None
    needed = _NEEDED.get(record.get("kind", ""), _OF_EVERY_RECORD)
    return record if needed <= record.keys() else None


def _parsed(text: str) -> dict[str, Any]:
    """Parse JSON. Half a surrogate pair, which orjson refuses, becomes a question mark."""
    try:
        parsed: dict[str, Any] = orjson.loads(text)
    except orjson.JSONDecodeError:
        parsed = json.loads(text)
        for name, value in parsed.items():
            if isinstance(value, str):
                parsed[name] = value.encode(errors="replace").decode()
    return parsed


def to_json(record: Mapping[str, Any]) -> str:
    """Return the text of a record: the inverse of `to_record`."""
    fields = ((name, record.get(name)) for name in RECORD_FIELDS)
    return orjson.dumps({name: value for name, value in fields if value is not None}).decode()


def to_row(owner: str, written: Written) -> Row:
    """Return an event or a fact as a row."""
    topic, event = written
    if topic == FACTS:
        return FACTS, bucket_of_owner(event["owner"], event["run_id"]), to_json(event)
    return topic, owner, orjson.dumps(event).decode()


def _seen_row(record: Mapping[str, Any]) -> Row:
    """Return the row for the correlator that reports that a host sent lines."""
    event = {**seen(record), "is_syslog": record.get("source") == "syslog"}
    return SEEN_TOPIC, record["owner"], orjson.dumps(event).decode()


class Rejects:
    """Reports failures: as rows, as a number and in the TaskManager's log."""

    def __init__(self) -> None:
        self.count = 0
        self._limit = Limit()

    def rows(self, failures: list[Failure], key: str, now_ms: int) -> Iterator[Row]:
        """Yield the rows of new failures. Those beyond the limit are only counted."""
        for each in failures:
            self.count += 1
            if self._limit.takes(key, each.detector, now_ms):
                _LOG.error("%s", each.reason, exc_info=each.error)
                yield REJECTED_TOPIC, key, rejected_line(each, key, now_ms)


class Trackers:
    """Processes records as they arrive, by bucket of log keys.

    A log key belongs to one run: the run `live`, or a replay, whose lines arrive in the order of
    their time. If no live lines arrive, a timer advances the time: to the last event time plus the
    time waited since. A replay's log key ends with its progress record. A live line dated a day or
    more in the future is processed by itself: state must not wait for a date that a wrong clock
    produced.
    """

    def __init__(self, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        """`now_ms`: the clock of Flink's processing time. Asking Flink takes longer."""
        self._now_ms = now_ms
        self._silent_from_ms = now_ms() + STARTED_MS
        self._has_read = False
        self._buckets: dict[str, Owners] = {}
        self._sizes: dict[str, int] = {}
        """The pickled bytes of each bucket whose size is known."""
        self._state_bytes = 0
        self._rejects = Rejects()
        self._evicted = 0

    def feed(
        self, bucket: str, log_key: str | None, kafka_offset: int | None, text: str
    ) -> Told | None:
        """Process a row of `candidates` in jobs/detect.sql, or a fact: see `to_record`."""
        record = to_record(text, log_key, kafka_offset)
        if record is None:
            return None
        if record["kind"] == "seen":
            return 0, [_seen_row(record)]
        key, now_ms = record["owner"], self._now_ms()
        failures: list[Failure] = []
        is_live = record["run_id"] == LIVE
        if is_live and not self._has_read:
            self._has_read = True
            self._silent_from_ms = min(self._silent_from_ms, now_ms + RESUMED_MS)
        if is_live and record["event_time_us"] > now_ms * 1000 + FASTEST_CLOCK_US:
            return 0, self._alone(key, record, now_ms)
        owners = self._of(bucket)
        name = _name(record)
        owner = owners.get(name)
        rows = list(_rows(key, owner, owner.feed(record, failures), failures, record))
        has_ended = not is_live and record["kind"] == "progress"
        rows += self._rejects.rows(failures, key, now_ms)
        self._evicted += owners.keep(
            name, owner, None if has_ended else owner.next_timer_us, now_ms
        )
        return _told(owners, rows)

    def on_timer(self, bucket: str, timestamp: int) -> Told | None:
        """Process a timer of a bucket."""
        owners = self._of(bucket)
        rows: list[Row] = []
        for name, place in owners.due(timestamp):
            run_id, key, _ = name
            owner = place.owner
            if run_id != LIVE:
                owners.keep(name, owner, None, timestamp)
                continue
            place.wait_since(self._silent_from_ms)
            if place.due_ms > timestamp:
                continue
            failures: list[Failure] = []
            waited_us = (timestamp - place.told_at_ms) * 1000
            told = owner.advance_time(owner.event_time_us + waited_us, failures)
            rows += _rows(key, owner, told, failures)
            rows += self._rejects.rows(failures, key, timestamp)
            owners.keep(name, owner, owner.next_timer_us, timestamp)
        if owners.timer_ms <= timestamp:
            owners.timer_ms = 0
        return _told(owners, rows)

    def load(self, bucket: str, state: bytes) -> None:
        """Continue with the state of a bucket."""
        self._buckets[bucket] = pickle.loads(state)  # noqa: S301 - Flink hands back its own state
        self._has_size(bucket, len(state))

    def pickled(self, bucket: str) -> bytes | None:
        """Return the state of a bucket; None if it has none.

        If all buckets together have too many bytes, and this is one of the largest, its largest
        states are dropped. So a flood of made-up names costs the hosts that it names their state.
        """
        owners = self._buckets.get(bucket)
        if owners is None or not owners.places:
            self._has_size(bucket, 0)
            return None
        state = pickle.dumps(owners, pickle.HIGHEST_PROTOCOL)
        self._has_size(bucket, len(state))
        if (excess := self._excess(len(state))) > 0:
            EVICTED["states"] += owners.shrink(excess)
            state = pickle.dumps(owners, pickle.HIGHEST_PROTOCOL)
            self._has_size(bucket, len(state))
        return state

    def _excess(self, size: int) -> int:
        """Return the number of bytes that a bucket of this size must lose; 0 or less if none.

        A quarter of the limit becomes free, so that the next bucket has room. Buckets that no line
        changes stay as they are. If there are too many of those, the others get an equal share.
        """
        above = self._state_bytes - MOST_STATE_BYTES
        if above <= 0:
            return 0
        quarter = MOST_STATE_BYTES // 4
        share = MOST_STATE_BYTES // BUCKETS
        allowed = share if above > quarter else max(self._sizes.values()) // 2
        return min(above + quarter, size - allowed)

    def _has_size(self, bucket: str, size: int) -> None:
        self._state_bytes += size - self._sizes.pop(bucket, 0)
        if size:
            self._sizes[bucket] = size

    def drop(self, bucket: str) -> None:
        """Forget a bucket. Its state is stored."""
        self._buckets.pop(bucket, None)

    def counts(self) -> tuple[int, int, int]:
        """Return the numbers of failures, of evicted log keys and of evicted parts of trackers."""
        return self._rejects.count, self._evicted, sum(EVICTED.values())

    def _of(self, bucket: str) -> Owners:
        if bucket not in self._buckets:
            self._buckets[bucket] = Owners()
        return self._buckets[bucket]

    def _alone(self, key: str, record: Mapping[str, Any], now_ms: int) -> list[Row]:
        """Return what follows from a record alone. Its state is discarded."""
        owner = Owner()
        failures: list[Failure] = []
        rows: list[Row] = []
        for told in (owner.feed(record, failures), owner.flush(failures, record)):
            rows += _rows(key, owner, told, failures, record)
        return [*rows, *self._rejects.rows(failures, key, now_ms)]


def _rows(
    key: str,
    owner: Owner,
    told: Iterator[Written],
    failures: list[Failure],
    record: Mapping[str, Any] | None = None,
) -> Iterator[Row]:
    of_key = ((key, written) for written in told)
    return sendable(of_key, to_row, failures, lambda _, name: owner.reset(name), record)


def _told(owners: Owners, rows: list[Row]) -> Told | None:
    """Return the rows, and the next timer if the known one would fire too late."""
    timer_ms, wanted_ms = 0, owners.next_due_ms
    if wanted_ms is None:
        # A timer that fires too early is harmless.
        owners.timer_ms = 0
    elif not owners.timer_ms or wanted_ms < owners.timer_ms - TIMER_GRID_MS:
        timer_ms = owners.timer_ms = -(-wanted_ms // TIMER_GRID_MS) * TIMER_GRID_MS
    return (timer_ms, rows) if timer_ms or rows else None


def _name(record: Mapping[str, Any]) -> Name:
    """Return the name under which the state of a record's log key is kept."""
    samples = "esxtop" if record.get("source") == "esxtop" else ""
    return record["run_id"], record["owner"], samples
