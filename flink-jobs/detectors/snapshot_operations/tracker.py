"""Snapshot operations of one virtual machine, from its vmware.log.

A VM runs one snapshot task at a time. So its lines, in the order of their times, are a story: a
start, what happens, an end; the next start ends nothing, it only says that the end of the last one
was not logged. The story is told anew from all lines known whenever one arrives.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, Literal

from detectors.catalogue import detector
from detectors.events import EVIDENCE_SHOWN, event_id, fullest_host, timestamp
from detectors.ledger import Fact, Found, Ledger
from detectors.records import has_own_time, is_continuation, verbatim

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

# How long before the first sure line of a removal these count as its beginning.
_COUNTS_US = {
    "disk_closed": _LIMITS["closing_counts_for_minutes"] * _MINUTE,
    "lock_failed": _LIMITS["lock_counts_for_seconds"] * _SECOND,
    "snapshot_open_failed": _LIMITS["lock_counts_for_seconds"] * _SECOND,
    "consolidate_note": _LIMITS["note_counts_for_minutes"] * _MINUTE,
}

# They only add to an operation that other lines tell.
_DETAILS = {"delta_opened", "disk_closed", "lock_failed"}

# How many bits of a row's weight they have, from the highest: sure lines, such lines before its
# start, details. A sure line outweighs every detail that it may move to another operation.
_SURE_BITS, _BEFORE_BITS, _DETAIL_BITS = 13, 7, 12

# ESX takes a snapshot of this name while it removes another, to write to in the meantime.
_HELPER = re.compile(r"consolidate helper\b", re.IGNORECASE | re.ASCII)

# crm01-000002-delta.vmdk and crm01-flat.vmdk are links of one disk.
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
    """What a line tells of a snapshot operation."""

    tells: str
    """The name of the pattern that it fits."""
    message: str
    vm: str
    datastore: str
    name: str = ""
    """The snapshot's."""
    path: str = ""
    number: int = 0
    """1 for a snapshot with memory, memory pages, an error, bytes: as the pattern has it."""


@dataclass
class Operation:
    """An operation as far as it has been told."""

    kind: Literal["create", "create_memory", "remove"]
    started_us: int
    has_start: bool
    """Whether a line told its start; if not, it starts with the first that belongs to it."""
    name: str = ""
    lines: list[Line] = field(default_factory=list)
    opened: list[tuple[int, Line]] = field(default_factory=list)
    """Deltas opened, each with the number of iterations told before."""
    iterations: int = 0
    ended: Line | None = None
    failed: Line | None = None
    """The newest sign of a failure, which ends the operation unless its end is told."""
    began: Line | None = None
    """The lazy checkpoint's begin."""
    saved: Line | None = None
    """The lazy checkpoint's completion."""
    cut_us: int | None = None
    """From here on nothing that is logged can belong to it."""

    @property
    def last_us(self) -> int:
        """The time of its newest line, or of the one that cut it off."""
        times = [self.started_us, *(line.at_us for line in self.lines)]
        return max([*times, self.cut_us] if self.cut_us is not None else times)

    @property
    def is_waiting(self) -> bool:
        """Whether a line that ends it may still come."""
        is_saving = self.began is not None and self.saved is None
        return self.cut_us is None and (self.ended is None or is_saving)

    def end(self) -> tuple[Literal["ok", "failed", "open"], int | None]:
        """How it ended and when, in microseconds since 1970."""
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
        """The size of the helper that was merged in each iteration, bytes, where a line told it."""
        lower_links = {(line.path, line.number) for told, line in self.opened if not told}
        sizes = []
        for iteration in range(1, self.iterations + 1):
            opened = [line for told, line in self.opened if told == iteration]
            helpers = [line for line in opened if (line.path, line.number) not in lower_links]
            written = [each.number for each in helpers if each.number >= _WRITTEN_BYTES]
            # The next helper, still empty, is opened beside the one that is merged.
            if written:
                sizes.append(written[0])
            elif opened:
                sizes.append(max(each.number for each in helpers or opened))
        return sizes

    def delta_bytes(self) -> int | None:
        """The size of the deltas to be merged, one a disk, bytes; None where no line told it."""
        largest: dict[str, int] = {}
        for told, line in self.opened:
            if not told:
                largest[_disk(line)] = max(line.number, largest.get(_disk(line), 0))
        written = [size for size in largest.values() if size >= _WRITTEN_BYTES]
        return sum(written) if written else max(largest.values(), default=None)


