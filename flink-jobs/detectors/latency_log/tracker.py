"""Episodes of slow devices of one host, told by its own words.

The host writes a line when a device answers at least thirty times slower than it last wrote, or
twice as slowly as that, and another when it is better again. In between it may be silent, however
slow the device is: silence is no recovery.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from detectors.catalogue import detector
from detectors.events import EVIDENCE_SHOWN, event_id, fullest_host, timestamp
from detectors.ledger import Fact, Found, Ledger
from detectors.records import has_own_time, is_continuation, verbatim
from detectors.reservation_conflict import host_key

_DETECTOR = detector("latency_log")
_PATTERNS = _DETECTOR.patterns
_LIMITS = _DETECTOR.thresholds

_SECOND = 1_000_000
_HOUR = 3600 * _SECOND
_MICROSECONDS_PER_MS = 1000
_SUSTAINED_US = _LIMITS["sustained_from_seconds"] * _SECOND
_COPY_US = _LIMITS["copy_within_seconds"] * _SECOND
_SILENCE_US = _LIMITS["begins_anew_after_hours"] * _HOUR
_LONGEST_US = _LIMITS["longest_episode_days"] * 24 * _HOUR
_KEEP_US = _LIMITS["keep_hours"] * _HOUR

# How an episode's revision is made up; see _grade.
_GAP_BITS = 12
_LENGTH_BITS = 19
_MOST_LINES = 127


@dataclass(frozen=True)
class LatencyEpisode:
    """One row of the view `latency_episodes`, except `detected_at`. Times are UTC, six digits."""

    event_id: str
    detector: str
    revision: int
    is_deleted: int
    run_id: str
    host: str
    object_class: Literal["scsi_device"]
    device: str
    metric: Literal["davg"]
    origin: Literal["vmkernel"]
    kind: Literal["spike", "sustained"]
    started_at: str
    ended_at: str | None
    threshold_ms: float | None
    peak_ms: float
    mean_ms: float
    baseline_ms: float | None
    samples: int
    evidence: list[str]


@dataclass(frozen=True, kw_only=True)
class Change(Fact):
    """A line that says that a device became slower or faster."""

    host_key: str
    device: str
    is_worse: bool
    before_us: int
    """What the device took so far, and what it takes now, microseconds a command."""
    after_us: int


@dataclass
class Told:
    """One fact, by the lines that tell it; the first of them is the fact's time."""

    lines: list[Change]

    @property
    def first(self) -> Change:
        """The line that told it first."""
        return self.lines[0]

    def gap_us(self, after: Told) -> int:
        """How long before another fact it was told for the last time."""
        return max(0, after.first.at_us - self.lines[-1].at_us)


@dataclass
class Episode:
    """A device is slow, from the first of these facts on."""

    before: Told | None
    """The recovery that the device had not long before: without it this were no beginning."""
    facts: list[Told]
    is_over: bool = False

    @property
    def started_us(self) -> int:
        """When the host first said so."""
        return self.facts[0].first.at_us


@dataclass
class Tracker(Ledger[Change, LatencyEpisode]):
    """The episodes of one log owner."""

    keep_us: ClassVar[int] = _KEEP_US

    def read(self, record: Mapping[str, Any]) -> Change | None:
        """A change for the better or the worse. A line without a time of its own tells none."""
        if is_continuation(record) or not has_own_time(record):
            return None
        message = record["message"]
        if _PATTERNS["quiet_boot_device"].search(message):
            return None
        told = (_PATTERNS[name].search(message) for name in ("kernel", "observation", "event"))
        found = next(filter(None, told), None)
        if found is None:
            return None
        is_worse = found["change"] == "deteriorated"
        before_us, after_us = int(found["before"]), int(found["after"])
        if before_us == after_us or is_worse != (after_us > before_us):
            return None
        return Change(
            at_us=record["event_time_us"],
            offset=record.get("offset", -1),
            text=verbatim(record),
            host=record.get("host", ""),
            host_key=host_key(record),
            device=found["device"],
            is_worse=is_worse,
            before_us=before_us,
            after_us=after_us,
        )

    def group_of(self, fact: Change) -> Hashable:
        """A device as one host sees it."""
        return fact.host_key, fact.device

    def rows(self, facts: Sequence[Change], event_time_us: int) -> Iterator[Found[LatencyEpisode]]:
        """The episodes of one device."""
        episodes = _episodes(facts)
        for episode in episodes:
            lines = [line for told in episode.facts for line in told.lines]
            # Only the newest may still get better or worse, and not for ever.
            given_up_us = episode.started_us + _LONGEST_US
            is_open = (
                episode is episodes[-1] and not episode.is_over and event_time_us < given_up_us
            )
            yield Found(
                row=_row(episode),
                first_us=episode.started_us,
                last_us=max(line.at_us for line in lines),
                rank=min(len(lines), _MOST_LINES),
                changes_at_us=given_up_us if is_open else None,
                is_open=is_open,
                lines=_grade(episode, len(lines)),
                facts=(*(episode.before.lines if episode.before else ()), *lines),
            )


