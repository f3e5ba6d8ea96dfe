"""Joined logs: events of a migration or an operation that need logs with different keys."""

import random
from itertools import chain
from pathlib import Path

import pytest

from stunwatch.detectors.catalogue import detectors
from tests.detectors.cases import (
    final_rows,
    golden_lines,
    joins_of,
    records_by_owner,
    run_joined,
)

JOINS = [
    pytest.param(join, id=f"{each.name}-{join.name}")
    for each in detectors()
    for join in joins_of(each)
]


@pytest.mark.parametrize("join", JOINS)
def test_a_join_of_several_logs_gives_its_expected_rows(join: Path) -> None:
    records = chain(*records_by_owner(join).values())
    assert golden_lines(final_rows(run_joined(records))) == (join / "expected.jsonl").read_text()


@pytest.mark.parametrize("join", JOINS)
def test_the_order_of_arrival_does_not_change_the_rows_of_a_join(join: Path) -> None:
    by_owner = records_by_owner(join)
    ends = [records[-1] for records in by_owner.values()]
    lines = [record for records in by_owner.values() for record in records[:-1]]
    expected = (join / "expected.jsonl").read_text()
    for seed in range(20):
        shuffled = random.Random(seed).sample(lines, len(lines))
        assert golden_lines(final_rows(run_joined([*shuffled, *ends]))) == expected


@pytest.mark.parametrize("join", JOINS)
def test_a_replay_of_one_log_adds_no_row_to_those_of_both(join: Path) -> None:
    by_owner = records_by_owner(join)
    both = run_joined(chain(*by_owner.values()))
    for records in by_owner.values():
        assert final_rows([*both, *run_joined(records)]) == final_rows(both)
        assert final_rows([*run_joined(records), *both]) == final_rows(both)
