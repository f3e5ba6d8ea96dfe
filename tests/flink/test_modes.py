"""Every case gives its rows on a Flink mini-cluster: live, replayed, and at any parallelism."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import orjson
import pytest
from pyflink.common import Configuration, Row
from pyflink.datastream import DataStream, StreamExecutionEnvironment

from stunwatch.detectors.catalogue import detectors
from stunwatch.engine.owners import LIVE, bucket_of_owner
from stunwatch.engine.tracking import to_json
from stunwatch.jobs.detect import KEYED_TYPE, track
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

pytestmark = pytest.mark.integration

JOINS = "joins"
"""Joins need several logs: their rows belong to a migration or an operation, not to a case."""


def candidates(run_id: str) -> Iterator[Row]:
    """Yield the lines of all cases, each with its own log key and a progress record at the end.

    The lines of a join have several log keys. A replay's lines are in the order of their time.
    """
    for each in detectors():
        for case in cases_of(each):
            records = list(records_of(case / "input.log", each.owner))
            end = progress_after(records)
            yield from rows_of([*records, end], f"{each.name}/{case.name}", run_id)
        for join in joins_of(each):
            for owner, records in records_by_owner(join).items():
                yield from rows_of(records, owner, run_id)


def rows_of(records: list[Record], owner: str, run_id: str) -> Iterator[Row]:
    if run_id != LIVE:
        records = sorted(records, key=lambda each: each["event_time_us"])
    for number, record in enumerate(records):
        text = to_json({**record, "run_id": run_id})
        yield Row(bucket_of_owner(owner, run_id), owner, number, text)


def expected() -> dict[str, str]:
    goldens = {
        f"{each.name}/{case.name}": (case / "expected.jsonl").read_text()
        for each in detectors()
        if each.owner in ("vm", "host")
        for case in cases_of(each)
    }
    rows = [
        orjson.loads(line)
        for each in detectors()
        if each.owner not in ("vm", "host")
        for golden in each.folder.glob("*/*/expected.jsonl")
        for line in golden.read_text().splitlines()
    ]
    rows.sort(key=lambda row: (row["started_at"], row["event_id"]))
    return {**goldens, JOINS: golden_lines(rows)}


def case_of(event: Event, owner: str) -> str:
    """Return the case that an event belongs to; empty if it only shares its lines."""
    is_of_a_case = owner.startswith(f"{event['detector']}/")
    if event["detector"] in ("migrations", "stuns") and not is_of_a_case:
        is_of_another_case = "/" in owner and not owner.endswith("/vm")
        return "" if is_of_another_case and event["detector"] == "stuns" else JOINS
    return owner if is_of_a_case else ""


def found(events: DataStream, names: list[str]) -> dict[str, str]:
    by_case: dict[str, list[Event]] = {name: [] for name in ["", *names]}
    with events.execute_and_collect() as rows:
        for row in rows:
            event = orjson.loads(row[2])
            by_case[case_of(event, row[1])].append(event)
    return {name: golden_lines(final_rows(by_case[name])) for name in names}


@pytest.mark.parametrize(
    ("run_id", "parallelism"),
    [
        (LIVE, 1),
        pytest.param("r1", 1, marks=pytest.mark.slow),
        pytest.param(LIVE, 4, marks=pytest.mark.slow),
        pytest.param("r1", 4, marks=pytest.mark.slow),
    ],
)
def test_every_case_gives_its_rows_on_a_mini_cluster(
    run_id: str, parallelism: int, java_classes: str
) -> None:
    configuration = Configuration()
    configuration.set_string("python.executable", sys.executable)
    configuration.set_string("python.execution-mode", "thread")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    env.add_jars(java_classes)
    events = track(env.from_collection(list(candidates(run_id)), KEYED_TYPE))
    assert found(events, list(expected())) == expected()
