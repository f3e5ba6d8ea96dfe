"""Snapshot operations of one virtual machine, from its vmware.log.

A VM runs one snapshot task at a time. So its lines, sorted by time, form a sequence: a start,
steps, an end. If another start comes first, the end was not logged. The operations are recomputed
from all known lines whenever one arrives.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, Literal

from stunwatch.detectors.catalogue import detector
from stunwatch.detectors.events import EVIDENCE_SHOWN, event_id, fullest_host, timestamp
from stunwatch.detectors.point_events import Fact, Found, PointEvents
from stunwatch.detectors.records import has_own_time, is_continuation, verbatim

_DETECTOR = detector("snapshot_operations")
_PATTERNS = _DETECTOR.patterns
_LIMITS = _DETECTOR.thresholds

_MILLISECOND = 1_000
_SECOND = 1_000_000
_MINUTE = 60 * _SECOND
_COPY_US = _LIMITS["copy_within_ms"] * _MILLISECOND
_TOGETHER_US = _LIMITS["closed_together_within_seconds"] * _SECOND
_TRAILS_US = _LIMITS["trails_within_seconds"] * _SECOND
_FAILURE_ENDS_US = _LIMITS["failure_ends_after_seconds"] * _SECOND
_LONGEST_US = _LIMITS["longest_operation_days"] * 24 * 60 * _MINUTE
_KEEP_US = _LIMITS["keep_hours"] * 60 * _MINUTE
_WRITTEN_BYTES = _LIMITS["written_delta_bytes_count"]

# How long before the first definite line of a removal these lines count as its start.
_COUNTS_US = {
    "disk_closed": _LIMITS["closing_counts_for_minutes"] * _MINUTE,
    "lock_failed": _LIMITS["lock_counts_for_seconds"] * _SECOND,
    "snapshot_open_failed": _LIMITS["lock_counts_for_seconds"] * _SECOND,
    "consolidate_note": _LIMITS["note_counts_for_minutes"] * _MINUTE,
}

# Lines that only add details to an operation that other lines report.
_DETAILS = {"delta_opened", "disk_closed", "lock_failed"}

# Bits of a row's weight, from the highest: definite lines, definite lines before its start, and
# details. A definite line outweighs all details that it may move to another operation.
_SURE_BITS, _BEFORE_BITS, _DETAIL_BITS = 13, 7, 12

# ESX creates a snapshot with this name while it removes another, as the target of writes.
_HELPER = re.compile(r"consolidate helper\b", re.IGNORECASE | re.ASCII)

# crm01-000002-delta.vmdk and crm01-flat.vmdk are links of the same disk.
_LINK = re.compile(r"(?:-\d{6})?-(?:delta|sesparse|flat)\.vmdk\Z", re.ASCII)


@dataclass(frozen=True)
class SnapshotOperation:
    """One row of the view `snapshot_operations`, except `detected_at`. Times are UTC."""

    event_id: str
    detector: str
    revision: int
    is_deleted: int
    run_id: str
    host: str
    vm: str
    datastore: str
    kind: Literal["create", "create_memory", "remove"]
    name: str
    op_id: str
    started_at: str
    ended_at: str | None
    duration_ms: int | None
    outcome: Literal["ok", "failed", "open"]
    iterations: int
    helper_sizes: list[int]
    is_converging: bool | None
    delta_bytes: int | None
    pages: int | None
    lazy_io_ms: int | None
    pages_per_second: float | None
    formula_ms: int | None
    evidence: list[str]


@dataclass(frozen=True, kw_only=True)
class Line(Fact):
    """A line about a snapshot operation."""

    tells: str
    """The name of the pattern that it matches."""
    message: str
    vm: str
    datastore: str
    op_id: str = ""
    name: str = ""
    """The name of the snapshot."""
    path: str = ""
    number: int = 0
    """1 for a snapshot with memory, memory pages, an error code, or bytes, depending on the
    pattern."""


@dataclass
class Operation:
    """An operation, from the lines so far."""

    kind: Literal["create", "create_memory", "remove"]
    started_us: int
    has_start: bool
    """True if a line reported its start; if not, it starts with its first line."""
    name: str = ""
    lines: list[Line] = field(default_factory=list)
    opened: list[tuple[int, Line]] = field(default_factory=list)
    """Opened deltas, each with the number of iterations before it."""
    iterations: int = 0
    ended: Line | None = None
    failed: Line | None = None
    """The newest sign of a failure. It ends the operation unless a line reports the end."""
    began: Line | None = None
    """The line at the start of the lazy checkpoint."""
    saved: Line | None = None
    """The line at the completion of the lazy checkpoint."""
    cut_us: int | None = None
    """Lines from this time on cannot belong to it."""

    @property
    def last_us(self) -> int:
        """The time of its newest line, or of the one that cut it off."""
        times = [self.started_us, *(line.at_us for line in self.lines)]
        return max([*times, self.cut_us] if self.cut_us is not None else times)

    @property
    def is_waiting(self) -> bool:
        """True if a line that ends it may still arrive."""
        is_saving = self.began is not None and self.saved is None
        return self.cut_us is None and (self.ended is None or is_saving)

    def end(self) -> tuple[Literal["ok", "failed", "open"], int | None]:
        """Return its outcome and the time of its end, in microseconds since 1970."""
        ended, saved_us = self.ended, self.saved.at_us if self.saved else 0
        if ended is None:
            if self.failed is not None:
                return "failed", self.failed.at_us
            return ("ok", saved_us) if self.saved else ("open", None)
        is_failed = {
            "take_done": False,
            "take_failed": True,
            "consolidated": self.failed is not None,
            "consolidate_ended": ended.number != 0,
        }[ended.tells]
        return "failed" if is_failed else "ok", max(ended.at_us, saved_us)

    def helper_sizes(self) -> list[int]:
        """Return the bytes of the helper merged in each iteration, if a line reported them."""
        lower_links = {(line.path, line.number) for told, line in self.opened if not told}
        sizes = []
        for iteration in range(1, self.iterations + 1):
            opened = [line for told, line in self.opened if told == iteration]
            helpers = [line for line in opened if (line.path, line.number) not in lower_links]
            written = [each.number for each in helpers if each.number >= _WRITTEN_BYTES]
            # The next helper, still empty, is opened next to the one that is merged.
            if written:
                sizes.append(written[0])
            elif opened:
                sizes.append(max(each.number for each in helpers or opened))
        return sizes

    def delta_bytes(self) -> int | None:
        """Return the total bytes of the deltas to merge, one per disk; None if not reported."""
        largest: dict[str, int] = {}
        for told, line in self.opened:
            if not told:
                largest[_disk(line)] = max(line.number, largest.get(_disk(line), 0))
        written = [size for size in largest.values() if size >= _WRITTEN_BYTES]
        return sum(written) if written else max(largest.values(), default=None)


class Tracker(PointEvents[Line, SnapshotOperation]):
    """Tracks the snapshot operations of one virtual machine."""

    keep_us: ClassVar[int] = _KEEP_US

    def read(self, record: Mapping[str, Any]) -> Line | None:
        """Parse a record. Return None if it says nothing about snapshot operations."""
        if is_continuation(record) or not has_own_time(record):
            return None
        message = record["message"]
        fits = ((tells, pattern.search(message)) for tells, pattern in _PATTERNS.items())
        tells, found = next(((tells, found) for tells, found in fits if found), ("", None))
        if found is None:
            return None
        told = found.groupdict()
        if tells == "lazy_began" and int(told["done"]) >= int(told["pages"]):
            # No pages are left to write: a resume.
            return None
        number = next((told[each] for each in _NUMBERS if each in told), "0")
        return Line(
            at_us=record["event_time_us"],
            offset=record.get("offset", -1),
            text=verbatim(record),
            host=record.get("host", ""),
            tells=tells,
            message=message,
            vm=record.get("vm", ""),
            datastore=record.get("datastore", ""),
            op_id=record.get("op_id", ""),
            name=told.get("name", ""),
            path=told.get("path", ""),
            number=int(number),
        )

    def group_of(self, fact: Line) -> str:
        """Return the same group for all lines of a VM."""
        return ""

    def rows(self, facts: Sequence[Line], event_time_us: int) -> Iterator[Found[SnapshotOperation]]:
        """Yield the operations that follow from these lines."""
        sure_us = [line.at_us for line in facts if line.tells not in _DETAILS]
        for operation in _Story(facts).operations:
            yield Found(
                _row(operation),
                first_us=operation.started_us,
                last_us=operation.last_us,
                is_open=operation.is_waiting and event_time_us < operation.started_us + _LONGEST_US,
                lines=_weight(operation, sure_us),
            )


# The groups of patterns that contain a line's number.
_NUMBERS = ("memory", "pages", "error", "code", "bytes")


class _Story:
    """The operations that follow from sorted lines, in the order of their starts."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self.operations: list[Operation] = []
        self._taking: Operation | None = None
        self._removing: Operation | None = None
        self._saving: Operation | None = None
        # Lines since the last start or end that belong to no operation, or not yet to one.
        self._loose: list[Line] = []
        for line in _without_copies(lines):
            getattr(self, f"_{line.tells}")(line)

    # == Creating snapshots

    def _take_started(self, line: Line) -> None:
        if self._removing and not self._removing.ended and _HELPER.match(line.name):
            self._removing.lines.append(line)
            return
        self._cut(line)
        self._taking = Operation(
            kind="create_memory" if line.number else "create",
            started_us=line.at_us,
            has_start=True,
            name=line.name,
            lines=[line],
        )
        self.operations.append(self._taking)

    def _take_done(self, line: Line) -> None:
        taking = self._taking
        if taking is None or taking.ended:
            return
        if taking.has_start:
            is_its_end = taking.name == line.name
        else:
            is_its_end = taking.saved is None or line.at_us <= taking.saved.at_us + _TRAILS_US
        if is_its_end:
            taking.name = line.name
            taking.ended = line
            taking.lines.append(line)
            self._loose.clear()

    def _take_failed(self, line: Line) -> None:
        if self._taking and not self._taking.ended:
            self._taking.ended = line
            self._taking.lines.append(line)
            self._loose.clear()

    def _prepare_failed(self, line: Line) -> None:
        if self._taking and not self._taking.ended:
            self._taking.failed = line
            self._taking.lines.append(line)

    def _lazy_began(self, line: Line) -> None:
        taking = self._taking
        if self._saving and self._saving.has_start:
            self._saving.lines.append(line)
            return
        if taking is None or not _awaits_memory(taking, line):
            self._cut(line)
            taking = Operation(kind="create_memory", started_us=line.at_us, has_start=False)
            self.operations.append(taking)
        taking.began = line
        taking.lines.append(line)
        self._taking = self._saving = taking

    def _lazy_written(self, line: Line) -> None:
        if self._saving:
            self._saving.lines.append(line)
            if line.number:
                self._saving.failed = line

    def _lazy_saved(self, line: Line) -> None:
        if self._saving:
            self._saving.lines.append(line)
            self._saving.saved = line
            self._saving = None

    def _lazy_restored(self, line: Line) -> None:
        """Handle a restore: what looked like a lazy checkpoint was a resume."""
        resumed, self._saving = self._saving, None
        if resumed is None:
            return
        resumed.began = None
        if not resumed.has_start:
            self.operations.remove(resumed)
            if self._taking is resumed:
                self._taking = None

    # == Removing snapshots

    def _consolidate_started(self, line: Line) -> None:
        self._cut(line)
        self._removing = Operation(
            kind="remove", started_us=line.at_us, has_start=True, lines=[line]
        )
        self.operations.append(self._removing)

    def _iteration(self, line: Line) -> None:
        removing = self._removal(line)
        removing.iterations += 1

    def _consolidate_step(self, line: Line) -> None:
        self._removal(line)

    def _consolidate_note(self, line: Line) -> None:
        removing = self._removing
        if removing and self._belongs(line, removing):
            removing.lines.append(line)
        else:
            self._loose.append(line)

    def _consolidate_open_failed(self, line: Line) -> None:
        self._removal(line).failed = line

    def _snapshot_open_failed(self, line: Line) -> None:
        for running in (self._removing, self._taking):
            if running and not running.ended and self._belongs(line, running):
                running.failed = line
                running.lines.append(line)
                return
        self._loose.append(line)

    def _consolidated(self, line: Line) -> None:
        removing = self._removal(line)
        if removing.ended is None or removing.ended.tells == "consolidated":
            removing.ended = line
        self._loose.clear()

    def _consolidate_ended(self, line: Line) -> None:
        self._removal(line).ended = line
        self._loose.clear()

    def _removal(self, line: Line) -> Operation:
        """Return the removal that a definite line belongs to, or a new one, with the line added."""
        removing = self._removing
        if removing is None or not self._belongs(line, removing):
            removing = self._removing = self._removal_without_start(line)
            self.operations.append(removing)
        removing.lines.append(line)
        return removing

    def _removal_without_start(self, line: Line) -> Operation:
        closed = [each for each in self._loose if each.tells == "disk_closed"]
        first = [line]
        for each in self._loose:
            counts_us = _COUNTS_US.get(each.tells)
            if counts_us is None or each.at_us < line.at_us - counts_us:
                continue
            if each.tells != "disk_closed" or _is_closed_with_its_base(each, closed):
                first.append(each)
        started_us = min(each.at_us for each in first)
        found = Operation(kind="remove", started_us=started_us, has_start=False)
        for each in self._loose:
            if each.at_us < started_us:
                continue
            if each.tells == "delta_opened":
                found.opened.append((0, each))
            elif each.tells != "disk_closed" or each in first:
                found.lines.append(each)
        self._loose.clear()
        return found

    def _belongs(self, line: Line, removing: Operation) -> bool:
        """True if a line about a consolidation can belong to this operation."""
        if removing.ended:
            return line.at_us <= removing.ended.at_us + _TRAILS_US
        if removing.failed and not removing.has_start:
            return line.at_us <= removing.last_us + _FAILURE_ENDS_US
        return True

    # == Details

    def _lock_failed(self, line: Line) -> None:
        for running in (self._removing, self._taking):
            if running and not running.ended and self._belongs(line, running):
                running.lines.append(line)
                return
        self._loose.append(line)

    def _delta_opened(self, line: Line) -> None:
        removing = self._removing
        if removing and not removing.ended:
            removing.opened.append((removing.iterations, line))
        else:
            self._loose.append(line)

    def _disk_closed(self, line: Line) -> None:
        self._loose.append(line)

    # == Boundaries

    def _log_started(self, line: Line) -> None:
        """Handle a new process: it does not finish operations of the previous one."""
        self._cut(line)

    def _cut(self, line: Line) -> None:
        for each in (self._taking, self._removing, self._saving):
            if each and each.is_waiting:
                each.cut_us = line.at_us
        self._taking = self._removing = self._saving = None
        self._loose.clear()


