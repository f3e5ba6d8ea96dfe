"""A simulation fed into the running pipeline, as the shippers of the live path do it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson

from ingest.records import LineRecords, Origin, Record, generation_of, kafka_key
from ingest.replay.esxtop import EsxtopRecords, is_header
from ingest.times import utc_text
from stunwatch.access import kafka_access
from stunwatch.settings import Settings
from stunwatch.shipping import Batch, Shipper
from stunwatch.simulation.run import Logs
from stunwatch.simulation.writing import LogFile

TOPICS = {"syslog": "esxi.syslog", "vmware_log": "esxi.vmware_log", "esxtop": "esxi.esxtop"}
PRINCIPAL = "fluent-bit"
"""What it stands in for."""

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
    """Ship every line, `speed` times as fast as it was written, or at once; records by topic."""
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
    """The records of all files in the order of writing, by topic, a second at a time."""
    makers: list[tuple[Make, Iterator[tuple[bytes, int]]]] = []
    moments: list[tuple[int, int]] = []
    for file in simulation.files():
        if file.is_packed:
            continue  # a tail reads what is written, not what was packed later
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
    """The lines with their offsets, as if esxtop's headers, which become no record, took no place.

    No file is left in which `audit` could see that what is missing is a header.
    """
    offset = 0
    for _, text in file.lines:
        line = text.encode()
        yield line, offset
        if not is_header(line):
            offset += len(line) + 1


def _maker(file: LogFile) -> Make:
    """What makes a file's records."""
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
