"""Sends missing ranges of files again, with enough lines around them for the trackers.

A line's identity is its owner, time, offset and text. A line that is stored already therefore
changes nothing if it is read with the same host, time zone and year as before. The stored lines
around a gap are compared to check this.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from rich.console import Console

from stunwatch import replaying
from stunwatch.audit.files import StoredFile
from stunwatch.clickhouse import ClickHouse
from stunwatch.engine.owner import epoch_microseconds
from stunwatch.ingest.replay import Message, Options, Plan, Problem, Reading, SourceFile, plan
from stunwatch.ingest.times import UptimeClock
from stunwatch.settings import Settings

MARGIN_US = 3 * 3600 * 1_000_000
"""Event time sent before and after a gap: longer than trackers keep lines."""

QUIET_US = 60 * 1_000_000
"""Minimum silence before and after a range that is sent. A cut without a silence could split one
event into two.
"""

COMPARED_LINES = 2_000
"""Number of stored lines around a gap that are compared with the file."""

_STORED = """
SELECT offset, toUnixTimestamp64Micro(event_time), source, host, vm, datastore
FROM log_lines_stored
WHERE generation = {generation:String} AND offset >= {first:UInt64} AND offset < {end:UInt64}
ORDER BY abs(toInt64(offset) - {near:Int64}) ASC
LIMIT 1 BY offset
LIMIT {most:UInt32}
"""

Ranges = list[tuple[int, int]]
"""[from, to) in bytes, sorted, neither overlapping nor adjacent."""

Identity = tuple[int, str, str, str, str]
"""A line's event time (µs), source, host, VM, datastore."""


class Part:
    """Reads a file, but yields only the lines in some ranges.

    The whole file is read, because a line without a timestamp has the time of the line before it. A
    Part can be iterated once and has the interface `stunwatch.replaying.FileReading`; `lines_read`
    counts the lines that it yielded.
    """

    def __init__(
        self,
        source: SourceFile,
        run_id: str,
        options: Options,
        uptimes: UptimeClock,
        ranges: Ranges,
    ) -> None:
        self._reading = Reading(source, run_id, options, uptimes=uptimes)
        self._ranges = ranges
        self.lines_read = 0

    @property
    def consumed_bytes(self) -> int:
        """Number of bytes read from the file on disk."""
        return self._reading.consumed_bytes

    @property
    def bytes_read(self) -> int:
        """Number of bytes read from the decompressed file."""
        return self._reading.bytes_read

    @property
    def problem(self) -> Problem | None:
        """Why the file could not be read to its end."""
        return self._reading.problem

    def __iter__(self) -> Iterator[list[Message]]:
        """Yield lists of messages. The final progress has the latest time of the lines yielded."""
        latest: dict[str, str] = {}
        last_offset = -1
        for messages in self._reading:
            wanted: list[Message] = []
            for topic, key, record in messages:
                if record.get("kind") == "progress":
                    if key in latest:
                        wanted.append((topic, key, {**record, "event_time": latest[key]}))
                    continue
                if not _holds(self._ranges, record["offset"]):
                    continue
                wanted.append((topic, key, record))
                self.lines_read += record["offset"] != last_offset
                last_offset = record["offset"]
                if "event_time" in record:
                    moment = record["event_time"]
                    latest[key] = max(latest.get(key, moment), moment, key=epoch_microseconds)
            yield wanted


def _holds(ranges: Ranges, offset: int) -> bool:
    place = bisect_right(ranges, offset, key=lambda each: each[0]) - 1
    return place >= 0 and offset < ranges[place][1]


@dataclass
class Lines:
    """The offsets of a file's lines and their times in µs. A rejected line has the previous line's
    time.
    """

    offsets: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    end: int = 0
    is_esxtop: bool = False


def lines_of(source: SourceFile, options: Options) -> Lines:
    """Read a file for the offsets and times of its lines."""
    reading = Reading(source, "", options)
    found = Lines(is_esxtop=source.kind == "esxtop")
    for messages in reading:
        for _, _, record in messages:
            if record.get("kind") == "progress" or record["offset"] in found.offsets[-1:]:
                continue
            found.offsets.append(record["offset"])
            if "event_time" in record:
                found.times.append(epoch_microseconds(record["event_time"]))
            else:
                found.times.append(found.times[-1] if found.times else 0)
    found.end = reading.bytes_read
    return found


