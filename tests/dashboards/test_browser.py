"""A simulated week, replayed and looked at in a real browser, as one who may only look."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from stunwatch.dashboards import assets
from stunwatch.dashboards.assets import of_kind
from tests.dashboards.browser import looking, open_dashboard, value
from tests.dashboards.served import VIEWER, VIEWERS_PASSWORD, add_viewer
from tests.end_to_end.conftest import Pipeline, settings_in

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

FILES = assets.read()
DATASETS = {each["uuid"]: each for each in of_kind(FILES, "datasets").values()}
SLUGS = [each["slug"] for each in of_kind(FILES, "dashboards").values()]
WEEK = ("--hosts", "3", "--vms", "12", "--minutes", "10080", "--seed", "5")


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    folder = tmp_path_factory.mktemp("week")
    made = Pipeline(settings_in(folder / "home", superset=True))
    try:
        made.run("up")
        made.run("simulate", *WEEK, "--out", folder / "logs")
        made.run("replay", folder / "logs")
        at = made.one("SELECT toString(min(ended_at) + INTERVAL 3 DAY) FROM stuns")
        made.run("change", "add", "--kind", "array", "--at", at, "--title", "Firmware 5.2.1")
        add_viewer(made.settings)
        yield made
    finally:
        made.run("down")


@pytest.fixture(scope="module")
def page(week: Pipeline) -> Iterator[Page]:
    with looking(week.settings, VIEWER, VIEWERS_PASSWORD) as opened:
        yield opened


def charts(slug: str, viz_type: str = "") -> list[dict[str, Any]]:
    return [
        each
        for name, each in of_kind(FILES, "charts").items()
        if name.split("/")[1] == slug and viz_type in ("", each["viz_type"])
    ]


def tabs(slug: str) -> list[str]:
    """The ids of a dashboard's tabs; one that is empty where it has none."""
    [dashboard] = [each for each in of_kind(FILES, "dashboards").values() if each["slug"] == slug]
    return dashboard["position"].get("TABS-1", {"children": [""]})["children"]


def tab_of(slug: str, title: str) -> str:
    """The tab on which a chart stands; empty where it stands above them."""
    [dashboard] = [each for each in of_kind(FILES, "dashboards").values() if each["slug"] == slug]
    [parents] = [
        part["parents"]
        for part in dashboard["position"].values()
        if isinstance(part, dict) and part.get("meta", {}).get("sliceName") == title
    ]
    return next((each for each in parents if each.startswith("TAB-")), "")


def expression(chart: dict[str, Any], metric: str) -> tuple[str, str]:
    """A metric's SQL, and the view that it is asked of."""
    dataset = DATASETS[chart["dataset_uuid"]]
    [found] = [each for each in dataset["metrics"] if each["metric_name"] == metric]
    return found["expression"], dataset["table_name"]


def decimals(number: str) -> int:
    return len(number.partition(".")[2])


@pytest.mark.parametrize("slug", SLUGS)
def test_every_chart_draws(
    week: Pipeline, page: Page, slug: str, request: pytest.FixtureRequest
) -> None:
    titles = set()
    for number, tab in enumerate(tabs(slug)):
        page.goto("about:blank")  # another tab of the same address would be no new page
        shown = open_dashboard(page, week.settings, slug, tab=tab)
        assert shown.failures == []
        assert shown.alerts() == []
        titles |= shown.titles()
        if number == 0 and (folder := request.config.getoption("--screenshots")):
            picture(page, Path(folder) / f"dashboard_{slug}.png")
    assert {each["slice_name"] for each in charts(slug)} <= titles


@pytest.mark.parametrize("slug", SLUGS)
def test_the_big_numbers_are_those_of_sql(week: Pipeline, page: Page, slug: str) -> None:
    shown = open_dashboard(page, week.settings, slug)
    for chart in charts(slug, "big_number_total"):
        sql, view = expression(chart, chart["params"]["metric"])
        told = shown.number(chart["slice_name"])
        assert value(told) == round(float(week.one(f"SELECT {sql} FROM {view}")), decimals(told))


