"""The timeline: stuns, latency, count-downs and other events on one time axis, as inline SVG.

Colours are CSS variables of the page, so that the drawing follows its light or dark mode. The
palette is safe for colour-blind readers (Okabe and Ito), and symbols repeat what colours show.
"""

from __future__ import annotations

import io
import re
import warnings
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.collections import LineCollection
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from stunwatch.printable import printable
from stunwatch.report.contents import Contents
from stunwatch.report.questions import Row

# Placeholders: in the SVG, each is replaced by the CSS variable of its name.
COLOURS = {
    "ink": "#010203",
    "quiet": "#818283",
    "grid": "#d1d2d3",
    "shade": "#f1e2d3",
    "blue": "#0072b2",
    "sky": "#56b4e9",
    "green": "#009e73",
    "orange": "#e69f00",
    "red": "#d55e00",
    "purple": "#cc79a7",
    "brown": "#7a5c1e",
}

CAUSES = {
    "snapshot_remove": ("red", "v"),
    "snapshot_create": ("blue", "^"),
    "snapshot_create_memory": ("sky", "s"),
    "vmotion": ("green", "o"),
    "storage_vmotion": ("orange", "D"),
    "hot_add": ("purple", "P"),
    "suspend_resume": ("brown", "X"),
    "unknown": ("quiet", "o"),
}
"""Colour and symbol of a stun's cause."""

SEVERITIES_S = ((0.2, "notice"), (1.0, "warning"), (5.0, "critical"))
"""A stun's severity, by its minimum duration in seconds."""

OUTCOMES = {"recovered": ("blue", "o"), "failed": ("red", "X"), "open": ("orange", ">")}

DEVICE_COLOURS = ("blue", "red", "green", "orange", "purple", "sky")
DEVICE_STROKES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
"""Each of the slowest devices has its own line; the others share one line with their maximum."""

DEFAULT_LIMIT_MS = 25.0
"""The DAVG threshold if no episode has one."""

WIDTH_INCHES, LEFT_INCHES, RIGHT_INCHES, GAP_INCHES = 11.6, 1.5, 2.15, 0.16
HEAD_INCHES, FOOT_INCHES, EMPTY_INCHES = 0.3, 0.55, 0.4

STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "stunwatch",
    # A VM's name may be $x^2$.
    "text.parse_math": False,
    "font.size": 9.0,
    "legend.fontsize": 8.0,
    "text.color": COLOURS["ink"],
    "axes.labelcolor": COLOURS["ink"],
    "axes.edgecolor": COLOURS["quiet"],
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": COLOURS["quiet"],
    "xtick.labelcolor": COLOURS["ink"],
    "ytick.color": COLOURS["quiet"],
    "ytick.labelcolor": COLOURS["ink"],
    "figure.facecolor": "none",
    "grid.color": COLOURS["grid"],
    "grid.linewidth": 0.6,
}


def draw(contents: Contents, zone: ZoneInfo) -> str:
    """Return the timeline as an `<svg>` element."""
    lanes = sorted({each["what"] for each in contents.rows("timeline_marks")})
    panels = (
        (_stuns, 2.5 if contents.rows("timeline_stuns") else EMPTY_INCHES),
        (_latency, 2.1 if _has_latency(contents) else EMPTY_INCHES),
        (_countdowns, 1.2 if contents.rows("timeline_countdowns") else EMPTY_INCHES),
        (_marks, 0.2 + 0.24 * len(lanes) if lanes else EMPTY_INCHES),
    )
    with mpl.rc_context(STYLE), warnings.catch_warnings():
        # The browser's font draws characters that matplotlib's font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure, places = _layout([height for _, height in panels])
        for (panel, _), place in zip(panels, places, strict=True):
            panel(place, contents)
            _frame(place, contents)
        _time_axis(places[-1], zone)
        _head(places[0], contents)
        return _as_element(figure)


