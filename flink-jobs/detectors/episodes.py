"""Trackers that count lines of one kind: a storm of them is one episode, not a thousand events.

Lines of one key, none further from the next than a gap, are an episode. Which lines belong
together does not depend on the order in which they come: a late one may join two episodes, and the
later one is then taken back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import insort
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from detectors.events import EVIDENCE_SHOWN, content_hash, weighed_revision

WRITTEN_EVERY_US = 1_000_000
"""How long a change may wait for the next: a storm must not write an event a line."""

COPIES_KNOWN = 10_000
"""Of so many newest lines of an episode a second copy is recognised."""

_TAKEN_BACK = 0xFFFFFFFF
"""Lines of a row that was joined to another: no number of lines brings it back."""


class Sighting(NamedTuple):
    """A line that counts."""

    key: tuple[str, ...]
    """What the episode is about; lines of different keys have nothing to do with each other."""
    at_us: int
    offset: int
    """The line's place in its file; -1 where it came by network."""
    text: str
    """The line as it was written."""
    happenings: int = 1
    """How many it tells: some lines stand for several."""


@dataclass
class Episode:
    """Lines of one key, none further from the next than the gap."""

    first_us: int
    last_us: int
    count: int
    lines: int
    evidence: list[tuple[int, int, str]]
    """The first lines: time, place, text."""
    seen: dict[int, None] = field(repr=False)
    """Fingerprints of the newest lines."""
    changed_at_us: int | None = None
    """The event time of the first change that is not written yet."""
    written_id: str = ""
    is_over: bool = False
    """Whether the gap has passed since the last line; told only where the detector asks for it."""

    @property
    def texts(self) -> list[str]:
        """The lines that an event shows as its evidence."""
        return list(dict.fromkeys(text for _, _, text in self.evidence))

    def take(self, other: Episode) -> None:
        """Take in what another one counted."""
        self.first_us = min(self.first_us, other.first_us)
        self.last_us = max(self.last_us, other.last_us)
        self.count += other.count
        self.lines += other.lines
        self.evidence = sorted([*self.evidence, *other.evidence])[:EVIDENCE_SHOWN]
        self.seen |= other.seen
        for each in list(self.seen)[: max(0, len(self.seen) - COPIES_KNOWN)]:
            del self.seen[each]


SomeRow = TypeVar("SomeRow")


