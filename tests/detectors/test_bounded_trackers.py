"""The state of the trackers of one log key and the time per line are bounded."""

from __future__ import annotations

import time
from typing import Any

import pytest

from stunwatch.detectors import bounds
from stunwatch.detectors.catalogue import detector
from stunwatch.detectors.events import timestamp
from stunwatch.detectors.path_events.tracker import Tracker
from stunwatch.detectors.stuns.tracker import Tracker as Stuns
from stunwatch.detectors.throttled_logs.tracker import Tracker as Throttled
from tests.detectors.cases import Record

NOON_US = 1_331_208_000_000_000  # 2012-03-08T12:00:00Z
SECOND_US = 1_000_000


def apd(at_us: int, is_lost: bool, device: str = "naa.6000aa01") -> Record:
    words = ("start", "entered") if is_lost else ("exit", "exited")
    return {
        "kind": "line",
        "source": "syslog",
        "host": "esx01.lab.example",
        "head": f"{at_us} ",
        "message": f"[APDCorrelator] {at_us}us: [vob.storage.apd.{words[0]}] Device or filesystem"
        f" with identifier [{device}] has {words[1]} the All Paths Down state.",
        "run_id": "case",
        "event_time_us": at_us,
        "time_quality": "exact",
    }


def feed(tracker: Any, *records: Record) -> list[Any]:
    return [
        event
        for record in records
        for event in (*tracker.advance_time(record["event_time_us"]), *tracker.feed(record))
    ]


def kept(tracker: Tracker) -> int:
    return sum(len(group.facts) for group in tracker.groups.values())


@pytest.mark.parametrize("step_us", [SECOND_US, -SECOND_US], ids=["forwards", "backwards"])
def test_a_device_that_is_lost_again_and_again_keeps_few_facts(
    step_us: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tracker, "most_facts", 20)
    tracker = Tracker()
    for number in range(600):
        feed(tracker, apd(NOON_US + number * step_us, is_lost=number % 2 == 0))
        # Lines in reverse order are one loss that continues.
        assert kept(tracker) <= (25 if step_us > 0 else 20 * tracker.most_facts)
    # The loss and the recovery are still detected.
    lost_us = NOON_US + 3600 * SECOND_US
    told = feed(tracker, apd(lost_us, is_lost=True))
    [lost] = [each for each in told if each.started_at == timestamp(lost_us)]
    told = feed(tracker, apd(lost_us + 90 * SECOND_US, is_lost=False))
    told += tracker.flush()
    assert (lost.kind, lost.ended_at) == ("apd_start", None)
    assert any(each.event_id == lost.event_id and each.ended_at for each in told)


def test_the_time_per_line_does_not_grow_with_the_number_of_lines() -> None:
    tracker = Tracker()

    def seconds(first: int) -> float:
        began = time.process_time()
        for number in range(first, first + 100):
            feed(tracker, apd(NOON_US + number * SECOND_US, is_lost=number % 2 == 0))
        return time.process_time() - began

    spent = [seconds(first) for first in range(0, 800, 100)]
    # The limit is reached after two hundred.
    assert min(spent[5:]) < 3 * spent[2]


def test_made_up_devices_evict_the_oldest_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stunwatch.detectors.timers.MOST_KEYS", 100)
    before = bounds.EVICTED["groups"]
    tracker = Tracker()
    for number in range(1000):
        feed(tracker, apd(NOON_US + number, is_lost=True, device=f"naa.{number}"))
    assert len(tracker.groups) == 100
    assert bounds.EVICTED["groups"] == before + 900
    [lost] = feed(tracker, apd(NOON_US + SECOND_US, is_lost=True))
    told = feed(tracker, apd(NOON_US + 90 * SECOND_US, is_lost=False))
    assert any(each.event_id == lost.event_id and each.ended_at for each in told)


def test_the_number_of_episodes_is_limited_for_any_dates() -> None:
    literal = next(iter(detector("throttled_logs").literals))
    tracker = Throttled()
    for day in range(2000):
        at_us = NOON_US - (day * 7919 % 2000) * 24 * 3600 * SECOND_US
        message = f"{literal}"
        record = {**apd(at_us, is_lost=True), "source": "vmware_log", "message": message}
        list(tracker.feed({**record, "vm": "web01", "datastore": "ds", "head": "x"}))
    assert all(len(each) <= bounds.MOST_EPISODES for each in tracker.episodes.values())


@pytest.mark.parametrize("step_us", [0, 1], ids=["one duration", "many durations"])
def test_the_time_per_line_is_bounded_in_a_flood_of_stuns(step_us: int) -> None:
    tracker = Stuns()

    def seconds(first: int) -> float:
        began = time.process_time()
        for number in range(first, first + 50):
            duration_us = 1_000_000 + number * step_us
            message = f"Checkpoint_Unstun: vm stopped for {duration_us} us"
            record = {**apd(NOON_US + number * 100, is_lost=True), "source": "vmware_log"}
            feed(tracker, {**record, "vm": "web01", "datastore": "ds", "message": message})
        return time.process_time() - began

    spent = [seconds(first) for first in range(0, 400, 50)]
    assert min(spent[5:]) < 3 * spent[1] + 0.05
    # A stun after the flood is detected.
    later = {**apd(NOON_US + 60 * SECOND_US, is_lost=True), "source": "vmware_log"}
    message = "Checkpoint_Unstun: vm stopped for 123456 us"
    later |= {"vm": "web01", "datastore": "ds", "message": message}
    assert 123_456 in {each.duration_us for each in feed(tracker, later)}
