"""With a year of 1,000 VMs and two cores, every dashboard opens within three seconds.

There are two limits: the time until the window is drawn, which depends on other load on the
machine, and the CPU time of the dashboard's queries, which hardly does.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import pytest

from stunwatch import dashboards
from stunwatch.dashboards.assets import of_kind
from stunwatch.settings import Settings
from tests.clickhouse_server import Server, running
from tests.dashboards.browser import SCREEN, looking, open_dashboard
from tests.dashboards.files import FILES, tabs
from tests.dashboards.served import VIEWER, VIEWERS_PASSWORD, add_viewer, serving
from tests.investigations.filling import YEAR, fill, merge_past_months
from tests.investigations.test_a_year import MEASURE, best_of_three

pytestmark = [pytest.mark.release, pytest.mark.timeout(1800)]

FOLDERS = (YEAR, Path(__file__).parent / "year")
SECONDS = 3.0
MEASURES = 6
"""Number of measurements that take three seconds on idle cores: the limit on busy cores."""

MEASURES_OF_A_SECOND = 2
"""Number of measurements that take a second on idle cores."""

CPU_SECONDS = 4.0
"""Limit for the queries of one opening: two thirds of the CPU time of two cores in three seconds.
The rest is for the browser and Superset."""

CPU_USED = "SELECT value / 1e6 FROM system.events WHERE event = 'OSCPUVirtualTimeMicroseconds'"
"""CPU seconds of all queries since the server started."""

TRIES = 5
TABLES = (
    "changes",
    "incidents",
    "inventory",
    "latency_episodes",
    "newest_lines",
    "owners_seen",
    "quality_events",
    "rejected_lines",
    "reservation_conflicts",
    "snapshot_operations",
    "source_activity",
    "unmap_runs",
    "stuns",
    "latency_hours",
)
"""The tables that dashboards read."""

SLUGS = [each["slug"] for each in of_kind(FILES, "dashboards").values()]


def fill_year(server: Server) -> None:
    """Insert the year. Months are merged, as they would be after a year."""
    for name in TABLES:
        path = next(each for folder in FOLDERS if (each := folder / f"{name}_stored.sql").exists())
        fill(server, path, vms=1_000)
    merge_past_months(server)
    server.admin.command("OPTIMIZE TABLE latency_hours_stored FINAL")


@pytest.fixture(scope="module")
def year(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Settings]]:
    with running(tmp_path_factory.mktemp("year")) as server:
        fill_year(server)
        with serving(server) as made:
            dashboards.apply(made)
            add_viewer(made)
            yield server, made


def forget(settings: Settings) -> None:
    """Delete Superset's cache of 30 s, so that ClickHouse is queried again."""
    for each in (settings.home / "superset" / "caches" / "data").iterdir():
        each.unlink()


def measured(server: Server) -> float:
    """Return the seconds that a fixed amount of work takes on both cores."""
    started = time.monotonic()
    for _ in server.reader.stream(MEASURE):
        pass
    return time.monotonic() - started


def cpu_used(server: Server) -> float:
    return float(server.admin.rows(CPU_USED)[0][0])


def test_every_dashboard_of_a_year_opens_in_three_seconds(year: tuple[Server, Settings]) -> None:
    server, settings = year
    slow, hungry = {}, {}
    with looking(settings, VIEWER, VIEWERS_PASSWORD, SCREEN) as page:
        for slug in SLUGS:
            # The first opening fills the browser's cache with the files of the front end.
            open_dashboard(page, settings, slug)
        for slug in SLUGS:
            tries, used = [], []
            for _ in range(TRIES):
                forget(settings)
                before = measured(server)
                used_before = cpu_used(server)
                shown = open_dashboard(page, settings, slug)
                used.append(cpu_used(server) - used_before)
                # The load of the machine changes, so measure before and after each try.
                limit_s = max(SECONDS, MEASURES * max(before, measured(server)))
                assert shown.failures == []
                assert shown.alerts() == []
                tries.append((shown.seconds, limit_s))
                if shown.seconds < limit_s:
                    break
            told = ", ".join(f"{seconds:.2f} of {limit_s:.2f}" for seconds, limit_s in tries)
            print(f"{slug}: {told} s; queries {min(used):.2f} s of the processor", flush=True)
            if min(used) >= CPU_SECONDS:
                hungry[slug] = used
            if tries[-1][0] >= tries[-1][1]:
                slow[slug] = tries
    assert slow == {}
    assert hungry == {}


def is_of_time_grains(answer: dict[str, Any]) -> bool:
    return any("duration" in row and "function" in row for row in answer["data"][:1])


def test_the_queries_of_all_charts_answer_in_a_second(year: tuple[Server, Settings]) -> None:
    """At the 95th percentile, one query at a time. Costs five minutes."""
    server, settings = year
    queries: dict[str, str] = {}
    with looking(settings, VIEWER, VIEWERS_PASSWORD) as page:
        for slug in SLUGS:
            for tab in tabs(slug):
                shown = open_dashboard(page, settings, slug, tab=tab)
                assert shown.failures == []
                # Superset lists time grains without a query.
                asked = [each for each in shown.answers if not is_of_time_grains(each)]
                # A comparison of two weeks is two queries.
                texts = [text.strip() for each in asked for text in each["query"].split(";\n\n")]
                queries |= {text.rstrip(";"): slug for text in texts if text}
    measures = [measured(server)]
    took = sorted(
        (best_of_three(server, query, {}), f"{slug}: {query}") for query, slug in queries.items()
    )
    measures.append(measured(server))
    seconds = [each for each, _ in took]
    p95 = quantiles(seconds, n=20)[-1]
    print(f"{len(took)} queries: median {median(seconds):.3f} s, 95th percentile {p95:.3f} s")
    print(*(f"{each:.3f} s {told}" for each, told in took[-10:]), sep="\n", flush=True)
    assert p95 < max(1.0, MEASURES_OF_A_SECOND * max(measures)), took[-10:]
