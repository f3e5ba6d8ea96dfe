"""The log keys of one bucket, limited in number, because lines may name any host.

Flink's keyed state cannot see other keys, so a limit over all log keys needs Flink keys that cover
several of them. The bucket is a hash of the log key. A full bucket evicts the log key whose last
line is the oldest. Replays have buckets of their own, so that they evict no live log key.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import md5
from typing import Final

from stunwatch.engine.owner import Owner

LIVE: Final = "live"
"""The run of lines that hosts send now. Every other run is a replay."""

BUCKET_DIGITS: Final = 3
"""Hexadecimal digits of an MD5: 4,096 buckets for live lines, and as many for replays."""

BUCKETS: Final = 2 * 16**BUCKET_DIGITS
"""The number of buckets."""

MOST_IN_BUCKET: Final = 16
"""Most log keys per bucket that keep state: 65,536 in total. Usually far fewer have any."""

REPLAY_KEPT_MS: Final = 3_600_000
"""A replay's log key loses its state this long after its last line, if no progress record came: the
replay was interrupted."""

Name = tuple[str, str, str]
"""A run, a log key (the Kafka key of its events), and the source `esxtop` for windows of samples.
Those have their own state, because they arrive later than the host's lines."""


def bucket_of_owner(owner: str, run_id: str = LIVE) -> str:
    """Return the bucket of a log key. The same as `BUCKET` in SQL."""
    prefix, name = ("", owner) if run_id == LIVE else ("r", f"{run_id} {owner}")
    return prefix + md5(name.encode(), usedforsecurity=False).hexdigest()[:BUCKET_DIGITS]


BUCKET: Final = f"""CASE
  WHEN `run_id` = '{LIVE}' THEN SUBSTRING(MD5(COALESCE(`owner`, '')), 1, {BUCKET_DIGITS})
  ELSE 'r' || SUBSTRING(
    MD5(COALESCE(`run_id`, '') || ' ' || COALESCE(`owner`, '')), 1, {BUCKET_DIGITS}
  )
END"""
"""The bucket of a row's log key, in Flink SQL."""


@dataclass
class Place:
    """A log key in its bucket. Times are wall-clock times in ms since 1970."""

    owner: Owner
    told_at_ms: int
    """When its time was last advanced."""
    due_ms: int
    """Its next timer."""

    def wait_since(self, since_ms: int) -> None:
        """Count only the time from `since_ms` as waited."""
        later_ms = max(0, since_ms - self.told_at_ms)
        self.told_at_ms += later_ms
        self.due_ms += later_ms


@dataclass
class Owners:
    """The log keys of a bucket that keep state, the least recently used first."""

    places: dict[Name, Place] = field(default_factory=dict)
    timer_ms: int = 0
    """The registered timer; 0 if there is none."""

    def get(self, name: Name) -> Owner:
        """Return the trackers of this log key, new ones if it has none."""
        place = self.places.get(name)
        return place.owner if place else Owner()

    def keep(self, name: Name, owner: Owner, due_us: int | None, now_ms: int) -> int:
        """Keep the trackers of a log key until their next timer. Return the number of evictions.

        `due_us`: the event time of that timer, None if the trackers keep no state. For a replay the
        wall clock says nothing about its lines: its log keys wait for their progress record.
        """
        self.places.pop(name, None)
        if due_us is None:
            return 0
        wait_ms = max(0, due_us - owner.event_time_us) // 1000 + 1
        wanted_ms = now_ms + (wait_ms if name[0] == LIVE else REPLAY_KEPT_MS)
        self.places[name] = Place(owner, now_ms, wanted_ms)
        if len(self.places) <= MOST_IN_BUCKET:
            return 0
        del self.places[next(iter(self.places))]
        return 1

    def shrink(self, excess: int) -> int:
        """Drop the state of detectors, the largest first, until `excess` bytes fewer are pickled.

        Return the number of dropped states.
        """
        largest = sorted(
            (
                (size, name, detector)
                for name, place in self.places.items()
                for detector, size in place.owner.sizes().items()
            ),
            reverse=True,
        )
        dropped = 0
        for size, name, detector in largest:
            if excess <= 0:
                break
            self.places[name].owner.reset(detector)
            excess -= size
            dropped += 1
        return dropped

    def due(self, now_ms: int) -> list[tuple[Name, Place]]:
        """Return the log keys whose timer is due."""
        return [(name, each) for name, each in self.places.items() if each.due_ms <= now_ms]

    @property
    def next_due_ms(self) -> int | None:
        """The earliest timer of the bucket."""
        return min((each.due_ms for each in self.places.values()), default=None)
