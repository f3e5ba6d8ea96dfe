"""Trackers whose rows are a pure function of the lines known.

A ledger keeps the lines that matter, in groups that have nothing to do with each other. Whenever a
line comes, or silence has lasted long enough to mean something, it works out the rows of that group
anew and writes what differs from what it wrote before. So the order of arrival does not matter, a
copy changes nothing, and what later lines contradict is taken back.

For few lines that mean much. Many lines that only count belong into `detectors.episodes`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from detectors.events import content_hash, weighed_revision


@dataclass(frozen=True, kw_only=True)
class Fact:
    """A line that matters. Its time, place and text name it: a second one like it is a copy."""

    at_us: int
    offset: int
    """The line's place in its file; -1 where it came by network."""
    text: str
    """The line as it was written."""
    host: str

    @property
    def order(self) -> tuple[int, int, str]:
        """Facts are sorted by it."""
        return self.at_us, self.offset, self.text


class Row(Protocol):
    """An event, as a frozen dataclass; the ledger fills in `revision`, `is_deleted`, `run_id`."""

    @property
    def event_id(self) -> str: ...
    @property
    def revision(self) -> int: ...


SomeFact = TypeVar("SomeFact", bound=Fact)
SomeRow = TypeVar("SomeRow", bound=Row)


class Found(NamedTuple, Generic[SomeRow]):
    """A row, and what may still change it."""

    row: SomeRow
    first_us: int
    last_us: int
    """Facts in this span, both ends included, bear on the row: the more there are, the better the
    row. As facts arrive the span of a row may grow and must not shrink."""
    rank: int = 0
    """Of rows with as many facts the one with the higher rank is better: silence raises it."""
    changes_at_us: int | None = None
    """The event time at which silence alone changes the row."""
    is_open: bool = False
    """An open row's facts are kept however old they are."""
    lines: int | None = None
    """How much is known of the row, where that is not the number of facts in its span."""
    is_deleted: bool = False
    """A row that must not be, whoever else writes it."""
    facts: tuple[Fact, ...] | None = None
    """The facts to keep for the row, where its span holds others too."""


@dataclass
class _Group(Generic[SomeFact, SomeRow]):
    facts: list[SomeFact] = field(default_factory=list)
    written: dict[str, Found[SomeRow]] = field(default_factory=dict)
    forget_at_us: int = 0

    @property
    def due_us(self) -> int:
        """When there is something to do."""
        changes = [found.changes_at_us for found in self.written.values()]
        return min([self.forget_at_us, *(each for each in changes if each is not None)])


@dataclass
class Ledger(ABC, Generic[SomeFact, SomeRow]):
    """A tracker; a detector says how lines are read and what rows they tell."""

    keep_us: ClassVar[int]
    """How long facts are kept, in event time, so that late ones still find their neighbours."""

    event_time_us: int = 0
    run_id: str = ""
    groups: dict[Hashable, _Group[SomeFact, SomeRow]] = field(default_factory=dict)
    due_us: int | None = None

    @abstractmethod
    def read(self, record: Mapping[str, Any]) -> SomeFact | None:
        """What a record tells; None where nothing, or nothing that can be believed."""

    @abstractmethod
    def group_of(self, fact: SomeFact) -> Hashable:
        """Facts of different groups have nothing to do with each other."""

    @abstractmethod
    def rows(self, facts: Sequence[SomeFact], event_time_us: int) -> Iterable[Found[SomeRow]]:
        """The rows that sorted facts of one group tell when event time has come this far."""

    def feed(self, record: Mapping[str, Any]) -> Iterator[SomeRow]:
        """The rows that this line tells, changes or takes back."""
        fact = self.read(record)
        if fact is None:
            return
        key = self.group_of(fact)
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = _Group(forget_at_us=self.event_time_us + self.keep_us)
        place = bisect_left(group.facts, fact.order, key=_order)
        if place < len(group.facts) and group.facts[place].order == fact.order:
            return
        group.facts.insert(place, fact)
        self.run_id = record.get("run_id", "")
        yield from self._write(group)
        # Too early costs one look around; looking at every group costs a storm of them dear.
        self.due_us = group.due_us if self.due_us is None else min(self.due_us, group.due_us)

    def tick(self, event_time_us: int) -> Iterator[SomeRow]:
        """The rows that silence changes."""
        self.event_time_us = max(self.event_time_us, event_time_us)
        if self.due_us is None or self.event_time_us < self.due_us:
            return
        for key, group in list(self.groups.items()):
            if group.due_us > self.event_time_us:
                continue
            yield from self._write(group)
            if group.forget_at_us <= self.event_time_us:
                self._forget(group)
            if not group.facts:
                del self.groups[key]
        self._look_ahead()

    def flush(self) -> Iterator[SomeRow]:
        """Nothing: every row is written at once."""
        return iter(())

    @property
    def next_due_us(self) -> int | None:
        """When silence changes a row or lets a line be forgotten; None where nothing is kept."""
        return self.due_us

    def _write(self, group: _Group[SomeFact, SomeRow]) -> Iterator[SomeRow]:
        """Write what differs from what was written."""
        now = {found.row.event_id: found for found in self.rows(group.facts, self.event_time_us)}
        for event_id, before in list(group.written.items()):
            if event_id in now:
                continue
            del group.written[event_id]
            yield self._revised(group, before, is_deleted=True)
        for event_id, found in now.items():
            row = self._revised(group, found, found.is_deleted)
            before_row = group.written[event_id].row if event_id in group.written else None
            group.written[event_id] = found._replace(row=row)
            if before_row is None or before_row.revision != row.revision:
                yield row

    def _revised(
        self, group: _Group[SomeFact, SomeRow], found: Found[SomeRow], is_deleted: bool = False
    ) -> SomeRow:
        plain: Any = replace(found.row, revision=0, is_deleted=0, run_id="")  # type: ignore[type-var]
        lines = found.lines
        if lines is None:
            lines = len(_span(group.facts, found.first_us, found.last_us))
        revision = weighed_revision(lines, found.rank, content_hash(plain), is_deleted)
        revised: SomeRow = replace(
            plain, revision=revision, is_deleted=int(is_deleted), run_id=self.run_id
        )
        return revised

    def _forget(self, group: _Group[SomeFact, SomeRow]) -> None:
        """Forget the facts that are too old for any row to change, and what they told."""
        oldest_us = self.event_time_us - self.keep_us
        # Not at every line: it walks through all of them.
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

    def _look_ahead(self) -> None:
        self.due_us = min((group.due_us for group in self.groups.values()), default=None)


def _span(facts: Sequence[SomeFact], first_us: int, last_us: int) -> Sequence[SomeFact]:
    return facts[bisect_left(facts, first_us, key=_at) : bisect_right(facts, last_us, key=_at)]


def _at(fact: Fact) -> int:
    return fact.at_us


def _order(fact: Fact) -> tuple[int, int, str]:
    return fact.order
