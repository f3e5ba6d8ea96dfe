"""The page: one HTML file that needs nothing else, no script and no network.

All that comes from logs is data: Jinja2 escapes every value, and control characters become signs.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from stunwatch.printable import printable
from stunwatch.report.contents import MARGIN, Contents
from stunwatch.report.drawing import draw

SHOWN_NAMES = 12


def render(contents: Contents, zone: ZoneInfo) -> str:
    """The page, its times in this zone."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
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
        # Its line ends are ours to keep.
        "sql_lines": lambda sql: Markup(escape(sql)),  # noqa: S704
    }
    return environment.get_template("page.html").render(
        incident=contents.incident,
        contents=contents,
        answers=contents.answers,
        figures=contents.answers["host_figures"].row,
        differences=differences(contents),
        lasted=lasted(contents.ended_at - contents.opened_at),
        margin_minutes=int(MARGIN.total_seconds() // 60),
        zone=zone.key,
        # The drawing escapes its own texts.
        drawing=Markup(draw(contents, zone)),  # noqa: S704
    )


def differences(contents: Contents) -> dict[str, str]:
    """By figure: what the incident was written with, where its events now say something else.

    Events may have come, or been taken back, since it was last written.
    """
    incident, answers = contents.incident, contents.answers
    stuns, conflicts = answers["stun_figures"].row, answers["conflict_figures"].row
    written_ms, peak_ms = incident["peak_davg_ms"], answers["latency_figures"].row["highest_ms"]
    found = {}
    if incident["stun_count"] != stuns["stuns"]:
        found["stuns"] = number(incident["stun_count"])
    if incident["worst_stun_us"] != stuns["worst_us"]:
        found["worst"] = seconds(incident["worst_stun_us"])
    if incident["conflict_count"] != conflicts["conflicts"]:
        found["conflicts"] = number(incident["conflict_count"])
    if written_ms is not None and abs(written_ms - (peak_ms or 0)) > 0.5:
        found["latency"] = f"{number(round(written_ms, 1))} ms"
    return found


def moment(at: datetime | None, zone: ZoneInfo) -> str:
    """A time to the millisecond, with its distance from UTC; "" for none."""
    if at is None:
        return ""
    local = at.astimezone(zone)
    offset = local.strftime("%z")
    place = "UTC" if offset == "+0000" else f"{offset[:3]}:{offset[3:]}"
    return f"{local:%Y-%m-%d %H:%M:%S}.{local.microsecond // 1000:03} {place}"


def lasted(time: timedelta) -> str:
    """A time that a person can grasp: 3 h 05 min, 12 min 07 s, 4.2 s."""
    whole = int(time.total_seconds())
    if whole < 60:
        return f"{time.total_seconds():.3g} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02} min"
    return f"{whole // 86400} d {whole % 86400 // 3600:02} h"


def seconds(duration_us: int | None) -> str:
    """Microseconds as seconds, to the millisecond."""
    return "" if duration_us is None else f"{duration_us / 1e6:,.3f} s"


def number(value: float | None) -> str:
    """A number with its thousands apart; "" for none."""
    return "" if value is None else f"{value:,}"


def names(values: list[Any]) -> str:
    """The first of many names."""
    more = len(values) - SHOWN_NAMES
    return ", ".join(map(str, values[:SHOWN_NAMES])) + (f" and {more:,} more" if more > 0 else "")