def _layout(heights: Sequence[float]) -> tuple[Figure, list[Axes]]:
    """Return axes of these heights (inches) below each other, with aligned edges."""
    total = HEAD_INCHES + sum(heights) + GAP_INCHES * (len(heights) - 1) + FOOT_INCHES
    figure = Figure(figsize=(WIDTH_INCHES, total))
    FigureCanvasSVG(figure)
    left, width = LEFT_INCHES, WIDTH_INCHES - LEFT_INCHES - RIGHT_INCHES
    places: list[Axes] = []
    top = total - HEAD_INCHES
    for height in heights:
        box = (left / WIDTH_INCHES, (top - height) / total, width / WIDTH_INCHES, height / total)
        places.append(figure.add_axes(box, sharex=places[0] if places else None))
        top -= height + GAP_INCHES
    return figure, places


def _frame(place: Axes, contents: Contents) -> None:
    """Draw what all panels share: time range, incident background, changes, grid."""
    place.set_xlim(_number(contents.from_at), _number(contents.until_at))
    place.axvspan(
        _number(contents.opened_at),
        _number(contents.ended_at if contents.is_over else contents.until_at),
        color=COLOURS["shade"],
        linewidth=0,
        zorder=0,
    )
    for each in contents.rows("changes"):
        if contents.from_at <= each["changed_at"] <= contents.until_at:
            place.axvline(
                _number(each["changed_at"]), color=COLOURS["purple"], linewidth=1.4, linestyle="-."
            )
    place.grid(visible=True, axis="x")
    place.tick_params(labelbottom=False, bottom=False)


def _head(place: Axes, contents: Contents) -> None:
    """Label the first panel: the start of the incident, and the names of changes."""
    above = place.get_xaxis_transform()
    words = "incident" if contents.is_over else "incident, ongoing →"
    place.text(
        _number(contents.opened_at), 1.0, f" {words}", transform=above, va="bottom", fontsize=8,
        color=COLOURS["ink"],
    )  # fmt: skip
    for number, each in enumerate(contents.rows("changes"), 1):
        if contents.from_at <= each["changed_at"] <= contents.until_at:
            place.text(
                _number(each["changed_at"]), 1.0, f"C{number}", transform=above, va="bottom",
                ha="center", fontsize=8, fontweight="bold", color=COLOURS["purple"],
            )  # fmt: skip


def _time_axis(place: Axes, zone: ZoneInfo) -> None:
    locator = AutoDateLocator(minticks=6, maxticks=14, tz=zone)
    place.xaxis.set_major_locator(locator)
    place.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=zone))
    place.tick_params(labelbottom=True, bottom=True)
    place.set_xlabel(f"time, {zone.key}")


def _stuns(place: Axes, contents: Contents) -> None:
    """Draw a bar from a stun's start to its end at the height of its duration, and a symbol."""
    rows = contents.rows("timeline_stuns")
    if not rows:
        _nothing(place, "Stuns", "No stuns in this time range")
        return
    place.set_yscale("log")
    seconds = [_seconds(each) for each in rows]
    place.set_ylim(min(0.1, *seconds) / 1.6, max(10.0, *seconds) * 2)
    for limit_s, word in SEVERITIES_S:
        _limit(place, limit_s, f"{word}: above {_duration(limit_s)}")
    handles = []
    for cause, count in _counts(contents.rows("stun_causes"), "cause", "stuns").items():
        name, sign = CAUSES.get(cause, CAUSES["unknown"])
        colour = COLOURS[name]
        own = [each for each in rows if each["shown_cause"] == cause]
        _spans(place, own, contents.step, colour, _seconds)
        for belongs in (False, True):
            there = [each for each in own if bool(each["belongs"]) is belongs]
            place.plot(
                [_number(each["last_at"]) for each in there],
                [_seconds(each) for each in there],
                linestyle="none", marker=sign, markersize=4.5, color=colour, markeredgewidth=0.9,
                markerfacecolor=colour if belongs else "none", alpha=0.9 if belongs else 0.5,
            )  # fmt: skip
        handles.append(_sign(sign, colour, f"{cause.replace('_', ' ')} ({count:,})"))
    if any(not each["belongs"] for each in rows):
        hollow = _sign("o", COLOURS["quiet"], "hollow: not in the incident")
        hollow.set_markerfacecolor("none")
        handles.append(hollow)
    missing = sum(each["stuns"] for each in contents.rows("stun_causes"))
    missing -= sum(each["stuns"] for each in rows)
    if missing:
        handles.append(_sign("", COLOURS["quiet"], f"{missing:,} shorter stuns not drawn"))
    _legend(place, handles, "Stuns by cause")
    worst = max(rows, key=lambda each: (each["belongs"], each["longest_us"]))
    is_late = worst["last_at"] > contents.from_at + (contents.until_at - contents.from_at) * 0.7
    place.annotate(
        f"{_short(worst['longest_vm'], 24)}, {_duration(_seconds(worst))}",
        (_number(worst["last_at"]), _seconds(worst)),
        xytext=(-7 if is_late else 7, 3),
        textcoords="offset points",
        ha="right" if is_late else "left",
        fontsize=8,
    )
    place.set_ylabel("Stun duration")
    place.yaxis.set_major_locator(LogLocator(numticks=8))
    place.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _duration(value)))
    place.yaxis.set_minor_formatter(NullFormatter())


