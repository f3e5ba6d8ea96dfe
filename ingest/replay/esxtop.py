r"""Converts esxtop's batch CSV: one wide row becomes the samples of its objects (esxtop_row.v1).

The header contains a time zone and, per column, `\\host\Object(instance)\Counter`. It is parsed
once into a plan for its rows. A file may have several headers (esxtop was restarted with `>>`).
Rows are quoted, as esxtop writes them, or unquoted, as Excel saves them.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from itertools import compress
from typing import Final

from stunwatch.ingest.records import FAILED, Origin, Record, decode, fuller_host, is_long, rejection
from stunwatch.ingest.times import FIRST_YEAR, LAST_YEAR

# A header of 51,000 columns has 4 MB.
MAX_ROW_BYTES: Final = 16 << 20

MOST_OBJECTS: Final = 100
"""Most objects in one message. A row with more of one class becomes several messages."""
MOST_NAME_BYTES: Final = 16 << 10
"""About how long the names of the objects in one message are together at most."""

OBJECT_CLASSES = {
    "Physical Disk SCSI Device": "scsi_device",
    "Physical Disk Adapter": "adapter",
    "Physical Disk Path": "path",
    "Physical Disk Per-Device-Per-World": "device_world",
    "Physical Disk NFS Volume": "nfs_volume",
    "Physical Disk": "disk",  # before ESXi 5
    "Virtual Disk": "virtual_disk",
}
# esxtop's counter → field, in the order of the fields in a sample
FIELDS = {
    "Average Driver MilliSec/Command": "davg_ms",
    "Average Kernel MilliSec/Command": "kavg_ms",
    "Average Guest MilliSec/Command": "gavg_ms",
    "Average Queue MilliSec/Command": "qavg_ms",
    "Average Driver MilliSec/Read": "davg_read_ms",
    "Average Driver MilliSec/Write": "davg_write_ms",
    "Average Guest MilliSec/Read": "gavg_read_ms",
    "Average Guest MilliSec/Write": "gavg_write_ms",
    # counters of a virtual disk, as the guest sees them
    "Average MilliSec/Read": "gavg_read_ms",
    "Average MilliSec/Write": "gavg_write_ms",
    "Commands/sec": "commands_per_second",
    "Reads/sec": "reads_per_second",
    "Writes/sec": "writes_per_second",
    "MBytes Read/sec": "megabytes_read_per_second",
    "MBytes Written/sec": "megabytes_written_per_second",
    "Active Commands": "active_commands",
    "Queued Commands": "queued_commands",
    "Failed Reserves/sec": "failed_reserves_per_second",
    "Aborts/sec": "aborts_per_second",
    "Resets/sec": "resets_per_second",
}
_ORDER = {name: number for number, name in enumerate(FIELDS.values())}
_BOM = b"\xef\xbb\xbf"
HOST = re.compile(r"\\\\([^\\]+)\\")
COLUMN = re.compile(r"\\\\[^\\]*\\(?P<object>[^(\\]+)\((?P<instance>.+)\)\\(?P<counter>[^\\]+)")
_ZONE = re.compile(r"\(PDH-CSV [\d.]+\) \(.*\)\((?P<minutes>[+-]?\d{1,4})\)")
# 02/03/2024 04:05:06 as esxtop writes it, 2/3/2024 4:05 as Excel does
_TIME = re.compile(
    r"(\d{1,2})/(\d{1,2})/(\d{4}) (\d{1,2}):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?", re.ASCII
)
# A counter that is negative, infinite or above this has no value (ingest/lua/esxtop.lua).
LARGEST_VALUE = 1e12
# The host name that esxtop writes if it cannot determine one.
UNNAMED = frozenset({"local", "localhost"})


def is_header(row: bytes) -> bool:
    """Return True if a row (or file) begins like a header."""
    return row[:12].removeprefix(_BOM).lstrip(b'"').startswith(b"(PDH-CSV")


@dataclass(frozen=True, slots=True)
class _Group:
    """Objects of one class whose samples are in one message."""

    object_class: str
    devices: list[str]
    counters: list[tuple[str, list[int]]]
    """By field: the column of each object. Behind the last column is an empty one, for objects
    without this counter."""


class EsxtopRecords:
    """Makes the messages of one CSV file, row by row."""

    def __init__(self, origin: Origin) -> None:
        """`origin.host` comes from the folder or an option. A host in the header replaces it."""
        self._folder_origin = origin
        self.origin = origin
        self._columns = 0
        self._zone = UTC
        self._groups: list[_Group] = []

    def read_header(self, row: bytes) -> None:
        """Read the zone, the host and the plan for the rows that follow."""
        try:
            names = next(csv.reader([decode(row)]))
        except csv.Error:
            names = []  # every row will be rejected for its number of columns
        self._columns = len(names)
        self._zone = _zone(names[0]) if names else UTC
        objects: dict[str, dict[str, dict[str, int]]] = {}
        host = None
        for number, name in enumerate(names):
            named = HOST.match(name) if host is None else None
            if named and named[1] not in UNNAMED and not is_long(named[1]):
                host = named[1]
            column = COLUMN.fullmatch(name)
            if column is None:
                continue
            object_class = OBJECT_CLASSES.get(column["object"])
            field = FIELDS.get(column["counter"])
            if object_class is not None and field is not None:
                of_class = objects.setdefault(object_class, {})
                of_class.setdefault(column["instance"], {})[field] = number
        self._groups = [
            group
            for object_class, found in objects.items()
            for group in _groups(object_class, found, self._columns)
        ]
        known = self._folder_origin.host
        self.origin = replace(self._folder_origin, host=fuller_host(host, known) if host else known)

    def make(self, row: bytes, received_at: str, offset: int, line_bytes: int) -> list[Record]:
        """Return the messages of a row (not of a header), or one rejection if any error occurs."""
        try:
            return self._make(row, received_at, offset, line_bytes)
        except Exception as error:
            reason = f"{FAILED}{type(error).__name__}"
        return [
            rejection(row, reason, received_at, self.origin, offset=offset, line_bytes=line_bytes)
        ]

    def _make(self, row: bytes, received_at: str, offset: int, line_bytes: int) -> list[Record]:
        values = values_of(row)
        event_time = self._event_time(values[0])
        if len(row) > MAX_ROW_BYTES:
            reason = f"row too long: {line_bytes:,} bytes"
        elif len(values) != self._columns:
            plural = "" if len(values) == 1 else "s"
            reason = f"{len(values)} column{plural}, but the header has {self._columns}"
        elif event_time is None:
            reason = "the first column is not a time"
        elif samples := self._samples(values, event_time, received_at, offset, line_bytes):
            return samples
        else:
            reason = "no disk counter with a number"
        return [
            rejection(row, reason, received_at, self.origin, offset=offset, line_bytes=line_bytes)
        ]

    def _samples(
        self, values: list[bytes], event_time: str, received_at: str, offset: int, line_bytes: int
    ) -> list[Record]:
        origin = self.origin
        first: Record = {
            "event_time": event_time,
            "received_at": received_at,
            "kind": "line",
            "source": "esxtop",
        }
        if origin.host is not None:
            first["host"] = origin.host
        last: Record = {
            "file": origin.file,
            "generation": origin.generation,
            "offset": offset,
            "line_bytes": line_bytes,
            "run_id": origin.run_id,
            "time_quality": "exact",
        }
        values.append(b"")
        return [
            {**first, "object_class": group.object_class, **measured, **last}
            for group in self._groups
            if (measured := _measured(values, group))
        ]

    def _event_time(self, value: bytes) -> str | None:
        match = _TIME.fullmatch(decode(value))
        if match is None:
            return None
        month, day, year, hour, minute = (int(part) for part in match.groups()[:5])
        try:
            local = datetime(year, month, day, hour, minute, int(match[6] or 0), tzinfo=self._zone)
            text = local.astimezone(UTC).isoformat()[:19]
        except (ValueError, OverflowError):
            return None
        if not FIRST_YEAR <= year <= LAST_YEAR:
            return None
        return f"{text}.{match[7]}Z" if match[7] else f"{text}Z"


def _zone(name: str) -> timezone:
    """Return the zone from the first column's name (minutes east of UTC); UTC if it has none."""
    zone = _ZONE.match(name)
    minutes = int(zone["minutes"]) if zone else 0
    return timezone(timedelta(minutes=minutes)) if abs(minutes) < 24 * 60 else UTC


