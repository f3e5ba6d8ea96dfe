"""One colour scheme for all charts, safe for all kinds of colour blindness.

The hues are those of Okabe and Ito, with a darker yellow for white backgrounds. A value has the
same colour on every dashboard: `label_colors` of the dashboards list these colours, and a test
compares.
"""

from __future__ import annotations

from typing import Any

ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILION, PURPLE, GREY, BLACK = (
    *("#E69F00", "#56B4E9", "#009E73", "#D9C400", "#0072B2"),
    *("#D55E00", "#CC79A7", "#8C8C8C", "#3B3B3B"),
)
WINE = "#882255"
"""From Paul Tol's muted scheme."""

GOOD = GREEN
"""Green is only for good values. It is in no scheme, so no series gets it by chance."""

SCHEME: dict[str, Any] = {
    "id": "stunwatch",
    "description": "Safe for colour-blind readers",
    "label": "stunwatch",
    "isDefault": True,
    "colors": [BLUE, ORANGE, PURPLE, SKY, YELLOW, WINE, GREY, BLACK, VERMILION],
}

MEANINGS: dict[str, str] = {
    # Outcomes and severities. Vermilion: action is needed.
    "critical": VERMILION,
    "warning": ORANGE,
    "notice": SKY,
    "normal": GREY,
    "failed": VERMILION,
    "recovered": GOOD,
    "ok": GOOD,
    "open": ORANGE,
    # Kinds of slowness.
    "sustained": VERMILION,
    "spike": SKY,
    "DAVG": BLUE,
    "KAVG": ORANGE,
    # Causes of stuns.
    "snapshot_create": SKY,
    "snapshot_create_memory": PURPLE,
    "snapshot_remove": BLUE,
    "vmotion": WINE,
    "storage_vmotion": YELLOW,
    "hot_add": ORANGE,
    "suspend_resume": BLACK,
    "unknown": GREY,
    # Statistics of one measure.
    "p50": SKY,
    "p99": BLUE,
    "max": VERMILION,
    # Message types of conflicts.
    "sync_cr": BLUE,
    "device_status": ORANGE,
    "long_reservation": PURPLE,
    # Classes of devices.
    "flash": SKY,
    "disk": BLUE,
    "boot": BLACK,
}
"""Value of a column, or name of a measure → its colour."""

LATENCY_BINS: tuple[tuple[int, str], ...] = (
    (0, "#E3EAF0"),
    (10, "#F7DF9E"),
    (25, ORANGE),
    (100, VERMILION),
    (500, "#6B1F00"),
)
"""Lower limit of a bin in milliseconds → its colour in heat maps. 25 ms is the limit of DAVG. The
bins are fixed, so that a colour means the same on every day."""


def latency_colour(latency_ms: int) -> str:
    """Return the colour of a latency in milliseconds, which is 0 or more."""
    return [colour for lower, colour in LATENCY_BINS if lower <= latency_ms][-1]


LATENCY_SCHEME: dict[str, Any] = {
    "id": "stunwatch_latency",
    "description": "Latency in fixed bins, 0 to 500 ms",
    "label": "stunwatch latency",
    "isDefault": True,
    "isDiverging": False,
    "colors": [latency_colour(each) for each in range(LATENCY_BINS[-1][0] + 1)],
}
"""One colour per millisecond. Superset has no setting for the limits of bins. It divides the range
of values (`value_bounds` of the chart, 0 to 500) evenly by the colours of a scheme."""