def _without_copies(lines: Iterable[Line]) -> Iterator[Line]:
    """Yield the lines without definite ones that repeat the same message within a second."""
    told_us: dict[str, int] = {}
    for line in lines:
        before_us = told_us.get(line.message)
        if line.tells in _DETAILS:
            yield line
        elif before_us is None or line.at_us > before_us + _COPY_US:
            told_us[line.message] = line.at_us
            yield line


def _awaits_memory(taking: Operation, line: Line) -> bool:
    """True if a lazy checkpoint that starts with this line belongs to this snapshot."""
    is_running = taking.ended is None or line.at_us <= taking.ended.at_us + _TRAILS_US
    has_memory = taking.kind == "create_memory" and taking.has_start
    return has_memory and is_running and taking.began is None


def _is_closed_with_its_base(line: Line, closed: Iterable[Line]) -> bool:
    """True if another link of the same disk was closed too and one of the two is the base."""
    return any(
        _disk(other) == _disk(line)
        and _is_base(other) != _is_base(line)
        and abs(other.at_us - line.at_us) <= _TOGETHER_US
        for other in closed
    )


def _disk(line: Line) -> str:
    """Return the disk of a file: without the volume, whose name may be misspelt."""
    return _LINK.sub("", line.path.rpartition("/")[2])


