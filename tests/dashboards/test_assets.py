"""The dashboards' files, read alone: what they refer to exists, and the rules hold."""

from __future__ import annotations

import re
import runpy
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from stunwatch.dashboards import assets
from stunwatch.dashboards.assets import Content, of_kind
from stunwatch.schema import sql_files
from stunwatch.settings import ROOT

FILES = assets.read()
DATASETS = {each["uuid"]: each for each in of_kind(FILES, "datasets").values()}
CHARTS = {each["uuid"]: each for each in of_kind(FILES, "charts").values()}
DASHBOARDS = of_kind(FILES, "dashboards")
COLOURS: dict[str, Any] = runpy.run_path(str(ROOT / "infra" / "superset" / "colours.py"))

QUESTIONS = {
    "fleet_now": "Is the fleet healthy now?",
    "stuns": "Who was stunned, for how long, by what?",
    "latency": "Which storage is slow?",
    "conflicts": "Reservation conflicts",
    "changes": "Did the change help?",
}
FILTERS = ["host", "vm", "device", "datastore", "time range"]

by_file = pytest.mark.parametrize("name", FILES)
by_chart = pytest.mark.parametrize("name", of_kind(FILES, "charts"))
by_dataset = pytest.mark.parametrize("name", of_kind(FILES, "datasets"))
by_dashboard = pytest.mark.parametrize("name", DASHBOARDS)


