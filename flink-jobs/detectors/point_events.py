"""Base class of trackers whose rows are a pure function of the lines seen so far.

A ledger keeps the relevant lines in independent groups. When a line arrives, or a timeout without
lines changes the result, it recomputes the rows of that group and writes the ones that differ. So
the order of arrival does not matter, a duplicate changes nothing, and rows that later lines
contradict are retracted.

Use it for few lines that each matter. To count many lines, use `detectors.sessions`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from stunwatch.detectors.bounds import EVICTED
from stunwatch.detectors.catalogue import detector
from stunwatch.detectors.events import changed, content_hash, weighed_revision
from stunwatch.detectors.timers import Timers, keep

STORM_FACTS = 64
"""A group with more facts than this within `keep_us` is treated as a storm."""


@dataclass(frozen=True, kw_only=True)
class Fact:
    """A relevant line. A second one with the same time, offset and text is a duplicate."""

    at_us: int
    offset: int
    """The byte offset of the line in its file; -1 if it arrived over the network."""
    text: str
    """The line, verbatim."""
    host: str

    @property
    def order(self) -> tuple[int, int, str]:
        """The sort key of facts."""
        return self.at_us, self.offset, self.text


class Row(Protocol):
    """An event, as a frozen dataclass. The ledger sets `revision`, `is_deleted` and `run_id`."""

    @property
    def event_id(self) -> str: ...
    @property
    def detector(self) -> str: ...
    @property
    def revision(self) -> int: ...


SomeFact = TypeVar("SomeFact", bound=Fact)
SomeRow = TypeVar("SomeRow", bound=Row)


class Found(NamedTuple, Generic[SomeRow]):
    """A row, and the conditions under which it may still change."""

    row: SomeRow
    first_us: int
    last_us: int
    """Facts from `first_us` to `last_us`, both included, count towards the row: more facts make a
    better row. As facts arrive, the span of a row may grow and must not shrink."""
    rank: int = 0
    """Of two rows with equally many facts, the one with the higher rank wins. A pause raises it."""
    changes_at_us: int | None = None
    """The event time at which the row changes if no line arrives."""
    is_open: bool = False
    """The facts of an open row are kept regardless of their age."""
    lines: int | None = None
    """The number of lines behind the row, if it differs from the number of facts in its span."""
    is_deleted: bool = False
    """True if the row must not exist, even if another run writes it."""
    facts: tuple[Fact, ...] | None = None
    """The facts to keep for the row, if its span also contains others."""
    held: int | None = None
    """The number of facts of an open row, if its span also contains others."""


@dataclass
class _Group(Generic[SomeFact, SomeRow]):
    facts: list[SomeFact] = field(default_factory=list)
    written: dict[str, Found[SomeRow]] = field(default_factory=dict)
    forget_at_us: int = 0

    @property
    def due_us(self) -> int:
        """The event time of the next work for this group."""
        changes = [found.changes_at_us for found in self.written.values()]
        return min([self.forget_at_us, *(each for each in changes if each is not None)])


@dataclass
class PointEvents(ABC, Generic[SomeFact, SomeRow]):
    """Base class of a tracker. A detector defines how lines are parsed and which rows they give."""

    keep_us: ClassVar[int]
    """How long facts are kept, in event time, so that late facts still find related ones."""
    most_facts: ClassVar[int] = 1_000
    """If a group has more facts than this, the oldest are forgotten early, except those of open
    rows: every line costs a pass over all facts."""

    event_time_us: int = 0
    run_id: str = ""
    groups: dict[Hashable, _Group[SomeFact, SomeRow]] = field(default_factory=dict)
    timers: Timers[Hashable] = field(default_factory=Timers)

    @abstractmethod
    def read(self, record: Mapping[str, Any]) -> SomeFact | None:
        """Parse a record. Return None if it is irrelevant or implausible."""

    @abstractmethod
    def group_of(self, fact: SomeFact) -> Hashable:
        """Return the group of a fact. Groups are independent."""

    @abstractmethod
    def rows(self, facts: Sequence[SomeFact], event_time_us: int) -> Iterable[Found[SomeRow]]:
        """Return the rows that follow from the sorted facts of one group at this event time."""

    def feed(self, record: Mapping[str, Any]) -> Iterator[SomeRow]:
        """Yield the rows that this line adds, changes or retracts."""
        fact = self.read(record)
        if fact is None:
            return
        key = self.group_of(fact)
        group = self.groups.get(key)
        if group is None:
            group = _Group(forget_at_us=self.event_time_us + self.keep_us)
        if keep(self.groups, key, group, self.timers):
            EVICTED["groups"] += 1
        place = bisect_left(group.facts, fact.order, key=_order)
        if place < len(group.facts) and group.facts[place].order == fact.order:
            return
        group.facts.insert(place, fact)
        self.run_id = record.get("run_id", "")
        yield from self._write(group)
        if len(group.facts) > self.most_facts:
            yield from self._write(group, is_all=True)
            self._evict(group)
        self.timers.set(key, group.due_us)

    def advance_time(self, event_time_us: int) -> Iterator[SomeRow]:
        """Yield the rows that change because time has passed."""
        self.event_time_us = max(self.event_time_us, event_time_us)
        for key in self.timers.take(self.event_time_us):
            group = self.groups[key]
            is_old = group.forget_at_us <= self.event_time_us
            yield from self._write(group, is_all=is_old)
            if is_old:
                self._forget(group)
            if group.facts:
                self.timers.set(key, group.due_us)
            else:
                del self.groups[key]

    def flush(self) -> Iterator[SomeRow]:
        """Yield the rows for which more lines are known than when they were written."""
        for key, group in self.groups.items():
            yield from self._write(group, is_all=True)
            self.timers.set(key, group.due_us)

    @property
    def next_timer_us(self) -> int | None:
        """When the passage of time changes a row or expires a fact; None if no state is kept."""
        return self.timers.next_us

    def _write(
        self, group: _Group[SomeFact, SomeRow], *, is_all: bool = False
    ) -> Iterator[SomeRow]:
        """Yield the rows that differ from those written before.

        In a storm every line adds to every row. A row whose content is unchanged but has more lines
        is then not written at every line, but only before it is forgotten (`is_all`).
        """
        is_storm = len(group.facts) > STORM_FACTS
        now = {found.row.event_id: found for found in self.rows(group.facts, self.event_time_us)}
        for event_id, before in list(group.written.items()):
            if event_id in now:
                continue
            del group.written[event_id]
            yield self._revised(group, before, is_deleted=True)
        for event_id, found in now.items():
            written = group.written.get(event_id)
            before_row = written.row if written else None
            if is_storm and not is_all and written and _is_same(written, found):
                group.written[event_id] = found._replace(row=written.row)
                continue
            row = self._revised(group, found, found.is_deleted)
            group.written[event_id] = found._replace(row=row)
            if before_row is None or before_row.revision != row.revision:
                yield row

    def _revised(
        self, group: _Group[SomeFact, SomeRow], found: Found[SomeRow], is_deleted: bool = False
    ) -> SomeRow:
        plain: Any = changed(found.row, revision=0, is_deleted=0, run_id="")
        lines = found.lines
        if lines is None:
            lines = len(_span(group.facts, found.first_us, found.last_us))
        version = detector(plain.detector).version
        revision = weighed_revision(
            lines, found.rank, content_hash(plain), version, is_deleted=is_deleted
        )
        revised: SomeRow = changed(
            plain, revision=revision, is_deleted=int(is_deleted), run_id=self.run_id
        )
        return revised

    def _evict(self, group: _Group[SomeFact, SomeRow]) -> None:
        """If there are too many facts, drop the oldest quarter. Their rows stay as written."""
        before, kept = len(group.facts), self.most_facts * 3 // 4
        self._forget(group, group.facts[-kept].at_us)
        held = [each.held for each in group.written.values() if each.is_open]
        spared = sum(3 * self.most_facts if each is None else each for each in held)
        if len(group.facts) > min(self.most_facts + spared, 20 * self.most_facts):
            group.facts = group.facts[-kept:]
            told = {each.row.event_id for each in self.rows(group.facts, self.event_time_us)}
            group.written = {name: row for name, row in group.written.items() if name in told}
        EVICTED["facts"] += before - len(group.facts)

    def _forget(self, group: _Group[SomeFact, SomeRow], oldest_us: int | None = None) -> None:
        """Forget facts that are too old to change any row, and the rows made of them."""
        if oldest_us is None:
            oldest_us = self.event_time_us - self.keep_us
        # Not at every line: this passes over all facts.
        group.forget_at_us = self.event_time_us + self.keep_us // 8
        for event_id, found in list(group.written.items()):
            if found.last_us < oldest_us and not found.is_open:
                del group.written[event_id]
        kept = group.written.values()
        spans = [(found.first_us, found.last_us) for found in kept if found.facts is None]
        named = {fact.order for found in kept for fact in found.facts or ()}
        group.facts = [
            fact
            for fact in group.facts
            if fact.at_us >= oldest_us
            or any(first <= fact.at_us <= last for first, last in spans)
            or fact.order in named
        ]


def _is_same(written: Found[SomeRow], found: Found[SomeRow]) -> bool:
    """True if a row has the same content as before, regardless of its number of lines."""
    before: Any = written.row
    plain: Any = changed(before, revision=0, is_deleted=0, run_id="")
    return (plain, written.rank, written.is_deleted) == (found.row, found.rank, found.is_deleted)


def _span(facts: Sequence[SomeFact], first_us: int, last_us: int) -> Sequence[SomeFact]:
    return facts[bisect_left(facts, first_us, key=_at) : bisect_right(facts, last_us, key=_at)]


def _at(fact: Fact) -> int:
    return fact.at_us


def _order(fact: Fact) -> tuple[int, int, str]:
    return fact.order
