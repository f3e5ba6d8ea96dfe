"""Parses and formats times, durations and time zones."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from stunwatch.errors import UserError, did_you_mean

FORMS = (  # docs/commands.md explains them
    "2024-05-06",
    "2024-05-06 07:08",
    "2024-05-06T07:08Z",
    "2024-05-06T07:08+02:00",
    "yesterday 22:00",
    "2h ago",
    "-2h",
    "now",
)
"""One example of each form that `moment` parses."""

TIME_HELP = (
    f"One of these forms: {', '.join(FORMS)}. UTC if no zone is given; `today` and `yesterday` are"
    " days of the site."
)
"""Help text of an option that takes a time."""

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_PART = re.compile(
    r"(\d{1,9})\s*(s|secs?|seconds?|m|mins?|minutes?|h|hours?|d|days?|w|weeks?)", re.ASCII
)
_LENGTH = re.compile(rf"{_PART.pattern}(?:\s*{_PART.pattern}){{0,4}}", re.ASCII)
_DAY = re.compile(r"(today|yesterday)(?:[ t](\d\d?:\d\d(?::\d\d)?))?", re.ASCII)
# 07:08:09 UTC, 07:08:09 +0200: as `date` and many logs print a zone
_SPACED_ZONE = re.compile(r" (?=[+-]\d\d:?\d\d$|Z$)")


def moment(text: str, now: datetime | None = None, site: tzinfo = UTC) -> datetime:
    """Parse a time in one of FORMS; return it in UTC.

    Args:
        text: the text that the user typed.
        now: the time to which relative forms refer; the current time if None.
        site: the time zone of `today` and `yesterday`. An hour that exists twice is
            read as the first; an hour that does not exist is counted from the hour before.

    Raises:
        UserError: the text has none of the forms.
    """
    now = now or datetime.now(UTC)
    words = " ".join(text.split())
    try:
        found = _relative(words.lower(), now, site) or _absolute(words)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise UserError(f"{text!r} is not a time. Use one of: {', '.join(FORMS)}.") from None


def length(text: str) -> timedelta | None:
    """Parse a duration such as 30m, 4h, 2d, 1d12h or 90 minutes; None for anything else."""
    words = " ".join(text.split()).lower()
    if not _LENGTH.fullmatch(words):
        return None
    try:
        return sum(
            (
                timedelta(seconds=int(number) * _SECONDS[unit[0]])
                for number, unit in _PART.findall(words)
            ),
            timedelta(),
        )
    except OverflowError:
        return None


def zone(name: str, of: str = "") -> ZoneInfo:
    """Return the time zone with this IANA name.

    Args:
        name: for example Europe/Berlin.
        of: the setting that has this value, for the error message.

    Raises:
        UserError: there is no such time zone.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        subject = f"{of} is {name!r}, which" if of else repr(name)
        raise UserError(
            f"{subject} is not a time zone.{_nearest_zone(name)} Use an IANA name such as UTC or"
            " Europe/Berlin."
        ) from None


def in_zone(at: datetime, place: tzinfo, precision: str = "seconds") -> str:
    """Format a time in a zone, with its offset from UTC. `moment` can parse the result.

    `2024-05-06 09:08:09 +02:00`, `2024-05-06 07:08:09 UTC`. `precision` is a timespec of isoformat.
    """
    local = at.astimezone(place)
    distance = local.isoformat(timespec="seconds")[19:]
    shown = local.replace(tzinfo=None).isoformat(" ", precision)
    return f"{shown} {'UTC' if distance == '+00:00' else distance}"


def stored(text: str) -> datetime:
    """Parse a time from a view or event: 2024-05-06 07:08:09.123456 or 2024-05-06T07:08:09Z."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _nearest_zone(typed: str) -> str:
    """Return a suggestion for a time zone, by its full name or its city."""
    # Offsets such as GMT+2 have no daylight saving time, and in Etc/GMT+2 the sign is inverted.
    known = {"UTC"} | {
        each for each in available_timezones() if "/" in each and not each.startswith("Etc/")
    }
    words = "_".join(typed.split())
    cities = [each for each in known if each.rpartition("/")[2].lower() == words.lower()]
    if cities and "/" not in words:
        return f" Did you mean {min(cities)}?"
    return did_you_mean(words, known)


def _relative(words: str, now: datetime, site: tzinfo) -> datetime | None:
    """Parse now, yesterday 22:00, 2h ago, -2h; None for other forms."""
    if words == "now":
        return now
    if day := _DAY.fullmatch(words):
        at = time.fromisoformat((day[2] or "00:00").zfill(5))
        days = 1 if day[1] == "yesterday" else 0
        return datetime.combine(now.astimezone(site).date() - timedelta(days=days), at, site)
    for ago in (words.removeprefix("-"), words.removesuffix(" ago")):
        if ago != words and (back := length(ago)) is not None:
            return now - back
    return None


def _absolute(words: str) -> datetime:
    """Parse an ISO 8601 time. Raises ValueError."""
    zoned = re.sub(r" ?\b(?:UTC|GMT)$", "+00:00", words.upper())
    return datetime.fromisoformat(_SPACED_ZONE.sub("", zoned))
