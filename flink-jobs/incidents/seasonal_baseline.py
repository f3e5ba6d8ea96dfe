"""The seasonal baseline: when a VM or datastore is usually stunned, by hour of the week.

Backups of 20,000 VMs cause 40,000 stuns per night. A storm at its usual hour, and no worse than
usual, causes no alert.
"""

from __future__ import annotations

from collections.abc import MutableMapping

from stunwatch.incidents.configuration import (
    HOUR_US,
    LONE_STUN_US,
    MOST_USUAL_HOURS,
    USUAL_DAYS,
    USUAL_FACTOR,
    USUAL_WEEKS,
)

_DAY = 24
_WEEK = 7 * _DAY
_KEPT_HOURS = 4 * _WEEK + 2
_NEIGHBOURS = (-1, 0, 1)
"""A backup window that moves by an hour, as with daylight saving time, is the same window."""

MOST_OWNERS = MOST_USUAL_HOURS

Hours = dict[int, float]
"""The longest stun of an owner, µs, by hour since 1970."""

Bands = MutableMapping[str, Hours]
"""The hours of each owner: a VM or a datastore."""


def learn(bands: Bands, owner: str, at_us: int, duration_us: float) -> bool:
    """Add a stun and drop hours older than four weeks. Returns whether the owner is new."""
    hour = at_us // HOUR_US
    hours = bands.get(owner) or {}
    if hours.get(hour, -1.0) >= duration_us:
        return False
    kept = {each: worst for each, worst in hours.items() if each > hour - _KEPT_HOURS}
    kept[hour] = max(duration_us, kept.get(hour, 0.0))
    bands[owner] = kept
    return not hours


def evict(bands: Bands, most: int = MOST_OWNERS) -> tuple[int, int]:
    """Drop the owners stunned longest ago until a tenth of `most` is free.

    Returns the numbers of remaining and dropped owners. It reads all of them, so it runs rarely.
    """
    by_age = sorted((max(hours, default=0), owner) for owner, hours in bands.items())
    gone = by_age[: max(0, len(by_age) - most * 9 // 10)]
    for _, owner in gone:
        del bands[owner]
    return len(by_age) - len(gone), len(gone)


def is_usual(bands: Bands, owner: str, at_us: int, duration_us: float) -> bool:
    """True if this owner is usually stunned at this hour, and for about as long.

    A stun that clients do not survive is never usual.
    """
    if duration_us >= LONE_STUN_US:
        return False
    hour = at_us // HOUR_US
    hours = bands.get(owner) or {}
    earlier = [each for each in hours if each <= hour - _DAY + max(_NEIGHBOURS)]
    if len(earlier) < min(USUAL_WEEKS, USUAL_DAYS):  # true for nearly all owners
        return False

    def worst(ago: int) -> float | None:
        """The longest stun about `ago` hours earlier; None without one."""
        found = [hours[hour - ago + each] for each in _NEIGHBOURS if hour - ago + each in hours]
        return max(found, default=None)

    weeks = [found for week in range(1, 5) if (found := worst(week * _WEEK)) is not None]
    days = [found for day in range(1, 8) if (found := worst(day * _DAY)) is not None]
    if len(weeks) < USUAL_WEEKS and len(days) < USUAL_DAYS:
        return False
    return duration_us <= USUAL_FACTOR * max(weeks + days)