@dataclass
class Episodes(ABC, Generic[SomeRow]):
    """A tracker; a detector says which lines count, how far apart, and what the row is.

    A row is a frozen dataclass with `event_id` made of the key and the episode's first time;
    `revision`, `is_deleted` and `run_id` are filled in here.
    """

    gap_us: ClassVar[int]
    """Lines further apart than this belong to different episodes."""
    keep_us: ClassVar[int]
    """How long a finished episode is kept, in event time, for late lines; above the gap."""
    tells_end: ClassVar[bool] = False
    """Whether a row is written anew when its episode is over, because it differs then."""

    event_time_us: int = 0
    run_id: str = ""
    episodes: dict[tuple[str, ...], list[Episode]] = field(default_factory=dict)
    due_us: int | None = None

    @abstractmethod
    def read(self, record: Mapping[str, Any]) -> Sighting | None:
        """What a record tells; None where it does not count."""

    @abstractmethod
    def row(self, key: tuple[str, ...], episode: Episode) -> SomeRow:
        """The event of an episode."""

    def feed(self, record: Mapping[str, Any]) -> Iterator[SomeRow]:
        """An event if an episode begins with this line, or is joined to another by it."""
        sighting = self.read(record)
        if sighting is None:
            return
        self.run_id = record.get("run_id", "")
        known = self.episodes.setdefault(sighting.key, [])
        name = _fingerprint(sighting)
        near = [
            each
            for each in known
            if each.first_us - self.gap_us <= sighting.at_us <= each.last_us + self.gap_us
        ]
        if any(name in each.seen for each in near):
            return
        new = Episode(
            first_us=sighting.at_us,
            last_us=sighting.at_us,
            count=sighting.happenings,
            lines=1,
            evidence=[(sighting.at_us, sighting.offset, sighting.text)],
            seen={name: None},
            changed_at_us=self.event_time_us,
        )
        for each in near:
            if each.written_id and (each is not near[0] or sighting.at_us < each.first_us):
                yield self._taken_back(sighting.key, each)
                each.written_id = ""
            known.remove(each)
        # The earliest takes in the others, so that the newest lines are the last that it has seen.
        whole, *others = [*near, new]
        for each in others:
            whole.take(each)
        if whole.changed_at_us is None:
            whole.changed_at_us = self.event_time_us
        insort(known, whole, key=_first_us)
        if not whole.written_id:
            yield self._written(sighting.key, whole)
        self._look_ahead()

    def tick(self, event_time_us: int) -> Iterator[SomeRow]:
        """The events that have changed, after they could change some more."""
        self.event_time_us = max(self.event_time_us, event_time_us)
        if self.due_us is None or self.event_time_us < self.due_us:
            return
        yield from self._endings()
        yield from self._changes(self.event_time_us - WRITTEN_EVERY_US)
        for key, known in list(self.episodes.items()):
            known[:] = [
                each
                for each in known
                if each.changed_at_us is not None
                or each.last_us + self.keep_us > self.event_time_us
            ]
            if not known:
                del self.episodes[key]
        self._look_ahead()

    def flush(self) -> Iterator[SomeRow]:
        """The events that have changed: a source has ended."""
        yield from self._changes(self.event_time_us)
        self._look_ahead()

    @property
    def next_due_us(self) -> int | None:
        """When a change is written or an episode forgotten; None where none is kept."""
        return self.due_us

    def _changes(self, until_us: int) -> Iterator[SomeRow]:
        for key, known in self.episodes.items():
            for each in known:
                if each.changed_at_us is not None and each.changed_at_us <= until_us:
                    yield self._written(key, each)

    def _endings(self) -> Iterator[SomeRow]:
        for key, known in self.episodes.items():
            for each in known:
                if not each.is_over and self._is_over(each):
                    yield self._written(key, each)

    def _is_over(self, episode: Episode) -> bool:
        return self.tells_end and self.event_time_us > episode.last_us + self.gap_us

    def _written(self, key: tuple[str, ...], episode: Episode) -> SomeRow:
        episode.is_over = self._is_over(episode)
        row: Any = self.row(key, episode)
        episode.changed_at_us = None
        episode.written_id = row.event_id
        rank = int(episode.is_over)
        revision = weighed_revision(episode.lines, rank, content_hash(row), is_deleted=False)
        written: SomeRow = replace(row, revision=revision, run_id=self.run_id)
        return written

    def _taken_back(self, key: tuple[str, ...], episode: Episode) -> SomeRow:
        row: Any = self.row(key, episode)
        revision = weighed_revision(_TAKEN_BACK, 0, 0, is_deleted=True)
        written: SomeRow = replace(row, revision=revision, is_deleted=1, run_id=self.run_id)
        return written

    def _look_ahead(self) -> None:
        dues: Iterable[int] = (
            self._due_us(each) for known in self.episodes.values() for each in known
        )
        self.due_us = min(dues, default=None)

    def _due_us(self, episode: Episode) -> int:
        if episode.changed_at_us is not None:
            return episode.changed_at_us + WRITTEN_EVERY_US
        if self.tells_end and not episode.is_over:
            return episode.last_us + self.gap_us + 1
        return episode.last_us + self.keep_us


def _fingerprint(sighting: Sighting) -> int:
    """64 bits that name a line; Python's own hash differs from process to process."""
    name = f"{sighting.at_us} {sighting.offset} {sighting.text}"
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest())


def _first_us(episode: Episode) -> int:
    return episode.first_us
