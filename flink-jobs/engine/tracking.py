"""The Flink operator that runs the trackers, for live lines and for replays."""

from __future__ import annotations

import gc
import logging
import pickle
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import orjson
from pyflink.common import Row, TypeInformation, Types
from pyflink.datastream import (
    DataStream,
    KeyedProcessFunction,
    KeyedStream,
    OutputTag,
    RuntimeContext,
)
from pyflink.datastream.state import ValueState, ValueStateDescriptor
from pyflink.java_gateway import get_gateway

from stunwatch.detectors.bounds import EVICTED
from stunwatch.engine.failures import METRIC, REJECTED_TOPIC, Failure, Limit, rejected_line
from stunwatch.engine.history import seen, sendable
from stunwatch.engine.owner import FACTS, Owner, Written, epoch_microseconds
from stunwatch.engine.owners import LIVE, Name, Owners, bucket_of_owner
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
"""The columns of `candidates` in jobs/detect.sql."""

KEYED_TYPE = Types.ROW([Types.STRING(), Types.STRING()])
"""The bucket of the log key, and a row of `candidates` as JSON. Python receives one string faster
than a column for each field."""

RECORD_IN_SQL = f"""JSON_OBJECT(
  {", ".join(f"KEY '{name}' VALUE `{name}`" for name in RECORD_FIELDS)} ABSENT ON NULL
)"""
"""A row of `candidates` as JSON, in Flink SQL. The same as `to_json`."""

EVENT_TYPE = Types.ROW_NAMED(
    ["topic", "owner", "event"], [Types.STRING(), Types.STRING(), Types.STRING()]
)
"""A row of `events` in jobs/detect.sql: topic, key and the event as JSON."""

SECOND_STEP = OutputTag("facts", KEYED_TYPE)
"""The input of the second step, keyed by migration or operation."""

Output: TypeAlias = Row | tuple[OutputTag, Row]
"""A row of `events`, or a fact."""

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


def to_record(text: str) -> dict[str, Any] | None:
    """Convert a row of `candidates` to the record that trackers read, without its NULL fields.

    Return None if a required field is missing or invalid: the row violates its schema, and
    ClickHouse, which reads the same topic, stores it in rejected_lines with the reason.
    """
    try:
        record: dict[str, Any] = orjson.loads(text)
        record["event_time_us"] = epoch_microseconds(record["event_time"])
    except (KeyError, ValueError, OverflowError):
        return None
    needed = _NEEDED.get(record.get("kind", ""), _OF_EVERY_RECORD)
    return record if needed <= record.keys() else None


def to_row(owner: str, written: Written) -> Row:
    """Return an event as a row of `events`."""
    topic, event = written
    return Row(topic, owner, orjson.dumps(event).decode())


def to_json(record: Mapping[str, Any]) -> str:
    """Return a record as a row of `candidates`: the inverse of `to_record`."""
    fields = ((name, record.get(name)) for name in RECORD_FIELDS)
    return orjson.dumps({name: value for name, value in fields if value is not None}).decode()


def keyed_in_the_jvm(stream: DataStream, value: TypeInformation | None = None) -> KeyedStream:
    """Key a stream of (key, value) by its first field, like `key_by` but without Python.

    `value`: the type of the value; by default a string.

    PyFlink's own `key_by` computes the key in a Python operator. That costs every record a second
    round trip to Python and every slot a second bundle to wait for.
    """
    keyed = stream._j_data_stream.keyBy(
        get_gateway().jvm.KeyByKeySelector(), Types.ROW([Types.STRING()]).get_java_type_info()
    )
    return KeyedStream(keyed, value or Types.STRING(), stream)


def _output(owner: str, written: Written) -> Output:
    topic, fact = written
    if topic == FACTS:
        bucket = bucket_of_owner(fact["owner"], fact["run_id"])
        return SECOND_STEP, Row(bucket, to_json(fact))
    return to_row(owner, written)


def _seen_row(record: Mapping[str, Any]) -> Row:
    """Return the row for the correlator that reports that a host sent lines."""
    event = {**seen(record), "is_syslog": record.get("source") == "syslog"}
    return Row(SEEN_TOPIC, record["owner"], orjson.dumps(event).decode())


