"""The Flink operator that computes the incidents of live events.

An incident may involve any host and any VM, so all events of the fleet have the same key. There are
few of them.
"""

from __future__ import annotations

import pickle
from collections.abc import Generator, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import orjson
from pyflink.common import Row, TypeInformation, Types
from pyflink.datastream import DataStream, KeyedProcessFunction, KeyedStream, RuntimeContext
from pyflink.datastream.state import (
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ValueState,
    ValueStateDescriptor,
)
from pyflink.java_gateway import get_gateway

from stunwatch.detectors.catalogue import INCIDENTS_TOPIC
from stunwatch.engine.failures import CORRELATOR, METRIC, Failure
from stunwatch.engine.history import known_us
from stunwatch.engine.tracking import Rejects
from stunwatch.incidents.configuration import KEEP_US
from stunwatch.incidents.correlator import INVENTORY_TOPIC, SEEN_TOPIC, Correlator, Incident
from stunwatch.incidents.fleet_clock import FAST_CLOCK_US, FleetClock
from stunwatch.incidents.seasonal_baseline import Hours
from stunwatch.incidents.signals import BrokenEventError, microseconds, reading
from stunwatch.incidents.topology import Topology

EVENT_TYPE = Types.ROW_NAMED(
    ["topic", "owner", "event"], [Types.STRING(), Types.STRING(), Types.STRING()]
)
"""A row of `events` in jobs/detect.sql: topic, key and the event as JSON."""

FLEET = "fleet"
"""The only key."""

FED_TYPE = Types.ROW([Types.STRING(), Types.STRING(), Types.STRING()])
"""Topic, the event as JSON, and when Kafka's message was written; null for events of the job."""

FLEET_TYPE = Types.ROW([Types.STRING(), FED_TYPE])
"""The key, and an event."""

LIVE_EVERY_US = 5_000_000
WAIT_MS = 250
"""How long an event waits for others at most."""

Continued = tuple[Correlator, int | None]
"""The correlator to continue with, and the event time of its next timer, µs since 1970."""


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


def keyed_in_the_jvm(stream: DataStream, value: TypeInformation) -> KeyedStream:
    """Key a stream of (key, value) by its first field, like `key_by` but without Python.

    PyFlink's own `key_by` computes the key in a Python operator. That costs every row a second
    round trip to Python.
    """
    keyed = stream._j_data_stream.keyBy(
        get_gateway().jvm.KeyByKeySelector(), Types.ROW([Types.STRING()]).get_java_type_info()
    )
    return KeyedStream(keyed, value, stream)


def to_row(incident: Incident | dict[str, Any]) -> Row:
    """Return an incident as a row of `events`."""
    row = incident if isinstance(incident, dict) else asdict(incident)
    return Row(INCIDENTS_TOPIC, row["event_id"], orjson.dumps(row).decode())


def _event(text: str) -> dict[str, Any]:
    """Parse an event. Raise BrokenEventError."""
    with reading():
        return dict(orjson.loads(text))


