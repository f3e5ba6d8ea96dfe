"""Flink's adapters, called directly, write the same final rows as `triage`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
from pyflink.common import Row

from stunwatch.cli.demo import INCIDENT
from stunwatch.detectors.host_events import owner_of
from stunwatch.engine.correlating import CorrelateHistory, KnownTime
from stunwatch.engine.history import FED_TOPICS
from stunwatch.engine.tracking import EventTime, TrackHistory, bucket_of, to_record_row
from stunwatch.event_span import EventSpan
from stunwatch.ingest.replay import BACKFILL, ESXTOP, REJECTED, Options, Reading, plan
from stunwatch.ingest.times import UptimeClock
from stunwatch.simulation.run import Scale, Simulation, write
from stunwatch.triage.finding import VIEWS, find
from stunwatch.triage.windows import Windows
from tests.end_to_end import logs

pytestmark = pytest.mark.integration


@dataclass
class Context:
    """A fake of Flink's context for an operator, with timers and metrics."""

    key: int = 0
    at_ms: int = 0

    def get_current_key(self) -> int:
        return self.key

    def timestamp(self) -> int:
        return self.at_ms

    def timer_service(self) -> Context:
        return self

    def get_metrics_group(self) -> Context:
        return self

    def counter(self, _: str) -> Context:
        return self

    def inc(self, *_: Any) -> None:
        raise AssertionError("a detector failed")

    def current_processing_time(self) -> int:
        return 1

    def register_event_time_timer(self, _: int) -> None:
        pass


def tracked(rows: list[Row]) -> Iterator[Any]:
    """Send rows of `candidates` through TrackHistory, sorted as in Flink's batch mode."""
    operator, clock = TrackHistory(), EventTime()
    operator.open(Context())
    last = None
    for row in sorted(rows, key=lambda row: (bucket_of(row), clock.extract_timestamp(row, 0))):
        context = Context(bucket_of(row), clock.extract_timestamp(row, 0))
        if last is not None and last != context.key:
            yield from operator.on_timer(2**62, Context(last))
        last = context.key
        yield from operator.process_element(row, context)
    if last is not None:
        yield from operator.on_timer(2**62, Context(last))


def candidates(paths: list[Path]) -> tuple[list[Row], EventSpan]:
    """Return every line as a row of `candidates` without a prefilter; windows; and seen hosts."""
    rows, span, windows, offset = [], EventSpan(), Windows(), 0
    uptimes, seen = UptimeClock(), dict[Any, str]()
    with plan(paths, Options()) as what:
        for file in what.files:
            for messages in Reading(file, "triage", Options(), uptimes=uptimes):
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
    rows += [to_record_row(record) for _, record in windows.records("triage")]
    return rows, span


def flink(paths: list[Path]) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the final rows by id: topic and event."""
    rows, span = candidates(paths)
    first = list(tracked(rows))
    facts = [each[1] for each in first if isinstance(each, tuple)]
    events = [each for each in first if not isinstance(each, tuple)] + list(tracked(facts))
    operator, clock = CorrelateHistory("triage", *span.span_us), KnownTime()
    operator.open(Context())
    fed = [row for row in events if row[0] in FED_TOPICS]
    for row in sorted(fed, key=lambda row: clock.extract_timestamp(row, 0)):
        context = Context(at_ms=clock.extract_timestamp(row, 0))
        events += operator.process_element(row, context)
    events += operator.on_timer(2**62, Context())
    best: dict[str, tuple[str, dict[str, Any]]] = {}
    for topic, _, text in events:
        event = orjson.loads(text)
        known = best.get(event.get("event_id", ""))
        if topic in VIEWS and (known is None or event["revision"] >= known[1]["revision"]):
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
