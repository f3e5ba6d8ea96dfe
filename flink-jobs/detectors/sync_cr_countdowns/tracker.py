"""Countdowns of one host, from its vmkernel log.

A command that meets another host's reservation is retried, and the number of remaining retries is
logged from time to time. The result is a pure function of the lines seen so far, so their order of
arrival does not matter. A line affects only the countdowns around it, and only these are
recomputed: a host with a stuck LUN counts down for hours.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeVar

from stunwatch.detectors.bounds import EVICTED
from stunwatch.detectors.catalogue import detector
from stunwatch.detectors.events import (
    EVIDENCE_SHOWN,
    changed,
    content_hash,
    event_id,
    fullest_host,
    timestamp,
)
from stunwatch.detectors.records import has_own_time, is_continuation, verbatim
from stunwatch.detectors.reservation_conflict import ReservationConflict, host_key, uptime_ms
from stunwatch.detectors.timers import Timers

_DETECTOR = detector("sync_cr_countdowns")
_PATTERNS = _DETECTOR.patterns
_LIMITS = _DETECTOR.thresholds

_SECOND = 1_000_000
_SILENCE_US = _LIMITS["recovered_after_seconds"] * _SECOND
_JOIN_US = _LIMITS["joined_within_seconds"] * _SECOND
_COPY_US = _LIMITS["copy_within_seconds"] * _SECOND
_BOOTING_MS = _LIMITS["booting_minutes"] * 60_000
_KEEP_US = _LIMITS["keep_minutes"] * 60 * _SECOND

_THREAD_WORLD = re.compile(r"cpu\d{1,19}:(\d{1,19})", re.ASCII)

# The part of the evidence that is reserved for lines about the end.
_ENDS_SHOWN = 6

# Some sources publish a whole countdown on one line. Further pieces are ignored.
_MOST_PIECES = 64

# ESX 3.5 writes a step per second, ESX 4 several. In a flood, further lines of a second are
# ignored: every line costs a pass over its neighbours.
_MOST_TOGETHER = 32
_TOGETHER_US = _SECOND

# This many steps before an end line are considered, the newest ones.
_MOST_NEAR = 128

# ESX 4 counts down from 960, and runs at most 320 VMs. Of a longer countdown, of more end lines, or
# of more keys, the oldest lines are forgotten early.
_MOST_LINES = 2_048
_MOST_KEYS = 1_024


class Order(NamedTuple):
    """The sort key of a fact."""

    at_us: int
    offset: int
    """The byte offset of the line in its file; -1 if it arrived over the network."""
    piece: int
    """The position in the line: some sources publish a whole countdown on one line."""
    text: str
    """The line, verbatim."""


class Key(NamedTuple):
    """Identifies the source of a countdown: a world retries one command at a time."""

    host: str
    world: int
    opcode: str
    """Hexadecimal; empty before ESX 4."""


class Step(NamedTuple):
    """One value of a countdown."""

    order: Order
    key: Key
    remaining: int
    head_world: int | None
    """The world in the head of the line. In ESX 4 it may differ from the world that counts."""
    uptime_ms: int | None
    clock: tuple[str, int, int] | None
    """The clock that the line shows, its milliseconds and the position in the line: equal in
    copies."""
    place: tuple[str, ...]
    """Identifies the line together with its time."""
    host: str
    """As in the line."""
    copies: tuple[Order, ...]
    """Other places where the same line was found."""
    fed_at_us: int
    """The event time of its arrival."""

    @property
    def lines(self) -> int:
        """The number of lines that contain it."""
        return 1 + len(self.copies)


class End(NamedTuple):
    """A line about the end of a countdown."""

    order: Order
    host_key: str
    kind: str
    """The name of its pattern."""
    path: str
    remaining: int | None
    head_world: int | None
    has_time: bool
    fed_at_us: int
    """The event time of its arrival."""

    @property
    def is_stuck(self) -> bool:
        """True if it contains the path of a LUN for which no retry was left."""
        return self.kind == "path" and not self.remaining


class Run(NamedTuple):
    """A countdown: steps of one key, each lower than the one before."""

    key: Key
    steps: list[Step]
    event_id: str
    next: Step | None
    """The step that starts the next countdown; None if there is none, or a long pause came
    first."""


class Match(NamedTuple):
    """What the steps before an end line say about it."""

    step: Step | None
    """The step that it follows; None if no step matches."""
    keys: frozenset[Key]
    """The keys whose countdowns it may be about."""
    lines: int
    """The number of lines that the choice depends on."""


@dataclass
class Tracker:
    """Tracks the countdowns of one log key."""

    event_time_us: int = 0
    run_id: str = ""
    steps: dict[Key, list[Step]] = field(default_factory=dict)
    """Sorted lists. The key of the newest line is the last one."""
    ends: dict[str, list[End]] = field(default_factory=dict)
    """By host, sorted."""
    matches: dict[End, Match] = field(default_factory=dict)
    """Computed once, because every step of a countdown needs those of all its ends."""
    written: dict[str, tuple[Key, Order, ReservationConflict]] = field(default_factory=dict)
    """By event_id; each row with its first step."""
    open: Timers[str] = field(default_factory=Timers)
    """When each row that was written as open is over unless a line arrives, by event_id."""
    forget_at_us: int = 0

    def feed(self, record: Mapping[str, Any]) -> Iterator[ReservationConflict]:
        """Yield the countdowns that this line adds, changes or retracts."""
        for fact in read(record, self.event_time_us):
            if not self.steps and not self.ends:
                self.forget_at_us = self.event_time_us + _KEEP_US
            before = self._runs_about(fact)
            is_new = self._add_step(fact) if isinstance(fact, Step) else self._add_end(fact)
            if is_new:
                self.run_id = record.get("run_id", "")
                yield from self._write(before, self._runs_about(fact))
                self._limit(fact)

    def advance_time(self, event_time_us: int) -> Iterator[ReservationConflict]:
        """Yield the countdowns that ended because no line arrived for long enough."""
        self.event_time_us = max(self.event_time_us, event_time_us)
        for name in self.open.take(self.event_time_us):
            key, first, _ = self.written[name]
            place = bisect_left(self.steps[key], first, key=_order)
            yield from self._write({}, {name: self._run(key, place)})
        if (self.steps or self.ends) and self.forget_at_us <= self.event_time_us:
            self._forget()

    def flush(self) -> Iterator[ReservationConflict]:
        """Yield nothing: every row is written at once."""
        return iter(())

    @property
    def next_timer_us(self) -> int | None:
        """When a countdown ends or lines expire; None if none are kept."""
        if not self.steps and not self.ends:
            return None
        over_us = self.open.next_us
        return self.forget_at_us if over_us is None else min(self.forget_at_us, over_us)

    def _add_step(self, step: Step) -> bool:
        """Keep a step unless it is known. Of copies, keep the earliest."""
        known = self.steps.pop(step.key, [])
        self.steps[step.key] = known  # moved to the end: most recently used
        if self._is_known(step) or _is_flooded(known, step.order.at_us):
            return False
        if other := self._copy_of(step):
            del known[bisect_left(known, other.order, key=_order)]
            self._discard_matches(other)
            first, second = sorted([step, other], key=_order)
            step = first._replace(
                host=fullest_host([step.host, other.host]),
                copies=(*other.copies, second.order),
                fed_at_us=step.fed_at_us,
            )
        insort(known, step, key=_order)
        self._discard_matches(step)
        return True

    def _is_known(self, step: Step) -> bool:
        return any(
            step.order == other.order or step.order in other.copies for other in self._near(step)
        )

    def _copy_of(self, step: Step) -> Step | None:
        """Return the step that the same line gave in another source."""
        for other in self._near(step):
            if step.clock and (step.clock, step.remaining) == (other.clock, other.remaining):
                return other
        return None

    def _near(self, step: Step) -> list[Step]:
        at_us = step.order.at_us
        return _span(self.steps.get(step.key, []), at_us - _COPY_US, at_us + _COPY_US)

    def _add_end(self, end: End) -> bool:
        known = self.ends.setdefault(end.host_key, [])
        place = bisect_left(known, end.order, key=_order)
        if place < len(known) and known[place].order == end.order:
            return False
        if _is_flooded(known, end.order.at_us):
            return False
        known.insert(place, end)
        return True

    def _runs_about(self, fact: Step | End) -> dict[str, Run]:
        """Return the countdowns that may depend on this fact."""
        at_us = fact.order.at_us
        runs: dict[str, Run] = {}
        ends = [fact] if isinstance(fact, End) else []
        if isinstance(fact, Step):
            known = self.steps.get(fact.key, [])
            place = bisect_left(known, fact.order, key=_order)
            about = [at_us, *(step.order.at_us for step in known[:place][-1:])]
            if other := self._copy_of(fact):
                about.append(other.order.at_us)
            runs |= self._runs_between(fact.key, min(about), at_us + _SILENCE_US + _COPY_US)
            ends = self._ends_after(fact)
        for end in ends:
            end_us = end.order.at_us
            for key in self._match(end).keys:
                runs |= self._runs_between(key, end_us - _JOIN_US, end_us)
        return runs

    def _ends_after(self, step: Step) -> list[End]:
        """Return the lines that may be about the end of this step's countdown."""
        at_us = step.order.at_us
        followed = _span(self.ends.get(step.key.host, []), at_us, at_us + _JOIN_US)
        return [end for end in followed if _trust(end, step) is not None]

    def _discard_matches(self, step: Step) -> None:
        """Discard the matches of lines that may be about this step: it was added or removed."""
        for end in self._ends_after(step):
            self.matches.pop(end, None)

    def _runs_between(self, key: Key, first_us: int, last_us: int) -> dict[str, Run]:
        """Return the countdowns of a key that overlap this span, by event_id."""
        known = self.steps.get(key, [])
        place = bisect_left(known, first_us, key=_at)
        while 0 < place < len(known) and not _begins(known[place - 1], known[place]):
            place -= 1
        runs: dict[str, Run] = {}
        while place < len(known) and known[place].order.at_us <= last_us:
            run = self._run(key, place)
            runs[run.event_id] = run
            place += len(run.steps)
        return runs

    def _run(self, key: Key, place: int) -> Run:
        """Return the countdown that starts with this step."""
        known = self.steps[key]
        end = place + 1
        while end < len(known) and not _begins(known[end - 1], known[end]):
            end += 1
        first = known[place]
        is_anew = end < len(known) and not _is_silent_between(known[end - 1], known[end])
        return Run(
            key=key,
            steps=known[place:end],
            event_id=event_id(
                _DETECTOR.name,
                key.host,
                timestamp(first.order.at_us),
                str(key.world),
                key.opcode,
                *first.place,
            ),
            next=known[end] if is_anew else None,
        )

    def _write(
        self, before: dict[str, Run], after: dict[str, Run]
    ) -> Iterator[ReservationConflict]:
        """Yield the rows that differ from those written before."""
        for name in before:
            if name not in after and name in self.written:
                key, first, row = self.written.pop(name)
                self.open.cancel(name)
                revision = self._revision(key, first, is_settled=True, is_deleted=True, tie=0)
                yield changed(row, revision=revision, is_deleted=1, run_id=self.run_id)
        for run in after.values():
            row = self._row(run)
            if row.outcome == "open":
                self.open.set(run.event_id, run.steps[-1].order.at_us + _SILENCE_US + 1)
            else:
                self.open.cancel(run.event_id)
            revision = self._revision(
                run.key,
                run.steps[0].order,
                is_settled=row.outcome != "open",
                is_deleted=False,
                tie=content_hash(row),
            )
            row = changed(row, revision=revision, run_id=self.run_id)
            known = self.written.get(run.event_id)
            self.written[run.event_id] = run.key, run.steps[0].order, row
            if known is None or known[2].revision != revision:
                yield row

    def _row(self, run: Run) -> ReservationConflict:
        ends = self._ends_of(run)
        first, last = run.steps[0], run.steps[-1]
        has_failed = last.remaining == 0 or any(
            end.kind == "failed" or end.is_stuck for end in ends
        )
        is_over = run.next or self.event_time_us > last.order.at_us + _SILENCE_US
        outcome: Literal["recovered", "failed", "open"] = (
            "failed" if has_failed else "recovered" if is_over else "open"
        )
        started_us = first.order.at_us
        ended_us = max(
            [last.order.at_us, *(end.order.at_us for end in ends if end.kind == "failed")]
        )
        told = [last.order.text, *(end.order.text for end in ends)]
        lines = list(dict.fromkeys(step.order.text for step in run.steps))
        ending = list(dict.fromkeys(told))[: 1 + _ENDS_SHOWN]
        return ReservationConflict(
            event_id=run.event_id,
            detector=_DETECTOR.name,
            revision=0,
            is_deleted=0,
            run_id="",
            host=fullest_host(step.host for step in run.steps),
            world_id=run.key.world,
            opcode=run.key.opcode or None,
            first_remaining=first.remaining,
            last_remaining=last.remaining,
            steps=len(run.steps),
            started_at=timestamp(started_us),
            ended_at=timestamp(ended_us),
            duration_ms=round((ended_us - started_us) / 1000),
            eta_ms=_eta_ms(run.steps) if outcome == "open" else None,
            outcome=outcome,
            device="",
            path=next((end.path for end in ends if end.path), ""),
            datastore="",
            dialect="sync_cr",
            is_stuck=any(end.is_stuck for end in ends),
            is_expected=last.uptime_ms is not None and last.uptime_ms < _BOOTING_MS,
            evidence=list(dict.fromkeys(lines[: EVIDENCE_SHOWN - len(ending)] + ending)),
        )

    def _ends_of(self, run: Run) -> list[End]:
        """Return the lines about the end of this countdown."""
        first, last = run.steps[0].order, run.steps[-1].order
        return [
            end
            for end in self._ends_near(run.key, first, last)
            if (step := self._match(end).step)
            and step.key == run.key
            and first <= step.order <= last
        ]

    def _ends_near(self, key: Key, first: Order, last: Order) -> Iterator[End]:
        """Yield the lines that may be about the end of a countdown between these two positions."""
        for end in _span(self.ends.get(key.host, []), first.at_us, last.at_us + _JOIN_US):
            if key in self._match(end).keys:
                yield end

    def _match(self, end: End) -> Match:
        """Return the step that this line follows, and the others that it may follow.

        The steps are ranked: the same world if the heads name it, else a step that reached 0 just
        before, else the nearest step.
        """
        if end in self.matches:
            return self.matches[end]
        at_us = end.order.at_us
        near = [
            step
            for key, known in self.steps.items()
            if key.host == end.host_key and known[-1].order.at_us >= at_us - _JOIN_US
            for step in _span(known, at_us - _JOIN_US, at_us)
            if _trust(end, step) is not None
        ]
        near = sorted(near, key=_order)[-_MOST_NEAR:]
        ranked = [
            ((trust, not trust and step.remaining == 0, step.order, step.key), step)
            for step in near
            if end.has_time or step.order <= end.order
            for trust in [_trust(end, step) or 0]
        ]
        match = self.matches[end] = Match(
            step=max(ranked)[1] if ranked else None,
            keys=frozenset(step.key for step in near),
            lines=1 + sum(step.lines for step in near),
        )
        return match

    def _revision(
        self, key: Key, first: Order, *, is_settled: bool, is_deleted: bool, tie: int
    ) -> int:
        """Return the revision (uint64) of a countdown that starts, or once started, here.

        It rises as more lines are known. A late line may end a countdown earlier than before, with
        fewer steps: so first, the earlier the next countdown starts, the higher it is. Then it
        rises with the number of lines that affect the countdown, then when a pause settles an open
        row. The parts have 32, 16, 1, 1 and 14 bits.
        """
        known = self.steps[key]
        place = bisect_left(known, first, key=_order)
        end = place + (place < len(known) and known[place].order == first)
        while end < len(known) and not (end and _begins(known[end - 1], known[end])):
            end += 1
        cut = 0
        if 0 < end < len(known) and not _is_silent_between(known[end - 1], known[end]):
            cut = 0xFFFFFFFF - min(_distance(first, known[end].order), 0xFFFFFFFE)
        since = bisect_left(known, first.at_us - _SILENCE_US, key=_at)
        lines = sum(step.lines for step in known[since:end])
        last = known[end - 1].order if end > place else first
        lines += sum(self._match(told).lines for told in self._ends_near(key, first, last))
        return (
            cut << 32
            | min(lines, 0xFFFF) << 16
            | int(is_settled) << 15
            | int(is_deleted) << 14
            | tie & 0x3FFF
        )

    def _limit(self, fact: Step | End) -> None:
        """If there are too many lines or keys, forget the oldest. Their rows stay as written."""
        if isinstance(fact, End):
            ends = self.ends[fact.host_key]
            if len(ends) > _MOST_LINES:
                oldest = ends[: -_MOST_LINES // 2]
                del ends[: len(oldest)]
                for end in oldest:
                    self.matches.pop(end, None)
                EVICTED["countdown lines"] += len(oldest)
            return
        known = self.steps[fact.key]
        if len(known) > _MOST_LINES:
            EVICTED["countdown lines"] += self._keep(fact.key, known[-_MOST_LINES // 2 :])
        if len(self.steps) > _MOST_KEYS:
            EVICTED["countdown lines"] += self._keep(next(iter(self.steps)), [])

    def _keep(self, key: Key, kept: list[Step]) -> int:
        """Forget the other steps of a key, and rows that start there. Return how many steps."""
        known = self.steps[key]
        firsts = {step.order for step in kept}
        place = 0
        while place < len(known):
            run = self._run(key, place)
            place += len(run.steps)
            if run.steps[0].order not in firsts:
                self.written.pop(run.event_id, None)
                self.open.cancel(run.event_id)
        self.steps[key] = kept
        if not kept:
            del self.steps[key]
        return len(known) - len(kept)

    def _forget(self) -> None:
        """Forget facts that are too old to be changed by a late line."""
        oldest_us = self.event_time_us - _KEEP_US
        # Not at every line: this passes over all lines.
        self.forget_at_us = self.event_time_us + _KEEP_US // 4
        for key, known in list(self.steps.items()):
            kept: list[Step] = []
            place = 0
            while place < len(known):
                run = self._run(key, place)
                place += len(run.steps)
                if any(step.fed_at_us >= oldest_us for step in run.steps):
                    kept += run.steps
            self._keep(key, kept)
        for host, ends in list(self.ends.items()):
            self.ends[host] = [end for end in ends if end.fed_at_us >= oldest_us]
            for end in ends:
                if end.fed_at_us < oldest_us:
                    self.matches.pop(end, None)
            if not self.ends[host]:
                del self.ends[host]


def read(record: Mapping[str, Any], fed_at_us: int) -> list[Step | End]:
    """Parse a record to facts, in the order of its line."""
    program = record.get("program", "vmkernel")
    if is_continuation(record) or not program.startswith("vmk"):
        return []
    message = record["message"]
    found = sorted(
        ((match.start(), kind, match) for kind in _PATTERNS for match in _all(kind, message)),
        key=lambda each: each[:2],
    )
    if not found or found[0][0] != 0:
        return []
    text = verbatim(record)
    uptime = uptime_ms(record.get("head", ""))
    has_time = has_own_time(record)
    offset = record.get("offset", -1)
    thread = _THREAD_WORLD.fullmatch(record.get("thread", ""))
    head_world = int(thread[1]) if thread else None
    facts: list[Step | End] = []
    for piece, (_, kind, match) in enumerate(found[:_MOST_PIECES]):
        order = Order(record["event_time_us"], offset, piece, text)
        if kind in ("step_esx3", "step_esx4"):
            opcode = match["opcode"].lower() if kind == "step_esx4" else ""
            facts.append(
                Step(
                    order=order,
                    key=Key(host_key(record), int(match["world"]), opcode),
                    remaining=int(match["remaining"]),
                    head_world=head_world,
                    uptime_ms=uptime,
                    clock=_clock(record, uptime, has_time, piece),
                    place=_place(record, uptime, has_time, piece),
                    host=record.get("host", ""),
                    copies=(),
                    fed_at_us=fed_at_us,
                )
            )
            continue
        parts = match.groupdict()
        remaining = parts.get("remaining")
        facts.append(
            End(
                order=order,
                host_key=host_key(record),
                kind=kind,
                path=parts.get("path") or "",
                remaining=None if remaining is None else int(remaining),
                head_world=head_world,
                has_time=has_time,
                fed_at_us=fed_at_us,
            )
        )
    return facts


def _all(kind: str, message: str) -> Iterator[re.Match[str]]:
    return _PATTERNS[kind].finditer(message)


def _clock(
    record: Mapping[str, Any], uptime: int | None, has_time: bool, piece: int
) -> tuple[str, int, int] | None:
    if uptime is not None:
        return "uptime", uptime, piece
    return ("time", record["event_time_us"] // 1000, piece) if has_time else None


def _place(
    record: Mapping[str, Any], uptime: int | None, has_time: bool, piece: int
) -> tuple[str, ...]:
    within = (str(piece),) if piece else ()
    if uptime is not None:
        return str(uptime), *within
    if has_time:
        return within
    return record.get("generation", ""), str(record.get("offset", -1)), *within


def _begins(before: Step, step: Step) -> bool:
    """True if a step starts a countdown: not lower than the one before, or after a long pause."""
    return step.remaining >= before.remaining or _is_silent_between(before, step)


def _is_silent_between(before: Step, step: Step) -> bool:
    if step.order.at_us - before.order.at_us > _SILENCE_US:
        return True
    if before.uptime_ms is None or step.uptime_ms is None:
        return False
    # Lines with an uptime only all have the time of a neighbour.
    return (step.uptime_ms - before.uptime_ms) * 1000 > _SILENCE_US


def _trust(end: End, step: Step) -> int | None:
    """Return how likely a line is about the end of this step's countdown; None if impossible."""
    if end.head_world == step.key.world:
        return 2
    if end.head_world is not None and end.head_world == step.head_world:
        return 1
    # ESX 4 logs a step in whatever world retries it, and lines without a head name none.
    is_unknown = end.head_world is None or step.head_world != step.key.world
    return 0 if is_unknown else None


def _eta_ms(steps: list[Step]) -> int | None:
    """Return milliseconds from the last step to 0 at the pace so far; None without a pace."""
    first, last = steps[0], steps[-1]
    passed_us = last.order.at_us - first.order.at_us
    if not passed_us or first.remaining == last.remaining:
        return None
    return round(last.remaining * passed_us / (first.remaining - last.remaining) / 1000)


def _distance(first: Order, other: Order) -> int:
    """Return the distance: 4096 per millisecond, or bytes and positions within the same instant."""
    if other.at_us == first.at_us:
        return min(other.offset - first.offset + other.piece - first.piece, 4095)
    return (other.at_us - first.at_us) * 4096 // 1000


_SomeFact = TypeVar("_SomeFact", Step, End)


def _is_flooded(facts: list[_SomeFact], at_us: int) -> bool:
    """True if so many facts are known near this time that a further one is ignored."""
    if len(_span(facts, at_us - _TOGETHER_US, at_us + _TOGETHER_US)) < _MOST_TOGETHER:
        return False
    EVICTED["countdown lines"] += 1
    return True


def _span(facts: list[_SomeFact], first_us: int, last_us: int) -> list[_SomeFact]:
    """Return the facts of this span, both ends included."""
    return facts[bisect_left(facts, first_us, key=_at) : bisect_right(facts, last_us, key=_at)]


def _at(fact: Step | End) -> int:
    return fact.order.at_us


def _order(fact: Step | End) -> Order:
    return fact.order