def _groups(
    object_class: str, objects: Mapping[str, Mapping[str, int]], no_column: int
) -> Iterator[_Group]:
    """Yield the objects of a class in groups, each for one message."""
    devices: list[str] = []
    name_bytes = 0
    for device in objects:
        own_bytes = len(device.encode())
        is_full = len(devices) == MOST_OBJECTS or name_bytes + own_bytes > MOST_NAME_BYTES
        if devices and is_full:
            yield _group(object_class, devices, objects, no_column)
            devices, name_bytes = [], 0
        devices.append(device)
        name_bytes += own_bytes
    yield _group(object_class, devices, objects, no_column)


def _group(
    object_class: str,
    devices: list[str],
    objects: Mapping[str, Mapping[str, int]],
    no_column: int,
) -> _Group:
    fields = {field for device in devices for field in objects[device]}
    counters = [
        (field, [objects[device].get(field, no_column) for device in devices])
        for field in sorted(fields, key=_ORDER.__getitem__)
    ]
    return _Group(object_class, devices, counters)


def _measured(values: list[bytes], group: _Group) -> Record | None:
    """Return `devices` and `measures` of a message; None if no column holds a number.

    An object without any number is left out, and so is a counter that no object has.
    """
    measures = {}
    for field, columns in group.counters:
        numbers = _numbers([values[column] for column in columns])
        if numbers.count(None) < len(numbers):
            measures[field] = numbers
    if not measures:
        return None
    devices = group.devices
    if all(None in numbers for numbers in measures.values()):
        is_measured = [
            any(each is not None for each in found)
            for found in zip(*measures.values(), strict=True)
        ]
        devices = list(compress(devices, is_measured))
        measures = {field: list(compress(found, is_measured)) for field, found in measures.items()}
    return {"devices": devices, "measures": measures}