def _is_base(line: Line) -> bool:
    return line.path.endswith("-flat.vmdk")


def _count(sorted_us: Sequence[int], first_us: int, last_us: int) -> int:
    return bisect_right(sorted_us, last_us) - bisect_left(sorted_us, first_us)


def _weight(operation: Operation, sure_us: Sequence[int]) -> int:
    """Return how many lines affect this operation: every line that may change it adds to it.

    A late line may end an operation earlier than it seemed. So definite lines after its end count
    too, as long as lines may be late. An operation with a start line does not depend on earlier
    lines, unless that line belongs to a helper or is a copy of an earlier one.
    """
    depends = not operation.has_start or _HELPER.match(operation.name)
    started_us = operation.started_us
    before_us = started_us - (_KEEP_US if depends else _COPY_US)
    parts = (
        (_count(sure_us, started_us, operation.last_us + _KEEP_US), _SURE_BITS),
        (_count(sure_us, before_us, started_us - 1), _BEFORE_BITS),
        (len(operation.opened) + len(operation.lines), _DETAIL_BITS),
    )
    weight = 0
    for count, bits in parts:
        weight = weight << bits | min(count, (1 << bits) - 1)
    return weight


def _row(operation: Operation) -> SnapshotOperation:
    outcome, ended_us = operation.end()
    sizes = operation.helper_sizes()
    pages = operation.began.number if operation.began else None
    lazy_us = None
    if operation.began and operation.saved:
        lazy_us = operation.saved.at_us - operation.began.at_us
    lines = sorted(operation.lines, key=lambda line: line.order)
    vm, datastore = lines[0].vm, lines[0].datastore
    started_at = timestamp(operation.started_us)
    return SnapshotOperation(
        event_id=event_id(_DETECTOR.name, datastore, vm, operation.kind, started_at),
        detector=_DETECTOR.name,
        revision=0,
        is_deleted=0,
        run_id="",
        host=fullest_host(line.host for line in lines),
        vm=vm,
        datastore=datastore,
        kind=operation.kind,
        name=operation.name,
        op_id=next((line.op_id for line in lines if line.op_id), ""),
        started_at=started_at,
        ended_at=None if ended_us is None else timestamp(ended_us),
        duration_ms=None if ended_us is None else _milliseconds(ended_us - operation.started_us),
        outcome=outcome,
        iterations=operation.iterations,
        helper_sizes=sizes,
        is_converging=_is_converging(sizes),
        delta_bytes=operation.delta_bytes() if operation.kind == "remove" else None,
        pages=pages,
        lazy_io_ms=None if lazy_us is None else _milliseconds(lazy_us),
        pages_per_second=round(pages * _SECOND / lazy_us, 1) if pages and lazy_us else None,
        formula_ms=_formula_ms(pages) if pages else None,
        evidence=_evidence(operation),
    )


def _is_converging(sizes: Sequence[int]) -> bool | None:
    """True if every helper is smaller than the one before; None with fewer than two sizes."""
    if len(sizes) < 2:
        return None
    return all(later < earlier for earlier, later in pairwise(sizes))


def _formula_ms(pages: int) -> int:
    """Return how long a lazy snapshot waits at the defaults: an explanation, not a forecast."""
    return round(pages / _LIMITS["io_block_pages_count"] * _LIMITS["io_wait_ms"])


def _milliseconds(microseconds: int) -> int:
    return round(microseconds / _MILLISECOND)


def _evidence(operation: Operation) -> list[str]:
    """Return the operation's lines, of many the first and last ones, and then the deltas' sizes."""
    lines = sorted(operation.lines, key=lambda line: line.order)
    half = EVIDENCE_SHOWN // 2
    if len(lines) > EVIDENCE_SHOWN:
        lines = [*lines[:half], *lines[-half:]]
    opened = [line for _, line in operation.opened][: EVIDENCE_SHOWN - len(lines)]
    shown = sorted([*lines, *opened], key=lambda line: line.order)
    return list(dict.fromkeys(line.text for line in shown))
