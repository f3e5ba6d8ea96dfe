"""Time axes are labelled UTC. Charts by hour of the day name the site's time zone."""

from __future__ import annotations

from typing import Any

import pytest

from stunwatch.dashboards.assets import of_kind
from tests.dashboards.files import FILES

CHARTS = of_kind(FILES, "charts")
DATASETS = {each["uuid"]: each for each in of_kind(FILES, "datasets").values()}


def times(chart: dict[str, Any]) -> set[str]:
    columns = DATASETS[chart["dataset_uuid"]]["columns"]
    return {each["column_name"] for each in columns if each.get("is_dttm")}


def drawn_over_time() -> list[str]:
    return [name for name, chart in CHARTS.items() if chart["params"].get("x_axis") in times(chart)]


@pytest.mark.parametrize("name", drawn_over_time())
def test_a_time_axis_shows_that_it_is_utc(name: str) -> None:
    params = CHARTS[name]["params"]
    assert "UTC" in params["x_axis_title"]
    # Without a margin the title overlaps the labels.
    assert params["x_axis_title_margin"] >= 15


def test_a_chart_by_hour_of_the_day_names_the_sites_time_zone() -> None:
    titles = [
        each["slice_name"]
        for each in CHARTS.values()
        if "hour_of_day" in each["params"].get("groupbyColumns", ())
    ]
    assert titles
    assert all("site time zone" in each for each in titles)
