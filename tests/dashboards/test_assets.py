"""Static rules for the files of the dashboards: references exist, and conventions hold."""

from __future__ import annotations

import re
import runpy
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from stunwatch.dashboards import assets, ranges
from stunwatch.dashboards.assets import Content, of_kind
from stunwatch.schema import sql_files
from stunwatch.settings import ROOT
from tests.dashboards.files import FILES
from tests.dashboards.links import INCIDENT, link, text

DATASETS = {each["uuid"]: each for each in of_kind(FILES, "datasets").values()}
CHARTS = {each["uuid"]: each for each in of_kind(FILES, "charts").values()}
DASHBOARDS = of_kind(FILES, "dashboards")
COLOURS: dict[str, Any] = runpy.run_path(str(ROOT / "infra" / "superset" / "colours.py"))

LOOKED_UP = {"entities": "One VM, datastore, LUN or host"}
"""The dashboard that links in tables lead to."""

QUESTIONS = {
    "last_night": "What happened last night?",
    "fleet_now": "Is the fleet healthy now?",
    "stuns": "Who was stunned, for how long, by what?",
    "latency": "Which storage is slow?",
    "conflicts": "Reservation conflicts",
    "changes": "Did the change help?",
    "trends": "Is it getting better or worse?",
}
WALL = {"wall": "Wall"}
"""The dashboard for a screen on a wall. It has no filters or links."""

TO_THE_WALL = "[Wall screen](/superset/dashboard/wall/?standalone=1)"

FILTERS = ["time range", "host", "vm", "device", "datastore"]

by_file = pytest.mark.parametrize("name", FILES)
by_chart = pytest.mark.parametrize("name", of_kind(FILES, "charts"))
by_dataset = pytest.mark.parametrize("name", of_kind(FILES, "datasets"))
by_dashboard = pytest.mark.parametrize("name", DASHBOARDS)
by_linked_chart = pytest.mark.parametrize(
    "name", [name for name in of_kind(FILES, "charts") if name.split("/")[1] not in WALL]
)
by_question = pytest.mark.parametrize(
    "name", [name for name, each in DASHBOARDS.items() if each["slug"] not in WALL]
)


