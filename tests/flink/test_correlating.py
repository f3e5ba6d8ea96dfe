"""Cases give the same incidents on a Flink mini-cluster."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import orjson
import pytest
from pyflink.common import Configuration, Row, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource

from stunwatch.engine.history import HISTORY_EVERY_US
from stunwatch.jobs.correlate import FED_TYPE, incidents
from tests.incidents.scenario import (
    CASES,
    Fed,
    events,
    final_rows,
    known_us,
    load,
)

pytestmark = pytest.mark.integration

HEARTBEATS = 1200
"""A minute at most."""
SAMPLES = Path("schemas/samples")
BROKEN = [
    Row(topic, text, None)
    for topic in ("events.inventory", "events.stun", "events.latency", "events.incident", "seen")
    for text in ("[1, 2]", "7", "{", '{"event_id": "e", "revision": "x", "kind": "extent"}')
] + [
    Row(topic, orjson.dumps({**orjson.loads(sample.read_bytes()), **wrong}).decode(), None)
    for topic, sample, wrong in (
        (
            "events.stun",
            SAMPLES / "stun.v1.measured_by_unstun.pass.json",
            {"vm": 7, "duration_us": 5_000_000},
        ),
        (
            "events.latency",
            SAMPLES / "latency_episode.v1.still_slow_by_esxtop.pass.json",
            {"peak_ms": "slow"},
        ),
        (
            "events.reservation",
            SAMPLES / "reservation_conflict.v1.count_down_failed.pass.json",
            {"steps": "many"},
        ),
        (
            "events.inventory",
            SAMPLES / "inventory_item.v1.extent_of_a_datastore.pass.json",
            {"device": ["naa.6"]},
        ),
    )
]
"""Anyone may write to a topic: an event that violates its schema must not stop later ones."""


def environment() -> StreamExecutionEnvironment:
    configuration = Configuration()
    configuration.set_string("python.executable", sys.executable)
    configuration.set_string("python.execution-mode", "thread")
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def rows_of(fed: list[Fed]) -> list[Row]:
    return [Row(topic, orjson.dumps(event).decode(), None) for topic, event in fed]


def final(rows: list[Row]) -> dict[str, dict[str, Any]]:
    best: dict[str, dict[str, Any]] = {}
    for _, _, text in rows:
        row = orjson.loads(text)
        if row["revision"] >= best.get(row["event_id"], row)["revision"]:
            best[row["event_id"]] = row
    return {name: row for name, row in best.items() if not row["is_deleted"]}


def test_flink_gives_the_expected_incidents(java_classes: str) -> None:
    case = load(CASES / "array_beside_a_storm.yaml")
    fed = sorted(events(case), key=known_us)
    env = environment()
    env.set_parallelism(1)
    env.add_jars(java_classes)
    given = [*BROKEN, *rows_of(fed)]
    broken = BROKEN[0]

    # Inside the test, because Flink cannot import the test's module.
    def heartbeat(_: int) -> Row:
        time.sleep(0.05)
        return broken

    # Timers fire only as long as there is input.
    numbers = env.from_source(
        NumberSequenceSource(1, HEARTBEATS), WatermarkStrategy.no_watermarks(), "numbers"
    )
    stream = env.from_collection(given, FED_TYPE).union(numbers.map(heartbeat, FED_TYPE))
    expected = {
        (row.event_id, row.scope) for row in final_rows(fed, case["until"], HISTORY_EVERY_US)
    }
    rows: list[Row] = []
    found: set[tuple[str, str]] = set()
    with incidents(stream).execute_and_collect() as collected:
        for row in collected:
            rows.append(row)
            found = {(name, each["scope"]) for name, each in final(rows).items()}
            if found == expected:
                break
    assert found == expected
