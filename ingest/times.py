"""Convert timestamps of log lines to UTC text.

A record's event_time is text of the form `YYYY-MM-DDTHH:MM:SS[.f]Z` with as many fraction digits
as the line has. A timestamp that already has this form is used unchanged.

Second 60 becomes second 0 of the next minute, as POSIX time maps a leap second. The line's head
keeps the original timestamp. No input raises an error: an impossible time becomes None.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache

MONTHS = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1
    )
}
# 2012-03-04T05:06:07.891+02:00, 2012-03-04 05:06:07,891 (and ESX 4's ":891")
_DATED = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(:[0-5]\d|:60)(?:[.,:](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?",
    re.ASCII,
)
# Mar  4 05:06, without the seconds; some relays write Mar  4 2012 05:06
_BSD = re.compile(r"([A-Z][a-z]{2}) +(\d{1,2}) (?:(\d{4}) )?(\d\d):(\d\d)", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE = timedelta(minutes=1)
# A timestamp outside these years is an error, and ClickHouse could not store it.
FIRST_YEAR, LAST_YEAR = 1970, 2199
# Maximum difference between uptime clock and timestamp before the clock is anchored again: the
# timestamp is cut to whole seconds and is written up to a second late.
UPTIME_TOLERANCE_MS = 2000
# If the timestamp of a line from the network is further from its arrival, the sender's clock is
# wrong and the line is stored with its arrival time. 40 days: relays deliver what they buffered
# while the network was down for weeks.
LONGEST_DELAY = timedelta(days=40)
FASTEST_CLOCK = timedelta(days=1)
# Number of hosts with an anchor; `anchors` in ingest/lua/times.lua has the same limit.
MOST_ANCHORS = 10_000
_CACHE_SIZE = 1024


def utc_text(moment: datetime) -> str:
    """Return a moment as event_time text, with microseconds if it has any."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def parse_zone(text: str) -> timezone:
    """Parse `Z`, `+02:00` or `-0800`. Raises ValueError for anything else."""
    if text == "Z":
        return UTC
    hours, minutes = int(text[1:3]), int(text[-2:])
    if minutes > 59:
        raise ValueError(text)
    offset = timedelta(hours=hours, minutes=minutes)
    return timezone(-offset if text[0] == "-" else offset)


def names_year(stamp: str) -> bool:
    """Return True for `2012-03-04T…` and `Mar 4 2012 …`, False for `Mar  4 05:06:07`."""
    return stamp[:1].isdigit() or len(stamp.partition(".")[0]) >= len("Mar 4 2012 05:06:07")


