"""Every case gives the same rows on a Flink mini-cluster: live, on history, at any parallelism."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from pyflink.common import Configuration, Row
from pyflink.datastream import DataStream, StreamExecutionEnvironment

from detectors.catalogue import detectors
from engine.tracking import KEYED_TYPE, RECORD_FIELDS, RECORD_TYPE
from jobs.detect import track_history, track_live
from tests.detectors.cases import cases_of, final_rows, golden_lines, progress_after, records_of


def candidates() -> Iterator[Row]:
    """All lines of all cases, each case an owner of its own, with a progress record at its end."""
    for detector in detectors():
        for case in cases_of(detector):
            records = list(records_of(case / "input.log", detector.owner))
            for number, record in enumerate([*records, progress_after(records)]):
                owner = f"{detector.name}/{case.name}"
                known = {**record, "owner": owner, "kafka_offset": number}
                yield Row(*(known.get(name) for name in RECORD_FIELDS))


def expected() -> dict[str, str]:
    return {
        f"{detector.name}/{case.name}": (case / "expected.jsonl").read_text()
        for detector in detectors()
        for case in cases_of(detector)
    }


def found(events: DataStream, names: list[str]) -> dict[str, str]:
    by_owner: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    with events.execute_and_collect() as rows:
        for row in rows:
            event = orjson.loads(row[2])
            # The lines of a case may matter to other detectors too.
            if row[1].startswith(f"{event['detector']}/"):
                by_owner[row[1]].append(event)
    return {name: golden_lines(final_rows(each)) for name, each in by_owner.items()}


@pytest.mark.parametrize(
    ("mode", "parallelism"), [("STREAMING", 1), ("STREAMING", 2), ("BATCH", 1), ("BATCH", 2)]
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