class Rejects:
    """Reports failures: as rows of EVENT_TYPE, as a metric and in the TaskManager's log."""

    def __init__(self, runtime_context: RuntimeContext) -> None:
        self._counter = runtime_context.get_metrics_group().counter(METRIC)
        self._limit = Limit()

    def rows(self, failures: list[Failure], key: str, now_ms: int) -> Iterator[Row]:
        """Yield the rows of new failures. Those beyond the limit are only counted."""
        for each in failures:
            self._counter.inc()
            if self._limit.takes(key, each.detector, now_ms):
                _LOG.error("%s", each.reason, exc_info=each.error)
                yield Row(REJECTED_TOPIC, key, rejected_line(each, key, now_ms))


MARK = "checkpoint"
"""What follows all records of a key before a checkpoint (CheckpointMarks.java)."""

TIMER_GRID_MS = 500
"""A bucket has at most one timer in this time, because every timer costs a call of Python."""

MOST_CACHED = 2_048
"""Most buckets whose trackers one Python function keeps unpickled."""


class Kept:
    """A wrapper for state that is pickled faster.

    At the end of every bundle PyFlink pickles state with a pickler written in Python. This class
    gives it bytes from Python's built-in pickler, which halves the time.
    """

    def __init__(self, value: Any) -> None:
        self.value = value

    def __reduce__(self) -> tuple[Any, ...]:
        return _kept, (pickle.dumps(self.value),)


def _kept(pickled: bytes) -> Kept:
    return Kept(pickle.loads(pickled))  # noqa: S301 - Flink hands back what it was given


class _Cache:
    """The log keys of each bucket. Flink's state is read once per bucket.

    Pickling the trackers takes longer than what they do with a record. So a bucket is written at
    the mark before a checkpoint, not after every record. After a failure Flink restores that state
    and reads the later records again.
    """

    def __init__(self, state: ValueState) -> None:
        self._state = state
        self._buckets: dict[str, Owners] = {}
        self._changed: set[str] = set()

    def get(self, bucket: str) -> Owners:
        """Return the log keys of the current bucket."""
        if (found := self._buckets.get(bucket)) is None:
            kept = self._state.value()
            found = kept.value if kept else Owners()
        return found

    def has_changed(self, bucket: str) -> bool:
        """Return whether the bucket is written at the next mark."""
        return bucket in self._changed

    def keep(self, bucket: str, owners: Owners) -> None:
        """Keep the log keys of the current bucket until the mark."""
        if bucket not in self._buckets and len(self._buckets) >= MOST_CACHED:
            unchanged = (each for each in self._buckets if each not in self._changed)
            if (dropped := next(unchanged, None)) is None:
                self._write(owners)
                return
            del self._buckets[dropped]
        self._buckets[bucket] = owners
        self._changed.add(bucket)

    def write(self, bucket: str) -> None:
        """Write the current bucket to Flink's state, if it has changed."""
        if bucket not in self._changed:
            return
        self._changed.discard(bucket)
        self._write(self._buckets[bucket])
        if not self._buckets[bucket].places:
            del self._buckets[bucket]

    def _write(self, owners: Owners) -> None:
        if owners.places:
            self._state.update(Kept(owners))
        else:
            self._state.clear()


