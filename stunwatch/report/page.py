"""Renders an incident as one self-contained HTML file: no script, no network."""

from __future__ import annotations

from pathlib import Path
from zoneinfo import ZoneInfo

from markupsafe import Markup, escape

from stunwatch.report.contents import MARGIN, Contents
from stunwatch.report.drawing import draw
from stunwatch.report.texts import lasted, number, pages, seconds


def render(contents: Contents, zone: ZoneInfo) -> str:
    """Return the page, with times in this zone."""
    environment = pages(zone, Path(__file__).parent)
    # Keep the line breaks of SQL.
    environment.filters["sql_lines"] = lambda sql: Markup(escape(sql))  # noqa: S704
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
    """Return figures in which the incident's row differs from its events: figure → stored value.

    Events may have been added or retracted since the incident was last written.
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
