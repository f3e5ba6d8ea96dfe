"""Timers give the same keys at the same time as a search through all keys."""

from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from stunwatch.detectors.timers import Timers

KEYS = st.sampled_from("abcde")
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), KEYS, st.integers(0, 30)),
        st.tuples(st.just("cancel"), KEYS, st.just(0)),
        st.tuples(st.just("take"), st.just(""), st.integers(0, 30)),
        st.tuples(st.just("pickle"), st.just(""), st.just(0)),
    ),
    max_size=80,
)


@given(ACTIONS)
def test_timers_are_taken_when_they_are_due(actions: list[tuple[str, str, int]]) -> None:
    timers = Timers[str]()
    expected: dict[str, int] = {}
    for action, key, at_us in actions:
        if action == "set":
            timers.set(key, at_us)
            expected[key] = at_us
        elif action == "cancel":
            timers.cancel(key)
            expected.pop(key, None)
        elif action == "take":
            taken = timers.take(at_us)
            due = [each for each, due_us in expected.items() if due_us <= at_us]
            assert sorted(taken) == sorted(due)
            assert taken == sorted(taken, key=lambda each: expected[each])
            for each in due:
                del expected[each]
        else:
            timers = pickle.loads(pickle.dumps(timers))
        assert timers.next_us == min(expected.values(), default=None)


def test_a_copy_takes_timers_of_one_time_in_the_same_order() -> None:
    timers = Timers[str]()
    for key, due_us in (("b", 5), ("c", 9), ("a", 5), ("c", 5), ("b", 7), ("b", 5)):
        timers.set(key, due_us)
    copy = pickle.loads(pickle.dumps(timers))
    assert copy.take(5) == timers.take(5) == ["a", "c", "b"]


def test_a_timer_that_moves_again_and_again_stays_small() -> None:
    timers = Timers[str]()
    for due_us in range(10_000):
        timers.set("a", due_us)
    assert len(timers._queue) < 40
