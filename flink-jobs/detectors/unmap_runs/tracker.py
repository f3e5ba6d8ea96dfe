"""Runs of space reclamation on one host, from hostd's log.

A run writes one line per step: hundreds per second, tens of thousands in total. Each step is kept
as a few numbers, so that late and duplicate lines find their position. The rows are a pure function
of these, recomputed every ten seconds. Only the newest thousands of steps are kept; older ones are
summed up.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple
from zlib import crc32

from stunwatch.detectors.bounds import EVICTED
from stunwatch.detectors.catalogue import detector
from stunwatch.detectors.events import (
    EVIDENCE_SHOWN,
    changed,
    content_hash,
    event_id,
    fullest_host,
    timestamp,
    weighed_revision,
)
from stunwatch.detectors.records import verbatim
from stunwatch.detectors.reservation_conflict import host_key
from stunwatch.detectors.timers import Timers, keep

_DETECTOR = detector("unmap_runs")
_PATTERNS = _DETECTOR.patterns
_LIMITS = _DETECTOR.thresholds

_SECOND = 1_000_000
_MINUTE = 60 * _SECOND
_DEFAULT_BLOCKS = _LIMITS["default_blocks_count"]
_SILENCE_US = _LIMITS["silent_between_runs_minutes"] * _MINUTE
_KEEP_US = _LIMITS["keep_minutes"] * _MINUTE
_STEPS_KEPT = _LIMITS["steps_kept_count"]

# How long a changed row waits for further changes, so that a run does not write one event per line.
_WRITTEN_EVERY_US = 10 * _SECOND

# Texts are kept of this many newest lines, and of lines at which something changed.
_TEXTS_KEPT = 256

_OPERATION = re.compile(r"\bopID=([^\s\]]+)")
_HEX = re.compile(r"[0-9a-f]{32}")


# Kinds of lines. Lines of the same instant sort in this order.
_ITERATION, _FAILED, _DONE = 0, 1, 2


@dataclass(frozen=True)
class UnmapRun:
    """One row of the view `unmap_runs`, except `detected_at`. Times are UTC with microseconds."""

    event_id: str
    detector: str
    revision: int
    is_deleted: int
    run_id: str
    host: str
    volume: str
    block_count: int
    iterations: int
    blocks_total: int
    started_at: str
    ended_at: str
    duration_ms: int
    blocks_per_second: float | None
    fell_back: bool | None
    outcome: Literal["ok", "failed", "open"]
    evidence: list[str]


class Line(NamedTuple):
    """The numbers of a line. Lines sort by them."""

    at_us: int
    offset: int
    """The byte offset of the line in its file; -1 if it arrived over the network."""
    kind: int
    blocks: int
    """Blocks of this step; of a `Done` line the total, of a failure 0."""
    operation: int
    """A fingerprint of the opID; 0 if the line has none."""


@dataclass
class Run:
    """Steps of one volume, up to the line that ends them."""

    first_us: int
    block_count: int
    last: Line
    iterations: int = 0
    blocks_total: int = 0
    defaults: int = 0
    """The number of steps with the default size."""
    last_step: Line | None = None
    has_failed: bool = False
    is_done: bool = False
    shown: list[Line] = field(default_factory=list)
    """The steps at which the size changed."""
    burst: int = 0
    """The number of known lines of the run and of neighbouring runs without a pause in between."""

    def count(self, step: Line) -> None:
        """Count a step."""
        if self.last_step is None or step.blocks != self.last_step.blocks:
            self.shown = [*self.shown, step][: EVIDENCE_SHOWN - 2]
        self.iterations += 1
        self.blocks_total += step.blocks
        self.defaults += step.blocks == _DEFAULT_BLOCKS
        self.last_step = self.last = step

    @property
    def outcome(self) -> Literal["ok", "failed", "open"]:
        """The outcome; `open` if no line reports the end. A pause does not end a run."""
        return "ok" if self.is_done else "failed" if self.has_failed else "open"

    @property
    def fell_back(self) -> bool | None:
        """True if the step size decreased to the default; None if it is unknown, or not known yet.

        The last step may be short because nothing is left: alone it does not count.
        """
        if self.block_count <= _DEFAULT_BLOCKS or self.last_step is None:
            return None
        if self.defaults > (self.last_step.blocks == _DEFAULT_BLOCKS):
            return True
        return None if self.outcome == "open" else False

    @property
    def lines(self) -> list[Line]:
        """The lines that an event shows as its evidence."""
        steps = [self.last_step] if self.last_step else []
        return list(dict.fromkeys([*self.shown, *steps, self.last]))


@dataclass
class Walk:
    """The runs of a volume, computed line by line."""

    runs: list[Run] = field(default_factory=list)
    burst: list[Run] = field(default_factory=list)
    """The runs since the last pause."""
    lines: int = 0
    """Lines of the burst."""
    run: Run | None = None
    before: Line | None = None
    operation_before: int = 0
    """The operation of the second to last line."""

    def take(self, line: Line, following: Line | None) -> None:
        """Process a line. The one that follows shows to which run an operation belongs."""
        before = self.before
        if before and line.at_us - before.at_us > _SILENCE_US:
            self._part()
            before = None
        self.lines += 1
        if line.kind == _ITERATION:
            if self.run is None or (before and self._begins(before, line, following)):
                self.run = Run(first_us=line.at_us, block_count=line.blocks, last=line)
                self.runs.append(self.run)
                self.burst.append(self.run)
            self.run.count(line)
        elif self.run:
            self.run.last = line
            self.run.has_failed |= line.kind == _FAILED
            self.run.is_done |= line.kind == _DONE
            if line.kind == _DONE:
                self.run = None
        self.operation_before = before.operation if before else 0
        self.before = line

    def finish(self) -> list[Run]:
        """Return the runs, each with the number of lines of its burst."""
        for run in self.burst:
            run.burst = self.lines
        return self.runs

    def _part(self) -> None:
        self.finish()
        self.burst, self.lines, self.run = [], 0, None

    def _begins(self, before: Line, line: Line, following: Line | None) -> bool:
        """True if another run starts although the previous one was not done."""
        assert self.run
        if line.operation and line.operation == before.operation:
            return False
        if line.operation and before.operation:
            # Only an operation that occurs on more than one line belongs to a run.
            return before.operation == self.operation_before or (
                following is not None and following.operation == line.operation
            )
        # A run never gets more blocks per step than it requested.
        return line.blocks > self.run.block_count


@dataclass
class Lane:
    """The sorted lines of one volume, as columns: tens of thousands are pickled at every line."""

    host_key: str
    volume: str
    host: str = ""
    at_us: array[int] = field(default_factory=lambda: array("q"))
    offset: array[int] = field(default_factory=lambda: array("q"))
    kind: array[int] = field(default_factory=lambda: array("b"))
    blocks: array[int] = field(default_factory=lambda: array("q"))
    operation: array[int] = field(default_factory=lambda: array("I"))
    summed: Walk = field(default_factory=Walk)
    """The state after the lines that are no longer kept."""
    texts: dict[Line, str] = field(default_factory=dict)
    written: dict[str, tuple[int, UnmapRun]] = field(default_factory=dict)
    """By event_id; each row with the start of its run."""
    changed_at_us: int | None = None
    """The event time of the oldest change that is not yet written."""
    fed_at_us: int = 0

    @property
    def due_us(self) -> int:
        """The event time of the next work for this volume."""
        if self.changed_at_us is not None:
            return self.changed_at_us + _WRITTEN_EVERY_US
        return self.fed_at_us + _KEEP_US + 1

    def add(self, line: Line, text: str) -> bool:
        """Add a line. Return False if it is known, or so old that it may be."""
        if self.summed.before and line <= self.summed.before:
            return False
        place = bisect_left(self.at_us, line.at_us)
        while place < len(self.at_us) and self._line(place) < line:
            place += 1
        if place < len(self.at_us) and self._line(place) == line:
            return False
        for column, value in zip(self._columns(), line, strict=True):
            column.insert(place, value)
        self.texts[line] = text
        return True

    def runs(self) -> list[Run]:
        """Return the runs that follow from the lines."""
        walk = deepcopy(self.summed)
        self._walk(walk, len(self.at_us))
        return walk.finish()

    def shrink(self) -> None:
        """Sum up the oldest lines, and drop the texts that no event shows."""
        excess = len(self.at_us) - _STEPS_KEPT
        if excess > _STEPS_KEPT // 8:
            self._walk(self.summed, excess)
            for column in self._columns():
                del column[:excess]
            # Rows of finished runs whose lines are summed up are final.
            over = [run for run in self.summed.runs if run is not self.summed.run]
            self.summed.runs = [run for run in self.summed.runs if run is self.summed.run]
            self.summed.burst = [run for run in self.summed.burst if run is self.summed.run]
            began = {run.first_us for run in over}
            self.written = {
                name: known for name, known in self.written.items() if known[0] not in began
            }
        if len(self.texts) > 2 * _TEXTS_KEPT:
            shown = {line for run in self.runs() for line in run.lines}
            newest = list(self.texts)[-_TEXTS_KEPT:]
            shown.update(newest)
            self.texts = {line: text for line, text in self.texts.items() if line in shown}

    def _walk(self, walk: Walk, many: int) -> None:
        following = self._line(0) if many else None
        for place in range(many):
            line = following
            assert line
            following = self._line(place + 1) if place + 1 < len(self.at_us) else None
            walk.take(line, following)

    def _line(self, place: int) -> Line:
        return Line(
            self.at_us[place],
            self.offset[place],
            self.kind[place],
            self.blocks[place],
            self.operation[place],
        )

    def _columns(self) -> tuple[array[int], ...]:
        return self.at_us, self.offset, self.kind, self.blocks, self.operation


@dataclass
class Tracker:
    """Tracks the runs of one log key."""

    event_time_us: int = 0
    run_id: str = ""
    lanes: dict[tuple[str, str], Lane] = field(default_factory=dict)
    timers: Timers[tuple[str, str]] = field(default_factory=Timers)

    def feed(self, record: Mapping[str, Any]) -> Iterator[UnmapRun]:
        """Yield an event if a run starts or ends with this line; otherwise wait for more lines."""
        found = read(record)
        if found is None:
            return
        volume, line = found
        key = host_key(record), volume
        lane = self.lanes.get(key) or Lane(host_key=key[0], volume=volume)
        if evicted := keep(self.lanes, key, lane, self.timers):
            yield from self._evicted(evicted[1])
        lane.fed_at_us = self.event_time_us
        if lane.add(line, verbatim(record)):
            self.run_id = record.get("run_id", "")
            lane.host = fullest_host([lane.host, record.get("host", "")])
            if lane.changed_at_us is None:
                lane.changed_at_us = self.event_time_us
            is_full = len(lane.texts) > 4 * _TEXTS_KEPT
            if not lane.written or line.kind != _ITERATION or is_full:
                yield from self._write(lane)
        self.timers.set(key, lane.due_us)

    def advance_time(self, event_time_us: int) -> Iterator[UnmapRun]:
        """Yield changed events, after waiting for further changes."""
        self.event_time_us = max(self.event_time_us, event_time_us)
        for key in self.timers.take(self.event_time_us):
            lane = self.lanes[key]
            if lane.changed_at_us is not None:
                yield from self._write(lane)
                self.timers.set(key, lane.due_us)
            else:
                del self.lanes[key]

    def flush(self) -> Iterator[UnmapRun]:
        """Yield all changed events: a source has ended."""
        for key, lane in self.lanes.items():
            if lane.changed_at_us is not None:
                yield from self._write(lane)
                self.timers.set(key, lane.due_us)

    @property
    def next_timer_us(self) -> int | None:
        """When a change is due to be written or a volume expires; None if none is kept."""
        return self.timers.next_us

    def _evicted(self, lane: Lane) -> Iterator[UnmapRun]:
        """Write an unwritten change of a volume that is evicted because of a limit."""
        EVICTED["volumes"] += 1
        if lane.changed_at_us is not None:
            yield from self._write(lane)

    def _write(self, lane: Lane) -> Iterator[UnmapRun]:
        """Yield the rows that differ from those written before."""
        lane.changed_at_us = None
        runs = lane.runs()
        rows = {row.event_id: (run, row) for run in runs for row in [_row(lane, run)]}
        for name, (began_us, before) in list(lane.written.items()):
            if name not in rows:
                del lane.written[name]
                # Its lines now belong to an earlier run of the same burst.
                burst = [run.burst for run in runs if run.first_us <= began_us][-1]
                revision = weighed_revision(burst, 0, 0, _DETECTOR.version, is_deleted=True)
                yield changed(before, revision=revision, is_deleted=1, run_id=self.run_id)
        for name, (run, plain) in rows.items():
            revision = weighed_revision(
                run.burst, 0, content_hash(plain), _DETECTOR.version, is_deleted=False
            )
            row = changed(plain, revision=revision, run_id=self.run_id)
            known = lane.written.get(name)
            lane.written[name] = run.first_us, row
            if known is None or known[1].revision != revision:
                yield row
        lane.shrink()


def read(record: Mapping[str, Any]) -> tuple[str, Line] | None:
    """Parse a record to a volume and a line. Return None if it is not about a run."""
    if record.get("program", "hostd") != "hostd":
        return None
    message = record["message"]
    operation = _OPERATION.search(record.get("head", ""))
    for kind, name in enumerate(("iteration", "failed", "done")):
        if found := _PATTERNS[name].search(message):
            return _volume(found["volume"]), Line(
                at_us=record["event_time_us"],
                offset=record.get("offset", -1),
                kind=kind,
                blocks=int(found["blocks"]) if kind != _FAILED else 0,
                operation=crc32(operation[1].encode()) or 1 if operation else 0,
            )
    return None


def _volume(written: str) -> str:
    """Return a volume's UUID in the format of ESXi. Some log lines lack one of its hyphens."""
    digits = written.replace("-", "").lower()
    if not _HEX.fullmatch(digits):
        return written
    return f"{digits[:8]}-{digits[8:16]}-{digits[16:20]}-{digits[20:]}"


def _row(lane: Lane, run: Run) -> UnmapRun:
    duration_us = run.last.at_us - run.first_us
    evidence = [lane.texts[line] for line in run.lines if line in lane.texts]
    return UnmapRun(
        event_id=event_id(_DETECTOR.name, lane.host_key, lane.volume, timestamp(run.first_us)),
        detector=_DETECTOR.name,
        revision=0,
        is_deleted=0,
        run_id="",
        host=lane.host,
        volume=lane.volume,
        block_count=run.block_count,
        iterations=run.iterations,
        blocks_total=run.blocks_total,
        started_at=timestamp(run.first_us),
        ended_at=timestamp(run.last.at_us),
        duration_ms=round(duration_us / 1000),
        blocks_per_second=round(run.blocks_total * _SECOND / duration_us, 3)
        if duration_us
        else None,
        fell_back=run.fell_back,
        outcome=run.outcome,
        evidence=evidence or list(lane.texts.values())[-1:],
    )
