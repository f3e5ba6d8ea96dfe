"""After a crash, the incidents are those without one, in whatever order lines are read again."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import orjson
import pytest

from stunwatch.detectors.catalogue import INCIDENTS_TOPIC
from stunwatch.engine.owners import LIVE
from stunwatch.incidents.configuration import HOUR_US, MINUTE_US, MOST_AWAITED, SECOND_US
from stunwatch.incidents.correlator import SEEN_TOPIC, Correlator
from stunwatch.incidents.signals import BrokenEventError, microseconds
from stunwatch.incidents.topology import Topology
from tests.hostile_messages import broken_messages
from tests.incidents.live import Live, evening
from tests.incidents.scenario import Fed, cases

CRASHES = 5
SKEW_US = 10 * MINUTE_US
"""How far the lines of one host can be read ahead of those of another, in event time."""

Timed = list[tuple[int, Fed]]


def skewed(timed: Timed, order: random.Random) -> Timed:
    """Return events as a job reads a backlog: those of each host in order, but not the hosts."""
    delays_us: dict[str, int] = {}

    def read_at_us(each: tuple[int, Fed]) -> int:
        at_us, (_, event) = each
        return at_us + delays_us.setdefault(event.get("host", ""), order.randrange(SKEW_US))

    return sorted(timed, key=read_at_us)


def read(timed: Timed, crash: tuple[int, int] | None, order: random.Random) -> Live:
    """Read events from a backlog. `crash`: where the last checkpoint is, and where the crash."""
    live, now_us = Live(), timed[-1][0]
    live.now_ms = now_us // 1000
    checkpointed, crashed = crash or (len(timed), len(timed))

    def feed(part: Timed) -> None:
        nonlocal now_us
        for _, (topic, event) in part:
            now_us += 100_000
            live.feed(topic, event, now_us)

    feed(skewed(timed[:checkpointed], order))
    if crash:
        checkpoint, before = live.checkpoint(), len(live.messages)
        feed(skewed(timed[checkpointed:], order)[: crashed - checkpointed])
        now_us += 10_000_000
        live.pass_time(now_us)
        live.restart(checkpoint)
        live.now_ms = now_us // 1000
        for written_at, row in live.messages[before:]:
            live.feed(INCIDENTS_TOPIC, row, now_us, written_at)
        feed(skewed(timed[checkpointed:], order))
    live.pass_time(now_us + HOUR_US)
    return live


@pytest.mark.parametrize("path", cases(), ids=lambda path: path.stem)
def test_incidents_after_a_crash_are_those_without_one(path: Path) -> None:
    timed, order = evening(path), random.Random(path.stem)
    expected = read(timed, None, order).incidents()
    places = [number for number, (_, (topic, _)) in enumerate(timed) if topic != SEEN_TOPIC]
    for _ in range(CRASHES):
        checkpointed, crashed = sorted(order.choices(places, k=2))
        live = read(timed, (checkpointed, crashed + 1), order)
        assert live.incidents() == expected, (checkpointed, crashed)


def test_a_broken_message_of_an_incident_stops_nothing() -> None:
    hostile = [each for each in broken_messages() if each.topic == INCIDENTS_TOPIC]
    assert len(hostile) > 100
    correlator, topology, taken = Correlator(LIVE, SECOND_US), Topology(), 0
    for number, each in enumerate(hostile):
        with contextlib.suppress(BrokenEventError, orjson.JSONDecodeError, TypeError):
            event = dict(orjson.loads(each.value))
            taken += 1
            # Each one is read as if the job had written it.
            event |= {"event_id": f"{number}", "run_id": LIVE}
            list(correlator.feed(INCIDENTS_TOPIC, event, {}, topology))
        list(correlator.advance_time((number + 1) * HOUR_US, topology))
    assert taken
    assert len(correlator.written) <= MOST_AWAITED


def test_rows_that_wait_for_their_events_are_capped() -> None:
    live = read(evening(cases()[0]), None, random.Random(1))
    row = next(iter(live.rows.values()))
    correlator, topology = Correlator(LIVE, SECOND_US), Topology()
    for number in range(MOST_AWAITED + 10):
        event = row | {"event_id": f"{number}", "evidence_ids": ["unknown"]}
        list(correlator.feed(INCIDENTS_TOPIC, event, {}, topology))
    assert len(correlator.written) == MOST_AWAITED
    end_us = microseconds(row["detected_at"]) + HOUR_US
    assert not list(correlator.advance_time(end_us, topology))
    correlator.stop_waiting()
    end_us += HOUR_US
    assert {each.is_deleted for each in correlator.advance_time(end_us, topology)} == {1}
    list(correlator.advance_time(end_us + 24 * HOUR_US, topology))
    assert not correlator.written
