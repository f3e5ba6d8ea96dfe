"""Flink's operator, called directly, writes the same final rows as `triage`."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from stunwatch.cli.demo import INCIDENT
from stunwatch.detectors.catalogue import INCIDENTS_TOPIC
from stunwatch.detectors.host_events import owner_of
from stunwatch.engine.failures import Failure
from stunwatch.engine.history import FED_TOPICS, Fed, FleetHistory, final_incidents
from stunwatch.engine.owner import FACTS
from stunwatch.engine.owners import bucket_of_owner
from stunwatch.engine.tracking import Row, Trackers, to_json
from stunwatch.event_span import EventSpan
from stunwatch.ingest.replay import BACKFILL, ESXTOP, REJECTED, Options, Reading, plan
from stunwatch.ingest.replay.esxtop import samples_in
from stunwatch.ingest.replay.in_order import InOrder
from stunwatch.ingest.times import UptimeClock
from stunwatch.simulation.run import Scale, Simulation, write
from stunwatch.triage.finding import VIEWS, find
from stunwatch.triage.windows import Windows
from tests.detectors.test_failures import NOW_MS
from tests.end_to_end import logs

pytestmark = pytest.mark.integration

RUN_ID = "triage"

Placed = tuple[str, str]
"""A bucket, and a candidate as JSON."""


class Tracking:
    """Does what Tracking.java does in both steps. The time does not pass."""

    def __init__(self) -> None:
        self.trackers = Trackers(lambda: NOW_MS)
        self.events: list[Row] = []

    def feed(self, bucket: str, record: str) -> None:
        _, rows = self.trackers.feed(bucket, None, None, record) or (0, [])
        for each in rows:
            if each[0] == FACTS:
                self.feed(each[1], each[2])
            else:
                self.events.append(each)
        assert not self.trackers.counts()[0]


def placed(record: Mapping[str, Any]) -> Placed:
    return bucket_of_owner(record["owner"], RUN_ID), to_json(record)


def candidates(paths: list[Path]) -> tuple[list[Placed], EventSpan]:
    """Return every line as a candidate without a prefilter; windows; and seen hosts."""
    rows, span, windows, offset = [], EventSpan(), Windows(), 0
    uptimes, seen = UptimeClock(), dict[Any, str]()
    with plan(paths, Options()) as what:
        files = InOrder(what.files, lambda file: Reading(file, RUN_ID, Options(), uptimes=uptimes))
        for messages in files:
            span.look(messages)
            for topic, key, record in messages:
                offset += 1
                is_line = record.get("kind") == "line" and topic != REJECTED
                name = record.get("source"), record.get("host")
                if (
                    is_line
                    and name[0] != "vmware_log"
                    and name[1]
                    and record["event_time"][:15] > seen.get(name, "")
                ):
                    seen[name] = record["event_time"][:15]
                    rows.append(placed({**record, "owner": key, "kind": "seen"}))
                if topic == ESXTOP and is_line:
                    for sample in samples_in(record):
                        windows.add(key, sample)
                elif topic == BACKFILL:
                    owner = owner_of(record["message"], key) if is_line else key
                    rows.append(placed({**record, "owner": owner, "kafka_offset": offset}))
    rows += [placed(record) for _, record in windows.records(RUN_ID)]
    return rows, span


def told(rows: list[Row], topics: Container[str]) -> Iterator[Fed]:
    return ((row[0], orjson.loads(row[2])) for row in rows if row[0] in topics)


def flink(paths: list[Path]) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the final rows by id: topic and event."""
    rows, span = candidates(paths)
    tracking = Tracking()
    for bucket, record in rows:
        tracking.feed(bucket, record)
    events = tracking.events
    failures: list[Failure] = []
    fed = list(told(events, FED_TOPICS))
    for incident in final_incidents(FleetHistory(RUN_ID, *span.span_us), fed, failures):
        events.append((INCIDENTS_TOPIC, "", orjson.dumps(incident).decode()))
    assert not failures
    best: dict[str, tuple[str, dict[str, Any]]] = {}
    for topic, event in told(events, VIEWS):
        known = best.get(event["event_id"])
        if known is None or event["revision"] >= known[1]["revision"]:
            best[event["event_id"]] = topic, event
    return {name: row for name, row in best.items() if not row[1]["is_deleted"]}


SUBJECTS = ("audited", "latency", "slow_storage", "teaching", "hostile_names", "bad_input")


def night(root: Path) -> None:
    """Write a simulated night of a small fleet."""
    write(Simulation(Scale(hosts=4, vms=16, minutes=60, seed=31)), root)


@pytest.mark.parametrize("subject", ["demo", "night", *SUBJECTS])
def test_flink_and_triage_give_the_same_rows_and_revisions(subject: str, tmp_path: Path) -> None:
    paths = [INCIDENT]
    if subject != "demo":
        (night if subject == "night" else getattr(logs, subject))(tmp_path)
        paths = [tmp_path]
    stored = flink(paths)
    with plan(paths, Options()) as what:
        found = find(what, Options())
    shown = {row["event_id"]: row for rows in found.rows.values() for row in rows}
    assert shown == {name: row for name, (_, row) in stored.items()}
    assert shown
