"""Live incidents without Flink, and the events of a case in the order of time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import Any

import orjson

from stunwatch.alerts.alert_state import NO_MARKS, AlertState
from stunwatch.alerts.configuration import SEVERITIES, parse
from stunwatch.detectors.catalogue import INCIDENTS_TOPIC
from stunwatch.detectors.events import timestamp
from stunwatch.engine.correlating import LiveIncidents
from stunwatch.engine.tracking import Row, Told
from stunwatch.incidents.configuration import HOUR_US, MINUTE_US
from stunwatch.incidents.correlator import SEEN_TOPIC
from tests.incidents.scenario import Fed, events, known_us, load

CONFIGURATION = parse(
    {"receivers": [{"name": "hook", "url": "json://x", "severities": list(SEVERITIES)}]}, {}
)


@dataclass(frozen=True)
class Checkpoint:
    """The state, as Flink stores it, and the timers."""

    parts: dict[str, bytes]
    timers: set[int]


class Live:
    """Does what Correlating.java does, on a made-up clock, and keeps what was written.

    `rows` has the newest row of each incident, `messages` all of them, each with its time.
    """

    def __init__(self) -> None:
        self.now_ms = 0
        self.timers: set[int] = set()
        self.stored: dict[str, bytes] = {}
        self.live = LiveIncidents(0, lambda: self.now_ms)
        self.rows: dict[str, dict[str, Any]] = {}
        self.messages: list[tuple[str, dict[str, Any]]] = []
        self.alerts = AlertState()

    def feed(
        self, topic: str, event: dict[str, Any], now_us: int, written_at: str | None = None
    ) -> None:
        self.pass_time(now_us)
        self._told(self.live.feed(topic, orjson.dumps(event).decode(), written_at))

    def pass_time(self, now_us: int) -> None:
        while self.timers and min(self.timers) * 1000 <= now_us:
            due_ms = min(self.timers)
            self.timers.remove(due_ms)
            self.now_ms = max(self.now_ms, due_ms)
            self._told(self.live.on_timer(due_ms))
        self.now_ms = max(self.now_ms, now_us // 1000)

    def _told(self, told: Told | None) -> None:
        timer_ms, rows = told or (0, [])
        if timer_ms:
            self.timers.add(timer_ms)
        self._take(rows)

    def _take(self, found: list[Row]) -> None:
        for row in found:
            assert row[0] == INCIDENTS_TOPIC
            event = orjson.loads(row[2])
            now = datetime.fromtimestamp(self.now_ms / 1000, UTC)
            self.messages.append((timestamp(self.now_ms * 1000), event))
            self.alerts.end_waits(CONFIGURATION, now, NO_MARKS)
            self.alerts.take(event, CONFIGURATION, now, written_at=now)
            known = self.rows.get(event["event_id"])
            if known is None or event["revision"] > known["revision"]:
                self.rows[event["event_id"]] = event

    def checkpoint(self) -> Checkpoint:
        self.stored.update(self.live.pickled())
        return Checkpoint(dict(self.stored), set(self.timers))

    def restart(self, checkpoint: Checkpoint | None = None) -> None:
        """Restore a checkpoint, or the present state, in a new object, as Flink does."""
        restored = checkpoint or self.checkpoint()
        self.live = LiveIncidents(0, lambda: self.now_ms)
        self.stored, self.timers = dict(restored.parts), set(restored.timers)
        for name, state in self.stored.items():
            self.live.load(name, state)

    def incidents(self) -> dict[str, Any]:
        return {
            name: {key: row[key] for key in SHOWN}
            for name, row in self.rows.items()
            if not row["is_deleted"]
        }


SHOWN = ("state", "scope", "verdict", "hosts", "vms", "stun_count", "opened_at", "closed_at")


def evening(path: Path) -> list[tuple[int, Fed]]:
    """Return the events of a case, and a line of a host every twenty minutes, each with its time.

    The lines go on for some hours, so that every incident closes.
    """
    fed = events(load(path))
    times_us = [at_us for each in fed if (at_us := known_us(each))]
    first_us, last_us = min(times_us), max(times_us)
    lines = [
        (at_us, (SEEN_TOPIC, {"host": "esx99", "seen_us": at_us, "is_syslog": True}))
        for at_us in range(first_us - MINUTE_US, last_us + 30 * HOUR_US, 20 * MINUTE_US)
    ]
    timed = [(known_us(each) or first_us - HOUR_US, each) for each in fed]
    return sorted([*timed, *lines], key=itemgetter(0))
