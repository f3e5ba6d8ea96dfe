"""Live incidents close and are forgotten by the time of the lines that are read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import NAMESPACE_DNS, uuid5

import pytest

from stunwatch.engine.owners import LIVE
from stunwatch.incidents.configuration import HOUR_US, MINUTE_US
from stunwatch.incidents.correlator import SEEN_TOPIC, Correlator, Incident
from stunwatch.incidents.fleet_clock import FAST_CLOCK_US, FIRST_HOST_US, FleetClock
from stunwatch.incidents.topology import Topology
from tests.incidents.live import Live, evening
from tests.incidents.scenario import Fed, cases, known_us
from tests.incidents.test_bounded_incidents import slow

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


def read(timed: list[tuple[int, Fed]], down_from_us: int, down_until_us: int) -> Live:
    """Return the operator after an evening in which it was down for a while.

    Events of that time are read afterwards, as quickly as they come.
    """
    live, wall_us = Live(), timed[0][0]
    live.now_ms = wall_us // 1000
    is_down = False
    for at_us, (topic, event) in timed:
        if at_us >= down_from_us and not is_down:
            is_down, wall_us = True, down_until_us
            live.restart()
            live.now_ms = wall_us // 1000
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


def test_incidents_of_a_backlog_are_calculated_as_often_as_in_a_replay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calculated, look = [], Correlator.look

    def counted(correlator: Correlator, topology: Topology) -> Iterator[Incident]:
        calculated.append(correlator.now_us)
        return look(correlator, topology)

    monkeypatch.setattr(Correlator, "look", counted)
    # 1,000 hosts, whose lines of twelve hours are read within a second.
    live, seconds = Live(), 12 * 3_600
    for second in range(0, seconds, 40):
        at_us = NOW_US + second * 1_000_000
        seen = {"host": f"esx{second % 1_000}", "seen_us": at_us, "is_syslog": True}
        live.live._correlator.is_dirty = True
        live.feed(SEEN_TOPIC, seen, NOW_US + 24 * HOUR_US + second * 20)
    assert len(calculated) == pytest.approx(seconds / 900, abs=2)


def test_a_flood_in_a_backlog_loses_no_incident() -> None:
    """Too many signals for the state come between two calculations."""
    live, many = Live(), 150
    live.live._correlator.most_signals = 60
    for number in range(many):
        at_us, now_us = NOW_US + number * 10_000_000, NOW_US + 24 * HOUR_US + number * 1_000
        seen = {"host": f"esx{number}", "seen_us": at_us, "is_syslog": True}
        live.feed(SEEN_TOPIC, seen, now_us)
        name = str(uuid5(NAMESPACE_DNS, str(number)))
        live.feed("events.latency", slow(name, at_us, at_us, run_id=LIVE), now_us)
    live.pass_time(now_us + MINUTE_US)
    assert live.live._correlator.signals_evicted
    assert len(live.incidents()) == many


def test_a_wall_clock_that_is_set_back_delays_no_calculation() -> None:
    live = Live()
    live.now_ms = NOW_US // 1000
    live.live._correlator.looked_us = NOW_US
    live.feed(SEEN_TOPIC, {"host": "esx1", "seen_us": NOW_US, "is_syslog": True}, NOW_US)
    assert not live.live._until_us(live.now_ms)
    assert live.live._until_us(live.now_ms - 3 * HOUR_US // 1000)
