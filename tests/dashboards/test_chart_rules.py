"""Rules against misleading charts. A failure names what to change in the file."""

from __future__ import annotations

import re
import runpy
from typing import Any
from urllib.parse import unquote

import pytest

from stunwatch.dashboards.assets import Content, common_css, of_kind
from stunwatch.settings import ROOT
from tests.dashboards.files import FILES

COLOURS: dict[str, Any] = runpy.run_path(str(ROOT / "infra" / "superset" / "colours.py"))
CHARTS = of_kind(FILES, "charts")
DASHBOARDS = of_kind(FILES, "dashboards")
EXAMPLE = "charts/changes/davg_slowest_minute.yaml"
EXAMPLE_OF_BARS = "charts/changes/stuns_per_day.yaml"
NEWEST_LINE = FILES["datasets/newest_line.yaml"]["uuid"]
[CHANGES] = [each["uuid"] for each in CHARTS.values() if each["slice_name"] == "Recorded changes"]

NUMBERS = {"big_number_total", "pop_kpi"}
"""Types of charts that show 0 instead of an empty chart."""


LIMITS = {"ms": {"25", "2"}, "seconds": {"1"}}
"""Unit → limits: in milliseconds of DAVG and KAVG, in seconds of a stun."""

WORSE = {COLOURS["VERMILION"], COLOURS["ORANGE"]}
MOST_ROWS = {"table": 200}

by_chart = pytest.mark.parametrize("name", CHARTS)
by_dashboard = pytest.mark.parametrize("name", DASHBOARDS)


def is_over_time(params: Content) -> bool:
    return params.get("x_axis") == "event_time"


def unit(params: Content) -> str:
    """Return the unit of a duration on the y axis; empty if the axis shows none."""
    title = params.get("y_axis_title", "")
    if "ms" in title.replace(",", " ").split():
        return "ms"
    return "seconds" if "second" in title else ""


def layers(params: Content, kind: str) -> set[str]:
    """Return the values of the annotation layers of a kind."""
    found = params.get("annotation_layers", [])
    return {each["value"] for each in found if each["annotationType"] == kind}


def charts_of(dashboard: Content) -> list[Content]:
    shown = {
        part["meta"]["uuid"]
        for part in dashboard["position"].values()
        if isinstance(part, dict) and part["type"] == "CHART"
    }
    return [each for each in CHARTS.values() if each["uuid"] in shown]


@by_chart
def test_a_chart_over_time_shows_changes_as_vertical_lines(name: str) -> None:
    params = CHARTS[name]["params"]
    assert not is_over_time(params) or CHANGES in layers(params, "EVENT"), (
        f"Copy the layer `changes` from the annotation_layers of {EXAMPLE}."
    )


@by_chart
def test_a_duration_over_time_has_a_line_at_its_limit_and_a_logarithmic_axis(name: str) -> None:
    params = CHARTS[name]["params"]
    if not is_over_time(params) or not unit(params):
        return
    limits = LIMITS[unit(params)]
    assert layers(params, "FORMULA") & limits, (
        f"Copy the layer `DAVG limit 25 ms` from {EXAMPLE}. Its value is one of {sorted(limits)}."
    )
    assert params.get("logAxis"), "Set logAxis: true. Durations span decades."
    assert "log scale" in params["y_axis_title"], "Add `log scale` to y_axis_title."


@by_chart
def test_a_heat_map_shows_latency_in_the_fixed_bins(name: str) -> None:
    params = CHARTS[name]["params"]
    if params["viz_type"] == "heatmap_v2":
        assert params["linear_color_scheme"] == COLOURS["LATENCY_SCHEME"]["id"], (
            "The bins of heat maps are milliseconds of latency (infra/superset/colours.py). Set"
            " linear_color_scheme: stunwatch_latency. For counts, use pivot_table_v2 with"
            " conditional_formatting as in charts/stuns/stuns_by_hour_and_weekday.yaml."
        )


@by_chart
def test_worse_values_are_never_green(name: str) -> None:
    params = CHARTS[name]["params"]
    for each in params.get("conditional_formatting", []):
        assert each["colorScheme"] in WORSE, f"Set colorScheme to one of {sorted(WORSE)}."
    if params.get("show_cell_bars"):
        assert params.get("color_pn") is False, (
            "Set color_pn: false. Superset paints the bars of all positive values green."
        )
    assert not params.get("comparison_color_enabled"), (
        "Set comparison_color_enabled: false. Superset paints every increase or every decrease"
        " green, and fewer events may mean fewer log lines."
    )