@pytest.mark.parametrize(
    ("slug", "title"),
    [
        ("stuns", "VMs stunned most"),
        ("stuns", "Datastores stunned most"),
        ("latency", "Devices, slowest first"),
        ("conflicts", "Candidates for a stuck reservation"),
        ("fleet_now", "Heard of those in inventory"),
    ],
)
def test_the_tables_are_those_of_sql(week: Pipeline, page: Page, slug: str, title: str) -> None:
    [chart] = [each for each in charts(slug, "table") if each["slice_name"] == title]
    keys, metrics = chart["params"]["groupby"], chart["params"]["metrics"]
    sql = [expression(chart, each)[0] for each in metrics]
    conditions = [
        each["sqlExpression"]
        for each in chart["params"]["adhoc_filters"]
        if "sqlExpression" in each
    ]
    _, view = expression(chart, metrics[0])
    asked = week.rows(
        f"SELECT {', '.join(keys + sql)} FROM {view}"
        f" WHERE {' AND '.join(conditions or ['true'])} GROUP BY {', '.join(keys)}"
    )
    wanted = {tuple(row[: len(keys)]): row[len(keys) :] for row in asked}
    assert wanted
    rows = open_dashboard(page, week.settings, slug, tab=tab_of(slug, title)).table(title)
    assert len(rows) == min(len(wanted), chart["params"]["page_length"])
    for row in rows:
        cells = list(row.values())
        for told, number in zip(cells[len(keys) :], wanted[tuple(cells[: len(keys)])], strict=True):
            assert value(told) == pytest.approx(number, abs=0.5 * 10 ** -decimals(told) + 1e-9)


def test_a_filter_changes_the_numbers(week: Pipeline, page: Page) -> None:
    [(vm, stuns)] = week.rows("SELECT vm, count() FROM stuns GROUP BY vm ORDER BY 2 DESC LIMIT 1")
    chosen = (
        f"(NATIVE_FILTER-vm:(id:NATIVE_FILTER-vm,extraFormData:(filters:!((col:vm,op:IN,"
        f"val:!('{vm}')))),filterState:(label:'{vm}',value:!('{vm}'))))"
    )
    tab = tab_of("stuns", "VMs stunned most")
    shown = open_dashboard(page, week.settings, "stuns", f"?native_filters={chosen}", tab)
    assert value(shown.number("Stuns")) == stuns
    assert value(shown.number("VMs stunned")) == 1
    assert {row["vm"] for row in shown.table("VMs stunned most")} == {vm}


def test_days_become_hours(week: Pipeline, page: Page) -> None:
    asked = "SELECT uniqExact({}(hour)) FROM latency_hours"
    days, hours = (week.one(asked.format(each)) for each in ("toDate", "toStartOfHour"))
    chosen = (
        "(NATIVE_FILTER-time_grain:(id:NATIVE_FILTER-time_grain,extraFormData:(time_grain_sqla:PT1H),"
        "filterState:(label:Hour,value:!(PT1H))))"
    )
    for query, moments in (("", days), (f"?native_filters={chosen}", hours)):
        tab = tab_of("latency", "KAVG beside DAVG")
        shown = open_dashboard(page, week.settings, "latency", query, tab)
        drawn = {"event_time", "DAVG", "KAVG"}
        [lines] = [each for each in shown.answers if set(each.get("colnames", ())) == drawn]
        assert lines["rowcount"] == moments


def test_every_dashboard_leads_to_the_others(week: Pipeline, page: Page) -> None:
    open_dashboard(page, week.settings, "fleet_now")
    page.get_by_role("link", name="Which storage is slow?").click()
    page.wait_for_url("**/superset/dashboard/latency/**")


def test_one_who_may_only_look_cannot_open_sql_lab(week: Pipeline, page: Page) -> None:
    open_dashboard(page, week.settings, "fleet_now")
    assert "SQL" not in page.locator("nav, .ant-menu").first.inner_text().split()
    page.goto(f"http://127.0.0.1:{week.settings.superset_port}/sqllab/")
    page.wait_for_timeout(2_000)
    assert page.locator(".ace_editor, .SqlLab").count() == 0
    assert "sqllab" not in page.url or page.locator("text=/denied|forbidden|403/i").count()


def picture(page: Page, path: Path) -> None:
    """A screenshot of what is drawn, in the colours of a drawing so that it is small."""
    from io import BytesIO  # noqa: PLC0415

    from PIL import Image  # noqa: PLC0415 (matplotlib brings it)

    bottom = page.evaluate(
        "() => Math.max(...[...document.querySelectorAll('.dashboard-component-chart-holder')]"
        ".map(each => each.getBoundingClientRect().bottom)) + 16"
    )
    clip = {"x": 0, "y": 0, "width": 1600, "height": bottom}
    drawn = Image.open(BytesIO(page.screenshot(clip=clip)))
    smaller = drawn.convert("RGB").resize((1200, int(bottom * 0.75)), Image.Resampling.LANCZOS)
    path.parent.mkdir(parents=True, exist_ok=True)
    smaller.quantize(256, method=Image.Quantize.MAXCOVERAGE, kmeans=2).save(path, optimize=True)
