"""Renders a triage as one self-contained HTML file: no script, no network."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

from markupsafe import Markup

from stunwatch.report.texts import pages
from stunwatch.triage.drawing import draw
from stunwatch.triage.results import EVENTS, Results, at, same_steps
from stunwatch.triage.terminal import headline

MOST_ROWS: Final = 100
"""Rows per kind of event, and incidents. The JSON output has all of them."""
MOST_FILES: Final = 1000

COLUMNS: Final = {
    "snapshot_operations": ("started_at", "vm", "kind", "outcome", "duration_ms", "name"),
    "reservation_conflicts": (
        *("started_at", "host", "device", "path", "datastore", "dialect", "outcome"),
        *("duration_ms", "is_expected"),
    ),
    "latency_episodes": (
        *("started_at", "ended_at", "host", "device", "metric", "kind", "peak_ms", "mean_ms"),
    ),
    "scsi_errors": (
        *("started_at", "host", "device", "opcode", "host_status", "device_status", "sense"),
        *("count", "is_expected"),
    ),
    "path_events": ("started_at", "ended_at", "host", "kind", "path", "device", "datastore"),
    "nfs_servers": (
        *("started_at", "ended_at", "host", "server", "share", "datastore", "duration_ms"),
    ),
    "unmap_runs": ("started_at", "host", "volume", "block_count", "duration_ms", "fell_back"),
}
"""The columns to show, by view."""


def render(results: Results, top: int, zone: ZoneInfo) -> str:
    """Return the page, with times in this zone."""
    environment = pages(zone, Path(__file__).parent)
    return environment.get_template("page.html").render(
        results=results,
        headline=headline(results, zone),
        events=EVENTS,
        columns=COLUMNS,
        top=top,
        most=MOST_ROWS,
        most_files=MOST_FILES,
        more=_more,
        at=at,
        steps_seen=same_steps(results.incidents[:MOST_ROWS]),
        zone=zone.key,
        made_at=datetime.now(UTC),
        # The drawing escapes its own texts.
        drawing=Markup(draw(results, zone)),  # noqa: S704
    )


def _more(rows: Sequence[Any], shown: int = MOST_ROWS) -> Markup:
    left = len(rows) - shown
    if left <= 0:
        return Markup("")
    return Markup('<p class="quiet">and {} more; --format json has all of them</p>').format(
        f"{left:,}"
    )
