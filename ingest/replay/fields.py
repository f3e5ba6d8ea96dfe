"""Builds lines from exports whose log server parsed the head of each line into fields.

Graylog, Logstash, Elastic's ingest pipelines, syslog-ng, rsyslog, Vector and most SIEMs keep time,
host and program of a syslog message in fields, and only the rest as the message. The line is built
again as a host sends it: `<time> <host> <program>: <message>`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from stunwatch.ingest.times import Stamps, utc_text

Path = tuple[str, ...]

# Names in lower case. Of several fields, those that hold the sender's own values come first.
_TIMES: Final[tuple[Path, ...]] = (
    ("timereported",),  # rsyslog
    ("isodate",),  # syslog-ng
    ("eventtime",),  # Azure
    ("@timestamp",),
    ("timestamp",),
    ("_time",),
    ("time",),
    ("date",),
    ("timegenerated",),
    ("ts",),
)
_HOSTS: Final[tuple[Path, ...]] = (
    ("log", "syslog", "hostname"),  # Elastic
    ("syslog_hostname",),
    ("hostname",),
    ("logsource",),  # Logstash
    ("source",),  # Graylog
    ("host", "name"),
    ("host",),
    ("computer",),
)
# The machine of the agent. It is also in `host`, unless the server replaced that.
_AGENTS: Final[tuple[Path, ...]] = (("agent", "name"), ("agent", "hostname"), ("beat", "hostname"))
_PROGRAMS: Final[tuple[Path, ...]] = (
    ("log", "syslog", "appname"),
    ("process", "name"),
    ("process", "program"),
    ("application_name",),  # Graylog
    ("programname",),  # rsyslog
    ("program",),
    ("appname",),
    ("app_name",),
    ("app",),
    ("ident",),  # Fluentd
    ("processname",),
    ("syslog_identifier",),
    ("syslogtag",),
)
MESSAGES: Final[tuple[Path, ...]] = (
    ("message",),
    ("short_message",),
    ("syslogmessage",),
    ("_msg",),
    ("msg",),
    ("line",),
    ("text",),
    ("textpayload",),  # Google Cloud
    ("log",),
)
# Objects with further fields: documents of an index, Splunk's results, Loki's labels.
_INNER: Final = ("_source", "result", "labels")

_HOST = re.compile(r"[\w.:-]{1,255}(?<!:)", re.ASCII)
_PROGRAM = re.compile(r"([\w./-]{1,64})(?:\[\d{1,19}\])?:?", re.ASCII)
_BSD = re.compile(r"[A-Z][a-z]{2} {1,2}\d{1,2} (?:\d{4} )?\d\d:\d\d:\d\d(?:\.\d{1,9})?", re.ASCII)
# May 6, 2024 @ 07:08:09.123
_KIBANA = re.compile(r"([A-Z][a-z]{2} \d{1,2}), (\d{4}) @ (\d\d:\d\d:\d\d(?:\.\d{1,9})?)", re.ASCII)
# 5/6/2024, 7:08:09.123 AM: only the USA write AM and PM with such a date.
_AMERICAN = re.compile(
    r"(\d{1,2})/(\d{1,2})/(\d{4}),? (\d{1,2}):(\d\d):(\d\d)(\.\d{1,9})? ([AP])M", re.ASCII
)
_SPACE_BEFORE_ZONE = re.compile(r" (?=(?:Z|[+-]\d\d:?\d\d)\Z)")
_NUMBER = re.compile(r"\d{9,19}(?:\.\d{1,9})?", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Messages whose beginning shows the program, for exports without a field for it.
_TELLING: Final = (
    (re.compile(r"(?:WARNING: |ALERT: )?cpu\d{1,19}:\d{1,19}(?: opID=\S{1,200})?\)"), "vmkernel"),
    (re.compile(r"\[\w{1,64}\] \d{1,19}us: \["), "vobd"),
    (re.compile(r"(?:verbose|info|warning|error|panic|trivia|debug) ([\w.-]{1,64})\[\w+\] \["), ""),
)


class LinesOfFields:
    """Builds the lines of one file."""

    def __init__(self, stamps: Stamps) -> None:
        """`stamps` converts times without a zone."""
        self._stamps = stamps

    def lines(self, document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Yield possible lines and their host, most likely first; nothing without time or host.

        A line may have several lines of text.
        """
        fields = _flat(document)
        time = next(
            (text for each in _TIMES if (text := self._stamp(value_of(fields, each)))), None
        )
        host = _host(fields)
        if time is None or host is None:
            return
        program = _program(fields)
        for each in MESSAGES:
            message = value_of(fields, each)
            if isinstance(message, str) and (text := message.lstrip(" \t")):
                for body in _bodies(text, host, program):
                    yield f"{time} {host} {body}", host

    def _stamp(self, value: Any) -> str | None:
        """Return a time as UTC text, or as it is in a BSD head; None if it is not a time."""
        text = str(value).strip() if isinstance(value, str | int | float) else ""
        if _NUMBER.fullmatch(text):
            return _of_epoch(text)
        kibana = _KIBANA.fullmatch(text)
        if kibana is not None:
            text = f"{kibana[1]} {kibana[2]} {kibana[3]}"
        american = _AMERICAN.fullmatch(text)
        if american is not None:
            month, day, year, hour, minute, second, fraction, half = american.groups()
            of_day = int(hour) % 12 + (12 if half == "P" else 0)
            text = f"{year}-{month:0>2}-{day:0>2}T{of_day:02}:{minute}:{second}{fraction or ''}"
        if _BSD.fullmatch(text):
            return text if self._stamps.event_time(text) else None
        if not text[:1].isdigit():
            return None
        text = f"{text[:-3]}Z" if text.endswith("UTC") else text
        return self._stamps.event_time(_SPACE_BEFORE_ZONE.sub("", text))


