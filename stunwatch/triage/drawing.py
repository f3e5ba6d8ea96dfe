"""Draws a timeline of the events as a self-contained SVG: no script, no font, no library.

Logs of one bundle may be years apart, so the time axis is cut where nothing happened for long.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final
from zoneinfo import ZoneInfo

from markupsafe import escape

from stunwatch.printable import printable
from stunwatch.triage.finding import Row
from stunwatch.triage.results import EVENTS, Results, at

WIDTH: Final = 1000
LEFT: Final = 150
STUNS_HEIGHT: Final = 150
LANE_HEIGHT: Final = 20
FOOT: Final = 34
GAP: Final = 26
MOST_PARTS: Final = 6
"""Parts of the axis: it is cut at most five times."""
LARGEST_GAP: Final = 0.15
"""A pause is cut out if it is a larger share of the whole time."""
LEAST_SHARE: Final = 0.1
"""Minimum share of the width for a part, however short it is."""
LEAST_TICK: Final = 110
"""Minimum distance between two labels of the axis, in pixels."""

COLOURS: Final = {
    "critical": "var(--red)",
    "warning": "var(--orange)",
    "notice": "var(--blue)",
    "normal": "var(--green)",
}
_LANES: Final = {
    "incidents": ("Incidents", "var(--red)"),
    **{view: (name, "var(--blue)") for view, name in EVENTS.items() if view != "stuns"},
}
_STEPS: Final = (
    *(1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 86400),
    *(7 * 86400, 30 * 86400, 91 * 86400, 365 * 86400),
)
_DECADES_US: Final = ((1_000, "1 ms"), (100_000, "100 ms"), (10_000_000, "10 s"), (1e9, "1000 s"))


@dataclass(frozen=True)
class Span:
    """Something with a duration."""

    start: datetime
    end: datetime
    title: str
    colour: str


@dataclass(frozen=True)
class Part:
    """A part of the time axis, and its position in pixels."""

    start: datetime
    end: datetime
    left: float
    right: float

    def x(self, moment: datetime) -> float:
        """Return the x position of a time."""
        whole = (self.end - self.start).total_seconds() or 1
        share = (moment - self.start).total_seconds() / whole
        return self.left + min(1.0, max(0.0, share)) * (self.right - self.left)


def draw(results: Results, zone: ZoneInfo) -> str:
    """Return the timeline as an `<svg>` element; empty if nothing happened."""
    lanes = {view: list(_spans(view, results.rows[view])) for view in _LANES}
    lanes = {view: spans for view, spans in lanes.items() if spans}
    stuns = list(_spans("stuns", results.stuns))
    parts = parts_of(
        [(each.start, each.end) for spans in (stuns, *lanes.values()) for each in spans]
    )
    if not parts:
        return ""
    top = STUNS_HEIGHT + 10 if stuns else 0
    bottom = top + LANE_HEIGHT * len(lanes)
    drawn = [
        *(_axes(part, bottom, zone) for part in parts),
        *(_stuns(results.stuns, parts) if stuns else ()),
        *(
            _lane(*_LANES[view], spans, parts, top + LANE_HEIGHT * number)
            for number, (view, spans) in enumerate(lanes.items())
        ),
    ]
    return (
        f'<svg viewBox="0 0 {WIDTH} {bottom + FOOT}" role="img" aria-label="Events over time"'
        f' font-size="12">{"".join(drawn)}</svg>'
    )


def parts_of(times: Iterable[tuple[datetime, datetime]]) -> list[Part]:
    """Return the parts of the axis, cut at pauses that are a large share of the whole time."""
    spans = sorted(times)
    if not spans:
        return []
    merged = [spans[0]]
    for start, end in spans[1:]:
        if start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    gaps = [
        (after[0] - before[1], number) for number, (before, after) in enumerate(pairwise(merged))
    ]
    whole = merged[-1][1] - merged[0][0]
    large = [each for each in gaps if each[0] > max(whole * LARGEST_GAP, timedelta(hours=1))]
    cuts = sorted(number + 1 for _, number in sorted(large, reverse=True)[: MOST_PARTS - 1])
    groups = [merged[a:b] for a, b in zip([0, *cuts], [*cuts, len(merged)], strict=True)]
    bounds = [_padded(group[0][0], group[-1][1]) for group in groups]
    seconds = [(end - start).total_seconds() for start, end in bounds]
    shares = [max(LEAST_SHARE, each / sum(seconds)) for each in seconds]
    room = WIDTH - LEFT - 10 - GAP * (len(bounds) - 1)
    parts, left = [], float(LEFT)
    for (start, end), share in zip(bounds, shares, strict=True):
        right = left + room * share / sum(shares)
        parts.append(Part(start, end, left, right))
        left = right + GAP
    return parts


def _padded(start: datetime, end: datetime) -> tuple[datetime, datetime]:
    margin = max((end - start) * 0.03, timedelta(seconds=30))
    return start - margin, end + margin


def _spans(view: str, rows: list[Row]) -> Iterator[Span]:
    for row in rows:
        is_incident = view == "incidents"
        start = at(row["opened_at" if is_incident else "started_at"])
        ended_at = row["closed_at" if is_incident else "ended_at"]
        title = row["verdict"] if is_incident else _title(view, row)
        colour = COLOURS[row["severity"]] if "severity" in row else _LANES[view][1]
        yield Span(start, max(start, at(ended_at)) if ended_at else start, title, colour)


def _title(view: str, row: Row) -> str:
    named = (row.get(each) for each in ("vm", "host", "device", "datastore", "volume", "path"))
    what = row.get("kind") or row.get("outcome") or row.get("cause") or ""
    return f"{row['started_at'][:19]}Z {EVENTS[view]}: {what} {' '.join(filter(None, named))}"


def _stuns(rows: list[Row], parts: Sequence[Part]) -> Iterator[str]:
    """Draw a point per stun, by duration (logarithmic). One pixel shows only the longest stun."""
    for length_us, name in _DECADES_US:
        y = _height(length_us)
        yield _text(LEFT - 8, y + 4, name, "end")
        yield _line(LEFT, y, WIDTH - 10, y, "var(--grid)")
    yield _text(0, 14, "Stuns", "start", is_quiet=False)
    seen = set()
    drawn = []
    for row in rows:
        moment = at(row["ended_at"])
        x, y = _part_of(parts, moment).x(moment), _height(row["duration_us"])
        if (place := (round(x / 2), round(y / 2))) in seen:
            continue
        seen.add(place)
        who, length_s = row["vm"] or row["host"], row["duration_us"] / 1e6
        title = f"{row['ended_at'][:19]}Z {who}: {length_s:,.3f} s, {row['cause']}"
        drawn.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{COLOURS[row["severity"]]}"'
            f' fill-opacity="0.75">{_tooltip(title)}</circle>'
        )
    # Draw the longest last, so that they are on top.
    yield from reversed(drawn)


def _height(length_us: float) -> float:
    share = math.log10(max(1_000, min(1e9, length_us)) / 1_000) / 6
    return STUNS_HEIGHT - share * (STUNS_HEIGHT - 12)


def _lane(name: str, colour: str, spans: list[Span], parts: Sequence[Part], top: float) -> str:
    drawn = [
        _text(LEFT - 8, top + 14, name, "end"),
        _line(LEFT, top + LANE_HEIGHT, WIDTH - 10, top + LANE_HEIGHT, "var(--grid)"),
    ]
    seen = set()
    for each in spans:
        part = _part_of(parts, each.start)
        left = part.x(each.start)
        width = max(3.0, part.x(each.end) - left)
        if (place := (round(left), round(width))) in seen:
            continue
        seen.add(place)
        drawn.append(
            f'<rect x="{left:.1f}" y="{top + 4}" width="{width:.1f}" height="{LANE_HEIGHT - 8}"'
            f' rx="1.5" fill="{each.colour or colour}" fill-opacity="0.7">'
            f"{_tooltip(each.title)}</rect>"
        )
    return "".join(drawn)


def _part_of(parts: Sequence[Part], moment: datetime) -> Part:
    return next((each for each in parts if moment <= each.end), parts[-1])


def _axes(part: Part, bottom: float, zone: ZoneInfo) -> str:
    """Draw a part's frame and the times below it."""
    drawn = [
        f'<rect x="{part.left:.1f}" y="0" width="{part.right - part.left:.1f}" height="{bottom}"'
        ' fill="none" stroke="var(--line)"/>'
    ]
    seconds = (part.end - part.start).total_seconds()
    most = max(1, int((part.right - part.left) / LEAST_TICK))
    step = next((each for each in _STEPS if seconds / each <= most), _STEPS[-1])
    first = math.ceil(part.start.timestamp() / step) * step
    ticks = [datetime.fromtimestamp(each, zone) for each in
             range(first, int(part.end.timestamp()) + 1, step)]  # fmt: skip
    shown = "%Y-%m-%d" if step >= 86400 else "%H:%M:%S" if step < 60 else "%H:%M"
    for tick in ticks:
        x = part.x(tick)
        drawn.append(_line(x, 0, x, bottom, "var(--grid)"))
        if part.left + 15 < x < part.right - 15:
            drawn.append(_text(x, bottom + 14, f"{tick:{shown}}", "middle"))
    if step < 86400 or not ticks:
        start = part.start.astimezone(zone)
        drawn.append(_text(part.left, bottom + 29, f"{start:%Y-%m-%d}", "start"))
    return "".join(drawn)


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _text(x: float, y: float, text: str, anchor: str, *, is_quiet: bool = True) -> str:
    fill = "var(--quiet)" if is_quiet else "var(--ink)"
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}">'
        f"{escape(printable(text))}</text>"
    )


def _tooltip(text: str) -> str:
    return f"<title>{escape(printable(text))}</title>"
