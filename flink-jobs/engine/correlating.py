"""The Flink operator that computes the incidents of live events.

An incident may involve any host and any VM, so all events of the fleet have the same key. There are
few of them.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import orjson
from pyflink.common import Row, Types
from pyflink.datastream import KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import MapState, MapStateDescriptor, ValueState, ValueStateDescriptor

from stunwatch.detectors.catalogue import INCIDENTS_TOPIC
from stunwatch.engine.failures import CORRELATOR, Failure
from stunwatch.engine.tracking import EVENT_TYPE, Kept, Rejects
from stunwatch.incidents.correlator import INVENTORY_TOPIC, Correlator, Incident
from stunwatch.incidents.seasonal_baseline import Hours
from stunwatch.incidents.signals import BrokenEventError, reading
from stunwatch.incidents.topology import Topology

FLEET = "fleet"
"""The only key."""

FLEET_TYPE = Types.ROW([Types.STRING(), EVENT_TYPE])
"""The key, and an event."""

LIVE_EVERY_US = 5_000_000
FAST_CLOCK_US = 5_000_000
"""How far event times may advance the correlator's time beyond the wall clock."""


def to_row(incident: Incident | dict[str, Any]) -> Row:
    """Return an incident as a row of `events`."""
    row = incident if isinstance(incident, dict) else asdict(incident)
    return Row(INCIDENTS_TOPIC, row["event_id"], orjson.dumps(row).decode())


def _event(value: Row) -> dict[str, Any]:
    """Parse the event of a row of EVENT_TYPE. Raise BrokenEventError."""
    with reading():
        return dict(orjson.loads(value[2]))


def _failure(error: Exception, value: Row | None) -> Failure:
    """Return the correlator's failure. The event that was being processed replaces the line."""
    if value is None:
        return Failure(CORRELATOR, error, None)
    return Failure(CORRELATOR, error, {"file": value[0], "message": value[2] or ""})


class CorrelateLive(KeyedProcessFunction):
    """Processes events as they arrive and takes the time from the wall clock.

    After one error, the correlator loses the event or the timer that caused it. After a second
    error without a success in between, it loses all its state, that is the open incidents of the
    whole fleet: that would be too high a price for one bad event.
    """

    def open(self, runtime_context: RuntimeContext) -> None:
        self._rejects = Rejects(runtime_context)
        self._has_failed = False
        self._forgotten = 0
        metrics = runtime_context.get_metrics_group()
        metrics.gauge("incidents_state_evicted", lambda: self._forgotten)
        state = runtime_context.get_state
        self._correlator: ValueState = state(
            ValueStateDescriptor("correlator", Types.PICKLED_BYTE_ARRAY())
        )
        self._topology: ValueState = state(
            ValueStateDescriptor("topology", Types.PICKLED_BYTE_ARRAY())
        )
        self._known: Topology | None = None
        self._bands: MapState = runtime_context.get_map_state(
            MapStateDescriptor("bands", Types.STRING(), Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> Iterator[Row]:
        kept = self._correlator.value()
        correlator, timer_ms = kept.value if kept else (Correlator("live", LIVE_EVERY_US), 0)
        topology = self._known_topology()
        timers = ctx.timer_service()
        # Limits the effect of a host with a fast clock: it must not close incidents of others.
        now_ms = timers.current_processing_time()
        latest_us = now_ms * 1000 + FAST_CLOCK_US
        bands = _Bands(self._bands)
        try:
            yield from map(
                to_row, correlator.feed(value[0], _event(value), bands, topology, latest_us)
            )
            due_us = correlator.next_timer_us
        except BrokenEventError:
            # It violates its schema. ClickHouse reads the same topic and stores it with the reason.
            return
        except Exception as error:
            if bands.has_failed:
                raise
            correlator, due_us = self._after(correlator, now_ms)
            yield from self._rejects.rows([_failure(error, value)], FLEET, now_ms)
        else:
            self._has_failed = False
        if value[0] == INVENTORY_TOPIC:
            self._topology.update(Kept(topology))
        self._keep(correlator, due_us, timer_ms, timers)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Row]:
        kept = self._correlator.value()
        if kept is None:
            return
        correlator, _ = kept.value
        topology = self._known_topology()
        try:
            yield from map(to_row, correlator.advance_time(timestamp * 1000, topology))
            due_us = correlator.next_timer_us
        except Exception as error:
            correlator, due_us = self._after(correlator, timestamp)
            yield from self._rejects.rows([_failure(error, None)], FLEET, timestamp)
        else:
            self._has_failed = False
        self._keep(correlator, due_us, 0, ctx.timer_service())

    def _after(self, correlator: Correlator, now_ms: int) -> tuple[Correlator, int | None]:
        """Return the correlator to continue with after an error, and its next timer."""
        is_second, self._has_failed = self._has_failed, not self._has_failed
        if is_second:
            return Correlator("live", LIVE_EVERY_US), None
        return correlator, now_ms * 1000 + LIVE_EVERY_US

    def _known_topology(self) -> Topology:
        """Return the inventory, read from Flink's state once: it is large and changes rarely."""
        if self._known is None:
            kept = self._topology.value()
            self._known = kept.value if kept else Topology()
        return self._known

    def _keep(self, correlator: Correlator, due_us: int | None, timer_ms: int, timers: Any) -> None:
        now_ms = timers.current_processing_time()
        if due_us is not None:
            wanted_ms = max(due_us // 1000, now_ms) + 1
            if not timer_ms or wanted_ms < timer_ms:
                timers.register_processing_time_timer(wanted_ms)
                timer_ms = wanted_ms
        self._correlator.update(Kept((correlator, timer_ms)))
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
