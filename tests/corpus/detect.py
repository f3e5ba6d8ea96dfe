"""Runs a case through `ingest` and the detectors in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from stunwatch.engine.owner import epoch_microseconds, feed_in_order
from stunwatch.ingest.records import Record, WireRecords, generation_of, kafka_key
from stunwatch.ingest.replay import Reading, SourceFile
from stunwatch.ingest.replay.esxtop import samples_in
from tests.corpus.cases import DATASTORE, HOST, VM, Case
from tests.detectors.cases import final_rows

READ_AT = datetime(2026, 6, 30, 12, tzinfo=UTC)
"""The time of reading, which gives timestamps without a year their year."""

_EVENTS = "events."
"""Prefix of the topics of events. Other topics contain facts for the second step."""


def records_of(case: Case) -> list[Record]:
    """Return a record or a rejection for each line; the samples for esxtop."""
    if case.reads == "wire":
        maker = WireRecords(run_id="corpus")
        return [
            maker.make(line.encode(), "192.0.2.1", _arrival_of(line.encode()))
            for line in case.lines
        ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / case.file
        path.write_text("".join(f"{line}\n" for line in case.lines), "utf-8")
        is_vm = case.reads == "vmware_log"
        source = SourceFile(
            path=path,
            name=case.file,
            kind={"host": "syslog"}.get(case.reads, case.reads),
            host=HOST,
            vm=VM if is_vm else None,
            datastore=DATASTORE if is_vm else None,
            generation=generation_of(case.lines[0].encode()),
            size_bytes=path.stat().st_size,
            written_at=READ_AT,
            first_event_time="",
            is_wrapped=case.is_wrapped,
        )
        read = Reading(source, "corpus", now=lambda: READ_AT)
        return [
            each
            for batch in read
            for _, _, record in batch
            if record.get("kind") != "progress"
            for each in (samples_in(record) if "devices" in record else [record])
        ]


def _arrival_of(line: bytes) -> datetime:
    """Return when a syslog line arrives: at the time written in it, in its year."""
    stamped_at = WireRecords().make(line, "192.0.2.1", READ_AT).get("stamped_at")
    return datetime.fromisoformat(stamped_at) if stamped_at else READ_AT


def rows_of(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Return the final rows of all events, each with its type."""
    first = [told for _, told in feed_in_order({}, _fed(records))]
    facts = [
        {**fact, "event_time_us": epoch_microseconds(fact["event_time"]), "kafka_offset": number}
        for number, (topic, fact) in enumerate(first)
        if not topic.startswith(_EVENTS)
    ]
    second = [told for _, told in feed_in_order({}, facts)]
    return final_rows(
        {"type": topic.removeprefix(_EVENTS), **orjson.loads(orjson.dumps(event))}
        for topic, event in (*first, *second)
        if topic.startswith(_EVENTS)
    )


def _fed(records: Iterable[Record]) -> Iterator[Record]:
    """Return records in the form for trackers. Each log ends with a progress record."""
    last: dict[str, Record] = {}
    for number, record in enumerate(records):
        if "reason" not in record:
            key = kafka_key(record)
            at_us = epoch_microseconds(record["event_time"])
            fed = {**record, "owner": key, "event_time_us": at_us, "kafka_offset": number}
            yield fed
            if at_us >= last.get(key, fed)["event_time_us"]:
                last[key] = fed
    for fed in last.values():
        yield {**fed, "kind": "progress", "kafka_offset": 1 << 40}


def result_of(case: Case) -> dict[str, Any]:
    """Return the line of results for one case, in the format that `score` reads."""
    records = records_of(case) if case.reads != "esxtop" else []
    return {"case": case.id, "events": rows_of(records)}