def columns_of(row: Iterable[str]) -> tuple[str, ...]:
    """Return the names of columns if a row of CSV is the header of such an export, else nothing."""
    columns = tuple(name.partition(" [")[0].strip().lower() for name in row)
    names = set(columns)
    is_header = all(
        names.intersection(map(".".join, paths)) for paths in (_TIMES, _HOSTS, MESSAGES)
    )
    return columns if is_header else ()


def _flat(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields with names in lower case, and those of inner objects next to them."""
    fields = {name.lower(): value for name, value in document.items()}
    for name in _INNER:
        inner = fields.get(name)
        if isinstance(inner, dict):
            fields |= {key.lower(): value for key, value in inner.items()}
    return fields


def value_of(fields: Any, path: Path) -> Any:
    """Return the value of a field, whether nested or written with dots; None if there is none."""
    if not isinstance(fields, dict):
        return None
    value = fields.get(".".join(path))
    if value is not None or len(path) == 1:
        return value
    return value_of(fields.get(path[0]), path[1:])


def _host(fields: Mapping[str, Any]) -> str | None:
    agents = [value_of(fields, each) for each in _AGENTS]
    for each in _HOSTS:
        host = value_of(fields, each)
        if isinstance(host, str) and _HOST.fullmatch(host) and host not in agents:
            return host
    return None


def _program(fields: Mapping[str, Any]) -> str:
    for each in _PROGRAMS:
        value = value_of(fields, each)
        match = _PROGRAM.fullmatch(value) if isinstance(value, str) else None
        if match is not None:
            return match[1]
    return ""


def _bodies(message: str, host: str, program: str) -> Iterator[str]:
    """Yield the text after the host: program and message, if the message does not contain both."""
    if program:
        begins = message.lower().startswith(program.lower())
        rest = message[len(program) :] if begins else ""
        yield message if rest.startswith((":", "[")) else f"{program}: {message}"
        return
    for begin, name in _TELLING:
        if match := begin.match(message):
            yield f"{name or match[1]}: {message}"
            return
    short = host.partition(".")[0]
    for name in (host, short):
        if message.startswith(f"{name} "):
            yield message[len(name) + 1 :].lstrip(" ")
    yield message


def _of_epoch(number: str) -> str | None:
    """Convert seconds, or as many digits of milli-, micro- or nanoseconds, since 1970."""
    whole, _, fraction = number.partition(".")
    digits = max(0, len(whole) - 10) // 3 * 3
    seconds, rest = (whole[:-digits], whole[-digits:]) if digits else (whole, fraction)
    try:
        text = utc_text(_EPOCH + timedelta(seconds=int(seconds)))
    except OverflowError:
        return None
    rest = rest.rstrip("0")
    return f"{text[:-1]}.{rest}Z" if rest else text
