"""Live and replayed logs give the same events and incidents, at any parallelism, despite a kill."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from stunwatch.access import ADMIN, kafka_access
from stunwatch.cli.demo import INCIDENT
from stunwatch.cli.replay import EXIT_INCOMPLETE
from stunwatch.ingest.replay import BACKFILL, ESXTOP, Options, Reading, plan
from stunwatch.ingest.times import UptimeClock
from stunwatch.kafka import Kafka
from stunwatch.simulation import scenarios
from stunwatch.simulation.live import TOPICS
from stunwatch.simulation.run import Scale, Simulation, write
from stunwatch.triage.finding import find
from stunwatch.triage.results import EVENTS
from tests.end_to_end import logs
from tests.end_to_end.made import line
from tests.end_to_end.triaged import by_id
from tests.pipeline import Pipeline

pytestmark = [pytest.mark.release, pytest.mark.timeout(3600)]

STARTED_AT = (datetime.now(UTC) - timedelta(days=2)).replace(microsecond=0)
"""Early enough that a line of the present closes all incidents."""

BUNDLED_AT = STARTED_AT - timedelta(days=1)
"""The time of the files in bundles, before the nights."""

NIGHTS = [Scale(seed=seed, hosts=6, vms=40, minutes=180) for seed in (901, 902, 903)]
SCENARIO_SEED = 904
CHATTER = 0.2
"""The share of unrelated lines: they are tested elsewhere and take their time."""

TIMES = ("before", "between", "after")
"""When the inventory is loaded: before the live lines, between them and the replay, after it."""

WAITED_S = 240.0
"""Patience with a pipeline that makes no progress."""
REPLAYED_S = 1200.0
SHOWN = 5
OF_THE_WAY = frozenset({"run_id", "revision", "revised_at"})
"""Columns of an incident that depend on when its evidence arrived."""

Rows = dict[str, dict[str, Any]]


@dataclass
class Evidence:
    """The same logs for all ways, and the events that follow from them."""

    paths: list[Path]
    inventories: list[Path]
    records: list[dict[str, Any]]
    """The records of all files, in the order of their time, as a live shipper sends them."""
    events: dict[str, Rows]
    """By view and ID, as `triage` finds them."""
    incidents: Rows = field(default_factory=dict)
    """By ID, those of the first way."""


def bundles(root: Path) -> list[Path]:
    """Write the logs of `tests.end_to_end.logs`, without those that random lines end abruptly.

    Live, the silence after a change of mode proves the end of a stun; the end of a file does not.
    Lines without a date have that of their file. It is past, so `close_incidents` is not near them.
    """
    paths = logs.write(root)
    for each in root.rglob("any[0-9][0-9]"):
        shutil.rmtree(each)
    for each in filter(Path.is_file, root.rglob("*")):
        os.utime(each, (BUNDLED_AT.timestamp(),) * 2)
    return paths


def live_records(paths: list[Path]) -> list[dict[str, Any]]:
    """Return the records of files as a live shipper sends them, in the order of their time."""
    found = []
    uptimes = UptimeClock()
    with plan(paths, Options()) as what:
        for file in what.files:
            found += [
                record
                for batch in Reading(file, "live", uptimes=uptimes)
                for topic, _, record in batch
                if topic in (BACKFILL, ESXTOP) and record["kind"] != "progress"
            ]
    return sorted(found, key=lambda record: record["event_time"])


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    root = tmp_path_factory.mktemp("logs")
    paths, inventories = [INCIDENT, *bundles(root / "bundles")], []
    for scale in NIGHTS:
        write(Simulation(scale, STARTED_AT, chatter=CHATTER), root / f"night{scale.seed}")
        paths.append(root / f"night{scale.seed}")
    for name in scenarios.SCENARIOS:
        folder = root / name
        made = scenarios.ScenarioSimulation(
            name, SCENARIO_SEED, started_at=STARTED_AT, chatter=CHATTER
        )
        scenarios.write(made, folder)
        inventories.append(folder / "inventory")
        paths += [each for each in folder.iterdir() if not each.name.startswith("inventory")]
    with plan(paths, Options()) as what:
        found = find(what, Options(), processes=2)
    assert not found.failures
    events = {view: by_id(found.rows[view]) for view in EVENTS}
    return Evidence(paths, inventories, live_records(paths), events)


def chunks(records: list[dict[str, Any]], size: int = 5_000) -> Iterator[list[dict[str, Any]]]:
    for start in range(0, len(records), size):
        yield records[start : start + size]


def ship(pipeline: Pipeline, records: list[dict[str, Any]]) -> None:
    """Send records to their topics, each topic in the order of time."""
    for chunk in chunks(records):
        by_topic: dict[str, list[dict[str, Any]]] = {}
        for record in chunk:
            by_topic.setdefault(TOPICS[record["source"]], []).append(record)
        for topic, its in by_topic.items():
            pipeline.ship(topic, *its)


def events(pipeline: Pipeline) -> dict[str, Rows]:
    return {view: by_id(pipeline.reader.named_rows(f"SELECT * FROM {view}")) for view in EVENTS}


def incidents(pipeline: Pipeline) -> Rows:
    """Return the incidents by ID, without what depends on the way to them."""
    rows = pipeline.reader.named_rows("SELECT * FROM incidents")
    return {
        row["incident_id"]: {name: value for name, value in row.items() if name not in OF_THE_WAY}
        for row in rows
    }


def kill_taskmanager(pipeline: Pipeline) -> None:
    for each in pipeline.processes("taskmanager"):
        os.kill(each.pid, signal.SIGKILL)


def assert_events(pipeline: Pipeline, evidence: Evidence, seconds: float = 0) -> None:
    """Compare the events with those of `triage`. Wait until they are equal, as long as they change.

    `seconds`: how long to wait for a change.
    """
    before, deadline = None, time.monotonic() + seconds
    while said := differences(evidence.events, found := events(pipeline)):
        if found != before:
            before, deadline = found, time.monotonic() + seconds
        assert time.monotonic() < deadline, said
        time.sleep(2)


def assert_incidents(pipeline: Pipeline, evidence: Evidence) -> None:
    """Compare the incidents with those of the first way. Wait: the live job may correct some."""
    deadline = time.monotonic() + WAITED_S
    while (found := incidents(pipeline)) != evidence.incidents:
        differ = [
            f"{name}: {found.get(name)}, expected {evidence.incidents.get(name)}"
            for name in sorted({*found, *evidence.incidents})
            if found.get(name) != evidence.incidents.get(name)
        ]
        assert time.monotonic() < deadline, "\n".join(differ[:SHOWN])
        time.sleep(2)


def differences(true: dict[str, Rows], found: dict[str, Rows]) -> str:
    """Return the events that are missing, too many, or different; empty if none is."""
    lines = []
    for view, expected in true.items():
        missing, extra = ({*expected} - {*found[view]}, {*found[view]} - {*expected})
        differ = [
            f"{name}: {field} is {row[field]}, expected {value}; {row['evidence']}"
            for name, row in found[view].items()
            for field, value in expected.get(name, {}).items()
            if field in row and row[field] != value
        ]
        if missing or extra or differ:
            counts = f"{len(missing)} missing, {len(extra)} too many, {len(differ)} different"
            lines.append(f"{view}: {counts}")
        lines += [f"  missing: {expected[each]}" for each in sorted(missing)[:SHOWN]]
        lines += [f"  too many: {found[view][each]}" for each in sorted(extra)[:SHOWN]]
        lines += [f"  different: {each}" for each in differ[:SHOWN]]
    return "\n".join(lines)


def close_incidents(pipeline: Pipeline) -> None:
    """Send a line of the present, so that the incidents end, and wait for their ends."""
    ship(pipeline, [line("later.lab.example", datetime.now(UTC), run_id="live")])
    pipeline.wait_for("SELECT countIf(state = 'open') FROM incidents", 0, WAITED_S)


@pytest.mark.parametrize(("parallelism", "loaded"), [*zip((1, 2, 4), TIMES, strict=True)])
def test_live_and_replayed_logs_give_the_same_events_and_incidents(
    parallelism: int, loaded: str, evidence: Evidence, pipelines: Callable[..., Pipeline]
) -> None:
    pipeline = pipelines(flink_parallelism=parallelism)
    pipeline.run("up")

    def load_inventory(now: str) -> None:
        if now == loaded:
            pipeline.run("inventory", "load", *evidence.inventories)

    load_inventory("before")
    half = len(evidence.records) // 2
    ship(pipeline, evidence.records[:half])
    kill_taskmanager(pipeline)
    ship(pipeline, evidence.records[half:])
    assert_events(pipeline, evidence, WAITED_S)
    close_incidents(pipeline)

    load_inventory("between")
    replay = pipeline.start("replay", *evidence.paths)
    kafka = Kafka(kafka_access(pipeline.settings, ADMIN))
    while not any(kafka.ends([BACKFILL]).values()):
        assert replay.poll() is None
        time.sleep(0.1)
    kill_taskmanager(pipeline)
    said, _ = replay.communicate(timeout=REPLAYED_S)
    assert replay.returncode == EXIT_INCOMPLETE, said
    assert_events(pipeline, evidence)

    load_inventory("after")
    evidence.incidents = evidence.incidents or incidents(pipeline)
    assert_incidents(pipeline, evidence)
