"""Migrations: what several logs tell together."""

import random
from itertools import chain
from pathlib import Path

import pytest

from detectors.catalogue import detector
from engine.owner import Owner
from tests.detectors.cases import (
    Record,
    final_rows,
    golden_lines,
    joins_of,
    records_by_owner,
    run_joined,
)

JOINS = [pytest.param(join, id=join.name) for join in joins_of(detector("migrations"))]
SECOND_US = 1_000_000


@pytest.mark.parametrize("join", JOINS)
def test_logs_of_several_owners_give_these_rows(join: Path) -> None:
    records = chain(*records_by_owner(join).values())
    assert golden_lines(final_rows(run_joined(records))) == (join / "expected.jsonl").read_text()


@pytest.mark.parametrize("join", JOINS)
def test_the_order_of_arrival_changes_no_row_of_a_join(join: Path) -> None:
    by_owner = records_by_owner(join)
    ends = [records[-1] for records in by_owner.values()]
    lines = [record for records in by_owner.values() for record in records[:-1]]
    expected = (join / "expected.jsonl").read_text()
    for seed in range(20):
        shuffled = random.Random(seed).sample(lines, len(lines))
        assert golden_lines(final_rows(run_joined([*shuffled, *ends]))) == expected


@pytest.mark.parametrize("join", JOINS)
def test_a_replay_of_one_log_adds_no_row_to_what_both_told(join: Path) -> None:
    by_owner = records_by_owner(join)
    both = run_joined(chain(*by_owner.values()))
    for records in by_owner.values():
        assert final_rows([*both, *run_joined(records)]) == final_rows(both)
        assert final_rows([*run_joined(records), *both]) == final_rows(both)


def test_a_host_that_is_replayed_after_the_vm_adds_no_stun() -> None:
    [join] = [join for join in joins_of(detector("migrations")) if "tells_the_stun" in join.name]
    vm, host = records_by_owner(join).values()
    for runs in ([vm, host], [host, vm]):
        rows = final_rows(event for records in runs for event in run_joined(records))
        assert [row["measured_by"] for row in rows] == ["unstun"]


def host_stun(at_us: int) -> Record:
    return {
        "kind": "line",
        "source": "syslog",
        "host": "esx01.lab.example",
        "head": "2014-12-11T18:33:19.874Z [6A623B90 verbose 'VMotionSrc (1418322799436303)'] ",
        "message": "Set source task result precopyStunTime to 71204",
        "run_id": "live",
        "event_time": "2014-12-11T18:33:19.874Z",
        "event_time_us": at_us,
        "time_quality": "exact",
    }


def test_the_host_waits_for_the_vm() -> None:
    owner = Owner()
    assert not list(owner.feed(host_stun(0)))
    assert owner.next_due_us == 3 * SECOND_US
    assert not list(owner.tick(3 * SECOND_US - 1))
    [(topic, fact)] = owner.tick(3 * SECOND_US)
    assert (topic, fact["owner"]) == ("facts.migration", "1418322799436303")
    assert owner.next_due_us is None
