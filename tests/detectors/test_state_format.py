"""A checkpoint of other classes is not used: the number of the state format has changed."""

from __future__ import annotations

import pickle

import orjson

from stunwatch.detectors.catalogue import detector
from stunwatch.engine.owner import FACTS, Owner
from stunwatch.jobs.options import STATE
from tests.detectors.cases import Event, Record, final_rows, progress_after, records_of
from tests.detectors.state_format import accepted, classes, kept_samples, unreadable


def rows(owner: Owner, records: list[Record]) -> list[Event]:
    """Return the rows that follow from records."""
    return [
        orjson.loads(orjson.dumps(event))
        for record in records
        for topic, event in owner.feed({**record, "owner": "case"})
        if topic != FACTS
    ]


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


def test_state_that_another_version_has_written_is_read() -> None:
    """Fields of a tracker change with a new number, or so that the samples can still be read."""
    number, samples = kept_samples()
    assert number == STATE, "run `python -m tests.detectors.accept`"
    assert len(samples) > 50
    for name, pickled in samples.items():
        of, case = name.split("/")
        folder = detector(of).folder / "cases" / case
        records = list(records_of(folder / "input.log", detector(of).owner))
        half = len(records) // 2
        rest = [*records[half:], progress_after(records)]
        before = rows(Owner(), records[:half])
        whole = rows(Owner(), [*records, rest[-1]])
        assert final_rows([*before, *rows(pickle.loads(pickled), rest)]) == final_rows(whole), name
