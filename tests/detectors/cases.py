"""Run a detector's cases in memory: from the lines of `input.log` to the final rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from stunwatch.detectors import host_events
from stunwatch.detectors.catalogue import Detector
from stunwatch.engine.owner import FACTS, Owner, epoch_microseconds
from stunwatch.ingest.records import LineRecords, Origin, generation_of

Record = dict[str, Any]
Event = dict[str, Any]


def cases_of(detector: Detector) -> list[Path]:
    """Return the case folders of a detector, sorted by name."""
    return sorted(path.parent for path in detector.folder.glob("cases/*/input.log"))


def records_of(log: Path, owner: str) -> Iterator[Record]:
    """Yield the records of one file as a tracker receives them; `owner` is `vm` or `host`."""
    yield from records_of_lines(
        log.read_bytes().removesuffix(b"\n").split(b"\n"), owner, file=log.name
    )


def records_of_lines(lines: list[bytes], owner: str, file: str = "a.log") -> Iterator[Record]:
    """Yield the records of lines (without terminators) as a tracker receives them."""
    maker = LineRecords(
        Origin(
            run_id="case",
            source="vmware_log" if owner == "vm" else "syslog",
            host="esx01.lab.example",
            vm="vm01" if owner == "vm" else None,
            datastore="datastore01" if owner == "vm" else None,
            file=file,
            generation=generation_of(lines[0]),
        ),
        written_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    offset = 0
    for line in lines:
        if line.startswith(b"{"):
            yield short_window_record(line.decode())
            continue
        record = maker.make(line, "2026-01-01T00:00:00.000Z", offset, len(line) + 1)
        offset += len(line) + 1
        if "reason" not in record:
            yield {**record, "event_time_us": epoch_microseconds(record["event_time"])}


def owner_of(record: Mapping[str, Any]) -> str:
    """Return the log key of a record by the rule of the JVM (jobs/detect.sql)."""
    return host_events.owner_of(record["message"], str(record["owner"]))


def short_window_record(message: str) -> Record:
    """Return a 10 s window of esxtop samples as the JVM passes it to Python (jobs/samples.sql)."""
    event_time = orjson.loads(message)["last_at"].replace(" ", "T") + "Z"
    return {
        "event_time": event_time,
        "event_time_us": epoch_microseconds(event_time),
        "kind": "line",
        "source": "esxtop",
        "host": "esx01.lab.example",
        "message": message,
        "offset": -1,
        "run_id": "case",
        "time_quality": "exact",
    }


def run(detector: Detector, records: Iterable[Mapping[str, Any]]) -> list[Event]:
    """Return all events in the order of writing; calls the tracker as the Flink adapter does."""
    tracker = detector.tracker()
    events: list[Any] = []
    for record in records:
        events += tracker.advance_time(record["event_time_us"])
        if record["kind"] == "line":
            events += tracker.feed(record)
    events += tracker.flush()
    return [orjson.loads(orjson.dumps(event)) for event in events]


def joins_of(detector: Detector) -> list[Path]:
    """Return the folders of cases that need logs with different keys."""
    return sorted(path.parent for path in detector.folder.glob("joins/*/host.log"))


def records_by_owner(join: Path) -> dict[str, list[Record]]:
    """Return the records of a join by log key, each list with a progress record at its end."""
    found = {}
    for kind in ("vm", "host"):
        owner = f"{join.name}/{kind}"
        records = list(records_of(join / f"{kind}.log", kind))
        found[owner] = [{**each, "owner": owner} for each in [*records, progress_after(records)]]
    return found


def run_joined(records: Iterable[Mapping[str, Any]]) -> list[Event]:
    """Return all stuns of records with their log keys, through both steps as in Flink."""
    owners: dict[str, Owner] = {}
    sent: list[Mapping[str, Any]] = []
    events: list[Any] = []
    for step in (records, sent):
        for record in step:
            owner = owners.setdefault(record["owner"], Owner())
            for topic, event in owner.feed(record):
                if topic == FACTS:
                    sent.append({**event, "event_time_us": epoch_microseconds(event["event_time"])})
                elif topic == "events.stun":
                    events.append(event)
    return [orjson.loads(orjson.dumps(event)) for event in events]


def progress_after(records: list[Record]) -> Record:
    """Return the record at the end of a source: it advances the event time and contains no line."""
    newest = max(records, key=lambda record: record["event_time_us"])
    return {**newest, "kind": "progress"}


def final_rows(events: Iterable[Event]) -> list[Event]:
    """Return the final rows: of each event the highest revision, unless it is retracted."""
    best: dict[str, Event] = {}
    for event in events:
        if event["revision"] >= best.get(event["event_id"], event)["revision"]:
            best[event["event_id"]] = event
    rows = [event for event in best.values() if not event["is_deleted"]]
    return sorted(rows, key=lambda event: (event.get("started_at", ""), event["event_id"]))


def golden_lines(rows: Iterable[Event]) -> str:
    """Return the text of `expected.jsonl`: one row per line, without `run_id`, which varies."""
    return "".join(
        orjson.dumps({key: value for key, value in row.items() if key != "run_id"}).decode() + "\n"
        for row in rows
    )