def test_green_is_only_for_good_values() -> None:
    good = {each for each, colour in COLOURS["MEANINGS"].items() if colour == COLOURS["GREEN"]}
    assert good <= {"ok", "recovered", "better"}
    for scheme in ("SCHEME", "LATENCY_SCHEME"):
        assert COLOURS["GREEN"] not in COLOURS[scheme]["colors"]


@by_chart
def test_a_chart_limits_its_rows(name: str) -> None:
    params = CHARTS[name]["params"]
    if params["viz_type"] not in NUMBERS:
        most = MOST_ROWS.get(params["viz_type"], 10_000)
        assert 0 < params.get("row_limit", 0) <= most, f"Set row_limit to {most} or less."


@by_chart
def test_a_big_number_shows_what_it_is_compared_with(name: str) -> None:
    params = CHARTS[name]["params"]
    if params["viz_type"] == "big_number_total":
        assert any(each in params.get("subtitle", "") for each in ("limit", "normal", "usual")), (
            "Add `limit …` or `normal: …` to the subtitle; or set viz_type: pop_kpi, which shows"
            " the same number of a week earlier, as in charts/stuns/stuns.yaml."
        )
    if params["viz_type"] == "pop_kpi":
        ranges = [each["comparator"] for each in params["adhoc_filters"] if "comparator" in each]
        assert any(" : " in each for each in ranges), (
            "Set the comparator of event_time to '2000-01-01 : DATEADD(DATETIME(\"now\"), 1, day)'."
            " Without both ends of a range, Superset refuses to compare."
        )


@by_dashboard
def test_an_empty_chart_shows_a_text_that_explains_it(name: str) -> None:
    css = DASHBOARDS[name].get("css", "")
    for each in charts_of(DASHBOARDS[name]):
        if each["viz_type"] not in NUMBERS:
            rule = f'[data-test-chart-name="{each["slice_name"]}"] .ant-empty-description::before'
            assert rule in css, f'Add to css: {rule} {{ content: "No … in this time range."; }}'


@by_dashboard
def test_the_css_that_all_dashboards_share_is_in_one_file(name: str) -> None:
    shared = [each for each in common_css().splitlines() if each.endswith("; }")]
    own = DASHBOARDS[name]["css"].removeprefix(common_css())
    assert shared
    assert [each for each in shared if each in own] == [], "common.css has these lines already."


@by_chart
def test_bars_over_time_have_no_label_at_the_end_of_the_axis(name: str) -> None:
    """It would show an odd second, such as `:44s`: the axis ends half a bar after the last time."""
    params = CHARTS[name]["params"]
    is_bar = params["viz_type"] == "echarts_timeseries_bar" or params.get("seriesType") == "bar"
    if is_bar and is_over_time(params):
        assert params.get("echart_options") == "{xAxis: {axisLabel: {showMaxLabel: false}}}", (
            f"Copy echart_options from {EXAMPLE_OF_BARS}."
        )


@by_chart
def test_missing_live_lines_are_never_grey(name: str) -> None:
    params = CHARTS[name]["params"]
    if CHARTS[name]["dataset_uuid"] == NEWEST_LINE:
        colours = {
            each["targetValue"]: each["colorScheme"] for each in params["conditional_formatting"]
        }
        assert colours == {
            "silent": COLOURS["VERMILION"],
            "never": COLOURS["VERMILION"],
            "few_hosts": COLOURS["ORANGE"],
            "replayed_only": COLOURS["ORANGE"],
        }


def test_the_legend_of_the_heat_map_shows_the_bins() -> None:
    """The legend is a picture in the CSS, because Superset has none for bins of unequal width."""
    bins = COLOURS["LATENCY_BINS"]
    assert [lower for lower, _ in bins] == [0, 10, 25, 100, 500]
    scheme = COLOURS["LATENCY_SCHEME"]["colors"]
    assert [scheme[lower] for lower, _ in bins] == [colour for _, colour in bins]
    [latency] = [each for each in DASHBOARDS.values() if each["slug"] == "latency"]
    [legend] = re.findall(r'svg[+]xml;charset=utf-8,([^"]+)', latency["css"])
    shown = re.findall(r'fill="(.+?)"/><text .*?>(\d+)', unquote(legend))
    assert shown == [(colour, str(lower)) for lower, colour in bins]
    for chart in CHARTS.values():
        if chart["viz_type"] == "heatmap_v2":
            assert chart["params"]["value_bounds"] == [0, len(scheme) - 1]
            assert not chart["params"]["show_legend"]
