"""The default range and grain of a dashboard."""

from __future__ import annotations

import runpy
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from stunwatch.dashboards import ranges
from stunwatch.dashboards.assets import of_kind
from stunwatch.dashboards.pulling import normalised
from stunwatch.settings import ROOT
from tests.clickhouse_server import Server
from tests.dashboards.files import FILES

GRAINS: dict[str, Any] = runpy.run_path(str(ROOT / "infra" / "superset" / "grains.py"))
STUN = (
    "INSERT INTO stuns_stored (event_id, revision, is_deleted, detected_at, run_id, host, vm,"
    " datastore, started_at, ended_at, duration_us, cause, severity) VALUES"
    " (generateUUIDv4(), 1, 0, '{0}', 'history', 'esx01', 'vm01', 'ds', '{0}', '{0}', 1, 'unknown',"
    " 'notice')"
)
LIVE_LINE = "INSERT INTO newest_lines_stored VALUES ('syslog', now64(3), now64(6))"
OF_2012 = "2012-03-14 : 2012-05-02"


def test_a_dashboard_shows_all_old_logs_until_live_lines_arrive(server: Server) -> None:
    assert ranges.of_all_data(server.settings) == ""
    for at in ("2012-03-14 02:00:00", "2012-05-01 23:59:59"):
        server.admin.command(STUN.format(at))
    assert ranges.of_all_data(server.settings) == OF_2012
    server.admin.command(LIVE_LINE)
    assert ranges.of_all_data(server.settings) == ""


@pytest.mark.parametrize("name", of_kind(FILES, "dashboards"))
def test_a_range_of_all_data_is_not_a_change_to_pull(name: str) -> None:
    known = FILES[name]
    opened = ranges.opened_with(known["metadata"], OF_2012)
    pulled = normalised(name, {**known, "metadata": opened}, {}, known)
    assert pulled == known
    chosen = ranges.opened_with(known["metadata"], "Last week")
    pulled = normalised(name, {**known, "metadata": chosen}, {}, known)
    assert ranges.default_of(pulled["metadata"]) == ranges.default_of(chosen)


@pytest.mark.parametrize(
    ("hours", "grain"),
    [
        (1, "PT1M"),
        (8, "PT10M"),
        (24, "PT1H"),
        (7 * 24, "P1D"),
        (90 * 24, "P1D"),
        (365 * 24, "P1W"),
        (4000 * 24, "P1M"),
    ],
)
def test_the_grain_follows_the_range(hours: int, grain: str) -> None:
    until = datetime(2026, 3, 29, 6, tzinfo=UTC)
    assert GRAINS["grain_of"](until - timedelta(hours=hours), until) == grain
    assert GRAINS["grain_of"](datetime.now(UTC) - timedelta(hours=hours), None) == grain


def test_without_a_range_the_grain_is_a_day() -> None:
    assert GRAINS["grain_of"](None, None) == "P1D"


def test_a_grain_chosen_by_a_user_is_kept() -> None:
    def query(grain: str) -> Any:
        return SimpleNamespace(
            from_dttm=datetime(2026, 3, 28),
            to_dttm=datetime(2026, 3, 29),
            extras={"time_grain_sqla": grain},
            columns=["cause", {"timeGrain": grain}],
        )

    for asked, used in (("auto", "PT1H"), ("P1W", "P1W")):
        asking = query(asked)
        GRAINS["choose"](asking)
        assert asking.extras == {"time_grain_sqla": used}
        assert asking.columns == ["cause", {"timeGrain": used}]
