"""The incidents of live events in Flink. Correlating.java calls this. Plain Python."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import asdict
from typing import Any, Final
from zlib import crc32

import orjson

from stunwatch.detectors.catalogue import INCIDENTS_TOPIC
from stunwatch.engine.failures import CORRELATOR, Failure
from stunwatch.engine.history import HISTORY_EVERY_US, known_us
from stunwatch.engine.owners import LIVE
from stunwatch.engine.tracking import Rejects, Row, Told, wall_clock_ms
from stunwatch.incidents.configuration import KEEP_US
from stunwatch.incidents.correlator import INVENTORY_TOPIC, SEEN_TOPIC, Correlator, Incident
from stunwatch.incidents.fleet_clock import FAST_CLOCK_US, FleetClock
from stunwatch.incidents.seasonal_baseline import Hours
from stunwatch.incidents.signals import TOPICS, BrokenEventError, microseconds, reading
from stunwatch.incidents.topology import Topology

LIVE_EVERY_US: Final = 5_000_000
"""Interval between calculations of live incidents, in event time. A backlog passes faster: then the
interval is the same by the wall clock, or that of a replay in event time if it ends sooner."""

WAIT_MS: Final = 250
"""How long an event waits for others before incidents are calculated; the step of timers."""

AWAITED_MS: Final = 900_000
"""How long after a start rows from before a crash wait for their events. The lines between the last
checkpoint and the crash are the first that are read again."""

LONGEST_AWAITED: Final = 100_000
"""Characters of a row from before a crash; a longer one is not compared. It bounds the state."""

FLEET: Final = "fleet"
"""Where the key of a rejected record would be."""

_BANDS: Final = 64
"""Number of parts in which the seasonal baseline is pickled."""


def to_row(incident: Incident) -> Row:
    """Return an incident as a row of `events`."""
    row = asdict(incident)
    return INCIDENTS_TOPIC, row["event_id"], orjson.dumps(row).decode()


class LiveIncidents:
    """Gives every event to the correlator at once, and the time several times a second.

    The time is that of the fleet's clock. After one error, the correlator loses the event or the
    timer that caused it. After a second error without a success in between, it loses all its state,
    that is the open incidents of the whole fleet: that would be too high a price for one bad event.
    """

    def __init__(self, submitted_us: int, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        """`submitted_us`: when the job was submitted. `now_ms`: the clock of processing time."""
        self._submitted_us = submitted_us
        self._now_ms = now_ms
        self._correlator = self._new()
        self._clock = FleetClock()
        self._topology = Topology()
        self._bands = ShardedBands()
        self._timer_ms = 0
        self._looked_us = self._looked_ms = 0
        self._retry_us = 0
        self._waits_until_ms = 0
        self._is_started = self._is_changed = self._has_new_topology = self._has_failed = False
        self._rejects = Rejects()

    def feed(self, topic: str, text: str, written_at: str | None) -> Told | None:
        """Process an event of the job, an item of inventory, or an incident in Kafka.

        `written_at`: when Kafka's message was written; None for events of the job.
        """
        now_ms = self._start(self._now_ms())
        if written_at is not None and topic == INCIDENTS_TOPIC:
            at_us = microseconds(written_at)
            is_unknown = self._correlator.began_us < at_us < self._clock.began_us
            if not is_unknown or len(text) > LONGEST_AWAITED:
                return None  # the state contains it, or it is older than the state, or too long
        return self._told(list(self._fed(topic, text, now_ms)), now_ms)

    def on_timer(self, timestamp: int) -> Told | None:
        """Calculate the incidents that are due."""
        # A timer may fire late, after a restart for example.
        now_ms = self._start(max(timestamp, self._now_ms()))
        if timestamp >= self._timer_ms:
            self._timer_ms = 0
        if 0 < self._waits_until_ms <= now_ms:
            self._waits_until_ms = 0
            self._correlator.stop_waiting()
        return self._told(list(self._advanced(now_ms)), now_ms)

    def load(self, part: str, state: bytes) -> None:
        """Continue with a part of the state."""
        kept = pickle.loads(state)  # noqa: S301 - Flink hands back its own state
        if part == "correlator":
            self._correlator, self._clock, self._timer_ms = kept
        elif part == "topology":
            self._topology = kept
        else:
            self._bands.load(int(part), kept)

    def pickled(self) -> list[tuple[str, bytes]]:
        """Return the parts of the state that have changed since the last call."""
        parts: list[tuple[str, Any]] = []
        if self._is_changed:
            parts.append(("correlator", (self._correlator, self._clock, self._timer_ms)))
        if self._has_new_topology:
            parts.append(("topology", self._topology))
        parts += [(str(number), part) for number, part in self._bands.changes()]
        self._is_changed = self._has_new_topology = False
        return [(name, pickle.dumps(part, pickle.HIGHEST_PROTOCOL)) for name, part in parts]

    def counts(self) -> tuple[int, int, int]:
        """Return the number of failures, 0, and the number of dropped items of the state."""
        return self._rejects.count, 0, self._correlator.evicted + self._topology.evicted

    def _new(self) -> Correlator:
        return Correlator(LIVE, LIVE_EVERY_US, began_us=self._submitted_us)

    def _start(self, now_ms: int) -> int:
        self._is_changed = True
        if not self._is_started:
            self._is_started = True
            self._clock.start(now_ms * 1000)
            self._waits_until_ms = now_ms + AWAITED_MS
        return now_ms

    def _fed(self, topic: str, text: str, now_ms: int) -> Iterator[Row]:
        """Yield what follows from an event."""
        try:
            with reading():
                event: dict[str, Any] = dict(orjson.loads(text))
            if topic in TOPICS and event.get("run_id") != LIVE:
                return
            if topic == SEEN_TOPIC and event.get("is_syslog"):
                with reading():
                    self._clock.see_host(int(event["seen_us"]), now_ms * 1000)
            # Limits the effect of a host with a fast clock: it must not close incidents of others.
            latest_us = now_ms * 1000 + FAST_CLOCK_US
            until_us = self._until_us(now_ms)
            found = self._correlator.feed(
                topic, event, self._bands, self._topology, latest_us, until_us
            )
            yield from map(to_row, found)
            if topic == INVENTORY_TOPIC:
                self._has_new_topology = True
            elif topic != INCIDENTS_TOPIC and not self._clock.is_set_by_hosts:
                # A fleet whose hosts send no syslog.
                self._clock.see_event(known_us(topic, event), now_ms * 1000)
        except BrokenEventError:
            # It violates its schema. ClickHouse reads the same topic and stores it with the reason.
            return
        except Exception as error:
            failure = Failure(CORRELATOR, error, {"file": topic, "message": text or ""})
            yield from self._rejected(failure, now_ms)
            return
        self._has_failed = False

    def _advanced(self, now_ms: int) -> Iterator[Row]:
        """Yield what follows from the time."""
        until_us = self._until_us(now_ms)
        if until_us < self._retry_us:
            return
        try:
            yield from map(to_row, self._correlator.advance_time(until_us, self._topology))
        except Exception as error:
            yield from self._rejected(Failure(CORRELATOR, error, None), now_ms)
            return
        self._has_failed = False

    def _until_us(self, now_ms: int) -> int:
        """Return the time to which the correlator may advance; 0 if it must wait."""
        time_us = self._clock.time_us(now_ms * 1000)
        if self._looked_us != self._correlator.looked_us:
            self._looked_us, self._looked_ms = self._correlator.looked_us, now_ms
        # The wall clock may be set back.
        is_soon = 0 <= now_ms - self._looked_ms < LIVE_EVERY_US // 1000
        waits = is_soon and time_us < self._looked_us + HISTORY_EVERY_US
        return 0 if waits and not self._correlator.is_nearly_full else time_us

    def _rejected(self, failure: Failure, now_ms: int) -> Iterator[Row]:
        is_second, self._has_failed = self._has_failed, not self._has_failed
        if is_second:
            self._correlator = self._new()
        self._retry_us = self._clock.time_us(now_ms * 1000) + LIVE_EVERY_US
        return self._rejects.rows([failure], FLEET, now_ms)

    def _told(self, rows: list[Row], now_ms: int) -> Told | None:
        """Return the rows, and the next timer if the known one would fire too late."""
        due_us, registered_ms = self._correlator.next_timer_us, 0
        wanted_ms = [self._waits_until_ms] if self._waits_until_ms else []
        if due_us is not None:
            wait_us = max(due_us, self._retry_us) - self._clock.time_us(now_ms * 1000)
            wanted_ms.append(now_ms + min(max(0, wait_us), KEEP_US) // 1000)
        if wanted_ms:
            first_ms = (min(wanted_ms) // WAIT_MS + 1) * WAIT_MS
            if not self._timer_ms or first_ms < self._timer_ms:
                registered_ms = self._timer_ms = first_ms
        return (registered_ms, rows) if registered_ms or rows else None


class ShardedBands(MutableMapping[str, Hours]):
    """The seasonal baseline in parts, which are pickled separately: most do not change."""

    def __init__(self) -> None:
        self._parts: list[dict[str, Hours]] = [{} for _ in range(_BANDS)]
        self._changed: set[int] = set()

    def load(self, number: int, part: dict[str, Hours]) -> None:
        """Continue with a part."""
        self._parts[number] = part

    def changes(self) -> Iterator[tuple[int, dict[str, Hours]]]:
        """Yield the parts that have changed since the last call, with their numbers."""
        for number in sorted(self._changed):
            yield number, self._parts[number]
        self._changed.clear()

    def __getitem__(self, owner: str) -> Hours:
        return self._parts[_part_of(owner)][owner]

    def __setitem__(self, owner: str, hours: Hours) -> None:
        self._changed.add(number := _part_of(owner))
        self._parts[number][owner] = hours

    def __delitem__(self, owner: str) -> None:
        self._changed.add(number := _part_of(owner))
        del self._parts[number][owner]

    def __iter__(self) -> Iterator[str]:
        for part in self._parts:
            yield from part

    def __len__(self) -> int:
        return sum(map(len, self._parts))


def _part_of(owner: str) -> int:
    return crc32(owner.encode(errors="replace")) % _BANDS