class Stamps:
    """Converts the timestamps of one source to event times.

    Zone: a timestamp without one is in `zone`. Year: a timestamp without one (BSD) gets the latest
    year in which it is at most one day after `written_at` (the file's modification or the arrival).
    So December in a file written in January belongs to the previous year. If `year` is given, it is
    the year of the first such timestamp. From there, a drop of more than six months increments the
    year; November or December directly after January or February (out of order) decrements it.

    Only whole minutes are converted, because they repeat and can be cached. Time zones are whole
    minutes too, so the seconds are copied as text.
    """

    __slots__ = ("_bounds", "_cache", "_last_month", "_year", "written_at", "zone")

    def __init__(
        self, *, written_at: datetime, zone: tzinfo = UTC, year: int | None = None
    ) -> None:
        """`written_at` has a time zone."""
        self.zone = zone
        self.written_at = written_at
        self._year = year
        self._last_month = 0
        # minute and zone of a timestamp → the minute in UTC; None if there is no such minute
        self._cache: dict[str, str | None] = {}
        # `written_at`, with the first and the last minute that `is_near_arrival` accepts
        self._bounds: tuple[datetime, str, str] | None = None

    def event_time(self, stamp: str, burst: str | None = None) -> str | None:
        """Return a timestamp plus the burst's seconds as UTC text; None if the time is impossible.

        `stamp` and `burst` are groups of a head pattern.
        """
        try:
            if (
                stamp[-1] == "Z"
                and stamp[10] == "T"
                and stamp[19] in ".Z"
                and burst is None
                and stamp[17] != "6"
            ):
                minute = stamp[:16]
                if minute not in self._cache:
                    self._remember(minute, _dated_minute(minute, UTC))
                return stamp if self._cache[minute] is not None else None
            text = self._bsd(stamp) if stamp[0].isalpha() else self._dated(stamp)
            return text if text is None or burst is None else _add_seconds(text, burst)
        except (ValueError, OverflowError, IndexError):
            return None

    def move_on(self, now: datetime) -> None:
        """Set `written_at` to `now`, for live lines; the inferred year may change with it."""
        if now.date() != self.written_at.date():
            self._cache.clear()
        self.written_at = now

    def is_near_arrival(self, event_time: str) -> bool:
        """Return True from 40 days before to one day after `written_at`, in whole minutes."""
        arrival = self.written_at
        if self._bounds is None or self._bounds[0] is not arrival:
            first, last = (utc_text(arrival + each) for each in (-LONGEST_DELAY, FASTEST_CLOCK))
            self._bounds = arrival, first[:16], last[:16]
        _, earliest, latest = self._bounds
        return earliest <= event_time[:16] <= latest

    def _remember(self, key: str, minute: str | None) -> None:
        if len(self._cache) >= _CACHE_SIZE:
            self._cache.clear()
        self._cache[key] = minute

    def _dated(self, stamp: str) -> str | None:
        match = _DATED.fullmatch(stamp)
        if match is None:
            return None
        seconds, fraction, zone_text = match.group(6, 7, 8)
        key = f"{stamp[:10]}T{stamp[11:16]}{zone_text or 'local'}"
        if key not in self._cache:
            try:
                zone = parse_zone(zone_text) if zone_text else self.zone
            except ValueError:
                return None
            self._remember(key, _dated_minute(f"{stamp[:10]}T{stamp[11:16]}", zone))
        return _join(self._cache[key], seconds, fraction)

    def _bsd(self, stamp: str) -> str | None:
        whole, _, fraction = stamp.partition(".")
        if self._year is not None:
            self._turn_year(MONTHS.get(stamp[:3], 0))
        key = f"{self._year} {whole[:-3]}"
        if key not in self._cache:
            match = _BSD.fullmatch(whole[:-3])
            self._remember(key, match and self._bsd_minute(match))
        return _join(self._cache[key], whole[-3:], fraction)

    def _turn_year(self, month: int) -> None:
        assert self._year is not None
        if self._last_month - month > 6:
            self._year += 1
        elif 0 < self._last_month <= 2 and month >= 11:
            self._year -= 1
        self._last_month = month

    def _bsd_minute(self, match: re.Match[str]) -> str | None:
        month = MONTHS.get(match[1], 0)
        day, hour, minute = (int(part) for part in match.group(2, 4, 5))
        known = int(match[3]) if match[3] else self._year
        latest = self.written_at + timedelta(days=1)
        # February 29 may be up to eight years back.
        years = [known] if known else range(latest.year + 1, latest.year - 8, -1)
        for year in years:
            try:
                local = datetime(year, month, day, hour, minute)
                if known or local.replace(tzinfo=self.zone) <= latest:
                    return _to_utc(local, self.zone)
            except (ValueError, OverflowError):
                continue
        return None


def _to_utc(local: datetime, zone: tzinfo) -> str | None:
    if not FIRST_YEAR <= local.year <= LAST_YEAR:
        return None
    return local.replace(tzinfo=zone).astimezone(UTC).isoformat()[:16]


@lru_cache(maxsize=_CACHE_SIZE)  # the files of a replay have the same minutes
def _dated_minute(minute: str, zone: tzinfo) -> str | None:
    try:
        return _to_utc(datetime.fromisoformat(minute), zone)
    except (ValueError, OverflowError):
        return None


def _join(minute: str | None, seconds: str, fraction: str | None) -> str | None:
    if minute is None:
        return None
    if seconds == ":60":
        minute, seconds = (datetime.fromisoformat(minute) + _MINUTE).isoformat()[:16], ":00"
    return f"{minute}{seconds}.{fraction}Z" if fraction else f"{minute}{seconds}Z"