def _has_latency(contents: Contents) -> bool:
    return bool(contents.rows("timeline_latency") or contents.rows("timeline_episodes"))


def _latency(place: Axes, contents: Contents) -> None:
    """Draw DAVG from esxtop as a line per device, and latency from logs as bars at the peak."""
    if not _has_latency(contents):
        _nothing(place, "DAVG", "No esxtop samples and no latency messages in this time range")
        return
    by_device: dict[str, list[Row]] = defaultdict(list)
    for each in contents.rows("timeline_latency"):
        by_device[each["device"]].append(each)
    told = [each for each in contents.rows("timeline_episodes") if each["origin"] != "esxtop"]
    limits = [
        each["limit_ms"]
        for each in contents.rows("timeline_episodes")
        if each["origin"] == "esxtop" and each["limit_ms"]
    ]
    limit_ms = min(limits, default=DEFAULT_LIMIT_MS)
    measured = [each["davg_ms"] for each in contents.rows("timeline_latency")]
    highest = max([limit_ms, *measured, *(each["highest_ms"] for each in told)])
    place.set_yscale("log")
    place.set_ylim(max(0.1, min([limit_ms, *measured]) / 1.6), highest * 2)
    _limit(place, limit_ms, f"threshold {limit_ms:g} ms")
    peaks = {name: max(each["davg_ms"] for each in own) for name, own in by_device.items()}
    slowest = sorted(peaks, key=lambda device: (-peaks[device], device))
    named, others = slowest[: len(DEVICE_COLOURS)], slowest[len(DEVICE_COLOURS) :]
    handles = []
    if others:
        highest_at: dict[datetime, float] = defaultdict(float)
        for each in (row for device in others for row in by_device[device]):
            highest_at[each["minute_at"]] = max(highest_at[each["minute_at"]], each["davg_ms"])
        points = sorted(highest_at.items())
        label = f"maximum of {len(others):,} others"
        handles += _line(place, points, contents.step, COLOURS["quiet"], "-", label)
    for number, device in reversed([*enumerate(named)]):
        points = [(each["minute_at"], each["davg_ms"]) for each in by_device[device]]
        handles += _line(
            place,
            points,
            contents.step,
            COLOURS[DEVICE_COLOURS[number]],
            DEVICE_STROKES[number],
            _short(device, 22),
        )
    handles.reverse()
    if told:
        _spans(place, told, timedelta(0), COLOURS["brown"], lambda each: each["highest_ms"])
        place.plot(
            [_number(each["first_at"]) for each in told], [each["highest_ms"] for each in told],
            linestyle="none", marker="d", markersize=4, color=COLOURS["brown"],
        )  # fmt: skip
        handles.append(_sign("d", COLOURS["brown"], "peak in log messages"))
    if not by_device:
        place.text(
            0.01, 0.03, "No esxtop samples in this time range", transform=place.transAxes,
            fontsize=8, color=COLOURS["quiet"],
        )  # fmt: skip
    _legend(place, handles, "DAVG, maximum per minute")
    place.set_ylabel("DAVG, ms")
    place.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    place.yaxis.set_minor_formatter(NullFormatter())


