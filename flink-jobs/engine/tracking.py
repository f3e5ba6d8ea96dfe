"""The thin adapters that run the trackers inside Flink: one for live, one for history."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import orjson
from pyflink.common import Row, TypeInformation, Types
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    DataStream,
    KeyedProcessFunction,
    KeyedStream,
    OutputTag,
    RuntimeContext,
)
from pyflink.datastream.state import ValueState, ValueStateDescriptor
from pyflink.java_gateway import get_gateway

from detectors.migrations import facts
from engine.owner import Owner, Written, epoch_microseconds, feed_in_order
from incidents.correlator import HEARD_TOPIC

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
    "head",
    "message",
    "file",
    "generation",
    "offset",
    "run_id",
    "time_quality",
    "kafka_offset",
)
"""The columns of `candidates` in jobs/detect.sql, in their order."""

RECORD_TYPE = Types.ROW_NAMED(
    list(RECORD_FIELDS),
    [Types.LONG() if name.endswith("offset") else Types.STRING() for name in RECORD_FIELDS],
)

KEYED_TYPE = Types.ROW([Types.STRING(), RECORD_TYPE])
"""The owner, and a row of `candidates`."""

EVENT_TYPE = Types.ROW_NAMED(
    ["topic", "owner", "event"], [Types.STRING(), Types.STRING(), Types.STRING()]
)
"""A row of `events` in jobs/detect.sql: topic, key and the event as JSON."""

LIVE_FACTS = OutputTag("facts", KEYED_TYPE)
"""Live: what the second step is fed with, keyed by migration."""

HISTORY_FACTS = OutputTag("facts", RECORD_TYPE)
"""History: the same; its key is made of the record."""

Output: TypeAlias = Row | tuple[OutputTag, Row]
"""A row of `events`, or a fact."""

BUCKETS = 128
"""History is keyed by bucket, not by owner: a key costs Flink's batch mode one Python bundle."""

_LAST_MS = 2**62
"""Later than any record."""


def to_record(row: Row) -> dict[str, Any] | None:
    """A row of `candidates` as the record that trackers read; absent fields stay absent.

    None where the row names no owner or time: it breaks the schema, and ClickHouse, which reads
    the same topic, keeps it in rejected_lines with its reason.
    """
    record = {
        name: value for name, value in zip(RECORD_FIELDS, row, strict=True) if value is not None
    }
    try:
        record["event_time_us"] = epoch_microseconds(record["event_time"])
    except (KeyError, ValueError):
        return None
    return record if "owner" in record and "kind" in record else None


def bucket_of(row: Row) -> int:
    """The bucket of a row's owner, in [0, BUCKETS)."""
    return zlib.crc32((row[0] or "").encode()) % BUCKETS


def to_row(owner: str, written: Written) -> Row:
    """An event as a row of `events`."""
    topic, event = written
    return Row(topic, owner, orjson.dumps(event).decode())


def to_record_row(record: Mapping[str, Any]) -> Row:
    """A record as a row of `candidates`: the opposite of `to_record`."""
    return Row(*(record.get(name) for name in RECORD_FIELDS))


class EventTime(TimestampAssigner):
    """The record's own time in milliseconds, by which Flink's batch mode sorts."""

    def extract_timestamp(self, value: Row, record_timestamp: int) -> int:
        try:
            return epoch_microseconds(value[1]) // 1000
        except (TypeError, ValueError):
            return 0


def keyed_in_the_jvm(stream: DataStream, value: TypeInformation = RECORD_TYPE) -> KeyedStream:
    """A stream of (key, value), keyed by its first field: what `key_by` makes, without its Python.

    PyFlink's own `key_by` computes the key in a Python operator, which costs every record a second
    way out of the JVM and every slot a second bundle to wait for.
    """
    keyed = stream._j_data_stream.keyBy(
        get_gateway().jvm.KeyByKeySelector(), Types.ROW([Types.STRING()]).get_java_type_info()
    )
    return KeyedStream(keyed, value, stream)


def _live_row(owner: str, written: Written) -> Output:
    topic, fact = written
    if topic == facts.TOPIC:
        return LIVE_FACTS, Row(fact["owner"], to_record_row(fact))
    return to_row(owner, written)


def _heard_row(record: Mapping[str, Any]) -> Row:
    """That a host was heard, for the correlator."""
    heard = {"host": record["host"], "heard_us": record["event_time_us"]}
    return Row(HEARD_TOPIC, record["owner"], orjson.dumps(heard).decode())