def values(content: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Return every (key, value) in a file, at any depth."""
    yield key, content
    for inner, each in content.items() if isinstance(content, dict) else ():
        yield from values(each, inner)
    for each in content if isinstance(content, list) else ():
        yield from values(each, key)


def columns_of(params: Content) -> set[str]:
    """Return the columns that a chart names, except in SQL."""
    named: set[str] = set(params.get("all_columns", []))
    for group in (params.get("groupby", []), params.get("groupby_b", [])):
        named |= set(group if isinstance(group, list) else [group])
    if "x_axis" in params:
        named.add(params["x_axis"])
    named |= {yaml.safe_load(each)[0] for each in params.get("order_by_cols", [])}
    return named | {each["subject"] for each in filters_of(params) if "subject" in each}


def filters_of(params: Content) -> list[Content]:
    """Return the filters of a chart. A chart with two queries has two lists."""
    return [*params["adhoc_filters"], *params.get("adhoc_filters_b", [])]


def metrics_of(params: Content) -> set[str]:
    named = {*params.get("metrics", []), *params.get("metrics_b", [])}
    one = ("metric", "timeseries_limit_metric", "series_limit_metric")
    return named | {params[key] for key in one if key in params}


def test_every_uuid_is_unique() -> None:
    counted = Counter(each["uuid"] for each in FILES.values())
    assert counted.most_common(1)[0][1] == 1


@by_file
def test_a_file_contains_no_id_no_null_and_no_password(name: str) -> None:
    for key, value in values(FILES[name]):
        assert key not in {"chartId", "datasetId", "slice_id", "datasource", "query_context"}
        assert value is not None, key
        assert "password" not in key.lower()
        if key == "sqlalchemy_uri":
            assert re.fullmatch(r"clickhousedb://reader@stunwatch/stunwatch", value)


@by_file
def test_a_file_omits_default_values(name: str) -> None:
    content = FILES[name]
    for key, default in assets.KINDS[name.split("/", 1)[0]].items():
        assert key not in content or content[key] != default, key


@by_dataset
def test_a_dataset_is_a_view_and_its_time_is_a_calculated_column(name: str) -> None:
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
def test_a_chart_uses_columns_of_its_dataset_and_groups_by_no_physical_time(name: str) -> None:
    chart = FILES[name]
    dataset = DATASETS[chart["dataset_uuid"]]
    columns = {each["column_name"]: each for each in dataset["columns"]}
    params = chart["params"]
    assert columns_of(params) <= set(columns)
    assert metrics_of(params) <= {each["metric_name"] for each in dataset["metrics"]}
    assert chart["viz_type"] == params["viz_type"]
    if "x_axis" in params and columns[params["x_axis"]].get("is_dttm"):
        assert params["x_axis"] == "event_time"
    for each in filters_of(params):
        if each.get("operator") == "TEMPORAL_RANGE":
            assert each["subject"] == "event_time"


@by_chart
def test_annotations_of_a_chart_come_from_a_table_with_their_times(name: str) -> None:
    for layer in FILES[name]["params"].get("annotation_layers", []):
        if layer["annotationType"] == "FORMULA":
            continue
        source = CHARTS[layer["value"]]
        assert source["viz_type"] == "table"
        assert layer["timeColumn"] in source["params"]["all_columns"]


def test_every_chart_is_on_one_dashboard_and_in_its_folder() -> None:
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


def test_every_dataset_is_used_by_a_chart_or_a_filter() -> None:
    drawn = {each["dataset_uuid"] for each in CHARTS.values()}
    offering = {
        target["datasetUuid"]
        for dashboard in DASHBOARDS.values()
        for each in dashboard["metadata"]["native_filter_configuration"]
        for target in each["targets"]
        if "datasetUuid" in target
    }
    assert drawn | offering == set(DATASETS)


def test_the_dashboards_are_the_expected_ones() -> None:
    asked = {each["slug"]: each["dashboard_title"] for each in DASHBOARDS.values()}
    assert asked == QUESTIONS | LOOKED_UP | WALL


@by_question
def test_a_dashboard_has_the_common_filters_and_links_to_the_others(name: str) -> None:
    dashboard = DASHBOARDS[name]
    metadata = dashboard["metadata"]
    filters = metadata["native_filter_configuration"]
    # If no chart counts per day, users can choose the grain too.
    assert [each["name"] for each in filters] in (FILTERS, [*FILTERS, "time grain"])
    for each in filters[1 : len(FILTERS)]:
        assert each["targets"][0]["column"]["name"] == each["name"]
    # The default range. `apply` sets another one if all logs are old.
    assert ranges.default_of(metadata).startswith("Last ")
    assert metadata["cross_filters_enabled"]
    assert dashboard["published"]
    [header] = [
        part["meta"]["code"]
        for part in dashboard["position"].values()
        if isinstance(part, dict) and part["type"] == "MARKDOWN"
    ]
    for slug, title in (QUESTIONS | LOOKED_UP).items():
        here = slug == dashboard["slug"]
        assert (f"**{title}**" if here else f"[{title}](/superset/dashboard/{slug}/)") in header
    assert TO_THE_WALL in header


def test_the_wall_has_nothing_to_click_and_refreshes_itself() -> None:
    [wall] = [each for each in DASHBOARDS.values() if each["slug"] in WALL]
    metadata = wall["metadata"]
    assert metadata["native_filter_configuration"] == []
    assert not metadata["cross_filters_enabled"]
    assert 0 < metadata["refresh_frequency"] <= 60


@by_dashboard
def test_colours_have_the_same_meaning_on_every_dashboard(name: str) -> None:
    metadata = DASHBOARDS[name]["metadata"]
    assert metadata["color_scheme"] == COLOURS["SCHEME"]["id"]
    assert metadata["label_colors"] == COLOURS["MEANINGS"], (
        "Copy label_colors from dashboards/stuns.yaml; infra/superset/colours.py has the colours."
    )


def test_every_row_of_a_dashboard_uses_the_full_width() -> None:
    for name, dashboard in DASHBOARDS.items():
        parts = dashboard["position"]
        for part in parts.values():
            if isinstance(part, dict) and part["type"] == "ROW":
                assert sum(parts[each]["meta"]["width"] for each in part["children"]) == 12, name


NAMES = ("vm", "datastore", "device", "host")
OUR_WORDS = {
    *("cause", "severity", "state", "scope", "confidence", "kind", "dialect", "outcome", "metric"),
    *("origin", "trouble", "device_class", "source", "measure", "what", "now_is"),
}
"""Text columns whose values are words of the project, never text from a log."""


def shown_columns(params: Content) -> set[str]:
    """Return the visible columns of a table."""
    config = params.get("column_config", {})
    named = {*params.get("all_columns", []), *params.get("groupby", [])}
    return {each for each in named if config.get(each, {}).get("visible", True)}


def is_safe(column: Content) -> bool:
    """True if the column contains no text from a log, or only as links.py escapes it."""
    name, expression = column["column_name"], column.get("expression", "")
    if name.endswith("_text"):
        return expression == text(name.removesuffix("_text"))
    if name.endswith("_link"):
        return LINK.fullmatch(expression) is not None
    return "String" not in column["type"] or name in OUR_WORDS


# The parts of a link: literals without names, escaped names, and times.
_PART = (
    r"'[^']*'|encodeURLComponent\(\w+\)|encodeXMLComponent\(\w+\)"
    r"|toString\(toUnixTimestamp\([^']*?\) [+-] \d+\)"
    r"|toString\(incident_id\)|substring\(toString\(incident_id\), 1, 8\)"
)
_ONE = rf"if\([\w()]+ = '', '', concat\((?:{_PART})(?:, (?:{_PART}))*\)\)"
LINK = re.compile(
    rf"{_ONE}|if\(device = 'not in the log', device, {_ONE}\)"
    rf"|multiIf\((?:\w+ != '', {_ONE}, )+'everything'\)"
)


@by_chart
def test_a_table_draws_only_escaped_columns_as_html(name: str) -> None:
    chart = FILES[name]
    if chart["viz_type"] != "table":
        return
    columns = {each["column_name"]: each for each in DATASETS[chart["dataset_uuid"]]["columns"]}
    shown = shown_columns(chart["params"])
    assert chart["params"]["allow_render_html"] is any(each.endswith("_link") for each in shown)
    if chart["params"]["allow_render_html"]:
        assert [each for each in shown if not is_safe(columns[each])] == []


@by_linked_chart
def test_a_name_in_a_table_is_a_link(name: str) -> None:
    chart = FILES[name]
    if chart["viz_type"] == "table":
        assert shown_columns(chart["params"]).isdisjoint(NAMES)


@by_linked_chart
def test_a_table_of_incidents_links_to_their_reports(name: str) -> None:
    chart = FILES[name]
    columns = {each["column_name"] for each in DATASETS[chart["dataset_uuid"]]["columns"]}
    if chart["viz_type"] == "table" and "incident_id" in columns:
        assert "incident_link" in shown_columns(chart["params"])


@by_dataset
def test_a_link_column_has_the_sql_of_links_py(name: str) -> None:
    columns = {each["column_name"]: each for each in FILES[name]["columns"]}
    for kind in NAMES:
        made = columns.get(f"{kind}_link", {}).get("expression", "")
        others = ("datastore",) if kind == "vm" else ()
        if made:
            assert made in (link(kind, *others), f"if({UNKNOWN_DEVICE}, device, {link(kind)})")
    if "incident_link" in columns:
        assert columns["incident_link"]["expression"] == INCIDENT


UNKNOWN_DEVICE = "device = 'not in the log'"