def _told_once(facts: Sequence[Change]) -> list[Told]:
    """The facts that sorted lines of one device tell, each once."""
    told: list[Told] = []
    newest: dict[tuple[int, int], Told] = {}
    for line in facts:
        numbers = line.before_us, line.after_us
        known = newest.get(numbers)
        if known and line.at_us - known.first.at_us <= _COPY_US:
            known.lines.append(line)
        else:
            newest[numbers] = Told([line])
            told.append(newest[numbers])
    return told


def _episodes(facts: Sequence[Change]) -> list[Episode]:
    """What one device went through. What got better without having been slow opens nothing."""
    episodes: list[Episode] = []
    running: Episode | None = None
    before: Told | None = None
    for told in _told_once(facts):
        at_us = told.first.at_us
        if running and at_us - running.started_us > _LONGEST_US:
            running = None
        if not told.first.is_worse:
            if running:
                running.facts.append(told)
                running.is_over = True
            running, before = None, told
            continue
        if running and at_us - running.facts[-1].first.at_us > _SILENCE_US:
            running = None
        if running:
            running.facts.append(told)
        else:
            is_near = before is not None and before.gap_us(told) <= _KEEP_US
            running = Episode(before if is_near else None, [told])
            episodes.append(running)
        before = None
    return episodes


def _row(episode: Episode) -> LatencyEpisode:
    first, last = episode.facts[0].first, episode.facts[-1].first
    slow_us = [told.first.after_us for told in episode.facts if told.first.is_worse]
    lines = sorted((line for told in episode.facts for line in told.lines), key=_order)
    # However many there are, the last one is shown: it may say that the device is well again.
    shown = [*lines[: EVIDENCE_SHOWN - 1], lines[-1]]
    return LatencyEpisode(
        event_id=event_id(
            _DETECTOR.name, first.host_key, timestamp(episode.started_us), first.device
        ),
        detector=_DETECTOR.name,
        revision=0,
        is_deleted=0,
        run_id="",
        host=fullest_host(line.host for line in lines),
        object_class="scsi_device",
        device=first.device,
        metric="davg",
        origin="vmkernel",
        kind="sustained" if last.at_us - first.at_us >= _SUSTAINED_US else "spike",
        started_at=timestamp(first.at_us),
        ended_at=timestamp(last.at_us) if episode.is_over else None,
        threshold_ms=None,
        peak_ms=_milliseconds(max(slow_us)),
        mean_ms=_milliseconds(sum(slow_us) / len(slow_us)),
        baseline_ms=_milliseconds(first.before_us),
        samples=len(episode.facts),
        evidence=list(dict.fromkeys(line.text for line in shown)),
    )


def _grade(episode: Episode, lines: int) -> int:
    """32 bits that only grow as more becomes known of an episode that begins here.

    An end that was found is better than none, and an earlier end than a later one: only a line that
    was missing can bring it forward. While there is none, more lines are better. A row that was
    taken back, because the device was slow before, comes back with a recovery found in between:
    the nearer that is, the more is known.
    """
    length_us = episode.facts[-1].first.at_us - episode.started_us
    longest = 1 << _LENGTH_BITS
    if episode.is_over:
        state = 2 * longest - 1 - _coarse(length_us, _LENGTH_BITS)
    else:
        state = min(lines, longest - 1)
    nearness = 0
    if episode.before:
        gap_us = episode.before.gap_us(episode.facts[0])
        nearness = (1 << _GAP_BITS) - 1 - _coarse(gap_us, _GAP_BITS)
    return state << _GAP_BITS | nearness


def _coarse(number: int, bits: int) -> int:
    """A number of up to 63 bits in so many bits: the larger, the coarser; order is kept."""
    kept = bits - 6
    shift = max(0, number.bit_length() - kept - 1)
    return (shift << kept) + (number >> shift)


def _milliseconds(microseconds: float) -> float:
    return round(microseconds / _MICROSECONDS_PER_MS, 3)


def _order(line: Change) -> tuple[int, int, str]:
    return line.order
