"""Shared by all pages: the environment of their templates, and the formats of values.

Texts from logs are not trusted: Jinja2 escapes every value, and control characters are replaced by
visible signs.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from stunwatch.printable import printable
from stunwatch.times import in_zone

SHOWN_NAMES = 12
STYLES = Path(__file__).parent
"""The folder of page.css."""


def pages(zone: ZoneInfo, folder: Path) -> Environment:
    """Return the templates of a folder with the style of all pages; times are in this zone."""
    environment = Environment(
        loader=FileSystemLoader([folder, STYLES]),
        autoescape=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "moment": lambda at: moment(at, zone),
        "seconds": seconds,
        "number": number,
        "names": names,
        "words": lambda name: str(name).replace("_", " "),
    }
    return environment


def moment(at: datetime | None, zone: ZoneInfo) -> str:
    """Format a time to the millisecond, with its offset from UTC; "" for None."""
    return "" if at is None else in_zone(at, zone, "milliseconds")


def lasted(time: timedelta) -> str:
    """Format a duration for people: 3 h 05 min, 12 min 07 s, 4.2 s."""
    whole = int(time.total_seconds())
    if whole < 60:
        return f"{time.total_seconds():.3g} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02} min"
    return f"{whole // 86400} d {whole % 86400 // 3600:02} h"


def seconds(duration_us: int | None) -> str:
    """Format microseconds as seconds, to the millisecond."""
    return "" if duration_us is None else f"{duration_us / 1e6:,.3f} s"


def number(value: float | None) -> str:
    """Format a number with thousands separators; "" for None."""
    return "" if value is None else f"{value:,}"


def names(values: list[Any]) -> str:
    """Join the first names, with the number of those left out."""
    more = len(values) - SHOWN_NAMES
    return ", ".join(map(str, values[:SHOWN_NAMES])) + (f" and {more:,} more" if more > 0 else "")
