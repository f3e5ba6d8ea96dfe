"""A checkpoint of other classes is not used: the number of the state format has changed."""

from __future__ import annotations

from stunwatch.jobs.options import STATE
from tests.detectors.state_format import accepted, classes, unreadable


def test_changed_state_has_a_new_format_number() -> None:
    number, before = accepted()
    now = classes()
    changed = unreadable(before, now)
    assert not changed or number != STATE, (
        f"Flink cannot read checkpoints with {changed}: raise STATE in flink-jobs/jobs/options.py"
    )
    assert (number, before) == (STATE, now), "run `python -m tests.detectors.accept`"


def test_a_removed_class_or_other_fields_need_a_new_number() -> None:
    before = {"a.Line": "end_us vm", "a.Tracker": "lines"}
    assert unreadable(before, {**before, "b.Tracker": ""}) == []
    assert unreadable(before, {"a.Line": "end_us vm"}) == ["a.Tracker"]
    assert unreadable(before, {**before, "a.Line": "vm end_us"}) == ["a.Line"]
