"""Every case gives the same rows on a Flink mini-cluster: live, on history, at any parallelism."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import orjson
import pytest
from pyflink.common import Configuration, Row
from pyflink.datastream import DataStream, StreamExecutionEnvironment

from detectors.catalogue import detector, detectors
from engine.tracking import KEYED_TYPE, RECORD_TYPE, to_record_row
from jobs.detect import track_history, track_live
from tests.detectors.cases import (
    Event,
    Record,
    cases_of,
    final_rows,
    golden_lines,
    joins_of,
    progress_after,
    records_by_owner,
    records_of,
)

MIGRATIONS = "migrations"
"""Told by the logs of several owners: their rows are found by the migration, not by the case."""


def candidates() -> Iterator[Row]:
    """All lines of all cases, each case an owner of its own, with a progress record at its end.

    The lines of a join are of several owners.
    """
    for each in detectors():
        for case in cases_of(each):
            records = list(records_of(case / "input.log", each.owner))
            end = progress_after(records)
            yield from rows_of([*records, end], f"{each.name}/{case.name}")
        for join in joins_of(each):
            for owner, records in records_by_owner(join).items():
                yield from rows_of(records, owner)


def rows_of(records: list[Record], owner: str) -> Iterator[Row]:
    for number, record in enumerate(records):
        yield to_record_row({**record, "owner": owner, "kafka_offset": number})


def expected() -> dict[str, str]:
    goldens = {
        f"{each.name}/{case.name}": (case / "expected.jsonl").read_text()
        for each in detectors()
        if each.name != MIGRATIONS
        for case in cases_of(each)
    }
    folder = detector(MIGRATIONS).folder
    rows = [
        orjson.loads(line)
        for golden in folder.glob("*/*/expected.jsonl")
        for line in golden.read_text().splitlines()
    ]
    rows.sort(key=lambda row: (row["started_at"], row["event_id"]))
    return {**goldens, MIGRATIONS: golden_lines(rows)}


def case_of(event: Event, owner: str) -> str:
    """The case that an event belongs to; empty where it only shares its lines."""
    is_of_a_join = event["detector"] == "stuns" and owner.endswith("/vm")
    if event["detector"] == MIGRATIONS or is_of_a_join:
        return MIGRATIONS
    return owner if owner.startswith(f"{event['detector']}/") else ""


def found(events: DataStream, names: list[str]) -> dict[str, str]:
    by_case: dict[str, list[Event]] = {name: [] for name in ["", *names]}
    with events.execute_and_collect() as rows:
        for row in rows:
            event = orjson.loads(row[2])
            by_case[case_of(event, row[1])].append(event)
    return {name: golden_lines(final_rows(by_case[name])) for name in names}


@pytest.mark.parametrize(
    ("mode", "parallelism"), [("STREAMING", 1), ("STREAMING", 4), ("BATCH", 1), ("BATCH", 4)]
)
def test_every_case_on_a_mini_cluster(mode: str, parallelism: int) -> None:
    configuration = Configuration()
    configuration.set_string("execution.runtime-mode", mode)
    configuration.set_string("python.executable", sys.executable)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    if mode == "STREAMING":
        keyed = [Row(row[0], row) for row in candidates()]
        events = track_live(env.from_collection(keyed, KEYED_TYPE))
    else:
        events = track_history(env.from_collection(list(candidates()), RECORD_TYPE))
    assert found(events, list(expected())) == expected()
