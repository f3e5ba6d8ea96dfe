"""Live incidents close and are forgotten by the time of the lines that are read."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import Any

import orjson
import pytest
from pyflink.common import Row

from stunwatch.alerts.alert_state import NO_MARKS, AlertState
from stunwatch.alerts.configuration import SEVERITIES, parse
from stunwatch.detectors.catalogue import INCIDENTS_TOPIC
from stunwatch.engine.correlating import CorrelateLive
from stunwatch.incidents.configuration import HOUR_US, MINUTE_US
from stunwatch.incidents.correlator import SEEN_TOPIC
from stunwatch.incidents.fleet_clock import FAST_CLOCK_US, FIRST_HOST_US, FleetClock
from tests.detectors.test_failures import Flink
from tests.incidents.scenario import Fed, cases, events, known_us, load

CONFIGURATION = parse(
    {"receivers": [{"name": "hook", "url": "json://x", "severities": list(SEVERITIES)}]}, {}
)
NOW_US = 1_700_000_000_000_000


def test_without_a_backlog_it_shows_the_time_of_the_newest_line_and_goes_on() -> None:
    clock = FleetClock()
    clock.start(NOW_US)
    clock.see_host(NOW_US - 2_000_000, NOW_US)
    assert clock.time_us(NOW_US) == NOW_US - 2_000_000
    assert clock.time_us(NOW_US + MINUTE_US) == NOW_US - 2_000_000 + MINUTE_US
    clock.see_host(NOW_US - HOUR_US, NOW_US + MINUTE_US)  # a late line
    assert clock.time_us(NOW_US + MINUTE_US) == NOW_US - 2_000_000 + MINUTE_US


def test_a_fast_clock_of_a_host_advances_it_by_seconds() -> None:
    clock = FleetClock()
    clock.start(NOW_US)
    clock.see_host(NOW_US + 72 * HOUR_US, NOW_US)
    assert clock.time_us(NOW_US) == NOW_US + FAST_CLOCK_US


def test_events_set_it_only_if_no_host_does() -> None:
    clock = FleetClock()
    clock.start(NOW_US)
    clock.see_event(NOW_US - HOUR_US, NOW_US)
    assert clock.time_us(NOW_US) == 0
    later_us = NOW_US + FIRST_HOST_US
    assert clock.time_us(later_us) == NOW_US - HOUR_US
    # The lines of hosts may be read after events that are newer.
    clock.see_host(NOW_US - 5 * HOUR_US, later_us)
    clock.see_event(NOW_US, later_us)
    assert clock.time_us(later_us) == NOW_US - 5 * HOUR_US


class Live:
    """The operator on a made-up clock, and its newest rows."""

    def __init__(self) -> None:
        self.flink = Flink(CorrelateLive(), "fleet")
        self.rows: dict[str, dict[str, Any]] = {}
        self.alerts = AlertState()

    def feed(self, topic: str, event: dict[str, Any], now_us: int) -> None:
        self.pass_time(now_us)
        assert not self.flink.feed(Row(topic, "", orjson.dumps(event).decode()))

    def pass_time(self, now_us: int) -> None:
        timers = self.flink.timers
        while timers and min(timers) * 1000 <= now_us:
            due = min(timers)
            timers.remove(due)
            self.flink.now_ms = max(self.flink.now_ms, due)
            self._take(self.flink.function.on_timer(due, self.flink.context))
        self.flink.now_ms = max(self.flink.now_ms, now_us // 1000)

    def _take(self, found: Any) -> None:
        for row in found:
            assert row[0] == INCIDENTS_TOPIC
            event = orjson.loads(row[2])
            now = datetime.fromtimestamp(self.flink.now_ms / 1000, UTC)
            self.alerts.end_waits(CONFIGURATION, now, NO_MARKS)
            self.alerts.take(event, CONFIGURATION, now, written_at=now)
            known = self.rows.get(event["event_id"])
            if known is None or event["revision"] > known["revision"]:
                self.rows[event["event_id"]] = event

    def restart(self) -> None:
        """Restore the state in a function that is new, as Flink does."""
        before, self.flink = self.flink, Flink(CorrelateLive(), "fleet")
        for name, state in before.states.items():
            vars(self.flink.states[name]).update(pickle.loads(pickle.dumps(vars(state))))
        self.flink.timers.extend(before.timers)
        self.flink.now_ms = before.now_ms

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


def read(timed: list[tuple[int, Fed]], down_from_us: int, down_until_us: int) -> Live:
    """Return the operator after an evening in which it was down for a while.

    Events of that time are read afterwards, as quickly as they come.
    """
    live, wall_us = Live(), timed[0][0]
    live.flink.now_ms = wall_us // 1000
    is_down = False
    for at_us, (topic, event) in timed:
        if at_us >= down_from_us and not is_down:
            is_down, wall_us = True, down_until_us
            live.restart()
            live.flink.now_ms = wall_us // 1000
        wall_us = max(wall_us + 1000, at_us)
        live.feed(topic, event, wall_us)
    live.pass_time(wall_us + HOUR_US)
    return live


@pytest.mark.parametrize("path", cases(), ids=lambda path: path.stem)
def test_a_backlog_gives_the_incidents_that_were_read_on_time(path: Path) -> None:
    timed = evening(path)
    first_us, last_us = timed[0][0], timed[-1][0]
    on_time = read(timed, last_us + 1, last_us + 1)
    whole = read(timed, first_us, last_us - HOUR_US)
    assert whole.incidents() == on_time.incidents()
    middle_us = known_us(timed[len(timed) // 2][1])
    for start_us in (middle_us, first_us + HOUR_US + 10 * MINUTE_US):
        partly = read(timed, start_us, start_us + 6 * HOUR_US)
        assert partly.incidents() == on_time.incidents()
    # Everything had ended before it could be known.
    assert not whole.alerts.outbox
