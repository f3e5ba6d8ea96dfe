"""What a line says about time, as UTC text.

A record's event_time is text of the form `YYYY-MM-DDTHH:MM:SS[.f]Z` with as many fraction digits
as the line has; a stamp that is already of this form is taken as it is.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo

MONTHS = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1
    )
}
# 2012-03-04T05:06:07.891+02:00, 2012-03-04 05:06:07,891 (and ESX 4's ":891")
_DATED = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(:\d\d)(?:[.,:](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?", re.ASCII
)
# Mar  4 05:06, the seconds taken off
_YEARLESS = re.compile(r"([A-Z][a-z]{2}) +(\d{1,2}) (\d\d):(\d\d)", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE = timedelta(minutes=1)
# Outside of these years a stamp is a fault, and ClickHouse could not keep it.
FIRST_YEAR, LAST_YEAR = 1970, 2199
# How far uptime clock and syslog stamp may part before the clock is set anew: the stamp is cut to
# whole seconds and written up to a second late.
UPTIME_TOLERANCE_MS = 2000
_CACHE_SIZE = 1024


def utc_text(moment: datetime) -> str:
    """A moment as event_time text, with microseconds if it has any."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def parse_zone(text: str) -> timezone:
    """`Z`, `+02:00` or `-0800` → a zone. ValueError for anything else."""
    if text == "Z":
        return UTC
    hours, minutes = int(text[1:3]), int(text[-2:])
    if minutes > 59:
        raise ValueError(text)
    offset = timedelta(hours=hours, minutes=minutes)
    return timezone(-offset if text[0] == "-" else offset)


class Stamps:
    """Turns the stamps of one source into event times.

    Zone: a stamp without one is of `zone`. Year: a stamp without one (BSD) is of the latest year
    that keeps it no later than a day after `written_at` (the file's modification, or the arrival),
    so Decembers in a file written in January are last year's. A given `year` is instead the year
    of the first such stamp; from there a fall of more than six months counts it up, and November
    or December right after January or February, out of order, back down.

    All work is done on whole minutes, which repeat and are remembered; zones are whole minutes
    too, so the seconds are carried over as text.
    """

    __slots__ = ("_cache", "_last_month", "_year", "written_at", "zone")

    def __init__(
        self, *, written_at: datetime, zone: tzinfo = UTC, year: int | None = None
    ) -> None:
        """`written_at` is aware."""
        self.zone = zone
        self.written_at = written_at
        self._year = year
        self._last_month = 0
        # the stamp up to its minute, and its zone → the same in UTC; None for no such minute
        self._cache: dict[str, str | None] = {}

    def event_time(self, stamp: str, burst: str | None = None) -> str | None:
        """UTC text of a stamp plus the burst's seconds; None if it names no possible time."""
        if stamp[-1] == "Z" and stamp[10] == "T" and stamp[19] in ".Z" and burst is None:
            minute = stamp[:16]
            if minute not in self._cache:
                self._remember(minute, self._dated_minute(minute, UTC))
            return stamp if self._cache[minute] is not None else None
        text = self._yearless(stamp) if stamp[0].isalpha() else self._dated(stamp)
        return text if text is None or burst is None else _add_seconds(text, burst)

    def move_on(self, now: datetime) -> None:
        """Of what arrives live: `written_at` is now, and so a stamp's year may be another."""
        if now.date() != self.written_at.date():
            self._cache.clear()
        self.written_at = now

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
            self._remember(key, self._dated_minute(f"{stamp[:10]}T{stamp[11:16]}", zone))
        return _join(self._cache[key], seconds, fraction)

    def _dated_minute(self, minute: str, zone: tzinfo) -> str | None:
        try:
            return self._to_utc(datetime.fromisoformat(minute), zone)
        except (ValueError, OverflowError):
            return None

    def _yearless(self, stamp: str) -> str | None:
        whole, _, fraction = stamp.partition(".")
        if self._year is not None:
            self._turn_year(MONTHS.get(stamp[:3], 0))
        key = f"{self._year} {whole[:-3]}"
        if key not in self._cache:
            match = _YEARLESS.fullmatch(whole[:-3])
            self._remember(key, match and self._yearless_minute(match))
        return _join(self._cache[key], whole[-3:], fraction)

    def _turn_year(self, month: int) -> None:
        assert self._year is not None
        if self._last_month - month > 6:
            self._year += 1
        elif 0 < self._last_month <= 2 and month >= 11:
            self._year -= 1
        self._last_month = month

    def _yearless_minute(self, match: re.Match[str]) -> str | None:
        month = MONTHS.get(match[1], 0)
        day, hour, minute = (int(part) for part in match.groups()[1:])
        latest = self.written_at + timedelta(days=1)
        # the 29th of February may be up to eight years back
        years = [self._year] if self._year else range(latest.year + 1, latest.year - 8, -1)
        for year in years:
            try:
                local = datetime(year, month, day, hour, minute)
                if self._year or local.replace(tzinfo=self.zone) <= latest:
                    return self._to_utc(local, self.zone)
            except (ValueError, OverflowError):
                continue
        return None

    @staticmethod
    def _to_utc(local: datetime, zone: tzinfo) -> str | None:
        if not FIRST_YEAR <= local.year <= LAST_YEAR:
            return None
        return local.replace(tzinfo=zone).astimezone(UTC).isoformat()[:16]


def _join(minute: str | None, seconds: str, fraction: str | None) -> str | None:
    if minute is None:
        return None
    return f"{minute}{seconds}.{fraction}Z" if fraction else f"{minute}{seconds}Z"


def _epoch(text: str) -> tuple[int, str]:
    """Event time text → whole epoch seconds and the fraction's digits."""
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
    """Milliseconds for whole-second stamps, from the kernel's uptime in the same line.

    A host's first stamp anchors its uptime: that line's time is the stamp plus the uptime's
    milliseconds, and every later line's time is the first one's plus the uptime passed since. So
    spans are exact to the millisecond and lines stay in order, although stamp and uptime do not
    turn their seconds at the same moment. When the two have parted by more than
    UPTIME_TOLERANCE_MS (a reboot, a set clock, drift) the line's own stamp becomes the anchor.
    """

    __slots__ = ("_offset_ms", "_text", "_text_minute")

    def __init__(self) -> None:
        """No host is anchored yet."""
        self._offset_ms: dict[str, int] = {}  # host → epoch ms less uptime ms
        self._text: dict[str, int] = {}  # minute text → its epoch ms
        self._text_minute: dict[int, str] = {}  # and back, by epoch minute

    def event_time(self, host: str, text: str, uptime: str) -> str:
        """`2010-04-27T10:16:27Z` and `110:04:49:19.318` → `2010-04-27T10:16:27.318Z`."""
        days, hours, minutes, seconds = uptime.split(":")
        uptime_ms = (((int(days) * 24 + int(hours)) * 60 + int(minutes)) * 60) * 1000 + int(
            seconds.replace(".", "")
        )
        stamp_ms = self._minute_ms(text[:16]) + int(text[17:19]) * 1000
        offset_ms = self._offset_ms.get(host)
        if offset_ms is None or abs(uptime_ms + offset_ms - stamp_ms) > UPTIME_TOLERANCE_MS:
            offset_ms = stamp_ms - uptime_ms // 1000 * 1000
            self._offset_ms[host] = offset_ms
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
