"""Base class of trackers that count lines: a storm of lines is one episode, not a thousand events.

Lines with the same key form an episode if no two neighbours are further apart than a gap. The order
of arrival does not matter: if a late line joins two episodes, the later one is retracted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import insort
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from stunwatch.detectors.bounds import EVICTED, MOST_EPISODES
from stunwatch.detectors.catalogue import detector
from stunwatch.detectors.events import EVIDENCE_SHOWN, changed, content_hash, weighed_revision
from stunwatch.detectors.timers import Timers, keep

_SECOND = 1_000_000

WRITTEN_EVERY_US = _SECOND
"""How long a changed row waits for further changes, so that a storm does not write one event per
line."""

COPIES_KNOWN = 10_000
"""Duplicates are recognised among this many newest lines of an episode."""

_RETRACTED = 0xFFFFFFFF
"""The line count in the revision of a retracted row: more than any real row can have, so none
replaces it."""


class Sighting(NamedTuple):
    """A line that counts towards an episode."""

    key: tuple[str, ...]
    """The subject of the episode. Lines with different keys are independent."""
    at_us: int
    offset: int
    """The byte offset of the line in its file; -1 if it arrived over the network."""
    text: str
    """The line, verbatim."""
    happenings: int = 1
    """The number of occurrences that the line reports: some lines stand for several."""


@dataclass
class Episode:
    """Lines of one key, no two neighbours further apart than the gap."""

    first_us: int
    last_us: int
    count: int
    lines: int
    evidence: list[tuple[int, int, str]]
    """The first lines: time, offset, text."""
    seen: dict[int, None] = field(repr=False)
    """Fingerprints of the newest lines."""
    changed_at_us: int | None = None
    """The event time of the oldest change that is not yet written."""
    written_id: str = ""
    is_over: bool = False
    """True if the gap has passed since the last line. Set only if the detector sets `tells_end`."""

    @property
    def texts(self) -> list[str]:
        """The lines that an event shows as its evidence."""
        return list(dict.fromkeys(text for _, _, text in self.evidence))

    def take(self, other: Episode) -> None:
        """Merge another episode into this one."""
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
class Sessions(ABC, Generic[SomeRow]):
    """Base class of a tracker. A detector defines which lines count, the gap, and the row.

    A row is a frozen dataclass whose `event_id` is made of the key and the first time of the
    episode. This class sets `revision`, `is_deleted` and `run_id`.
    """

    gap_us: ClassVar[int]
    """Lines further apart than this belong to different episodes."""
    keep_us: ClassVar[int]
    """How long a finished episode is kept for late lines, in event time. Greater than `gap_us`."""
    tells_end: ClassVar[bool] = False
    """True if a row is written again when its episode is over, because its content changes."""

    event_time_us: int = 0
    run_id: str = ""
    episodes: dict[tuple[str, ...], list[Episode]] = field(default_factory=dict)
    timers: Timers[tuple[str, ...]] = field(default_factory=Timers)

    @abstractmethod
    def read(self, record: Mapping[str, Any]) -> Sighting | None:
        """Parse a record. Return None if it does not count."""

    @abstractmethod
    def row(self, key: tuple[str, ...], episode: Episode) -> SomeRow:
        """Return the event of an episode."""

    def feed(self, record: Mapping[str, Any]) -> Iterator[SomeRow]:
        """Yield an event if this line starts an episode or joins it with another."""
        sighting = self.read(record)
        if sighting is None:
            return
        self.run_id = record.get("run_id", "")
        known = self.episodes.get(sighting.key, [])
        if evicted := keep(self.episodes, sighting.key, known, self.timers):
            yield from self._evicted(*evicted)
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
                yield self._retracted(sighting.key, each)
                each.written_id = ""
            known.remove(each)
        # Merge into the earliest, so that the newest lines come last in `seen`.
        whole, *others = [*near, new]
        for each in others:
            whole.take(each)
        if whole.changed_at_us is None:
            whole.changed_at_us = self.event_time_us
        insort(known, whole, key=_first_us)
        if not whole.written_id:
            yield self._written(sighting.key, whole)
        if len(known) > MOST_EPISODES:
            oldest = min((each for each in known if each is not whole), key=_last_us)
            known[:] = [each for each in known if each is not oldest]
            yield from self._evicted(sighting.key, [oldest])
        self._set_timer(sighting.key)

    def advance_time(self, event_time_us: int) -> Iterator[SomeRow]:
        """Yield changed events, after waiting for further changes."""
        self.event_time_us = max(self.event_time_us, event_time_us)
        for key in self.timers.take(self.event_time_us):
            yield from self._changes(key, self.event_time_us - WRITTEN_EVERY_US)
            kept = [
                each
                for each in self.episodes[key]
                if each.changed_at_us is not None
                or each.last_us + self.keep_us > self.event_time_us
            ]
            if kept:
                self.episodes[key][:] = kept
                self._set_timer(key)
            else:
                del self.episodes[key]

    def flush(self) -> Iterator[SomeRow]:
        """Yield all changed events: a source has ended."""
        for key in self.episodes:
            yield from self._changes(key, self.event_time_us)
            self._set_timer(key)

    @property
    def next_timer_us(self) -> int | None:
        """When a change is written or an episode expires; None if none is kept."""
        return self.timers.next_us

    def _changes(self, key: tuple[str, ...], until_us: int) -> Iterator[SomeRow]:
        """Yield the episodes that are over, and those that changed no later than `until_us`."""
        for each in self.episodes[key]:
            is_changed = each.changed_at_us is not None and each.changed_at_us <= until_us
            if is_changed or (not each.is_over and self._is_over(each)):
                yield self._written(key, each)

    def _is_over(self, episode: Episode) -> bool:
        return self.tells_end and self.event_time_us > episode.last_us + self.gap_us

    def _written(self, key: tuple[str, ...], episode: Episode) -> SomeRow:
        episode.is_over = self._is_over(episode)
        row: Any = self.row(key, episode)
        episode.changed_at_us = None
        episode.written_id = row.event_id
        rank = int(episode.is_over)
        version = detector(row.detector).version
        revision = weighed_revision(
            episode.lines, rank, content_hash(row), version, is_deleted=False
        )
        written: SomeRow = changed(row, revision=revision, run_id=self.run_id)
        return written

    def _evicted(self, key: tuple[str, ...], episodes: Iterable[Episode]) -> Iterator[SomeRow]:
        """Write unwritten changes of episodes that are evicted because of a limit."""
        EVICTED["episodes"] += 1
        for each in episodes:
            if each.changed_at_us is not None:
                yield self._written(key, each)

    def _retracted(self, key: tuple[str, ...], episode: Episode) -> SomeRow:
        row: Any = self.row(key, episode)
        version = detector(row.detector).version
        revision = weighed_revision(_RETRACTED, 0, 0, version, is_deleted=True)
        written: SomeRow = changed(row, revision=revision, is_deleted=1, run_id=self.run_id)
        return written

    def _set_timer(self, key: tuple[str, ...]) -> None:
        self.timers.set(key, min(self._due_us(each) for each in self.episodes[key]))

    def _due_us(self, episode: Episode) -> int:
        if episode.changed_at_us is not None:
            return episode.changed_at_us + WRITTEN_EVERY_US
        if self.tells_end and not episode.is_over:
            return episode.last_us + self.gap_us + 1
        return episode.last_us + self.keep_us


def _fingerprint(sighting: Sighting) -> int:
    """Return a 64-bit fingerprint of a line. Python's own hash differs between processes.

    The same text in the same millisecond is the same line: a syslog server may store it twice. If
    times have whole seconds, the offset distinguishes lines.
    """
    place = -1 if sighting.at_us % _SECOND else sighting.offset
    name = f"{sighting.at_us} {place} {sighting.text}"
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest())


def _first_us(episode: Episode) -> int:
    return episode.first_us


def _last_us(episode: Episode) -> int:
    return episode.last_us
