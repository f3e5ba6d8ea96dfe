"""One colour scheme for every chart: hues that people with any colour blindness tell apart.

They are those of Okabe and Ito, the yellow darkened for white paper. What a value means decides its
colour on every dashboard: `label_colors` of the dashboards name these, and a test compares.
"""

from __future__ import annotations

from typing import Any

ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILION, PURPLE, GREY, BLACK = (
    *("#E69F00", "#56B4E9", "#009E73", "#D9C400", "#0072B2"),
    *("#D55E00", "#CC79A7", "#8C8C8C", "#3B3B3B"),
)

SCHEME: dict[str, Any] = {
    "id": "stunwatch",
    "description": "Told apart by the colour-blind",
    "label": "stunwatch",
    "isDefault": True,
    "colors": [BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION, YELLOW, GREY, BLACK],
}

MEANINGS: dict[str, str] = {
    # Outcomes and severities: vermilion is what needs somebody.
    "critical": VERMILION,
    "warning": ORANGE,
    "notice": SKY,
    "normal": GREY,
    "failed": VERMILION,
    "recovered": GREEN,
    "ok": GREEN,
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
    "vmotion": GREEN,
    "storage_vmotion": YELLOW,
    "hot_add": ORANGE,
    "suspend_resume": BLACK,
    "unknown": GREY,
    # Figures of one measure.
    "p50": GREEN,
    "p99": BLUE,
    "max": VERMILION,
    # What conflicts are told by.
    "sync_cr": BLUE,
    "device_status": ORANGE,
    "long_reservation": PURPLE,
    # What a LUN is made of.
    "flash": GREEN,
    "disk": BLUE,
    "boot": BLACK,
}
"""Value of a column, or name of a measure → its colour."""
