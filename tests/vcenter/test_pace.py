"""Rate limits, waiting times and the order of polls."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stunwatch.ingest.vcenter.collectors.polls import Calendar, WaitingRoom
from stunwatch.ingest.vcenter.pace import Bucket, Buckets, Rate, wait_seconds


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_waits_grow_to_a_minute_and_are_never_shorter_than_half() -> None:
    longest = [wait_seconds(attempt, lambda: 1.0) for attempt in range(1, 10)]
    assert longest == [0.5, 1, 2, 4, 8, 16, 32, 60, 60]
    assert wait_seconds(3, lambda: 0.0) == 1.0
    assert wait_seconds(10_000, lambda: 1.0) == 60


def test_a_burst_passes_at_once_and_the_rest_at_the_rate() -> None:
    clock = Clock()
    bucket = Bucket(Rate(per_second=2.0, burst=3.0), clock)
    assert [bucket.reserve() for _ in range(5)] == [0, 0, 0, 0.5, 1.0]
    assert bucket.wait_seconds() == 1.5
    clock.now = 1.5
    assert bucket.wait_seconds() == 0
    clock.now = 100
    assert [bucket.reserve() for _ in range(4)] == [0, 0, 0, 0.5]


def test_the_wait_for_several_tokens_is_at_most_that_for_a_burst() -> None:
    clock = Clock()
    bucket = Bucket(Rate(per_second=2.0, burst=3.0), clock)
    bucket.reserve()
    assert (bucket.wait_seconds(2), bucket.wait_seconds(3)) == (0, 0.5)
    assert bucket.wait_seconds(50) == 0.5
    clock.now = 0.5
    assert bucket.wait_seconds(50) == 0


@given(st.lists(st.floats(0, 3), min_size=1, max_size=60), st.floats(0.5, 20), st.floats(1, 10))
def test_no_time_span_exceeds_rate_and_burst(
    pauses: list[float], per_second: float, burst: float
) -> None:
    clock = Clock()
    bucket = Bucket(Rate(per_second, burst), clock)
    used = []
    for pause in pauses:
        clock.now += pause
        used.append(clock.now + bucket.reserve())
    for first, start in enumerate(used):
        for last in range(first, len(used)):
            allowed = burst + (used[last] - start) * per_second
            assert last - first + 1 <= allowed + 1e-6 * len(used) + 1e-6


def test_every_name_has_its_own_bucket() -> None:
    buckets = Buckets(Rate(1.0, 1.0), Clock())
    assert buckets.reserve("esx01") == 0
    assert buckets.reserve("esx01") == 1
    assert buckets.wait_seconds("esx02") == 0


def test_the_earlier_of_two_due_times_counts() -> None:
    calendar = Calendar()
    calendar.put("a", 5)
    calendar.put("a", 3)
    calendar.put("b", 4)
    calendar.put("b", 9)
    assert list(calendar.take_due(2)) == []
    assert list(calendar.take_due(4)) == [(3, "a"), (4, "b")]
    assert list(calendar.take_due(100)) == []


def test_hosts_take_turns() -> None:
    room = WaitingRoom()
    for key in ("a1", "a2", "b1", "c1", "b2"):
        room.put(key[0], 1.0, key)
    assert list(room.take(lambda _: True)) == ["a1", "b1", "c1", "a2", "b2"]


def test_a_waiting_vm_does_not_delay_other_vms() -> None:
    room = WaitingRoom()
    for key in ("a1", "a2", "b1"):
        room.put(key[0], 1.0, key)
    assert list(room.take(lambda key: key != "a1")) == ["b1", "a2"]
    assert room.lag_s(3.0) == 2.0
    assert list(room.take(lambda _: False)) == []
    assert list(room.take(lambda _: True)) == ["a1"]
    assert room.lag_s(3.0) == 0.0


@pytest.mark.parametrize("most", [1, 3])
def test_keys_that_may_not_go_stay_in_the_queue(most: int) -> None:
    room = WaitingRoom()
    for number in range(5):
        room.put("a", 1.0, f"a{number}")
    gone: list[str] = []
    for key in room.take(lambda _: len(gone) < most):
        gone.append(key)
    assert gone == [f"a{number}" for number in range(most)]
    assert len(list(room.take(lambda _: True))) == 5 - most
