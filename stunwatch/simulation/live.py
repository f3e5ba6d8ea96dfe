"""Sends a simulation to a running pipeline, like the shippers of live logs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson

from stunwatch.access import kafka_access
from stunwatch.ingest.records import LineRecords, Origin, Record, generation_of, kafka_key
from stunwatch.ingest.replay.esxtop import EsxtopRecords, is_header
from stunwatch.ingest.times import utc_text
from stunwatch.settings import Settings
from stunwatch.shipping import Batch, Shipper
from stunwatch.simulation.run import Logs
from stunwatch.simulation.writing import LogFile

TOPICS = {"syslog": "esxi.syslog", "vmware_log": "esxi.vmware_log", "esxtop": "esxi.esxtop"}
PRINCIPAL = "fluent-bit"
"""The shipper that it replaces."""

_REJECTED = "esxi.rejected"
_AT_ONCE_US = 1_000_000

Make = Callable[[bytes, str, int, int], list[Record]]


def feed(
    simulation: Logs,
    settings: Settings,
    speed: float | None,
    while_waiting: Callable[[], None] = lambda: None,
    progress: Callable[[int], None] = lambda count: None,
) -> dict[str, int]:
    """Ship all lines at `speed` times the original rate, or at once; count records by topic."""
    shipper = Shipper(kafka_access(settings, PRINCIPAL), while_waiting)
    counts: dict[str, int] = {}
    began = time.monotonic()
    for second_us, batches in records_by_second(simulation):
        if speed is not None:
            due = began + (second_us - simulation.fleet.started_us) / 1_000_000 / speed
            time.sleep(max(0.0, due - time.monotonic()))
        for topic, batch in batches.items():
            shipper.send(topic, batch)
            counts[topic] = counts.get(topic, 0) + len(batch)
            progress(len(batch))
    shipper.flush()
    return counts


def records_by_second(simulation: Logs) -> Iterator[tuple[int, dict[str, Batch]]]:
    """Yield the records of all files in the order of writing, by topic, one second at a time."""
    makers: list[tuple[Make, Iterator[tuple[bytes, int]]]] = []
    moments: list[tuple[int, int]] = []
    for host in simulation.fleet.hosts:
        if host.relay == "json":
            host.relay = ""  # only replay extracts lines from JSON
    for file in simulation.files():
        if file.is_packed:
            continue  # a tail reads files as they are written, not packed later
        moments += [(at // _AT_ONCE_US, len(makers)) for at, _ in file.lines]
        makers.append((_maker(file), _places(file)))
    moments.sort()
    batches: dict[str, Batch] = {}
    current = moments[0][0] if moments else 0
    for second, number in moments:
        if second != current:
            yield current * _AT_ONCE_US, batches
            current, batches = second, {}
        make, places = makers[number]
        line, offset = next(places)
        received_at = utc_text(datetime.now(UTC))
        for record in make(line, received_at, offset, len(line) + 1):
            topic = _REJECTED if "reason" in record else TOPICS[record["source"]]
            message: dict[str, Any] = {
                "key": kafka_key(record).encode(),
                "value": orjson.dumps(record),
            }
            batches.setdefault(topic, []).append(message)
    if batches:
        yield current * _AT_ONCE_US, batches


def _places(file: LogFile) -> Iterator[tuple[bytes, int]]:
    """Yield lines with offsets that do not count esxtop's headers, which become no record.

    No file remains in which `audit` could see that a missing range is a header.
    """
    offset = 0
    for _, text in file.lines:
        line = text.encode()
        yield line, offset
        if not is_header(line):
            offset += len(line) + 1


def _maker(file: LogFile) -> Make:
    """Return the function that makes a file's records."""
    parts = file.path.parts
    origin = Origin(
        run_id="live",
        host=parts[0],
        file=f"/{'/'.join(parts[1:])}",
        generation=generation_of(file.lines[0][1].encode()),
    )
    if file.path.suffix == ".csv":
        samples = EsxtopRecords(replace(origin, source="esxtop"))

        def make_samples(line: bytes, received_at: str, offset: int, size: int) -> list[Record]:
            if is_header(line):
                samples.read_header(line)
                return []
            return samples.make(line, received_at, offset, size)

        return make_samples
    if "volumes" in parts:
        origin = replace(origin, source="vmware_log", datastore=parts[-3], vm=parts[-2])
    lines = LineRecords(origin, written_at=datetime.now(UTC))
    return lambda line, received_at, offset, size: [lines.make(line, received_at, offset, size)]
