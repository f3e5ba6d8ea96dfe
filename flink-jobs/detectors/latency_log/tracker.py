"""Episodes of slow devices and NFS volumes of one host, from messages of the host itself.

The host logs a line when the latency of a device rises to at least 30 times the last value logged,
or doubles again, and another when it improves. In between it may log nothing, however slow the
device is: a pause is not a recovery.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from stunwatch.detectors.catalogue import detector
from stunwatch.detectors.events import EVIDENCE_SHOWN, event_id, fullest_host, timestamp
from stunwatch.detectors.point_events import Fact, Found, PointEvents
from stunwatch.detectors.records import has_own_time, is_continuation, verbatim
from stunwatch.detectors.reservation_conflict import host_key

_DETECTOR = detector("latency_log")
_PATTERNS = _DETECTOR.patterns
_LIMITS = _DETECTOR.thresholds

_FORMS = ("kernel", "observation", "event", "nfs")
_SECOND = 1_000_000
_HOUR = 3600 * _SECOND
_MICROSECONDS_PER_MS = 1000
_SUSTAINED_US = _LIMITS["sustained_from_seconds"] * _SECOND
_COPY_US = _LIMITS["copy_within_seconds"] * _SECOND
_SILENCE_US = _LIMITS["begins_anew_after_hours"] * _HOUR
_LONGEST_US = _LIMITS["longest_episode_days"] * 24 * _HOUR
_KEEP_US = _LIMITS["keep_hours"] * _HOUR

# Bits of an episode's revision; see _grade.
_GAP_BITS = 12
_LENGTH_BITS = 19
_MOST_LINES = 127


@dataclass(frozen=True)
class LatencyEpisode:
    """One row of the view `latency_episodes`, except `detected_at`. Times are UTC, with µs."""

    event_id: str
    detector: str
    revision: int
    is_deleted: int
    run_id: str
    host: str
    object_class: Literal["scsi_device", "nfs_volume"]
    device: str
    metric: Literal["davg", "gavg"]
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
    """A line that reports that a device or volume became slower or faster, or is still slow."""

    host_key: str
    device: str
    is_nfs: bool
    is_worse: bool
    before_us: int | None
    """The latency before and after the change, in microseconds per command. If the volume is still
    slow, `before_us` is None."""
    after_us: int
    threshold_us: int | None = None


@dataclass
class Told:
    """One fact, by the lines that report it. Its time is that of the first line."""

    lines: list[Change]

    @property
    def first(self) -> Change:
        """The line that reported it first."""
        return self.lines[0]

    def gap_us(self, after: Told) -> int:
        """Return the time from the last report of this fact to another fact."""
        return max(0, after.first.at_us - self.lines[-1].at_us)


@dataclass
class Episode:
    """A period in which a device is slow, from the first of these facts."""

    before: Told | None
    """A recovery not long before. Without it, this would not be a start."""
    facts: list[Told]
    is_over: bool = False

    @property
    def started_us(self) -> int:
        """When the host first reported it."""
        return self.facts[0].first.at_us


@dataclass
class Tracker(PointEvents[Change, LatencyEpisode]):
    """Tracks the episodes of one log key."""

    keep_us: ClassVar[int] = _KEEP_US

    def read(self, record: Mapping[str, Any]) -> Change | None:
        """Parse a change of latency. Return None if there is none or the line has no own time."""
        if is_continuation(record) or not has_own_time(record):
            return None
        message = record["message"]
        if _PATTERNS["quiet_boot_device"].search(message):
            return None
        told = (_PATTERNS[name].search(message) for name in _FORMS)
        found = next(filter(None, told), None)
        if found is None:
            return None
        group = found.groupdict().get
        before_us: int | None = None
        if still := group("still"):
            is_worse, after_us = True, int(still)
        else:
            is_worse = found["change"] == "deteriorated"
            before_us, after_us = int(found["before"]), int(found["after"])
            if before_us == after_us or is_worse != (after_us > before_us):
                return None
        threshold = group("threshold") or group("exceeded")
        return Change(
            at_us=record["event_time_us"],
            offset=record.get("offset", -1),
            text=verbatim(record),
            host=record.get("host", ""),
            host_key=host_key(record),
            device=found["device"],
            is_nfs=found.re is _PATTERNS["nfs"],
            is_worse=is_worse,
            before_us=before_us,
            after_us=after_us,
            threshold_us=int(threshold) if threshold else None,
        )

    def group_of(self, fact: Change) -> Hashable:
        """Group by host and device."""
        return fact.host_key, fact.is_nfs, fact.device

    def rows(self, facts: Sequence[Change], event_time_us: int) -> Iterator[Found[LatencyEpisode]]:
        """Yield the episodes of one device."""
        episodes = _episodes(facts)
        for episode in episodes:
            lines = [line for told in episode.facts for line in told.lines]
            # Only the newest episode may still change, and not forever.
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
    """Return the facts of one device from sorted lines, without repetitions."""
    told: list[Told] = []
    newest: dict[tuple[int | None, int], Told] = {}
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
    """Return the episodes of one device. A recovery without slowness before starts none."""
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
    threshold_us = next((line.threshold_us for line in lines if line.threshold_us), None)
    # Of many lines, always show the last one: it may report the recovery.
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
        object_class="nfs_volume" if first.is_nfs else "scsi_device",
        device=first.device,
        metric="gavg" if first.is_nfs else "davg",
        origin="vmkernel",
        kind="sustained" if last.at_us - first.at_us >= _SUSTAINED_US else "spike",
        started_at=timestamp(first.at_us),
        ended_at=timestamp(last.at_us) if episode.is_over else None,
        threshold_ms=None if threshold_us is None else _milliseconds(threshold_us),
        peak_ms=_milliseconds(max(slow_us)),
        mean_ms=_milliseconds(sum(slow_us) / len(slow_us)),
        baseline_ms=None if first.before_us is None else _milliseconds(first.before_us),
        samples=len(episode.facts),
        evidence=list(dict.fromkeys(line.text for line in shown)),
    )


def _grade(episode: Episode, lines: int) -> int:
    """Return 32 bits that only grow as more is known of an episode that starts here.

    A known end is better than none, and an earlier end better than a later one: only a line that
    was missing can move it forward. Without an end, more lines are better. A row that was retracted
    because the device was slow before comes back if a recovery in between is found: the nearer that
    recovery, the higher the value.
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
    """Compress a number of up to 63 bits: larger numbers are coarser, and the order is kept."""
    kept = bits - 6
    shift = max(0, number.bit_length() - kept - 1)
    return (shift << kept) + (number >> shift)


def _milliseconds(microseconds: float) -> float:
    return round(microseconds / _MICROSECONDS_PER_MS, 3)


def _order(line: Change) -> tuple[int, int, str]:
    return line.order
