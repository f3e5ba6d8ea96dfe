"""Reads files and keeps what detection needs: few records, windows and counts, never all lines.

In the pipeline, the first step of the job does this in the JVM (jobs/detect.sql): it prefilters
lines, finds the log key (host or VM) of each, and records when each host sent lines. Several
processes can read parts of the files; their results can be merged.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import Any, Final

import orjson

from stunwatch.detectors.catalogue import LONGEST_SEARCHED, literals
from stunwatch.detectors.host_events import owner_of
from stunwatch.engine.owner import epoch_microseconds
from stunwatch.event_span import STRETCH_LENGTH, EventSpan
from stunwatch.ingest.records import to_json
from stunwatch.ingest.replay import ESXTOP, REJECTED, Message, Options, Problem, Reading, SourceFile
from stunwatch.ingest.replay.esxtop import samples_in
from stunwatch.ingest.times import UptimeClock
from stunwatch.triage.windows import Windows

RUN_ID: Final = "triage"

MOST_REASONS: Final = 1000
"""Maximum number of distinct reasons for rejected lines."""
_SHOWN_CHARACTERS: Final = 500

_NOT_NEEDED: Final = frozenset({"received_at", "line_bytes", "peer", "truncated", "stamped_at"})
"""Fields of a record that no tracker reads (engine/tracking.py, RECORD_FIELDS)."""

_INEXACT: Final = frozenset({"year_inferred", "arrival"})
"""Time qualities that are counted."""

_ORDER_BITS: Final = 40
"""Bits of a record's offset: the file's number is above these bits, its place in the file below."""

Numbered = tuple[int, SourceFile]
"""A file and its number in the plan."""


@dataclass
class Rejected:
    """The number of lines rejected for one reason, and the first of them."""

    lines: int
    file: str
    line: str


@dataclass
class FileRead:
    """The result of reading one file."""

    number: int
    name: str
    kind: str
    host: str | None
    vm: str | None
    datastore: str | None
    lines: int = 0
    rejected: int = 0
    problem: Problem | None = None


@dataclass
class Read:
    """The result of reading some files."""

    candidates: dict[str, list[bytes]] = field(default_factory=dict)
    """By log key (host or VM), the records that a detector may read, as JSON."""
    windows: Windows = field(default_factory=Windows)
    seen: list[tuple[int, str, str]] = field(default_factory=list)
    """File, host and event time of the first line in each ten minutes of that file."""
    seen_samples: list[tuple[int, str, str]] = field(default_factory=list)
    """The same for esxtop samples."""
    span: EventSpan = field(default_factory=EventSpan)
    """The time span as a replay counts it, including the end of files that contain no log."""
    shown: EventSpan = field(default_factory=EventSpan)
    """The time span of lines and samples that have their own time."""
    files: list[FileRead] = field(default_factory=list)
    rejected: dict[str, Rejected] = field(default_factory=dict)
    """By reason."""
    counts: Counter[str] = field(default_factory=Counter)
    """Number of lines that are `truncated`, `unsearched`, or have a time quality that is not exact;
    and number of `samples`."""
    anchored: frozenset[str] = frozenset()
    """Hosts whose lines contain an uptime: see UptimeClock."""

    def merge(self, other: Read) -> None:
        """Add the results of another process, which read other files."""
        for owner, records in other.candidates.items():
            self.candidates.setdefault(owner, []).extend(records)
        self.windows.merge(other.windows)
        self.seen += other.seen
        self.seen_samples += other.seen_samples
        self.span.merge(other.span)
        self.shown.merge(other.shown)
        self.files += other.files
        for reason, each in other.rejected.items():
            self.reject(reason, each)
        self.counts += other.counts
        self.anchored |= other.anchored

    def reject(self, reason: str, lines: Rejected) -> None:
        """Count rejected lines."""
        if reason not in self.rejected and len(self.rejected) >= MOST_REASONS:
            reason = "other reasons"
        if known := self.rejected.get(reason):
            known.lines += lines.lines
        else:
            self.rejected[reason] = lines


def read(
    files: Sequence[Numbered], options: Options, progress: Callable[[int], None] | None = None
) -> Read:
    """Read files in the order of the plan. `progress` receives the number of bytes read on disk."""
    done = Read()
    uptimes = UptimeClock()
    wanted = shortest(literals())
    stretch_now = now()
    for number, file in files:
        reading = Reading(file, RUN_ID, options, uptimes=uptimes)
        reader = _FileReader(done, number, file.name, wanted, stretch_now)
        before = 0
        for messages in reading:
            done.span.look(messages)
            for order in (messages, reversed(messages)):
                done.shown.look(list(islice(filter(_is_timed, order), 1)))
            reader.take(messages)
            if progress:
                progress(reading.consumed_bytes - before)
                before = reading.consumed_bytes
        done.files.append(
            FileRead(
                *(number, file.name, file.kind, file.host, file.vm, file.datastore),
                lines=reading.lines_read,
                rejected=reading.lines_rejected,
                problem=reading.problem,
            )
        )
    done.anchored = uptimes.hosts
    return done


def now() -> str:
    """Return the current ten minutes of the wall clock."""
    return stretch_of(time.strftime("%Y-%m-%dT%H:%M", time.gmtime()), "9")


def stretch_of(event_time: str, latest: str) -> str:
    """Return the ten minutes of an event time as sortable text; at most `latest`."""
    return min(event_time[:STRETCH_LENGTH], latest)


def shortest(texts: Iterable[str]) -> list[str]:
    """Return the texts that contain no other one: searching for these finds them all."""
    every = sorted(set(texts), key=len)
    return [
        each
        for number, each in enumerate(every)
        if not any(other in each for other in every[:number])
    ]


def _is_timed(message: Message) -> bool:
    record = message[2]
    return record.get("kind") == "line" and record["time_quality"] != "arrival"


class _FileReader:
    """Keeps or counts the messages of one file."""

    def __init__(self, done: Read, number: int, name: str, wanted: Sequence[str], now: str) -> None:
        self._done, self._number, self._name = done, number, name
        self._wanted, self._now = wanted, now
        self._place = number << _ORDER_BITS
        self._stretches: dict[str, str] = {}

    def take(self, messages: Sequence[Message]) -> None:
        """Keep messages that detection needs; count the others."""
        done, counts = self._done, self._done.counts
        lines: list[tuple[str, dict[str, Any]]] = []
        seen_last = None
        for topic, key, record in messages:
            if topic == REJECTED:
                line = str(record["line"])[:_SHOWN_CHARACTERS]
                done.reject(record["reason"], Rejected(1, self._name, line))
            elif topic == ESXTOP:
                self._take_samples(key, record)
            elif record["kind"] != "line":
                self._keep(key, record)
            else:
                if record["source"] == "syslog":
                    # Nearly every line is in the same ten minutes as the previous one.
                    host_and_time = record.get("host"), record["event_time"][:STRETCH_LENGTH]
                    if host_and_time != seen_last:
                        seen_last = host_and_time
                        self._seen(done.seen, record)
                if (quality := record["time_quality"]) in _INEXACT:
                    counts[quality] += 1
                if "truncated" in record:
                    counts["truncated"] += 1
                lines.append((key, record))
        if longest := sum(len(record["message"]) > LONGEST_SEARCHED for _, record in lines):
            counts["unsearched"] += longest
            lines = [each for each in lines if len(each[1]["message"]) <= LONGEST_SEARCHED]
        if not lines:
            return
        for place in self._matching([record["message"] for _, record in lines]):
            key, record = lines[place]
            self._keep(owner_of(record["message"], key), record)

    def _take_samples(self, key: str, message: dict[str, Any]) -> None:
        self._seen(self._done.seen_samples, message)
        for sample in samples_in(message):
            self._done.counts["samples"] += 1
            self._done.windows.add(key, sample)

    def _matching(self, messages: list[str]) -> list[int]:
        """Return the indexes of the messages that contain a literal, in order.

        Searching all messages at once for each literal takes a third of the time of searching them
        one by one.
        """
        text = "\n".join(messages)
        hits = []
        for each in self._wanted:
            at = text.find(each)
            while at >= 0:
                hits.append(at)
                at = text.find(each, at + 1)
        if not hits:
            return []
        ends = list(accumulate(len(message) + 1 for message in messages))
        return sorted({bisect_right(ends, at) for at in hits})

    def _keep(self, owner: str, record: dict[str, Any]) -> None:
        kept = {name: value for name, value in record.items() if name not in _NOT_NEEDED}
        kept["owner"], kept["kafka_offset"] = owner, self._place
        self._place += 1
        self._done.candidates.setdefault(owner, []).append(to_json(kept))

    def _seen(self, told: list[tuple[int, str, str]], record: dict[str, Any]) -> None:
        """Record a host's first line in every ten minutes, like HostsSeen.java.

        A line with a future time counts as now.
        """
        host, event_time = record.get("host"), record["event_time"]
        if host and event_time[:STRETCH_LENGTH] > self._stretches.get(host, ""):
            stretch = stretch_of(event_time, self._now)
            if stretch > self._stretches.get(host, ""):
                self._stretches[host] = stretch
                told.append((self._number, host, event_time))


def records_of(candidates: Iterable[bytes]) -> list[dict[str, Any]]:
    """Return the records of one log key, in the form that trackers expect."""
    records = [orjson.loads(each) for each in candidates]
    for each in records:
        each["event_time_us"] = epoch_microseconds(each["event_time"])
    return records