def _line(
    place: Axes,
    points: Sequence[tuple[datetime, float]],
    step: timedelta,
    colour: str,
    stroke: Any,
    label: str,
) -> list[Line2D]:
    """Draw a line through these points, interrupted where there are no samples."""
    pause = max(timedelta(minutes=2), step * 2)
    times: list[float] = []
    values: list[float] = []
    for number, (at, value) in enumerate(points):
        if number and at - points[number - 1][0] > pause:
            times.append(_number(at))
            values.append(float("nan"))
        times.append(_number(at))
        values.append(max(value, 0.1))
    is_alone = len(points) == 1
    return place.plot(
        times, values, color=colour, linestyle=stroke, linewidth=1.4, label=label,
        marker="." if is_alone else None,
    )  # fmt: skip


def _countdowns(place: Axes, contents: Contents) -> None:
    """Draw the remaining retries of each count-down, from its first line to its last."""
    rows = contents.rows("timeline_countdowns")
    if not rows:
        _nothing(place, "Sync CR", "No Sync CR count-downs in this time range")
        return
    handles, counts = [], _counts(rows, "outcome", "countdowns")
    for outcome, (name, sign) in OUTCOMES.items():
        own = [each for each in rows if each["outcome"] == outcome]
        if not own:
            continue
        colour = COLOURS[name]
        place.add_collection(
            LineCollection(
                [
                    [
                        (_number(each["first_at"]), each["first_remaining"] or 0),
                        (_number(each["last_at"]), each["last_remaining"]),
                    ]
                    for each in own
                ],
                colors=colour,
                linewidths=1.1,
                alpha=0.8,
            ),
            autolim=False,
        )
        place.plot(
            [_number(each["last_at"]) for each in own], [each["last_remaining"] for each in own],
            linestyle="none", marker=sign, markersize=4.5, color=colour, markeredgewidth=0,
        )  # fmt: skip
        handles.append(_sign(sign, colour, f"{outcome} ({counts[outcome]:,})"))
    most = max(max(each["first_remaining"] or 0, each["last_remaining"]) for each in rows)
    place.set_ylim(-0.08 * most - 1, most * 1.1 + 1)
    place.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    place.set_ylabel("Sync CR\nretries left")
    _legend(place, handles, "Sync CR count-downs")


def _marks(place: Axes, contents: Contents) -> None:
    """Draw a lane per kind of event: a bar for its duration, or a tick if it is short."""
    rows = contents.rows("timeline_marks")
    if not rows:
        _nothing(
            place, "Other events", "No snapshots, lost paths or failed commands in this time range"
        )
        return
    lanes = sorted({each["what"] for each in rows}, reverse=True)
    counts = _counts(rows, "what", "events")
    handles = []
    for is_failure, name, words in ((0, "blue", "normal"), (1, "red", "loss or failure")):
        own = [each for each in rows if bool(each["is_failure"]) is bool(is_failure)]
        if not own:
            continue
        _spans(place, own, contents.step, COLOURS[name], lambda each: lanes.index(each["what"]), 6)
        for belongs in (False, True):
            there = [each for each in own if bool(each["belongs"]) is belongs]
            place.plot(
                [_number(each["first_at"]) for each in there],
                [lanes.index(each["what"]) for each in there],
                linestyle="none", marker="x" if is_failure else "|", markersize=5 + is_failure,
                color=COLOURS[name], alpha=1 if belongs else 0.4,
            )  # fmt: skip
        handles.append(_sign("x" if is_failure else "|", COLOURS[name], words))
    if any(not each["belongs"] for each in rows):
        handles.append(_sign("", COLOURS["quiet"], "pale: not in the incident"))
    place.set_ylim(-0.7, len(lanes) - 0.3)
    place.yaxis.set_major_locator(FixedLocator(range(len(lanes))))
    place.set_yticklabels([f"{each} ({counts[each]:,})" for each in lanes])
    place.tick_params(axis="y", length=0)
    place.grid(visible=True, axis="y")
    _legend(place, handles, "Other events")


