"""Stuns of one virtual machine, from its vmware.log.

Three kinds of lines report a stun. `Checkpoint_Unstun` is written at its end and contains its
length. ESXi 8 writes a second line for the same stun about 30 ms later. If both are missing, the
stun follows from changes of the checkpoint mode: 2 is stopped, 6 is running (0 in versions that
never log 6).

Other lines give the cause: see `causes`.

The stuns are a pure function of the lines seen so far: a new line yields the difference between the
stuns before and after it. So the order of arrival does not matter, and a duplicate of a line
changes nothing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, TypeVar

from stunwatch.detectors.catalogue import detector
from stunwatch.detectors.events import (
    EVIDENCE_SHOWN,
    MOST_LINES,
    changed,
    content_hash,
    event_id,
    fullest_host,
    revision,
    timestamp,
)
from stunwatch.detectors.records import has_own_time, is_continuation, verbatim
from stunwatch.detectors.stuns.causes import (
    LONGEST_REACH_US,
    Cause,
    CauseLine,
    CauseName,
    Span,
    bearing,
    cause_of,
    read_cause,
)

_DETECTOR = detector("stuns")
_PATTERNS = _DETECTOR.patterns
_LIMITS = _DETECTOR.thresholds

_MILLISECOND = 1_000
_SECOND = 1_000_000
_MINUTE = 60_000_000
_COPY_US = _LIMITS["copy_within_ms"] * _MILLISECOND
_SAME_START_US = _LIMITS["same_start_within_ms"] * _MILLISECOND
_END_LINE_US = _LIMITS["end_line_within_ms"] * _MILLISECOND
_SETTLES_US = _LIMITS["mode_settles_after_ms"] * _MILLISECOND
_LONGEST_MODE_STUN_US = _LIMITS["longest_mode_stun_minutes"] * _MINUTE
_LONGEST_STUN_US = _LIMITS["longest_stun_days"] * 24 * 60 * _MINUTE
_KEEP_US = _LIMITS["keep_hours"] * 60 * _MINUTE

# VMware's first product is from 1999: earlier stuns are impossible.
_EARLIEST_START_US = int(datetime(1999, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000

# Better evidence has a higher rank.
_RANKS = {"mode": 1, "reported": 2, "unstun": 3}

_STOPPED = 2
_STOPPED_MODES = (_STOPPED, 3)
_RUNNING_MODES = (6, 0)
# A request for mode 1 starts a new checkpoint, and the first line of a log a new process: the VM
# was running, and the end of an earlier stop is unknown.
_BEGINNING = 1


@dataclass(frozen=True)
class Stun:
    """One row of the view `stuns`, except `detected_at`. Times are UTC with microseconds."""

    event_id: str
    detector: str
    revision: int
    is_deleted: int
    run_id: str
    host: str
    vm: str
    datastore: str
    started_at: str
    ended_at: str
    duration_us: int
    reported_us: int | None
    measured_by: Literal["unstun", "cpt_mode", "hostd"]
    cause: CauseName
    cause_detail: str
    op_id: str
    migration_id: str | None
    switchover_us: int | None
    is_quiesced: bool | None
    is_cbt: bool | None
    severity: Literal["normal", "notice", "warning", "critical"]
    evidence: list[str]


class EndLine(NamedTuple):
    """A line at the end of a stun that contains its length. Sorts by time, then offset."""

    at_us: int
    offset: int
    kind: str
    duration_us: int
    text: str
    host: str
    place: tuple[str, ...]
    """Identifies a line that contains no time of its own; otherwise empty."""

    @property
    def started_us(self) -> int:
        """The start of the stun, by this line."""
        return self.at_us - self.duration_us


class ModeLine(NamedTuple):
    """A line that reports a change of the checkpoint mode. Sorts by time, then offset."""

    at_us: int
    offset: int
    mode: int
    text: str
    host: str


_Line = TypeVar("_Line", EndLine, ModeLine, CauseLine)

# A new line causes all lines near it to be evaluated again. No VM ends this many stuns within
# seconds: in a flood the oldest lines are forgotten, and their stuns stay.
_MOST_TOGETHER = {EndLine: 48, ModeLine: 48, CauseLine: 256}
_MOST_KEPT = 4_096

Stuns = dict[str, tuple[int, Stun]]
"""Stuns by event_id, each with the time of its end in microseconds since 1970."""


@dataclass
class State:
    """The sorted lines of the last hours, and the event time."""

    ends: list[EndLine] = field(default_factory=list)
    modes: list[ModeLine] = field(default_factory=list)
    causes: list[CauseLine] = field(default_factory=list)
    event_time_us: int = 0
    fed_at_us: int = 0
    """The event time when the last line was added."""
    datastore: str = ""
    vm: str = ""
    run_id: str = ""


@dataclass
class Tracker:
    """Tracks the stuns of one (datastore, vm)."""

    state: State = field(default_factory=State)

    def feed(self, record: Mapping[str, Any]) -> Iterator[Stun]:
        """Yield the stuns that this line adds, changes or retracts."""
        line = read(record)
        if line is None:
            return
        state = self.state
        kept = _kept(state, line)
        place = bisect_left(kept, line)
        if kept[place : place + 1] == [line]:
            return
        state.datastore = record.get("datastore", "")
        state.vm = record.get("vm", "")
        state.run_id = record.get("run_id", "")
        _make_room(kept, line)
        before = _stuns_touched_by(line, state)
        kept.insert(bisect_left(kept, line), line)
        yield from self._changes(before, _stuns_touched_by(line, state))
        self._forget_all_but(line.at_us)

    def advance_time(self, event_time_us: int) -> Iterator[Stun]:
        """Yield stuns from mode changes for which no end line has arrived in time."""
        state = self.state
        if event_time_us <= state.event_time_us:
            return
        settled_us = state.event_time_us - _SETTLES_US
        state.event_time_us = event_time_us
        settling = _stuns_by_modes(state, settled_us + 1, event_time_us - _SETTLES_US)
        yield from (stun for _, stun in settling.values())
        if event_time_us > state.fed_at_us + _KEEP_US:
            state.ends.clear()
            state.modes.clear()
            state.causes.clear()

    def flush(self) -> Iterator[Stun]:
        """Yield nothing: every stun is written at once."""
        return iter(())

    @property
    def next_timer_us(self) -> int | None:
        """When a stop from mode changes settles, or else when the last line expires."""
        state = self.state
        if not state.ends and not state.modes and not state.causes:
            return None
        pending = bisect_right(state.modes, state.event_time_us - _SETTLES_US, key=_at)
        for line in state.modes[pending:]:
            if line.mode in _RUNNING_MODES:
                return line.at_us + _SETTLES_US
        return state.fed_at_us + _KEEP_US + 1

    def _changes(self, before: Stuns, after: Stuns) -> Iterator[Stun]:
        """Yield what turns the first set of stuns, as written, into the second."""
        for each, (at_us, stun) in before.items():
            if each not in after:
                # A retracted stun from an end line never comes back; one from mode changes may.
                lines = (
                    _lines_about(self.state, at_us)
                    if stun.measured_by == "cpt_mode"
                    else MOST_LINES
                )
                over = revision(stun.revision >> 54, lines, stun.revision, _DETECTOR.version)
                yield changed(stun, is_deleted=1, revision=over)
        for each, found in after.items():
            if before.get(each) != found:
                yield found[1]

    def _forget_all_but(self, at_us: int) -> None:
        """Keep the lines of the last hours and of the hours around the new line.

        If an old file is read again, its lines are far behind the newest, and their neighbours are
        needed.
        """
        state = self.state
        state.fed_at_us = state.event_time_us
        oldest_us = state.event_time_us - _KEEP_US
        _forget(state.ends, oldest_us, at_us)
        _forget(state.modes, oldest_us, at_us)
        _forget(state.causes, oldest_us - LONGEST_REACH_US, at_us)


def read(record: Mapping[str, Any]) -> EndLine | ModeLine | CauseLine | None:
    """Parse a record. Return None if it says nothing about stuns or is implausible."""
    if is_continuation(record):
        return None
    message = record["message"]
    at_us = record["event_time_us"]
    offset = record.get("offset", -1)
    host = record.get("host", "")
    has_time = has_own_time(record)
    for kind in ("unstun", "reported"):
        if found := _PATTERNS[kind].search(message):
            duration_us = int(found["microseconds"])
            is_possible = (
                0 < duration_us <= _LONGEST_STUN_US and at_us - duration_us >= _EARLIEST_START_US
            )
            if not is_possible:
                return None
            place = (
                () if has_time else (record.get("generation", ""), str(offset), verbatim(record))
            )
            return EndLine(at_us, offset, kind, duration_us, verbatim(record), host, place)
    if not has_time:
        return None
    mode = _mode(message)
    if mode is None:
        return read_cause(record)
    return ModeLine(at_us, offset, mode, verbatim(record), host)


def _kept(state: State, line: EndLine | ModeLine | CauseLine) -> list[Any]:
    """Return the list to which a line belongs."""
    if isinstance(line, EndLine):
        return state.ends
    return state.modes if isinstance(line, ModeLine) else state.causes


def _mode(message: str) -> int | None:
    """Return the checkpoint mode that a line reports; None if there is no relevant one."""
    if _PATTERNS["log_started"].search(message):
        return _BEGINNING
    if found := _PATTERNS["mode_requested"].search(message):
        mode = int(found["mode"])
        return mode if mode in (_BEGINNING, *_STOPPED_MODES, *_RUNNING_MODES) else None
    for each in ("mode_acknowledged", "modules_done"):
        if found := _PATTERNS[each].search(message):
            mode = int(found["mode"])
            return mode if mode in (*_STOPPED_MODES, *_RUNNING_MODES) else None
    return None


def _stuns_touched_by(line: EndLine | ModeLine | CauseLine, state: State) -> Stuns:
    """Return the stuns that may depend on this line."""
    if isinstance(line, CauseLine):
        return _stuns_explained_by(line, state)
    last_us = line.at_us + _LONGEST_MODE_STUN_US
    if isinstance(line, ModeLine):
        return _stuns_by_modes(state, line.at_us, last_us)
    near_us = _COPY_US + _END_LINE_US
    return _stuns_by_modes(state, line.at_us - _END_LINE_US, last_us) | _stuns_by_end_lines(
        state, line.at_us - near_us, line.at_us + near_us
    )


def _stuns_explained_by(line: CauseLine, state: State) -> Stuns:
    """Return the stuns for whose cause this line may count."""
    before_us, after_us = line.reach
    first_us, last_us = line.at_us - after_us, line.at_us + before_us
    later = state.ends[bisect_left(state.ends, first_us, key=_at) :]
    ends_us = [end.at_us for end in later if end.started_us <= last_us]
    found = _stuns_by_modes(state, first_us, last_us + _LONGEST_MODE_STUN_US)
    if ends_us:
        # A copy of the line that anchors a stun may be the near one.
        found |= _stuns_by_end_lines(state, first_us - _COPY_US, ends_us[-1] + _COPY_US)
    return found


def _stuns_by_end_lines(state: State, first_us: int, last_us: int) -> Stuns:
    found: Stuns = {}
    for end in _span(state.ends, first_us, last_us):
        stun = _stun_by_end_line(state, end)
        # A line without a time may have been read twice: keep the better row.
        if stun and (
            stun.event_id not in found or stun.revision > found[stun.event_id][1].revision
        ):
            found[stun.event_id] = end.at_us, stun
    return found


def _stuns_by_modes(state: State, first_us: int, last_us: int) -> Stuns:
    found: Stuns = {}
    begin = bisect_left(state.modes, first_us, key=_at)
    for index in range(begin, bisect_right(state.modes, last_us, key=_at)):
        stun = _stun_by_modes(state, index)
        if stun:
            found[stun.event_id] = state.modes[index].at_us, stun
    return found


def _stun_by_end_line(state: State, end: EndLine) -> Stun | None:
    """Return the stun anchored by this line; None if the line only adds to another's."""
    near = _span(state.ends, end.at_us - _END_LINE_US, end.at_us + _COPY_US + _END_LINE_US)
    alike = [other for other in near if other.kind == end.kind]
    instant = [end]
    if not end.place:
        instant += [other for other in alike if _is_same_instant(other, end)]
    told_at: dict[int, list[int]] = {}
    for each in instant:
        told_at.setdefault(each.duration_us, []).append(each.at_us)
    # The same length again soon after is a copy of the line.
    copies = [
        other
        for other in alike
        if other.duration_us in told_at
        and any(abs(other.at_us - at_us) <= _COPY_US for at_us in told_at[other.duration_us])
    ]
    if copies[0] != end:
        return None
    twins = [
        other
        for other in near
        if other.kind != end.kind and any(_is_same_stun(copy, other) for copy in copies)
    ]
    if end.kind == "unstun":
        second = min(twins, key=lambda twin: abs(twin.started_us - end.started_us), default=None)
    elif twins:
        return None
    else:
        second = end
    lines = sorted([*copies, *twins])
    duration_us = max(copy.duration_us for copy in copies)
    # A line without a time cannot be near any other.
    causes = [] if end.place else bearing(state.causes, Span(end.at_us - duration_us, end.at_us))
    return _stun(
        state,
        anchor=end.place or (timestamp(end.at_us // _MILLISECOND * _MILLISECOND),),
        rank=_RANKS[end.kind],
        lines=lines,
        causes=causes,
        weight=len({line.text for line in lines}) + len(causes),
        ended_us=end.at_us,
        duration_us=duration_us,
        reported_us=second.duration_us if second else None,
        measured_by="unstun",
    )


def _is_same_stun(one: EndLine, other: EndLine) -> bool:
    """True if lines of different kinds report the same stun: both count from the same start.

    A relay may truncate both times to whole seconds. Then the second may change between the two
    lines, and only their lengths show that they count from the same start.
    """
    apart_us = abs(one.at_us - other.at_us)
    if one.at_us % _SECOND == 0 and other.at_us % _SECOND == 0:
        is_soon = apart_us <= _SECOND
        is_same_start = abs(one.duration_us - other.duration_us) <= _SAME_START_US
    else:
        is_soon = apart_us <= _END_LINE_US
        is_same_start = abs(one.started_us - other.started_us) <= _SAME_START_US
    return (is_soon and is_same_start) or _is_same_instant(one, other)


def _is_same_instant(one: EndLine, other: EndLine) -> bool:
    """True if two lines have the same millisecond, in which no two stuns can end."""
    is_same = one.at_us // _MILLISECOND == other.at_us // _MILLISECOND
    return is_same and not one.place and not other.place


def _stun_by_modes(state: State, index: int) -> Stun | None:
    """Return the stun that ended with this change of mode; None if an end line reports it."""
    end = state.modes[index]
    if end.mode not in _RUNNING_MODES or state.event_time_us < end.at_us + _SETTLES_US:
        return None
    first = index
    while first and state.modes[first - 1].mode in _STOPPED_MODES:
        first -= 1
    stop = state.modes[first:index]
    began_us = next((line.at_us for line in stop if line.mode == _STOPPED), end.at_us)
    duration_us = end.at_us - began_us
    if not _MILLISECOND <= duration_us <= _LONGEST_MODE_STUN_US:
        return None
    end_lines = _span(state.ends, began_us, end.at_us + _END_LINE_US)
    if began_us < _EARLIEST_START_US or any(line.started_us <= end.at_us for line in end_lines):
        return None
    return _stun(
        state,
        anchor=(timestamp(end.at_us // _MILLISECOND * _MILLISECOND),),
        rank=_RANKS["mode"],
        lines=[*stop, end],
        causes=bearing(state.causes, Span(began_us, end.at_us)),
        weight=_lines_about(state, end.at_us),
        ended_us=end.at_us,
        duration_us=duration_us,
        reported_us=None,
        measured_by="cpt_mode",
    )


def _lines_about(state: State, at_us: int) -> int:
    """Return how many lines count for a stop that ended here. It only grows as lines arrive."""
    first_us = at_us - _LONGEST_MODE_STUN_US
    modes = {line.text for line in _span(state.modes, first_us, at_us)}
    ends = _span(state.ends, first_us, at_us + _END_LINE_US)
    causes = bearing(state.causes, Span(first_us, at_us))
    return len(modes) + len(causes) + len({line.text for line in ends if line.started_us <= at_us})


def _stun(
    state: State,
    *,
    anchor: tuple[str, ...],
    rank: int,
    lines: Sequence[EndLine | ModeLine],
    causes: Sequence[CauseLine],
    weight: int,
    ended_us: int,
    duration_us: int,
    reported_us: int | None,
    measured_by: Literal["unstun", "cpt_mode"],
) -> Stun:
    host = fullest_host(line.host for line in lines)
    told = cause_of(Span(ended_us - duration_us, ended_us), causes) if causes else Cause()
    stun = Stun(
        event_id=event_id(_DETECTOR.name, state.datastore, state.vm, *anchor),
        detector=_DETECTOR.name,
        revision=0,
        is_deleted=0,
        run_id="",
        host=host,
        vm=state.vm,
        datastore=state.datastore,
        started_at=timestamp(ended_us - duration_us),
        ended_at=timestamp(ended_us),
        duration_us=duration_us,
        reported_us=reported_us,
        measured_by=measured_by,
        cause=told.cause,
        cause_detail=told.cause_detail,
        op_id=told.op_id,
        migration_id=told.migration_id,
        switchover_us=told.switchover_us,
        is_quiesced=told.is_quiesced,
        is_cbt=told.is_cbt,
        severity=severity(duration_us),
        evidence=list(dict.fromkeys(line.text for line in (*lines, *told.lines)))[:EVIDENCE_SHOWN],
    )
    names_itself = len(anchor) > 1
    # A line without a time gets another time at every replay: keep the earliest.
    tie = -(ended_us // 1_000_000) if names_itself else content_hash(stun)
    # The lowest bit marks the row with a known user (detectors.operations).
    tie &= ~1
    # Of rows from the same lines, the one with the longer host name is better.
    full_rank = rank << 8 | min(len(host), 0xFF)
    return changed(
        stun, revision=revision(full_rank, weight, tie, _DETECTOR.version), run_id=state.run_id
    )


def severity(duration_us: int) -> Literal["normal", "notice", "warning", "critical"]:
    """Return the severity of a stun of this length."""
    duration_ms = duration_us / _MILLISECOND
    if duration_ms > _LIMITS["critical_above_ms"]:
        return "critical"
    if duration_ms > _LIMITS["warning_above_ms"]:
        return "warning"
    if duration_ms > _LIMITS["notice_above_ms"]:
        return "notice"
    return "normal"


def _forget(lines: list[_Line], oldest_us: int, at_us: int) -> None:
    # Not at every line: this passes over all lines.
    if lines and lines[0].at_us < oldest_us - _KEEP_US // 8:
        lines[:] = [
            line for line in lines if line.at_us >= oldest_us or abs(line.at_us - at_us) <= _KEEP_US
        ]


def _make_room(lines: list[_Line], line: _Line) -> None:
    """Drop a line if too many are kept near the new one, or in total."""
    near_us = _COPY_US + _END_LINE_US
    first = bisect_left(lines, line.at_us - near_us, key=_at)
    if bisect_right(lines, line.at_us + near_us, key=_at) - first >= _MOST_TOGETHER[type(line)]:
        del lines[first]
    elif len(lines) >= _MOST_KEPT:
        del lines[0]


def _span(lines: list[_Line], first_us: int, last_us: int) -> list[_Line]:
    """Return the lines of this span, both ends included."""
    return lines[bisect_left(lines, first_us, key=_at) : bisect_right(lines, last_us, key=_at)]


def _at(line: EndLine | ModeLine | CauseLine) -> int:
    return line.at_us
