"""Unwraps lines that another program wrapped: in a field of a JSON object or of a CSV row, after
grep's file name and line number, in Kiwi's tab-separated columns, after another prefix, or in
colour codes. If the head of the line was parsed into fields, the line is built from them.

Only `stunwatch replay` unwraps, and only files in which most lines are wrapped. In other files, a
line that looks wrapped is a message text.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from typing import Any, Final

import orjson

from stunwatch.ingest.heads import HOST_FILE, Finder
from stunwatch.ingest.records import (
    JSON,
    MAX_LINE_BYTES,
    LineRecords,
    Origin,
    Record,
    cut,
    decode,
    program_of_file,
    reason_of,
    rejection,
)
from stunwatch.ingest.replay.fields import LinesOfFields, columns_of, value_of
from stunwatch.ingest.times import Stamps, UptimeClock
from stunwatch.ingest.vm_paths import vm_of

JSON_BROKEN: Final = "not one whole JSON object per line of at most 64 KiB"
JSON_WITHOUT_MESSAGE: Final = "JSON object without message field"
JSON_WITHOUT_HEAD: Final = (
    "JSON object with a message of unknown format, and without fields with its time and host"
)

# Whole lines first: Graylog and Elastic keep the original line next to the fields parsed from it.
MESSAGE_FIELDS = (
    ("event", "original"),
    ("_source", "event", "original"),  # a document that was dumped from an index of Elastic
    ("_source", "message"),
    ("result", "_raw"),  # Splunk
    ("_raw",),
    ("full_message",),
    ("message",),
    ("@message",),
    ("short_message",),
    ("log",),
    ("MESSAGE",),
    ("_msg",),  # VictoriaLogs
    ("line",),  # Loki
    ("text",),  # VMware Log Insight
)
# Fields with the file from which an agent read the line.
_FILE_FIELDS = (
    ("log", "file", "path"),
    ("_source", "log", "file", "path"),
    ("result", "source"),
    ("labels", "filename"),
    ("file",),
    ("filename",),
    ("path",),
    ("source",),
)

_COLOURS = re.compile(r"\x1b\[[0-9;]{0,20}[mK]")
# vmkernel.log:2024-…, /var/log/vmkernel.log:12:2024-…, 12:2024-…, C:\logs\vmkernel.log:12:2024-…
_GREP = re.compile(
    r"(?:(?P<path>(?:[A-Za-z]:)?[^:\x00-\x1f]{1,1024}):)?(?:\d{1,10}:)?(?=\S)", re.ASCII
)
# 2024-05-06 07:08:09<TAB>Local4.Info<TAB>192.0.2.17<TAB>May 06 07:08:09 esx01 …
_KIWI = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\t[A-Za-z]\w{0,15}\.\w{1,15}\t\S{1,255}\t", re.ASCII
)
# Files of Fluentd and Fluent Bit: time<TAB>tag<TAB>{…} and tag: [time, {…}]
_TAGGED = re.compile(
    r"(?:(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S{0,16}(?: [+-]\d{4})?)\t[^\t]{1,255}\t"
    r"|[^\s:]{1,255}: \[(?P<epoch>\d{1,19}\.\d{1,9}), )(?=\{)",
    re.ASCII,
)
# Numbers, addresses, names or quotation marks before a head: `12 2024-…`, `syslog-1 | May 6 …`.
# Not a program, whose text may look like a head.
_PREFIXED = re.compile(
    r"(?:(?!: )[^{}]){1,100}?(?=(?:<\d{1,3}> ?)?(?:1 )?(?:\d{4}-\d\d-\d\dT"
    r"|(?<!\d{4} )(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) {1,2}\d{1,2} (?:\d{4} )?)"
    r"\d\d:\d\d:\d\d\S{0,16} )",
    re.ASCII,
)
_MOST_PREFIXES = 3
# Every head contains a time of day or an uptime.
_CLOCK = re.compile(r"\d:\d\d", re.ASCII)
_LONGEST_HEAD = 4096
_MAX_FILES = 4096
_MAX_COLUMNS = 100


@dataclass(frozen=True, slots=True)
class Unwrapped:
    """One possible content of a wrapped line."""

    line: str
    rest: str = ""  # further lines of the same message
    prefix: str = ""  # the text before the line, verbatim
    path: str | None = None
    host: str | None = None  # if the line was built from fields: the host that its head must name


class Unwrapper:
    """Unwraps the lines of one file."""

    def __init__(self, stamps: Stamps, columns: tuple[str, ...] = ()) -> None:
        """`stamps` converts times in fields. `columns`: of the file, if it is CSV (columns_in)."""
        self._fields = LinesOfFields(stamps)
        self._columns = columns
        self._finder = Finder(HOST_FILE)

    def unwrap(self, line: str) -> Iterator[Unwrapped]:
        """Yield the possible contents of a wrapped line, most likely first."""
        plain = _COLOURS.sub("", line) if "\x1b" in line else line
        if plain.startswith(("{", "[{")):
            yield from self._in_json(plain)
            return
        if (tagged := _TAGGED.match(plain)) is not None:
            yield from self._in_json(plain[tagged.end() :], tagged["time"] or tagged["epoch"])
            return
        if (kiwi := _KIWI.match(plain)) is not None:
            yield Unwrapped(plain[kiwi.end() :], prefix=kiwi[0])
            return
        grep = _GREP.match(plain)
        if grep is not None and grep.end():
            yield Unwrapped(plain[grep.end() :], prefix=grep[0], path=grep["path"])
        if ("," in plain or plain.startswith('"')) and _CLOCK.search(plain) is not None:
            row = _row(plain)
            # Every product orders its columns differently. The line is the longest, except for
            # notes.
            for text in sorted(filter(_may_be_line, row), key=len, reverse=True):
                yield Unwrapped(text)
            if len(row) == len(self._columns):
                for text, host in self._fields.lines(dict(zip(self._columns, row, strict=True))):
                    yield _lines(text, host=host)
        if plain != line:
            yield Unwrapped(plain)
        if _may_be_line(plain) and self._finder.find(plain[:_LONGEST_HEAD]) is None:
            yield from _behind_prefixes(plain)

    def _in_json(self, line: str, time: str | None = None) -> Iterator[Unwrapped]:
        document = _json(line)
        if document is None:
            return
        if time is not None:
            document.setdefault("time", time)
        path = _first_text(document, _FILE_FIELDS)
        for field in MESSAGE_FIELDS:
            text = _text(document, field)
            if text:
                yield _lines(text, path)
        for text, host in self._fields.lines(document):
            yield _lines(text, path, host)


def columns_in(first_line: str) -> tuple[str, ...]:
    """Return the names of columns if a file's first line names those of an export, else nothing."""
    return columns_of(_row(first_line))