def _spans(
    place: Axes,
    rows: Iterable[Row],
    shortest: timedelta,
    colour: str,
    height: Any,
    width_points: float = 2.2,
) -> None:
    """Draw bars from first_at to last_at that are long enough to be visible."""
    for belongs in (False, True):
        bars = [
            [(_number(each["first_at"]), height(each)), (_number(each["last_at"]), height(each))]
            for each in rows
            if bool(each["belongs"]) is belongs and each["last_at"] - each["first_at"] > shortest
        ]
        place.add_collection(
            LineCollection(
                bars, colors=colour, linewidths=width_points, alpha=0.75 if belongs else 0.3
            ),
            autolim=False,
        )


def _limit(place: Axes, value: float, words: str) -> None:
    """Draw a dashed line with a label above its left end."""
    low, high = place.get_ylim()
    if not low < value < high:
        return
    place.axhline(value, color=COLOURS["quiet"], linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    place.annotate(
        words, (0, value), xycoords=("axes fraction", "data"), xytext=(3, 1.5),
        textcoords="offset points", fontsize=7.5, color=COLOURS["quiet"],
    )  # fmt: skip


def _nothing(place: Axes, label: str, words: str) -> None:
    place.set_yticks([])
    place.spines["left"].set_visible(False)
    place.text(-0.01, 0.5, label, transform=place.transAxes, ha="right", va="center")
    place.text(
        0.01, 0.5, words, transform=place.transAxes, va="center", fontsize=8,
        color=COLOURS["quiet"],
    )  # fmt: skip


def _legend(place: Axes, handles: Sequence[Line2D], title: str) -> None:
    """Add a legend to the right of the drawing."""
    place.legend(
        handles, [str(each.get_label()) for each in handles], title=title, frameon=False,
        loc="upper left", bbox_to_anchor=(1.005, 1.04), borderaxespad=0, handlelength=1.8,
        alignment="left", title_fontproperties={"weight": "bold", "size": 8},
    )  # fmt: skip


def _sign(marker: str, colour: str, label: str) -> Line2D:
    return Line2D([], [], linestyle="none", marker=marker, color=colour, markersize=5, label=label)


def _counts(rows: Iterable[Row], by: str, what: str) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for each in rows:
        counts[each[by]] += each[what]
    return counts


def _seconds(spot: Row) -> float:
    """Return the longest stun of a spot; never zero, because the axis is logarithmic."""
    return max(int(spot["longest_us"]), 1) / 1e6


def _duration(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:,.3g} s" if seconds < 1000 else f"{seconds:,.0f} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"


def _short(name: str, most: int) -> str:
    """Shorten a name in its middle, because device names differ at their ends."""
    name = printable(name)
    # matplotlib ignores labels that begin with an underscore.
    name = f"\u200b{name}" if name.startswith("_") else name
    head = most // 3
    return name if len(name) <= most else f"{name[:head]}…{name[-(most - head - 1) :]}"


def _number(at: datetime) -> float:
    """Convert a time to matplotlib's number."""
    return float(date2num(at))


def _as_element(figure: Figure) -> str:
    """Return the figure's `<svg>` element, in the page's colours and with the page's width."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    # The page sets the size and the fonts.
    text = re.sub(r'(<svg [^>]*?)width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg [^>]*?)height="[^"]*"', r"\1", text, count=1)
    variables = {stand_in: f"var(--{name})" for name, stand_in in COLOURS.items()}
    return re.sub("(?<=: )#[0-9a-f]{6}", lambda found: variables.get(found[0], found[0]), text)