def values(content: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Every (key, value) in a file, however deep."""
    yield key, content
    for inner, each in content.items() if isinstance(content, dict) else ():
        yield from values(each, inner)
    for each in content if isinstance(content, list) else ():
        yield from values(each, key)


def columns_of(params: Content) -> set[str]:
    """The columns that a chart names, but those inside SQL."""
    named: set[str] = set(params.get("all_columns", []))
    group = params.get("groupby", [])
    named |= set(group if isinstance(group, list) else [group])
    if "x_axis" in params:
        named.add(params["x_axis"])
    named |= {yaml.safe_load(each)[0] for each in params.get("order_by_cols", [])}
    return named | {each["subject"] for each in params["adhoc_filters"] if "subject" in each}


def metrics_of(params: Content) -> set[str]:
    named = set(params.get("metrics", []))
    one = ("metric", "timeseries_limit_metric", "series_limit_metric")
    return named | {params[key] for key in one if key in params}


def test_every_uuid_stands_for_one_thing() -> None:
    counted = Counter(each["uuid"] for each in FILES.values())
    assert counted.most_common(1)[0][1] == 1


@by_file
def test_a_file_holds_no_id_no_null_and_no_password(name: str) -> None:
    for key, value in values(FILES[name]):
        assert key not in {"chartId", "datasetId", "slice_id", "datasource", "query_context"}
        assert value is not None, key
        assert "password" not in key.lower()
        if key == "sqlalchemy_uri":
            assert re.fullmatch(r"clickhousedb://reader@stunwatch/stunwatch", value)


@by_file
def test_a_file_is_silent_about_what_goes_without_saying(name: str) -> None:
    content = FILES[name]
    for key, default in assets.KINDS[name.split("/", 1)[0]].items():
        assert key not in content or content[key] != default, key


@by_dataset
def test_a_dataset_is_a_view_of_sql_and_its_time_is_calculated(name: str) -> None:
    dataset = FILES[name]
    made = {view for file in sql_files() for view in file.created}
    assert dataset["table_name"] in made
    assert name == f"datasets/{dataset['table_name']}.yaml"
    assert "sql" not in dataset
    columns = {each["column_name"]: each for each in dataset["columns"]}
    # Superset writes toStartOfDay(x) AS x, and ClickHouse then filters by the start of the day.
    assert dataset["main_dttm_col"] == "event_time"
    assert columns["event_time"]["expression"] in columns
    assert columns["event_time"]["is_dttm"]


@by_chart
def test_a_chart_names_what_its_dataset_has_and_groups_by_no_physical_time(name: str) -> None:
    chart = FILES[name]
    dataset = DATASETS[chart["dataset_uuid"]]
    columns = {each["column_name"]: each for each in dataset["columns"]}
    params = chart["params"]
    assert columns_of(params) <= set(columns)
    assert metrics_of(params) <= {each["metric_name"] for each in dataset["metrics"]}
    assert chart["viz_type"] == params["viz_type"]
    if "x_axis" in params and columns[params["x_axis"]].get("is_dttm"):
        assert params["x_axis"] == "event_time"
    for each in params["adhoc_filters"]:
        if each.get("operator") == "TEMPORAL_RANGE":
            assert each["subject"] == "event_time"


@by_chart
def test_a_chart_reads_annotations_of_a_table_of_changes(name: str) -> None:
    for layer in FILES[name]["params"].get("annotation_layers", []):
        source = CHARTS[layer["value"]]
        assert source["viz_type"] == "table"
        assert layer["timeColumn"] in source["params"]["all_columns"]


def test_every_chart_stands_on_one_dashboard_and_in_its_folder() -> None:
    shown = Counter(
        (name.removeprefix("dashboards/").removesuffix(".yaml"), part["meta"]["uuid"])
        for name, dashboard in DASHBOARDS.items()
        for part in dashboard["position"].values()
        if isinstance(part, dict) and part["type"] == "CHART"
    )
    stored = Counter(
        (name.split("/")[1], each["uuid"]) for name, each in of_kind(FILES, "charts").items()
    )
    assert shown == stored


def test_every_dataset_is_drawn_or_offers_names() -> None:
    drawn = {each["dataset_uuid"] for each in CHARTS.values()}
    offering = {
        target["datasetUuid"]
        for dashboard in DASHBOARDS.values()
        for each in dashboard["metadata"]["native_filter_configuration"]
        for target in each["targets"]
        if "datasetUuid" in target
    }
    assert drawn | offering == set(DATASETS)


def test_the_five_questions() -> None:
    asked = {each["slug"]: each["dashboard_title"] for each in DASHBOARDS.values()}
    assert asked == QUESTIONS


@by_dashboard
def test_a_dashboard_has_the_same_filters_and_leads_to_the_others(name: str) -> None:
    dashboard = DASHBOARDS[name]
    metadata = dashboard["metadata"]
    filters = metadata["native_filter_configuration"]
    # Where nothing is counted by the day, the grain can be chosen too.
    assert [each["name"] for each in filters] in (FILTERS, [*FILTERS, "time grain"])
    for each in filters[: FILTERS.index("time range")]:
        assert each["targets"][0]["column"]["name"] == each["name"]
    assert metadata["cross_filters_enabled"]
    assert dashboard["published"]
    [header] = [
        part["meta"]["code"]
        for part in dashboard["position"].values()
        if isinstance(part, dict) and part["type"] == "MARKDOWN"
    ]
    for slug, title in QUESTIONS.items():
        if slug != dashboard["slug"]:
            assert f"[{title}](/superset/dashboard/{slug}/)" in header


@by_dashboard
def test_colours_mean_the_same_everywhere(name: str) -> None:
    metadata = DASHBOARDS[name]["metadata"]
    assert metadata["color_scheme"] == COLOURS["SCHEME"]["id"]
    assert metadata["label_colors"] == COLOURS["MEANINGS"]


def test_the_row_of_a_dashboard_is_full() -> None:
    for name, dashboard in DASHBOARDS.items():
        parts = dashboard["position"]
        for part in parts.values():
            if isinstance(part, dict) and part["type"] == "ROW":
                assert sum(parts[each]["meta"]["width"] for each in part["children"]) == 12, name


@by_chart
def test_a_table_shows_what_logs_say_as_text(name: str) -> None:
    chart = FILES[name]
    if chart["viz_type"] == "table":
        assert chart["params"]["allow_render_html"] is False