class Track(KeyedProcessFunction):
    """Processes records as they arrive, keyed by bucket of log keys.

    A key belongs to one run: the run `live`, or a replay, whose lines arrive in the order of their
    time. If no live lines arrive, a processing-time timer advances the time: to the last event time
    plus the time waited since. A replay's key ends with its progress record. A live line dated a
    day or more in the future is processed by itself: state must not wait for a date that a wrong
    clock produced.

    The input must have marks before every checkpoint (CheckpointMarks.java).
    """

    def __init__(self, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        """`now_ms`: the clock of Flink's processing time. Asking Flink takes longer."""
        self._now_ms = now_ms

    def open(self, runtime_context: RuntimeContext) -> None:
        # Modules live as long as the process, and trackers are many: looking for garbage among them
        # after every 700 new objects takes a tenth of the time.
        gc.freeze()
        gc.set_threshold(50_000, 20, 100)
        self._cache = _Cache(
            runtime_context.get_state(ValueStateDescriptor("owners", Types.PICKLED_BYTE_ARRAY()))
        )
        self._rejects = Rejects(runtime_context)
        metrics = runtime_context.get_metrics_group()
        self._evicted = metrics.counter("owners_evicted")
        metrics.gauge("tracker_state_evicted", lambda: sum(EVICTED.values()))

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> Iterator[Output]:
        if value == MARK:
            self._cache.write(ctx.get_current_key())
            return
        record = to_record(value)
        if record is None:
            return
        if record["kind"] == "seen":
            yield _seen_row(record)
            return
        key, now_ms = record["owner"], self._now_ms()
        is_live = record["run_id"] == LIVE
        if is_live and record["event_time_us"] > now_ms * 1000 + FASTEST_CLOCK_US:
            yield from self._alone(key, record, now_ms)
            return
        bucket = ctx.get_current_key()
        owners = self._cache.get(bucket)
        name = _name(record)
        owner = owners.get(name)
        failures: list[Failure] = []
        told = owner.feed(record, failures)
        yield from self._rows(key, owner, told, failures, record)
        has_ended = not is_live and record["kind"] == "progress"
        due_us = None if has_ended else owner.next_timer_us
        yield from self._rejects.rows(failures, key, now_ms)
        if evicted := owners.keep(name, owner, due_us, now_ms):
            self._evicted.inc(evicted)
        self._keep(bucket, owners, ctx.timer_service())

    def on_timer(
        self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext
    ) -> Iterator[Output]:
        bucket = ctx.get_current_key()
        is_mark_due = self._cache.has_changed(bucket)
        owners = self._cache.get(bucket)
        for name, place in owners.due(timestamp):
            run_id, key, _ = name
            owner = place.owner
            if run_id != LIVE:
                owners.keep(name, owner, None, timestamp)
                continue
            failures: list[Failure] = []
            waited_us = (timestamp - place.told_at_ms) * 1000
            told = owner.advance_time(owner.event_time_us + waited_us, failures)
            yield from self._rows(key, owner, told, failures)
            due_us = owner.next_timer_us
            yield from self._rejects.rows(failures, key, timestamp)
            owners.keep(name, owner, due_us, timestamp)
        if owners.timer_ms <= timestamp:
            owners.timer_ms = 0
        self._keep(bucket, owners, ctx.timer_service())
        if not is_mark_due:
            # The timer may have fired between the mark and the checkpoint. The checkpoint then does
            # not contain the timer any more.
            self._cache.write(bucket)

    def _alone(self, key: str, record: Mapping[str, Any], now_ms: int) -> Iterator[Output]:
        """Yield what follows from a record alone. Its state is discarded."""
        owner = Owner()
        failures: list[Failure] = []
        for told in (owner.feed(record, failures), owner.flush(failures, record)):
            yield from self._rows(key, owner, told, failures, record)
        yield from self._rejects.rows(failures, key, now_ms)

    @staticmethod
    def _rows(
        key: str,
        owner: Owner,
        told: Iterator[Written],
        failures: list[Failure],
        record: Mapping[str, Any] | None = None,
    ) -> Iterator[Output]:
        of_key = ((key, written) for written in told)
        yield from sendable(of_key, _output, failures, lambda _, name: owner.reset(name), record)

    def _keep(self, bucket: str, owners: Owners, timers: Any) -> None:
        """Keep the log keys until their next timer."""
        wanted_ms = owners.next_due_ms
        if wanted_ms is None:
            # The remaining log keys have no state, so the timer is not needed either.
            if owners.timer_ms:
                timers.delete_processing_time_timer(owners.timer_ms)
                owners.timer_ms = 0
        # A timer that fires too early is harmless. Replace it only if it would fire too late.
        elif not owners.timer_ms or wanted_ms < owners.timer_ms - TIMER_GRID_MS:
            timer_ms = -(-wanted_ms // TIMER_GRID_MS) * TIMER_GRID_MS
            timers.register_processing_time_timer(timer_ms)
            owners.timer_ms = timer_ms
        self._cache.keep(bucket, owners)


def _name(record: Mapping[str, Any]) -> Name:
    """Return the name under which the state of a record's log key is kept."""
    samples = "esxtop" if record.get("source") == "esxtop" else ""
    return record["run_id"], record["owner"], samples
