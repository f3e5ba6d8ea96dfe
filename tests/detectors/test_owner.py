"""The trackers of one log key: which records they receive, and what state is kept."""

import pickle
import random
from typing import Any

import pytest

from stunwatch.detectors.catalogue import LONGEST_SEARCHED, detectors
from stunwatch.engine.owner import Owner
from stunwatch.schema import SQL
from tests.detectors.cases import cases_of, records_of

NOON_US = 1_331_208_000_000_000  # 2012-03-08T12:00:00Z
UNSTUN = "Checkpoint_Unstun: vm stopped for 312000 us"


def record(message: str, at_us: int = NOON_US, **fields: Any) -> dict[str, Any]:
    return {
        "kind": "line",
        "source": "vmware_log",
        "vm": "vm01",
        "datastore": "datastore01",
        "head": "2012-03-08T12:00:00.000Z| vcpu-0| ",
        "message": message,
        "run_id": "case",
        "event_time_us": at_us,
        "time_quality": "exact",
        **fields,
    }


def test_stun_lines_in_a_host_log_are_ignored() -> None:
    assert list(Owner().feed(record(UNSTUN)))
    assert not list(Owner().feed(record(UNSTUN, source="syslog", program="hostd")))


def test_a_log_key_without_state_has_no_timer() -> None:
    owner = Owner()
    list(owner.feed(record("nothing of interest")))
    assert owner.next_timer_us is None
    list(owner.feed(record(UNSTUN)))
    while (due_us := owner.next_timer_us) is not None:
        list(owner.advance_time(due_us))
    assert owner.event_time_us > NOON_US


def test_a_message_above_the_length_limit_is_not_searched() -> None:
    longest = UNSTUN.ljust(LONGEST_SEARCHED)
    assert list(Owner().feed(record(longest)))
    owner = Owner()
    assert not list(owner.feed(record(f"{longest} ")))
    assert owner.event_time_us == NOON_US
    assert owner.next_timer_us is None


def test_clickhouse_counts_lines_above_the_same_length_limit() -> None:
    view = (SQL / "materialized_views" / "log_lines_mv.sql").read_text()
    assert f"lengthUTF8(message) > {LONGEST_SEARCHED} AS unsearched" in view


def lines_of_all_cases(kind: str) -> list[dict[str, Any]]:
    """Return the lines of all cases as those of one log, close enough to share their state."""
    found = []
    for detector in detectors():
        if detector.owner == kind:
            for case in cases_of(detector):
                records = list(records_of(case / "input.log", kind))
                shift_us = NOON_US - records[0]["event_time_us"]
                for each in records:
                    at_us = each["event_time_us"] + shift_us
                    found.append({**each, "owner": "a", "event_time_us": at_us})
    return found


@pytest.mark.parametrize("kind", ["vm", "host"])
@pytest.mark.parametrize("order", ["sorted", 1, 2])
def test_unused_trackers_need_neither_the_time_nor_to_be_unpickled(
    kind: str, order: str | int
) -> None:
    """The rows are those of trackers that stay in memory and are told the time at every line."""
    records = lines_of_all_cases(kind)
    if isinstance(order, int):
        random.Random(order).shuffle(records)
    else:
        records.sort(key=lambda each: each["event_time_us"])
    told, eager = Owner(), Owner()
    for record in [*records, {**records[-1], "kind": "progress"}]:
        for each in (*eager._trackers.values(), *eager._facts.values()):
            each.due_us = record["event_time_us"]
        expected = list(eager.feed(record))
        told = pickle.loads(pickle.dumps(told))
        assert list(told.feed(record)) == expected
    assert told.next_timer_us == eager.next_timer_us


def test_a_line_unpickles_only_the_trackers_that_it_concerns() -> None:
    owner = Owner()
    list(owner.feed(record(UNSTUN)))
    list(owner.feed(record("SnapshotVMX_TakeSnapshot start: 'a', deviceState=0", NOON_US + 1)))
    assert len(owner._trackers) > 1
    owner = pickle.loads(pickle.dumps(owner))
    list(owner.feed(record("nothing of interest", NOON_US + 2)))
    assert not any(each.machine for each in owner._trackers.values())
    before = {name: each.pickled for name, each in owner._trackers.items()}
    list(owner.feed(record(UNSTUN, NOON_US + 3)))
    used = {name for name, each in owner._trackers.items() if each.machine}
    assert "stuns" in used
    assert used < before.keys()