def _epoch(text: str) -> tuple[int, str]:
    """Convert event_time text to whole epoch seconds and the fraction's digits."""
    whole, _, fraction = text[:-1].partition(".")
    moment = datetime.fromisoformat(whole).replace(tzinfo=UTC)
    return int((moment - _EPOCH).total_seconds()), fraction


def _from_epoch(seconds: int, fraction: str) -> str:
    whole = (_EPOCH + timedelta(seconds=seconds)).isoformat()[:19]
    return f"{whole}.{fraction}Z" if fraction else f"{whole}Z"


def _add_seconds(text: str, burst: str) -> str:
    """`…:47Z` and `0.002` → `…:47.002Z`."""
    seconds, fraction = _epoch(text)
    more_seconds, _, more_fraction = burst.partition(".")
    digits = max(len(fraction), len(more_fraction))
    carry, rest = divmod(
        int(fraction.ljust(digits, "0") or 0) + int(more_fraction.ljust(digits, "0")), 10**digits
    )
    return _from_epoch(seconds + int(more_seconds) + carry, f"{rest:0{digits}d}")


class UptimeClock:
    """Adds milliseconds to whole-second timestamps, from the kernel's uptime in the same line.

    A host's first timestamp anchors its uptime: the time of that line is the timestamp plus the
    uptime's milliseconds. The time of every later line is the first one's plus the uptime passed
    since. So spans are exact to the millisecond and lines stay in order, although timestamp and
    uptime do not change their second at the same moment. If the two differ by more than
    UPTIME_TOLERANCE_MS (reboot, changed clock, drift), the line's timestamp becomes the new anchor.

    At most MOST_ANCHORS hosts are kept; the host with the oldest last line is removed first.
    """

    __slots__ = ("_offset_ms", "_text", "_text_minute")

    def __init__(self) -> None:
        """Start without anchors."""
        # host → epoch ms minus uptime ms; the host with the newest line is last
        self._offset_ms: dict[str, int] = {}
        self._text: dict[str, int] = {}  # minute text → its epoch ms
        self._text_minute: dict[int, str] = {}  # the reverse, by epoch minute

    @property
    def hosts(self) -> frozenset[str]:
        """Return the hosts that have an anchor."""
        return frozenset(self._offset_ms)

    def event_time(self, host: str, text: str, uptime: str) -> str:
        """`2010-04-27T10:16:27Z` and `110:04:49:19.318` → `2010-04-27T10:16:27.318Z`.

        If the uptime gives an impossible time, `text` is returned unchanged.
        """
        try:
            return self._event_time(host, text, uptime)
        except (ValueError, OverflowError):
            return text

    def _event_time(self, host: str, text: str, uptime: str) -> str:
        days, hours, minutes, seconds = uptime.split(":")
        uptime_ms = (((int(days) * 24 + int(hours)) * 60 + int(minutes)) * 60) * 1000 + int(
            seconds.replace(".", "")
        )
        stamp_ms = self._minute_ms(text[:16]) + int(text[17:19]) * 1000
        offset_ms = self._offset_ms.pop(host, None)
        if offset_ms is None or abs(uptime_ms + offset_ms - stamp_ms) > UPTIME_TOLERANCE_MS:
            offset_ms = stamp_ms - uptime_ms // 1000 * 1000
        self._offset_ms[host] = offset_ms
        if len(self._offset_ms) > MOST_ANCHORS:
            del self._offset_ms[next(iter(self._offset_ms))]
        minute, rest_ms = divmod(uptime_ms + offset_ms, 60_000)
        return f"{self._minute_text(minute)}:{rest_ms // 1000:02d}.{rest_ms % 1000:03d}Z"

    def _minute_ms(self, text: str) -> int:
        known = self._text.get(text)
        if known is None:
            if len(self._text) >= _CACHE_SIZE:
                self._text.clear()
            known = self._text[text] = _epoch(f"{text}:00Z")[0] * 1000
        return known

    def _minute_text(self, minute: int) -> str:
        known = self._text_minute.get(minute)
        if known is None:
            if len(self._text_minute) >= _CACHE_SIZE:
                self._text_minute.clear()
            known = self._text_minute[minute] = (_EPOCH + minute * _MINUTE).isoformat()[:16]
        return known
