"""When a VM or datastore is usually stunned: its backup window, by hour of the week.

Twenty thousand VMs make forty thousand stuns a night, by backup alone. What happens at its usual
hour, no worse than usual, informs and alarms nobody.
"""

from __future__ import annotations

from collections.abc import MutableMapping

from incidents.configuration import (
    HOUR_US,
    LONE_STUN_US,
    USUAL_DAYS,
    USUAL_FACTOR,
    USUAL_WEEKS,
)

_DAY = 24
_WEEK = 7 * _DAY
_KEPT_HOURS = 4 * _WEEK + 2
_NEIGHBOURS = (-1, 0, 1)
"""A window that moves by an hour, as local time does twice a year, is the same window."""

Hours = dict[int, float]
"""Of an hour (since 1970) in which an owner was stunned, the longest stun, µs."""

Bands = MutableMapping[str, Hours]
"""The hours of each owner: a VM or a datastore."""


def learn(bands: Bands, owner: str, at_us: int, duration_us: float) -> None:
    """Remember a stun; hours that are four weeks older are forgotten."""
    hour = at_us // HOUR_US
    hours = bands.get(owner) or {}
    if hours.get(hour, -1.0) >= duration_us:
        return
    kept = {each: worst for each, worst in hours.items() if each > hour - _KEPT_HOURS}
    kept[hour] = max(duration_us, kept.get(hour, 0.0))
    bands[owner] = kept


def is_usual(bands: Bands, owner: str, at_us: int, duration_us: float) -> bool:
    """Whether this owner is usually stunned at this hour, and for about as long.

    What no client survives is never usual, however often it comes.
    """
    if duration_us >= LONE_STUN_US:
        return False
    hour = at_us // HOUR_US
    hours = bands.get(owner) or {}

    def worst(ago: int) -> float | None:
        """The longest stun about so many hours ago; None where there was none."""
        found = [hours[hour - ago + each] for each in _NEIGHBOURS if hour - ago + each in hours]
        return max(found, default=None)

    weeks = [found for week in range(1, 5) if (found := worst(week * _WEEK)) is not None]
    days = [found for day in range(1, 8) if (found := worst(day * _DAY)) is not None]
    if len(weeks) < USUAL_WEEKS and len(days) < USUAL_DAYS:
        return False
    return duration_us <= USUAL_FACTOR * max(weeks + days)
