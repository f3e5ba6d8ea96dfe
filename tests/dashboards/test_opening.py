"""Every dashboard over a year of a large fleet, on two cores: it opens within three seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stunwatch import dashboards
from stunwatch.dashboards import assets
from stunwatch.dashboards.assets import of_kind
from stunwatch.settings import Settings
from tests.dashboards.browser import SCREEN, looking, open_dashboard
from tests.dashboards.served import VIEWER, VIEWERS_PASSWORD, add_viewer, serving
from tests.investigations.server import Server, running
from tests.investigations.test_a_year import MEASURE

pytestmark = [pytest.mark.scale, pytest.mark.timeout(1800)]

FOLDERS = (Path(__file__).parents[1] / "investigations" / "year", Path(__file__).parent / "year")
SECONDS = 3.0
MEASURES = 6
"""Three seconds on idle cores; where other work has them, as long as so many measures take."""

TRIES = 5
TABLES = {
    "changes": 0,
    "incidents": 0,
    "inventory": 0,
    "latency_episodes": 0,
    "owners_seen": 0,
    "quality_events": 0,
    "rejected_lines": 0,
    "reservation_conflicts": 0,
    "snapshot_operations": 0,
    "source_activity": 0,
    "unmap_runs": 0,
    "stuns": 15_150_000,
    "latency_hours": 640 * 24 * 365,
}
"""Table → how many rows its file makes, where they are made piece by piece."""

MERGED = (
    "latency_episodes_stored",
    "latency_hours_stored",
    "reservation_conflicts_stored",
    "stuns_by_time_stored",
)
"""What has months that are merged when they are over."""

PIECE = 1_500_000
VMS = 10_000
"""The year of investigations has twice as many."""
SLUGS = [each["slug"] for each in of_kind(assets.read(), "dashboards").values()]


def fill(server: Server) -> None:
    """Insert the year as an ingest over a year would leave it: months merged."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
    for name, rows in TABLES.items():
        path = next(each for folder in FOLDERS if (each := folder / f"{name}_stored.sql").exists())
        sql = path.read_text()
        sql = sql.replace(f"numbers({rows})", "numbers({first:UInt64}, {rows:UInt64})")
        if name in ("stuns", "snapshot_operations"):
            sql = sql.rstrip().removesuffix(";") + f" WHERE v < {VMS}"
        for first in range(0, max(rows, 1), PIECE):
            parameters = {"now": now, "first": first, "rows": min(PIECE, rows - first)}
            for _ in server.admin.stream(sql, parameters, settings={"max_memory_usage": "0"}):
                pass
    for name in MERGED:
        server.admin.command(f"OPTIMIZE TABLE {name} FINAL")


@pytest.fixture(scope="module")
def year(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Settings]]:
    with running(tmp_path_factory.mktemp("year")) as server:
        fill(server)
        with serving(server) as made:
            dashboards.apply(made)
            add_viewer(made)
            yield server, made


def forget(settings: Settings) -> None:
    """Superset keeps an answer for half a minute; without it, ClickHouse is asked again."""
    for each in (settings.home / "superset" / "caches" / "data").iterdir():
        each.unlink()


def measured(server: Server) -> float:
    """The seconds that work of a fixed size takes both cores."""
    started = time.monotonic()
    for _ in server.reader.stream(MEASURE):
        pass
    return time.monotonic() - started


def test_every_dashboard_of_a_year_opens_in_three_seconds(year: tuple[Server, Settings]) -> None:
    server, settings = year
    slow = {}
    with looking(settings, VIEWER, VIEWERS_PASSWORD, SCREEN) as page:
        for slug in SLUGS:
            # What a browser has seen once, it has: the front end's own files.
            open_dashboard(page, settings, slug)
        for slug in SLUGS:
            tries = []
            for _ in range(TRIES):
                forget(settings)
                before = measured(server)
                shown = open_dashboard(page, settings, slug)
                # Other work comes and goes: the cores are measured on both sides of each try.
                limit_s = max(SECONDS, MEASURES * max(before, measured(server)))
                assert shown.failures == []
                assert shown.alerts() == []
                tries.append((shown.seconds, limit_s))
                if shown.seconds < limit_s:
                    break
            told = ", ".join(f"{seconds:.2f} of {limit_s:.2f}" for seconds, limit_s in tries)
            print(f"{slug}: {told} s", flush=True)
            if tries[-1][0] >= tries[-1][1]:
                slow[slug] = tries
    assert slow == {}