class CorrelateLive(KeyedProcessFunction):
    """Processes events several times a second and takes the time from the fleet's clock.

    Until then events wait in a list of Flink's state. Flink unpickles and pickles the correlator at
    every call, which takes milliseconds in a storm.

    After one error, the correlator loses the event or the timer that caused it. After a second
    error without a success in between, it loses all its state, that is the open incidents of the
    whole fleet: that would be too high a price for one bad event.
    """

    def __init__(self, submitted_us: int) -> None:
        """`submitted_us`: the present, when a job is submitted."""
        self._submitted_us = submitted_us

    def open(self, runtime_context: RuntimeContext) -> None:
        self._rejects = Rejects()
        self._has_failed = False
        self._forgotten = 0
        metrics = runtime_context.get_metrics_group()
        self._failures = metrics.counter(METRIC)
        metrics.gauge("incidents_state_evicted", lambda: self._forgotten)
        state = runtime_context.get_state
        self._correlator: ValueState = state(
            ValueStateDescriptor("correlator", Types.PICKLED_BYTE_ARRAY())
        )
        self._waiting: ListState = runtime_context.get_list_state(
            ListStateDescriptor("waiting", Types.PICKLED_BYTE_ARRAY())
        )
        self._topology: ValueState = state(
            ValueStateDescriptor("topology", Types.PICKLED_BYTE_ARRAY())
        )
        self._known: Topology | None = None
        self._clock: FleetClock | None = None
        self._bands: MapState = runtime_context.get_map_state(
            MapStateDescriptor("bands", Types.STRING(), Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> Iterator[Row]:
        self._waiting.add(tuple(value))
        timers = ctx.timer_service()
        # Flink keeps one timer for several events with the same time.
        now_ms = timers.current_processing_time()
        timers.register_processing_time_timer((now_ms // WAIT_MS + 1) * WAIT_MS)
        yield from ()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Row]:
        kept = self._correlator.value()
        correlator, timer_ms, clock = kept.value if kept else (self._new(), 0, FleetClock())
        waiting = list(self._waiting.get() or ())
        self._waiting.clear()
        # A timer may fire late, after a restart for example: newer events may wait already.
        now_ms = max(timestamp, ctx.timer_service().current_processing_time())
        if self._clock is None:
            self._clock = clock
            clock.start(now_ms * 1000)
        due_us = None
        for topic, text, written_at in waiting:
            if topic == INCIDENTS_TOPIC:
                at_us = microseconds(written_at)
                if not correlator.began_us < at_us < self._clock.began_us:
                    continue  # the state already contains it, or it is older than the whole state
            correlator, due_us = yield from self._fed(correlator, due_us, topic, text, now_ms)
        is_own = 0 < timer_ms <= timestamp
        if is_own or (due_us is not None and due_us <= self._clock.time_us(now_ms * 1000)):
            correlator, due_us = yield from self._advanced(correlator, now_ms)
        self._keep(correlator, due_us, 0 if is_own else timer_ms, ctx.timer_service())

    def _new(self) -> Correlator:
        return Correlator("live", LIVE_EVERY_US, began_us=self._submitted_us)

    def _fed(
        self, correlator: Correlator, due_us: int | None, topic: str, text: str, now_ms: int
    ) -> Generator[Row, None, Continued]:
        """Yield what follows from an event."""
        topology = self._known_topology()
        bands = _Bands(self._bands)
        try:
            event = _event(text)
            # Limits the effect of a host with a fast clock: it must not close incidents of others.
            latest_us = now_ms * 1000 + FAST_CLOCK_US
            until_us = self._seen(topic, event, now_ms * 1000)
            found = correlator.feed(topic, event, bands, topology, latest_us, until_us)
            yield from map(to_row, found)
            self._told(topic, event, now_ms * 1000)
            due_us = correlator.next_timer_us
        except BrokenEventError:
            # It violates its schema. ClickHouse reads the same topic and stores it with the reason.
            return correlator, due_us
        except Exception as error:
            if bands.has_failed:
                raise
            failure = Failure(CORRELATOR, error, {"file": topic, "message": text or ""})
            yield from self._rejected(failure, now_ms)
            return self._after_error(correlator, now_ms)
        self._has_failed = False
        if topic == INVENTORY_TOPIC:
            self._topology.update(Kept(topology))
        return correlator, due_us

    def _seen(self, topic: str, event: dict[str, Any], wall_us: int) -> int:
        """Return the fleet's time, after the line of a host. Raise BrokenEventError."""
        clock = self._clock or FleetClock()
        if topic == SEEN_TOPIC and event.get("is_syslog"):
            with reading():
                clock.see_host(int(event["seen_us"]), wall_us)
        return clock.time_us(wall_us)

    def _told(self, topic: str, event: dict[str, Any], wall_us: int) -> None:
        """Advance the clock of a fleet whose hosts send no syslog."""
        if self._clock and topic not in (INVENTORY_TOPIC, INCIDENTS_TOPIC):
            self._clock.see_event(known_us(topic, event), wall_us)

    def _advanced(self, correlator: Correlator, now_ms: int) -> Generator[Row, None, Continued]:
        """Yield what follows from the time."""
        try:
            time_us = self._clock.time_us(now_ms * 1000) if self._clock else 0
            yield from map(to_row, correlator.advance_time(time_us, self._known_topology()))
            due_us = correlator.next_timer_us
        except Exception as error:
            yield from self._rejected(Failure(CORRELATOR, error, None), now_ms)
            return self._after_error(correlator, now_ms)
        self._has_failed = False
        return correlator, due_us

    def _rejected(self, failure: Failure, now_ms: int) -> Iterator[Row]:
        self._failures.inc()
        return (Row(*each) for each in self._rejects.rows([failure], FLEET, now_ms))

    def _after_error(self, correlator: Correlator, now_ms: int) -> Continued:
        is_second, self._has_failed = self._has_failed, not self._has_failed
        if is_second:
            return self._new(), None
        return correlator, correlator.now_us + LIVE_EVERY_US

    def _known_topology(self) -> Topology:
        """Return the inventory, read from Flink's state once: it is large and changes rarely."""
        if self._known is None:
            kept = self._topology.value()
            self._known = kept.value if kept else Topology()
        return self._known

    def _keep(self, correlator: Correlator, due_us: int | None, timer_ms: int, timers: Any) -> None:
        now_ms = timers.current_processing_time()
        clock = self._clock or FleetClock()
        if due_us is not None:
            wait_us = min(max(0, due_us - clock.time_us(now_ms * 1000)), KEEP_US)
            wanted_ms = now_ms + wait_us // 1000 + 1
            if not timer_ms or wanted_ms < timer_ms:
                timers.register_processing_time_timer(wanted_ms)
                timer_ms = wanted_ms
        self._correlator.update(Kept((correlator, timer_ms, clock)))
        self._forgotten = correlator.evicted + self._known_topology().evicted


class _Bands(MutableMapping[str, Hours]):
    """A Flink map state as a mapping: only requested keys are read."""

    def __init__(self, state: MapState) -> None:
        self._state = state
        self.has_failed = False
        """True if Flink could not read or write the state: such an error must fail the job."""

    def __getitem__(self, owner: str) -> Hours:
        with self._flink():
            found: Hours | None = self._state.get(owner)
        if found is None:
            raise KeyError(owner)
        return found

    def __setitem__(self, owner: str, hours: Hours) -> None:
        with self._flink():
            self._state.put(owner, hours)

    def __delitem__(self, owner: str) -> None:
        with self._flink():
            self._state.remove(owner)

    def __iter__(self) -> Iterator[str]:
        with self._flink():
            owners = list(self._state.keys())
        return iter(owners)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @contextmanager
    def _flink(self) -> Iterator[None]:
        try:
            yield
        except Exception:
            self.has_failed = True
            raise