def _numbers(values: list[bytes]) -> list[float | None]:
    """Return the values of a counter. Most are numbers, and all are in range."""
    try:
        numbers = [*map(float, values)]
    except ValueError:
        return [*map(_number, values)]
    # With a value that is not a number, a comparison is false.
    if min(numbers) >= 0 and sum(numbers) <= LARGEST_VALUE:
        return [*numbers]
    return [*map(_number, values)]


def _number(value: bytes) -> float | None:
    """Return a counter's value; None if there is none."""
    try:
        number = float(value)
    except ValueError:
        return None
    return number if 0 <= number <= LARGEST_VALUE else None


def samples_in(message: Record) -> Iterator[Record]:
    """Yield the samples of a message one by one, as esxtop_sample.v1 has them."""
    devices, measures = message["devices"], message["measures"]
    common = {name: each for name, each in message.items() if name not in ("devices", "measures")}
    for place, device in enumerate(devices):
        measured = {
            field: numbers[place]
            for field, numbers in measures.items()
            if numbers[place] is not None
        }
        yield {**common, "device": device, **measured}


def values_of(row: bytes) -> list[bytes]:
    """Return the columns' values without quotes."""
    if b'"' not in row:
        return row.split(b",")
    if row.startswith(b'"') and row.endswith(b'"'):
        return row[1:-1].split(b'","')
    return [value.strip(b'"') for value in row.split(b",")]