def ranges_around(lines: Lines, gaps: Ranges) -> Ranges:
    """Return the gaps with a margin of event time on both sides, cut at silences of the log."""
    found: Ranges = []
    for start, end in sorted(gaps):
        first = bisect_left(lines.offsets, start)
        last = bisect_left(lines.offsets, end) - 1
        if first > last:
            continue
        first_us, last_us = lines.times[first], lines.times[last]
        while first and (
            lines.times[first - 1] >= first_us - MARGIN_US or not _is_quiet(lines, first)
        ):
            first -= 1
        while last + 1 < len(lines.offsets) and (
            lines.times[last + 1] <= last_us + MARGIN_US or not _is_quiet(lines, last + 1)
        ):
            last += 1
        following = last + 1
        stop = lines.offsets[following] if following < len(lines.offsets) else lines.end
        if found and lines.offsets[first] <= found[-1][1]:
            found[-1] = (found[-1][0], max(stop, found[-1][1]))
        else:
            found.append((lines.offsets[first], stop))
    return found


def _is_quiet(lines: Lines, place: int) -> bool:
    """True if there was a silence before this line. Samples need no silence."""
    return lines.is_esxtop or lines.times[place] - lines.times[place - 1] >= QUIET_US


@dataclass
class Repair:
    """The files that can be sent again, and the reasons why others cannot."""

    sources: list[SourceFile] = field(default_factory=list)
    ranges: dict[str, Ranges] = field(default_factory=dict)
    """By generation."""
    refused: list[tuple[StoredFile, str]] = field(default_factory=list)
    """Files, each with a sentence that explains the problem."""


def repair(
    settings: Settings,
    clickhouse: ClickHouse,
    files: list[StoredFile],
    options: Options,
    console: Console,
) -> Repair:
    """Send the gaps of these files; return when their lines and events can be queried."""
    with ExitStack() as plans:
        what = Repair()
        for file in files:
            sentence = _prepare(what, plans, clickhouse, file, options)
            if sentence:
                what.refused.append((file, sentence))
        if what.sources:

            def part(
                source: SourceFile, run_id: str, options: Options, uptimes: UptimeClock
            ) -> Part:
                return Part(source, run_id, options, uptimes, what.ranges[source.generation])

            outcome = replaying.run(settings, Plan(what.sources), options, console, part)
            console.print(outcome.summary, highlight=False)
    return what


def _prepare(
    what: Repair, plans: ExitStack, clickhouse: ClickHouse, file: StoredFile, options: Options
) -> str:
    """Add a file to the repair; return a sentence if that is impossible."""
    if file.path is None:
        return "the file is not on this machine; replay it where it is"
    # The file was tailed, or replayed with --vm: the stored lines have its VM and datastore.
    known = replace(options, vm=file.vm or None, datastore=file.datastore or None)
    planned = plans.enter_context(plan([file.path], known))
    source = next((each for each in planned.files if each.generation == file.generation), None)
    if source is None:
        return "the file cannot be read" if planned.problems else "the file has changed"
    lines = lines_of(source, options)
    ranges = ranges_around(lines, list(file.gaps))
    if not ranges:
        return "the file has changed: the missing range contains no line"
    stored = _stored_around(clickhouse, file)
    hosts = dict.fromkeys((options.host or file.host or None, source.host, None))
    differing = "host"
    for host in hosts:
        owned = replace(source, host=host)
        if source.kind == "vmware_log":
            owned = replace(owned, vm=file.vm or None, datastore=file.datastore or None)
        differing = _first_difference(owned, options, stored)
        if not differing:
            what.sources.append(owned)
            what.ranges[file.generation] = ranges
            return ""
    return (
        f"its lines would be stored twice, with another {differing}. Use the same --tz, --year"
        " and --host as for the replay"
    )


def _stored_around(clickhouse: ClickHouse, file: StoredFile) -> dict[int, Identity]:
    """Return stored lines on both sides of the gaps, by offset."""
    found: dict[int, Identity] = {}
    for start, end in file.gaps[:20]:
        for first, stop, near in ((0, start, start), (end, 1 << 62, end)):
            rows = clickhouse.rows(
                _STORED,
                {
                    "generation": file.generation,
                    "first": first,
                    "end": stop,
                    "near": near,
                    "most": COMPARED_LINES // 2,
                },
            )
            found |= {offset: (at_us, *names) for offset, at_us, *names in rows}
    return found


def _first_difference(source: SourceFile, options: Options, stored: dict[int, Identity]) -> str:
    """Return the first field that differs from a stored line; empty if all lines are the same."""
    names = ("time", "source", "host", "VM", "datastore")
    for messages in Reading(source, "", options):
        for _, _, record in messages:
            if record.get("kind") != "line" or record["offset"] not in stored:
                continue
            for name, mine, theirs in zip(
                names, _identity(record), stored[record["offset"]], strict=True
            ):
                if mine != theirs:
                    return name
    return ""


def _identity(record: dict[str, Any]) -> Identity:
    return (
        epoch_microseconds(record["event_time"]),
        record["source"],
        record.get("host", ""),
        record.get("vm", ""),
        record.get("datastore", ""),
    )
