"""Every case of every detector gives exactly its expected rows, in any order of arrival."""

import pickle
import random
from pathlib import Path

import pytest

from stunwatch.detectors.catalogue import Detector, detectors, literals
from tests.detectors.cases import (
    cases_of,
    final_rows,
    golden_lines,
    progress_after,
    records_of,
    run,
)

CASES = [
    pytest.param(detector, case, id=f"{detector.name}/{case.name}")
    for detector in detectors()
    for case in cases_of(detector)
]


@pytest.mark.parametrize(("detector", "case"), CASES)
def test_a_case_gives_its_expected_rows(detector: Detector, case: Path) -> None:
    rows = final_rows(run(detector, records_of(case / "input.log", detector.owner)))
    assert golden_lines(rows) == (case / "expected.jsonl").read_text()


@pytest.mark.parametrize(("detector", "case"), CASES)
def test_the_order_of_arrival_does_not_change_the_rows(detector: Detector, case: Path) -> None:
    records = list(records_of(case / "input.log", detector.owner))
    end = progress_after(records)
    in_order = final_rows(run(detector, [*records, end]))
    for seed in range(10):
        shuffled = random.Random(seed).sample(records, len(records))
        assert final_rows(run(detector, [*shuffled, end])) == in_order


@pytest.mark.parametrize(("detector", "case"), CASES)
def test_lines_read_twice_write_no_further_rows(detector: Detector, case: Path) -> None:
    records = list(records_of(case / "input.log", detector.owner))
    assert run(detector, [*records, *records]) == run(detector, records)


@pytest.mark.parametrize(("detector", "case"), CASES)
def test_a_tracker_continues_after_a_restart(detector: Detector, case: Path) -> None:
    tracker = detector.tracker()
    told = []
    for record in records_of(case / "input.log", detector.owner):
        told += [*tracker.advance_time(record["event_time_us"]), *tracker.feed(record)]
        tracker = pickle.loads(pickle.dumps(tracker))
    told += tracker.flush()
    whole = run(detector, records_of(case / "input.log", detector.owner))
    assert [event.event_id for event in told] == [event["event_id"] for event in whole]


@pytest.mark.parametrize(("detector", "case"), CASES)
def test_the_prefilter_passes_every_line_that_changes_a_row(detector: Detector, case: Path) -> None:
    records = list(records_of(case / "input.log", detector.owner))
    end = progress_after(records)
    passing = [
        record for record in records if any(literal in record["message"] for literal in literals())
    ]
    assert final_rows(run(detector, [*passing, end])) == final_rows(run(detector, [*records, end]))
