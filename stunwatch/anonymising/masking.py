"""Masks texts with pseudonyms: every word is replaced unless it is known to be harmless.

Kept are words of ESXi's own messages, short numbers, times, and names of parts that every host has
(`vmhba2:C0:T1:L4`). In a line that a detector reads, all decimal numbers are kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo

from stunwatch.anonymising.names import ATOM, Names, Span, core_span, new_finder, spans
from stunwatch.anonymising.pseudonyms import Pseudonyms
from stunwatch.anonymising.vocabulary import is_part
from stunwatch.detectors.catalogue import literals
from stunwatch.ingest.times import MONTHS, Stamps

_HEX = "[0-9A-Fa-f]"
_MONTH = "|".join(MONTHS)
_SHAPES = re.compile(
    # password=hunter2, "token": "…"
    r"(?P<secret>(?<![A-Za-z])(?i:password|passwd|passphrase|pwd|secret|token|community|cookie"
    r"|authorization|licen[cs]e(?: ?key)?)[\"']?\s{0,3}[:=]\s{0,3}[\"']?)[^\s\"',;]{1,512}"
    r"|(?P<uptime>(?<!\d)\d{1,6}:\d\d:\d\d:\d\d\.\d{3}(?!\d))"
    r"|(?P<burst>\[\+\d{1,6}\.\d{1,9}\])"
    r"|(?P<iso>(?<!\d)[12]\d{3}-\d\d-\d\d(?!\d)(?:[T ]\d\d:\d\d(?::\d\d(?:[.,:]\d{1,9})?)?)?"
    r"(?:Z|[+-]\d\d:?\d\d(?![\d-]))?)"
    r"|(?P<us>(?<![\d/])\d{1,2}/\d{1,2}/\d{4}(?![\d/]))"
    rf"|(?P<device>(?<![A-Za-z0-9])(?:(?:naa|eui|uuid|vml)\.{_HEX}{{4,128}}(?![0-9A-Za-z])"
    r"|t10\.[^\s\"'\],;:()<>]{1,255}))"
    r"|(?P<target>(?<![A-Za-z0-9])(?:iqn|nqn)\.[A-Za-z0-9.:_-]{1,223})"
    rf"|(?P<pairs>(?<![0-9A-Za-z:])(?:{_HEX}{{2}}[:\- ]){{5,31}}{_HEX}{{2}}(?![0-9A-Za-z:]))"
    rf"|(?P<uuid>(?<![0-9A-Za-z])(?:{_HEX}{{8}}-?{_HEX}{{8}}-?{_HEX}{{4}}-?{_HEX}{{12}}"
    rf"|{_HEX}{{8}}-{_HEX}{{8}}"
    rf"|{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}})(?![0-9A-Za-z]))"
    r"|(?P<ipv4>(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w]|\.\d))"
    rf"|(?P<ipv6>(?<![\w:.])(?:{_HEX}{{0,4}}:){{2,7}}{_HEX}{{0,4}}(?![\w:.]))"
    rf"|(?P<migration>(?<![A-Za-z])mid=){_HEX}{{8,16}}(?![0-9A-Za-z])",
    re.ASCII,
)
_LITERAL = re.compile(r"0[xX][0-9a-fA-F]+")
_SHORT_LITERAL = 2 + 7
_AMOUNT = re.compile(r"\d{1,19}us|\d{1,6}(?:ms|ns|s|secs?|msecs?|[KMGT]?B|[kmgxK])")
_HEXADECIMAL = re.compile(r"(?:[0-9a-f]{2,}|[0-9A-F]{2,})")
_SHORT_NUMBER = 4
_LONGEST_PRIORITY = len("<191>")
_MOST_CACHED = 200_000
_LONGEST_CACHED = 100
_SPACE_FOLLOWS = "\0"
"""Stands for a masked text that may be the beginning of a name with blanks."""
# Hexadecimal pairs separated by blanks. They are replaced as one value.
_SPACED = re.compile(rf"(?<![0-9A-Za-z])(?:{_HEX}{{2}}[ -]){{6}}")
_SECRETS = (
    *("password", "passwd", "passphrase", "pwd", "secret", "token", "community", "cookie"),
    *("authorization", "license", "licence"),
)
# µs and ms since 1970, for the years 2001 to 2037. Durations have fewer digits.
_EPOCHS = {16: 1_000_000, 13: 1000}
_FIRST_EPOCH, _LAST_EPOCH = 1_000_000_000, 2_145_000_000
_BOM = re.compile("\ufeff|\u00ef\u00bb\u00bf")
_CONTROLS = dict.fromkeys((*range(9), *range(10, 32), 127), "?")
# Commands that administrators typed, and logins. No detector reads these lines.
_SHELL = re.compile(
    r"(?<![A-Za-z])(?:shell|ESXShell|bash|ash|sshd|login|sudo|su|dropbear|passwd)(?:-\w{1,16})?"
    r"(?:\[\d{1,19}\])?: "
)


class Masker:
    """Masks the texts of one bundle. All names must have been collected before."""

    def __init__(
        self, pseudonyms: Pseudonyms, names: Names, shift: timedelta = timedelta(0)
    ) -> None:
        """`shift`: how far times are moved back."""
        self._pseudonyms = pseudonyms
        self._names = names
        self._shift = shift
        self._literals = literals()
        self._finder = new_finder()
        self._makers: dict[str, Callable[[str], str]] = {
            "uptime": self._same,
            "burst": self._same,
            "iso": self._iso,
            "us": self._us,
            "device": pseudonyms.device,
            "target": self._target,
            "pairs": self._uuid,
            "uuid": self._uuid,
            "ipv4": self._address,
            "ipv6": self._address,
            "migration": self._migration,
        }
        """The replacement for each shape, by regex group."""
        self._words: dict[str, str] = {}
        self._chunks: tuple[dict[str, str], dict[str, str]] = {}, {}
        """Cached replacements of texts without blanks: without and with kept numbers."""
        self.begin(datetime.now(UTC))
        self._is_read = False

    def begin(self, written_at: datetime, zone: tzinfo = UTC, year: int | None = None) -> None:
        """Start a file. Timestamps without a year get one as in a replay, see Stamps."""
        self._stamps = Stamps(written_at=written_at, zone=zone, year=year)
        self.zone = zone
        self._head_year = "" if year is None else str(year)

    def moment(self, at: datetime) -> datetime:
        """Return a shifted time."""
        try:
            return at - self._shift
        except OverflowError:
            return at

    def line(self, text: str) -> str:
        """Mask a log line without its terminator. The result is ASCII."""
        if shell := _SHELL.search(text):
            text = text[: shell.end()] + "removed"
        return self.text(text, is_read=self.is_read(text))

    def is_read(self, text: str) -> bool:
        """Return True if a detector may read the line."""
        for each in self._literals:  # noqa: SIM110 - any() takes twice as long
            if each in text:
                return True
        return False

    def text(self, text: str, *, is_read: bool = False) -> str:
        """Mask any text; `is_read`: keep its numbers."""
        if not text.isascii():
            text = _BOM.sub("", text)
        if not text.isprintable():
            text = text.translate(_CONTROLS)
        if self._shift:
            text = _BSD.sub(self._bsd, text)
        lower = text.lower()
        if _SPACED.search(text) or any(each in lower for each in _SECRETS):
            return self._whole(text, is_read)
        # Nearly all words of a log occurred before.
        known = self._chunks[is_read]
        chunks = []
        for chunk in text.split(" "):
            made = known.get(chunk)
            if made is None:
                made = self._new_chunk(chunk, is_read)
            if made is _SPACE_FOLLOWS:
                return self._whole(text, is_read)
            chunks.append(made)
        return " ".join(chunks)

    def _new_chunk(self, chunk: str, is_read: bool) -> str:
        starts = self._names.spaced_starts
        if starts and any(each.lower() in starts for each in ATOM.findall(chunk)):
            made = _SPACE_FOLLOWS
        else:
            made = self._named(chunk, is_read)
        known = self._chunks[is_read]
        if len(chunk) <= _LONGEST_CACHED:
            if len(known) >= _MOST_CACHED:
                known.clear()
            known[chunk] = made
        return made

    def _whole(self, text: str, is_read: bool) -> str:
        pieces = []
        at = 0
        for start, end, made in self._forced(text, is_read) if self._names.weak else []:
            pieces += [self._named(text[at:start], is_read), made]
            at = end
        pieces.append(self._named(text[at:], is_read))
        return "".join(pieces)

    def name(self, kind: str, text: str) -> str:
        """Mask a text that is a name as a whole, as it would be masked in a line."""
        span = core_span(Span(0, len(text), kind, text))
        if span.text.lower() not in self._names.weak:
            return self.text(text, is_read=True)
        made = self._names.pseudonym(self._pseudonyms, kind, span.text)
        return text[: span.start] + made + text[span.end :]

    def path(self, path: str) -> str:
        """Mask the path of an archive member."""
        return self.text(path)

    def _forced(self, text: str, is_read: bool) -> list[tuple[int, int, str]]:
        """Return the positions of weak names (see Names.weak) with their pseudonyms."""
        weak = self._names.weak
        found = [
            span
            for span in map(core_span, spans(text, self._finder, is_read))
            if span.text.lower() in weak
        ]
        apart: list[tuple[int, int, str]] = []
        for span in sorted(found, key=lambda each: (each.start, -each.end)):
            if not apart or span.start >= apart[-1][1]:
                made = self._names.pseudonym(self._pseudonyms, span.kind, span.text)
                apart.append((span.start, span.end, made))
        return apart

    def _named(self, text: str, is_read: bool) -> str:
        self._is_read = is_read
        pieces = []
        at = 0
        for start, end, made in self._names.found(text):
            pieces += [self._shaped(text[at:start]), made]
            at = end
        pieces.append(self._shaped(text[at:]))
        return "".join(pieces)

    def _shaped(self, text: str) -> str:
        return _SHAPES_OR_ATOM.sub(self._shape, text)

    def _shape(self, match: re.Match[str]) -> str:
        text = match[0]
        kind = match.lastgroup
        if kind == "atom":
            known = self._words.get(text)
            return self._word(text) if known is None else known
        if kind == "secret":
            return f"{self._atoms(match['secret'])}removed"
        assert kind is not None
        return self._makers[kind](text)

    def _same(self, text: str) -> str:
        return text

    def _target(self, text: str) -> str:
        """Mask `iqn.…` or `nqn.…`."""
        whole = text.rstrip(".:")
        made = self._pseudonyms.word(whole.partition(".")[2])
        return f"{text[:3]}.1998-01.example:{made}{text[len(whole) :]}"

    def _uuid(self, text: str) -> str:
        return self._pseudonyms.hexadecimal(text, "uuid")

    def _address(self, text: str) -> str:
        try:
            return self._pseudonyms.address(text)
        except ValueError:
            return self._atoms(text)

    def _atoms(self, text: str) -> str:
        return ATOM.sub(lambda atom: self._word(atom[0]), text)

    def _word(self, text: str) -> str:
        if text.isdigit() and text.isascii():
            return self._number(text)
        made = self._words.get(text)
        if made is None:
            if len(self._words) >= _MOST_CACHED:
                self._words.clear()
            made = self._words[text] = self._new_word(text)
        return made

    def _new_word(self, text: str) -> str:
        if self._stays(text):
            return text
        if _LITERAL.fullmatch(text):
            return text[:2] + self._pseudonyms.hexadecimal(text[2:])
        if _HEXADECIMAL.fullmatch(text):
            return self._pseudonyms.hexadecimal(text)
        return self._pseudonyms.word(text)

    def _stays(self, text: str) -> bool:
        """Return True if a word is the product's, or too short to identify anything."""
        return (
            (len(text) == 1 and text.isascii())
            or (len(text) == 2 and _HEXADECIMAL.fullmatch(text) is not None)  # a SCSI command: 2a
            or text.lower() in self._names.kept
            or is_part(text)
            or _AMOUNT.fullmatch(text) is not None
            or (len(text) <= _SHORT_LITERAL and _LITERAL.fullmatch(text) is not None)
        )

    def _number(self, text: str) -> str:
        if len(text) <= _SHORT_NUMBER:
            return text
        if not self._is_read:
            return self._pseudonyms.decimal(text)
        return self._epoch(text) if self._shift else text

    def _epoch(self, text: str) -> str:
        unit = _EPOCHS.get(len(text), 0)
        if unit and _FIRST_EPOCH <= int(text) // unit <= _LAST_EPOCH:
            return str(int(text) - int(self._shift.total_seconds()) * unit)
        return text

    def _migration(self, text: str) -> str:
        """Shift the time in `mid=<migration id>`. Elsewhere, the id is a plain decimal number."""
        digits = text.removeprefix("mid=")
        if not self._shift:
            return text
        if digits.isdigit():
            return f"mid={self._epoch(digits)}"
        return f"mid={int(self._epoch(str(int(digits, 16)))):x}"

    def _iso(self, text: str) -> str:
        if not self._shift:
            return text
        try:
            day = datetime.fromisoformat(text[:10]) - self._shift
        except (ValueError, OverflowError):
            return text
        return f"{day:%Y-%m-%d}{text[10:]}"

    def _us(self, text: str) -> str:
        if not self._shift:
            return text
        month, day, year = (int(part) for part in text.split("/"))
        try:
            at = datetime(year, month, day) - self._shift
        except (ValueError, OverflowError):
            return text
        is_padded = len(text) == len("05/06/2024")
        return f"{at:%m/%d/%Y}" if is_padded else f"{at.month}/{at.day}/{at.year}"

    def _bsd(self, stamp: re.Match[str]) -> str:
        year = stamp["year"] or stamp["last_year"] or self._year(stamp)
        at = self._stamped(MONTHS[stamp["month"]], int(stamp["day"]), stamp["time"], year)
        if at is None:
            return stamp[0]
        month = list(MONTHS)[at.month - 1]
        day = f"{at.day:02d}" if stamp["day"].startswith("0") else f"{at.day}"
        # `Nov  5`: most logs pad a one-digit day with a blank
        blanks = " " * max(1, len(stamp["blanks"]) + len(stamp["day"]) - len(day))
        named = f"{at.year} " if stamp["year"] else ""
        last = f" {at.year}" if stamp["last_year"] else ""
        return f"{month}{blanks}{day} {named}{stamp['time']}{stamp['fraction']}{last}"

    def _year(self, stamp: re.Match[str]) -> str:
        """Return the year of a timestamp without one; empty if the time is impossible."""
        if self._head_year and stamp.start() > _LONGEST_PRIORITY:
            # If a year was given, the timestamps at the beginning of lines count it up, not others.
            return self._head_year
        at = self._stamps.event_time(f"{stamp['month']} {stamp['day']} {stamp['time']}")
        if at is None:
            return ""
        year = f"{datetime.fromisoformat(at).astimezone(self.zone).year:04}"
        self._head_year = self._head_year and year
        return year

    def _stamped(self, month: int, day: int, time: str, year: str) -> datetime | None:
        """Return a timestamp's shifted time in its own zone; None if the time is impossible."""
        try:
            return self.moment(datetime.fromisoformat(f"{year}-{month:02}-{day:02}T{time[:5]}"))
        except ValueError:
            return None


# Nov 20 17:23:05, Mar  4 2012 05:06:07, and ctime's Nov 20 17:23:05 2025
_BSD = re.compile(
    rf"(?<![A-Za-z])(?P<month>{_MONTH})(?P<blanks> {{1,2}})(?P<day>\d{{1,2}}) "
    r"(?:(?P<year>\d{4}) )?"
    r"(?P<time>\d\d:\d\d:\d\d)(?P<fraction>(?:\.\d{1,9})?)(?: (?P<last_year>\d{4})(?![\d-]))?",
    re.ASCII,
)
_SHAPES_OR_ATOM = re.compile(f"{_SHAPES.pattern}|(?P<atom>{ATOM.pattern})", re.ASCII)