def _behind_prefixes(line: str) -> Iterator[Unwrapped]:
    """Yield what follows a prefix, first after the shortest one."""
    at = 0
    for _ in range(_MOST_PREFIXES):
        match = _PREFIXED.match(line, at)
        if match is None:
            return
        at = match.end()
        yield Unwrapped(line[at:], prefix=line[:at])


def _lines(text: str, path: str | None = None, host: str | None = None) -> Unwrapped:
    first, newline, others = text.rstrip("\r\n\0").partition("\n")
    return Unwrapped(first, rest=newline + others, path=path, host=host)


class WrappedRecords(LineRecords):
    """Makes the records of a file of wrapped lines.

    A record's head and message are the line as its host wrote it. Text before the line is added to
    the head; text around it in JSON is dropped. `offset` and `line_bytes` locate the physical line.
    The line must have a known head and its own time, because the previous line may be from another
    log. VM and datastore come from a path in the wrapping. The host comes from the wrapping, which
    may name the relay or the agent instead, only if the line has lost its head.
    """

    def __init__(
        self,
        origin: Origin,
        *,
        written_at: datetime,
        zone: tzinfo,
        year: int | None,
        uptimes: UptimeClock | None = None,
        columns: tuple[str, ...] = (),
    ) -> None:
        """Take the same arguments as LineRecords and Unwrapper."""
        uptimes = uptimes or UptimeClock()
        super().__init__(origin, written_at=written_at, zone=zone, year=year, uptimes=uptimes)
        self._unwrapper = Unwrapper(Stamps(written_at=written_at, zone=zone, year=year), columns)
        self._known: dict[str, Any] = {
            "written_at": written_at,
            "zone": zone,
            "year": year,
            "uptimes": uptimes,
        }
        self._files: dict[str | None, LineRecords] = {}  # by the path in the wrapping

    def _make(self, raw: bytes, received_at: str, offset: int, line_bytes: int) -> Record:
        """Return a record or a rejection, like LineRecords."""
        is_cut = len(raw) > MAX_LINE_BYTES
        line = decode(cut(raw))
        has_content = False
        for each in self._unwrapper.unwrap(line):
            has_content = True
            lines = self._lines_of(each.path)
            lines.last_event_time = None
            record = lines._make(each.line.encode(), received_at, offset, line_bytes)
            if "reason" in record or lines.last_event_time is None:
                continue
            if each.host is not None and f" {each.host} " not in record["head"]:
                continue  # a text without a program
            self.last_event_time, self.last_quality = lines.last_event_time, lines.last_quality
            if each.prefix:
                record["head"] = each.prefix + record["head"]
            record["message"] += each.rest
            if is_cut:
                record["truncated"] = True
            return record
        if reason_of(line) != JSON:
            return super()._make(raw, received_at, offset, line_bytes)
        reason = JSON_WITHOUT_HEAD
        if not has_content:
            reason = JSON_WITHOUT_MESSAGE if _json(line) is not None else JSON_BROKEN
        return rejection(
            raw, reason, received_at, self.origin, offset=offset, line_bytes=line_bytes
        )

    def _lines_of(self, path: str | None) -> LineRecords:
        lines = self._files.get(path)
        if lines is None:
            if len(self._files) >= _MAX_FILES:
                self._files.clear()
            # A file with mixed sources: try every pattern.
            origin = replace(self.origin, source="syslog")
            folder = None if path is None else vm_of(path)
            if folder is not None:
                origin = replace(origin, datastore=folder[0], vm=folder[1])
            lines = self._files[path] = LineRecords(origin, **self._known)
            lines.program = program_of_file(path) or self.program
        return lines


def _row(line: str) -> list[str]:
    """Parse a row of CSV; an empty list if it is not one."""
    try:
        row = next(csv.reader([line]), [])
    except csv.Error:
        return []
    if len(row) < 2 and not line.startswith('"'):
        return []
    return row[:_MAX_COLUMNS]


def _may_be_line(text: str) -> bool:
    return _CLOCK.search(text, 0, _LONGEST_HEAD) is not None


def _json(line: str) -> dict[str, Any] | None:
    """Parse a line as a JSON object; None if it is not one. orjson limits the nesting depth.

    The brackets of an array with one object per line, and the commas between them, are removed.
    """
    try:
        document = orjson.loads(line.strip("[], "))
    except orjson.JSONDecodeError:
        return None
    return document if isinstance(document, dict) else None


def _text(document: dict[str, Any], field: tuple[str, ...]) -> str | None:
    """Return the text of a field; None if there is none."""
    value = value_of(document, field)
    return value if isinstance(value, str) else None


def _first_text(document: dict[str, Any], fields: tuple[tuple[str, ...], ...]) -> str | None:
    return next((text for field in fields if (text := _text(document, field))), None)
