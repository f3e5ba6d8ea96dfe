"""Flink's operator, called directly, writes the same final rows as `triage`."""

from __future__ import annotations

from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from pyflink.common import Row
from pyflink.datastream import OutputTag

from stunwatch.cli.demo import INCIDENT
from stunwatch.detectors.catalogue import INCIDENTS_TOPIC
from stunwatch.detectors.host_events import owner_of
from stunwatch.engine.failures import Failure
from stunwatch.engine.history import FED_TOPICS, Fed, FleetHistory, final_incidents
from stunwatch.engine.owner import epoch_microseconds
from stunwatch.engine.owners import bucket_of_owner
from stunwatch.engine.tracking import RECORD_FIELDS, Track, to_record_row
from stunwatch.event_span import EventSpan
from stunwatch.ingest.replay import BACKFILL, ESXTOP, REJECTED, Options, Reading, plan
from stunwatch.ingest.times import UptimeClock
from stunwatch.simulation.run import Scale, Simulation, write
from stunwatch.triage.finding import VIEWS, find
from stunwatch.triage.windows import Windows
from tests.detectors.test_failures import Flink
from tests.end_to_end import logs

pytestmark = pytest.mark.integration


RUN_ID = "triage"
_KIND, _TIME, _OFFSET = map(RECORD_FIELDS.index, ("kind", "event_time", "kafka_offset"))


def tracked(rows: list[Row]) -> list[Any]:
    """Send rows of `candidates` through Track, in the order of their time like a replay."""
    buckets: dict[str, Flink] = {}
    found: list[Any] = []
    for row in sorted(rows, key=_order):
        bucket = bucket_of_owner(row[0], RUN_ID)
        if bucket not in buckets:
            buckets[bucket] = Flink(Track(), bucket)
        flink = buckets[bucket]
        found += flink.function.process_element(row, flink.context)
    assert not any(each.failures for each in buckets.values())
    return found


def candidates(paths: list[Path]) -> tuple[list[Row], EventSpan]:
    """Return every line as a row of `candidates` without a prefilter; windows; and seen hosts."""
    rows, span, windows, offset = [], EventSpan(), Windows(), 0
    uptimes, seen = UptimeClock(), dict[Any, str]()
    with plan(paths, Options()) as what:
        for file in what.files:
            for messages in Reading(file, RUN_ID, Options(), uptimes=uptimes):
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
                        rows.append(to_record_row({**record, "owner": key, "kind": "seen"}))
                    if topic == ESXTOP:
                        windows.add(key, record)
                    elif topic == BACKFILL:
                        owner = owner_of(record["message"], key) if is_line else key
                        placed = {**record, "owner": owner, "kafka_offset": offset}
                        rows.append(to_record_row(placed))
    rows += [to_record_row(record) for _, record in windows.records(RUN_ID)]
    return rows, span


def _order(row: Row) -> tuple[bool, int, int]:
    return row[_KIND] == "progress", epoch_microseconds(row[_TIME]), row[_OFFSET] or 0


def told(rows: list[Row], topics: Container[str]) -> Iterator[Fed]:
    return ((row[0], orjson.loads(row[2])) for row in rows if row[0] in topics)


def flink(paths: list[Path]) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the final rows by id: topic and event."""
    rows, span = candidates(paths)
    first = tracked(rows)
    facts = [each[1][1] for each in first if isinstance(each[0], OutputTag)]
    events = [each for each in first if not isinstance(each[0], OutputTag)] + tracked(facts)
    failures: list[Failure] = []
    fed = list(told(events, FED_TOPICS))
    for incident in final_incidents(FleetHistory(RUN_ID, *span.span_us), fed, failures):
        events.append(Row(INCIDENTS_TOPIC, "", orjson.dumps(incident).decode()))
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