class Tracker(Ledger[Line, SnapshotOperation]):
    """A virtual machine's snapshot operations."""

    keep_us: ClassVar[int] = _KEEP_US

    def read(self, record: Mapping[str, Any]) -> Line | None:
        """What a record tells of snapshot operations; None where nothing."""
        if is_continuation(record) or not has_own_time(record):
            return None
        message = record["message"]
        fits = ((tells, pattern.search(message)) for tells, pattern in _PATTERNS.items())
        tells, found = next(((tells, found) for tells, found in fits if found), ("", None))
        if found is None:
            return None
        told = found.groupdict()
        if tells == "lazy_began" and int(told["done"]) >= int(told["pages"]):
            # Nothing is left to write: a resume.
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
            name=told.get("name", ""),
            path=told.get("path", ""),
            number=int(number),
        )

    def group_of(self, fact: Line) -> str:
        """All lines of a VM belong together."""
        return ""

    def rows(self, facts: Sequence[Line], event_time_us: int) -> Iterator[Found[SnapshotOperation]]:
        """The operations that these lines tell."""
        sure_us = [line.at_us for line in facts if line.tells not in _DETAILS]
        for operation in _Story(facts).operations:
            yield Found(
                _row(operation),
                first_us=operation.started_us,
                last_us=operation.last_us,
                is_open=operation.is_waiting and event_time_us < operation.started_us + _LONGEST_US,
                lines=_weight(operation, sure_us),
            )


# The group of a pattern that holds a line's number.
_NUMBERS = ("memory", "pages", "error", "code", "bytes")


class _Story:
    """The operations that sorted lines tell, in the order of their starts."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self.operations: list[Operation] = []
        self._taking: Operation | None = None
        self._removing: Operation | None = None
        self._saving: Operation | None = None
        # Lines that belong to no operation, or not yet, since the last one's start or end.
        self._loose: list[Line] = []
        for line in _without_copies(lines):
            getattr(self, f"_{line.tells}")(line)

    # == Snapshots that are taken

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
        """What began was a resume after all."""
        resumed, self._saving = self._saving, None
        if resumed is None:
            return
        resumed.began = None
        if not resumed.has_start:
            self.operations.remove(resumed)
            if self._taking is resumed:
                self._taking = None

    # == Snapshots that are removed

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
        """The removal that a sure line belongs to, with the line; a new one where none runs."""
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
        """Whether a line on a consolidation can belong to this operation."""
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
        """A new process: it finishes nothing that another one had begun."""
        self._cut(line)

    def _cut(self, line: Line) -> None:
        for each in (self._taking, self._removing, self._saving):
            if each and each.is_waiting:
                each.cut_us = line.at_us
        self._taking = self._removing = self._saving = None
        self._loose.clear()


def _without_copies(lines: Iterable[Line]) -> Iterator[Line]:
    """The lines; of sure ones that say the same within a second only the first."""
    told_us: dict[str, int] = {}
    for line in lines:
        before_us = told_us.get(line.message)
        if line.tells in _DETAILS:
            yield line
        elif before_us is None or line.at_us > before_us + _COPY_US:
            told_us[line.message] = line.at_us
            yield line


def _awaits_memory(taking: Operation, line: Line) -> bool:
    """Whether a lazy checkpoint that begins with this line is this snapshot's."""
    is_running = taking.ended is None or line.at_us <= taking.ended.at_us + _TRAILS_US
    has_memory = taking.kind == "create_memory" and taking.has_start
    return has_memory and is_running and taking.began is None


def _is_closed_with_its_base(line: Line, closed: Iterable[Line]) -> bool:
    """Whether another link of the same disk was closed too, and one of the two is the base."""
    return any(
        _disk(other) == _disk(line)
        and _is_base(other) != _is_base(line)
        and abs(other.at_us - line.at_us) <= _TOGETHER_US
        for other in closed
    )


def _disk(line: Line) -> str:
    """The disk that a file is a link of: the name alone, as volumes are misspelt."""
    return _LINK.sub("", line.path.rpartition("/")[2])


def _is_base(line: Line) -> bool:
    return line.path.endswith("-flat.vmdk")


def _count(sorted_us: Sequence[int], first_us: int, last_us: int) -> int:
    return bisect_right(sorted_us, last_us) - bisect_left(sorted_us, first_us)


def _weight(operation: Operation, sure_us: Sequence[int]) -> int:
    """How much is known that bears on this operation: every line that may change it adds to it.

    A late line may end an operation earlier than it seemed to, so sure lines after its end count
    too, as long as lines may be late. What has a start line does not depend on what was before it,
    unless it is a helper's, or copies of what was.
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
    """Whether every helper is smaller than the one before; None where there is no telling."""
    if len(sizes) < 2:
        return None
    return all(later < earlier for earlier, later in pairwise(sizes))


def _formula_ms(pages: int) -> int:
    """How long a lazy snapshot waits at the defaults: an explanation, no forecast."""
    return round(pages / _LIMITS["io_block_pages_count"] * _LIMITS["io_wait_ms"])


def _milliseconds(microseconds: int) -> int:
    return round(microseconds / _MILLISECOND)


def _evidence(operation: Operation) -> list[str]:
    """The operation's lines; of many the first and the last ones, then the deltas' sizes."""
    lines = sorted(operation.lines, key=lambda line: line.order)
    half = EVIDENCE_SHOWN // 2
    if len(lines) > EVIDENCE_SHOWN:
        lines = [*lines[:half], *lines[-half:]]
    opened = [line for _, line in operation.opened][: EVIDENCE_SHOWN - len(lines)]
    shown = sorted([*lines, *opened], key=lambda line: line.order)
    return list(dict.fromkeys(line.text for line in shown))
