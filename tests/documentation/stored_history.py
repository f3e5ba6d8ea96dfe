"""Store what `stunwatch replay` and `inventory load` would, without Kafka and Flink."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson

from stunwatch.incidents.correlator import INVENTORY_TOPIC
from stunwatch.ingest.replay import Options, Reading, plan
from stunwatch.ingest.times import UptimeClock
from stunwatch.inventory.files import read
from stunwatch.inventory.items import items_of
from stunwatch.triage.finding import VIEWS
from tests.clickhouse_server import Server
from tools.score import in_memory

RUN = "history"


def store(server: Server, folder: Path, *inventories: Path) -> None:
    """Store lines, samples, minutes of latency, events and incidents of a folder of logs."""
    rows = in_memory.find(folder).rows
    server.read(_lines(folder))
    server.read((topic, orjson.dumps(row)) for topic, view in VIEWS.items() for row in rows[view])
    server.read((INVENTORY_TOPIC, orjson.dumps(item)) for item in _items(inventories))
    _store_minutes(server)


def _lines(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Return the messages that a replay would send."""
    with plan([folder], Options()) as what:
        uptimes = UptimeClock()
        for file in what.files:
            for messages in Reading(file, RUN, Options(), uptimes=uptimes):
                for topic, _, record in messages:
                    yield topic, orjson.dumps(record)


def _items(inventories: Iterable[Path]) -> Iterator[dict[str, Any]]:
    for source in read(inventories, None, None, lambda _: None).sources:
        at_us = int(source.observed_at.timestamp()) * 1_000_000 + source.observed_at.microsecond
        yield from items_of(source.outputs, source.host, at_us, RUN, source.given_name)


def _store_minutes(server: Server) -> None:
    """Compute the minutes of latency with the SQL for late samples instead of Flink's SQL."""
    minutes = "toDateTime64(toStartOfMinute(sampled_at), 3, 'UTC') AS window_start"
    columns = (
        "event_id, run_id, host, object_class, device, window_seconds, window_start, window_end,"
        " avg_davg_ms, p95_davg_ms, max_davg_ms, avg_kavg_ms, max_kavg_ms, commands, samples,"
        " origin"
    )
    for statement in (
        "INSERT INTO latency_windows_late (host, object_class, device, window_start)"
        f" SELECT DISTINCT host, object_class, device, {minutes} FROM latency_samples_stored",
        f"INSERT INTO latency_windows_stored (revision, detected_at, {columns})"
        f" SELECT 1, detected_at, {columns} FROM latency_windows",
        "TRUNCATE TABLE latency_windows_late",
    ):
        server.admin.command(statement)
