"""The thin adapters that run the correlator inside Flink: one for live, one for history.

Incidents belong to no host and no VM: all events of the fleet meet under one key. They are few.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import asdict
from typing import Any

import orjson
from pyflink.common import Row, Types
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import MapState, MapStateDescriptor, ValueState, ValueStateDescriptor

from detectors.catalogue import INCIDENTS_TOPIC
from engine.tracking import EVENT_TYPE, Kept
from incidents.configuration import KEEP_US
from incidents.correlator import (
    HEARD_TOPIC,
    INVENTORY_TOPIC,
    Correlator,
    Incident,
    superseded,
)
from incidents.places import Places
from incidents.signals import BrokenEventError, microseconds, reading, signal_of
from incidents.usual_hours import Hours

FLEET = "fleet"
"""The one key."""

FLEET_TYPE = Types.ROW([Types.STRING(), EVENT_TYPE])
"""The key, and an event."""

LIVE_EVERY_US = 5_000_000
FAST_CLOCK_US = 5_000_000
"""A clock that is faster than this is not believed."""

HISTORY_EVERY_US = 900_000_000
"""History writes what is true in the end; it looks more often only so as to forget."""

_LAST_MS = 2**62


def to_row(incident: Incident) -> Row:
    """An incident as a row of `events`."""
    return _row(asdict(incident))


def _row(incident: dict[str, Any]) -> Row:
    return Row(INCIDENTS_TOPIC, incident["event_id"], orjson.dumps(incident).decode())


def known_us(topic: str, event: dict[str, Any]) -> int:
    """The event time by which history sorts; what inventory says holds from the beginning.

    Raises BrokenEventError.
    """
    if topic in (INVENTORY_TOPIC, INCIDENTS_TOPIC):
        return 0
    with reading():
        if topic == HEARD_TOPIC:
            return int(event["heard_us"])
        signal = signal_of(topic, event)
        return signal.known_us if signal else microseconds(event["started_at"])


def _event(value: Row) -> dict[str, Any]:
    """The event of a row of EVENT_TYPE. Raises BrokenEventError."""
    with reading():
        return dict(orjson.loads(value[2]))


class KnownTime(TimestampAssigner):
    """When a row of EVENT_TYPE became known, in milliseconds; 0 where it breaks its schema."""

    def extract_timestamp(self, value: Row, record_timestamp: int) -> int:
        try:
            return known_us(value[0], _event(value)) // 1000
        except BrokenEventError:
            return 0


class CorrelateLive(KeyedProcessFunction):
    """Live: fed as events arrive; the clock on the wall tells the time."""

    def open(self, runtime_context: RuntimeContext) -> None:
        state = runtime_context.get_state
        self._correlator: ValueState = state(
            ValueStateDescriptor("correlator", Types.PICKLED_BYTE_ARRAY())
        )
        self._places: ValueState = state(ValueStateDescriptor("places", Types.PICKLED_BYTE_ARRAY()))
        self._known: Places | None = None
        self._bands: MapState = runtime_context.get_map_state(
            MapStateDescriptor("bands", Types.STRING(), Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> Iterator[Row]:
        kept = self._correlator.value()
        correlator, timer_ms = kept.value if kept else (Correlator("live", LIVE_EVERY_US), 0)
        places = self._known_places()
        timers = ctx.timer_service()
        # One host's fast clock closes nobody else's incidents.
        latest_us = timers.current_processing_time() * 1000 + FAST_CLOCK_US
        try:
            fed = correlator.feed(value[0], _event(value), _Bands(self._bands), places, latest_us)
            yield from map(to_row, fed)
        except BrokenEventError:
            # It breaks its schema: ClickHouse reads the same topic and keeps it with its reason.
            return
        if value[0] == INVENTORY_TOPIC:
            self._places.update(Kept(places))
        self._keep(correlator, timer_ms, timers)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Row]:
        kept = self._correlator.value()
        if kept is None:
            return
        correlator, _ = kept.value
        for incident in correlator.tick(timestamp * 1000, self._known_places()):
            yield to_row(incident)
        self._keep(correlator, 0, ctx.timer_service())

    def _known_places(self) -> Places:
        """What inventory says: read from Flink's state once, for it is large and changes rarely."""
        if self._known is None:
            kept = self._places.value()
            self._known = kept.value if kept else Places()
        return self._known

    def _keep(self, correlator: Correlator, timer_ms: int, timers: Any) -> None:
        due_us = correlator.next_due_us
        now_ms = timers.current_processing_time()
        if due_us is not None:
            wanted_ms = max(due_us // 1000, now_ms) + 1
            if not timer_ms or wanted_ms < timer_ms:
                timers.register_processing_time_timer(wanted_ms)
                timer_ms = wanted_ms
        self._correlator.update(Kept((correlator, timer_ms)))


class _Bands(MutableMapping[str, Hours]):
    """Flink's map as a mapping: only the owners that are asked for are read."""

    def __init__(self, state: MapState) -> None:
        self._state = state

    def __getitem__(self, owner: str) -> Hours:
        found: Hours | None = self._state.get(owner)
        if found is None:
            raise KeyError(owner)
        return found

    def __setitem__(self, owner: str, hours: Hours) -> None:
        self._state.put(owner, hours)

    def __delitem__(self, owner: str) -> None:
        self._state.remove(owner)

    def __iter__(self) -> Iterator[str]:
        return iter(self._state.keys())

    def __len__(self) -> int:
        return sum(1 for _ in self)


class CorrelateHistory(KeyedProcessFunction):
    """History: all events of the time that a replay is about, sorted, whoever shipped them.

    It writes the incidents that overlap the replay's own time; those around it were judged when
    their own lines came. Like TrackHistory it keeps what it holds in the instance.
    """

    def __init__(self, run_id: str, first_us: int, last_us: int) -> None:
        self._run_id, self._first_us, self._last_us = run_id, first_us, last_us

    def open(self, runtime_context: RuntimeContext) -> None:
        self._correlator = Correlator(self._run_id, HISTORY_EVERY_US)
        self._places = Places()
        self._bands: dict[str, Hours] = {}
        self._instant: list[tuple[str, dict[str, Any]]] = []
        self._shipped: dict[str, dict[str, Any]] = {}
        self._found: dict[str, Incident] = {}
        self._timestamp: int | None = None

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> Iterator[Row]:
        if self._timestamp is None:
            ctx.timer_service().register_event_time_timer(_LAST_MS)
        if ctx.timestamp() != self._timestamp:
            yield from self._flush()
        self._timestamp = ctx.timestamp()
        try:
            self._instant.append((value[0], _event(value)))
        except BrokenEventError:
            return  # as live

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Row]:
        yield from self._flush()
        self._correlator.now_us = max(self._correlator.now_us, self._last_us)
        for incident in self._correlator.look(self._places):
            yield from self._row(incident)
        true = [each for each in self._found.values() if not each.is_deleted]
        yield from map(_row, superseded(self._shipped.values(), true, self._run_id))

    def _flush(self) -> Iterator[Row]:
        """What shares a millisecond, in an order of its own: Flink's batch sort is not stable."""
        for topic, event in sorted(self._instant, key=_order):
            try:
                incidents = list(self._taken_in(topic, event))
            except BrokenEventError:
                continue  # as live
            for incident in incidents:
                yield from self._row(incident)
        self._instant.clear()

    def _taken_in(self, topic: str, event: dict[str, Any]) -> Iterator[Incident]:
        # What came later may still belong to it; what came much later does not.
        if known_us(topic, event) > self._last_us + KEEP_US:
            return
        if topic == INCIDENTS_TOPIC:
            with reading():
                told = {name: event[name] for name in Incident.__annotations__}
                told["revision"] = int(told["revision"])
            known = self._shipped.get(told["event_id"])
            if known is None or told["revision"] >= known["revision"]:
                self._shipped[told["event_id"]] = told
            return
        yield from self._correlator.feed(topic, event, self._bands, self._places)

    def _row(self, incident: Incident) -> Iterator[Row]:
        began_us = microseconds(incident.opened_at)
        ended_us = microseconds(incident.closed_at) if incident.closed_at else self._last_us
        if began_us <= self._last_us and ended_us >= self._first_us:
            self._found[incident.event_id] = incident
            yield to_row(incident)


def _order(kept: tuple[str, dict[str, Any]]) -> tuple[str, str, str]:
    topic, event = kept
    return topic, str(event.get("event_id", event.get("host"))), f"{event.get('revision')!s:>20}"