class Kept:
    """What is kept between records.

    PyFlink pickles state with a pickler written in Python, at the end of every bundle; this one
    hands it bytes that Python's own pickler has made, in half the time.
    """

    def __init__(self, value: Any) -> None:
        self.value = value

    def __reduce__(self) -> tuple[Any, ...]:
        return _kept, (pickle.dumps(self.value),)


def _kept(pickled: bytes) -> Kept:
    return Kept(pickle.loads(pickled))  # noqa: S301 - Flink hands back what it was given


class TrackLive(KeyedProcessFunction):
    """Live: keyed by owner, fed as records arrive.

    Silence is told by a processing-time timer: the last event time plus the time waited since.
    """

    def open(self, runtime_context: RuntimeContext) -> None:
        self._state: ValueState = runtime_context.get_state(
            ValueStateDescriptor("owner", Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> Iterator[Output]:
        record = to_record(value)
        if record is None:
            return
        if record["kind"] == "heard":
            yield _heard_row(record)
            return
        kept = self._state.value()
        owner, _, timer_ms = kept.value if kept else (Owner(), 0, 0)
        for written in owner.feed(record):
            yield _live_row(record["owner"], written)
        timers = ctx.timer_service()
        self._keep(owner, timers.current_processing_time(), timer_ms, timers)

    def on_timer(
        self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext
    ) -> Iterator[Output]:
        kept = self._state.value()
        if kept is None:
            return
        owner, told_at_ms, timer_ms = kept.value
        waited_us = (timestamp - told_at_ms) * 1000
        for written in owner.tick(owner.event_time_us + waited_us):
            yield _live_row(ctx.get_current_key(), written)
        self._keep(owner, timestamp, 0 if timer_ms <= timestamp else timer_ms, ctx.timer_service())

    def _keep(self, owner: Owner, now_ms: int, timer_ms: int, timers: Any) -> None:
        """Keep the owner until it has something to do, or clear what is left of it.

        Kept are the owner, when it was told the time, and its next timer (0: none is set).
        """
        due_us = owner.next_due_us
        if due_us is None:
            # Nothing is left of an owner that went quiet, not even its timer.
            if timer_ms:
                timers.delete_processing_time_timer(timer_ms)
            self._state.clear()
            return
        wanted_ms = now_ms + max(0, due_us - owner.event_time_us) // 1000 + 1
        # A timer that comes too early looks again; only one that comes too late is set anew.
        if not timer_ms or wanted_ms < timer_ms:
            timers.register_processing_time_timer(wanted_ms)
            timer_ms = wanted_ms
        self._state.update(Kept((owner, now_ms, timer_ms)))


class TrackHistory(KeyedProcessFunction):
    """History: keyed by bucket, sorted by time, one key after the other.

    What it holds lives in the instance, not in Flink's state: in batch mode a key is never seen
    again, there are no checkpoints, and a failed region starts over.
    """

    def open(self, runtime_context: RuntimeContext) -> None:
        self._bucket: int | None = None
        self._owners: dict[str, Owner] = {}
        self._instant: list[dict[str, Any]] = []
        self._timestamp: int | None = None

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> Iterator[Output]:
        record = to_record(value)
        if record is None:
            return
        if record["kind"] == "heard":
            yield _heard_row(record)
            return
        bucket, timestamp = ctx.get_current_key(), ctx.timestamp()
        if (bucket, timestamp) != (self._bucket, self._timestamp):
            yield from self._flush()
        if bucket != self._bucket:
            self._owners.clear()
            # A key's timers fire when it ends: the last key's last instant needs it.
            ctx.timer_service().register_event_time_timer(_LAST_MS)
        self._bucket, self._timestamp = bucket, timestamp
        self._instant.append(record)

    def on_timer(
        self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext
    ) -> Iterator[Output]:
        # A key's timer fires when Python has been given the first record of the next key already.
        if ctx.get_current_key() == self._bucket:
            yield from self._flush()

    def _flush(self) -> Iterator[Output]:
        for owner, written in feed_in_order(self._owners, self._instant):
            topic, fact = written
            if topic == facts.TOPIC:
                yield HISTORY_FACTS, to_record_row(fact)
            else:
                yield to_row(owner, written)
        self._instant.clear()
