"""Replay a simulated week, and open it in a real browser as a read-only user."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from stunwatch.dashboards import ranges
from stunwatch.dashboards.assets import of_kind
from stunwatch.simulation.run import Scale, Simulation, write
from tests.dashboards.browser import SCREEN, TALL, looking, open_dashboard, value
from tests.dashboards.files import FILES, tabs
from tests.dashboards.served import VIEWER, VIEWERS_PASSWORD, add_viewer
from tests.pipeline import Pipeline, settings_in

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

DATASETS = {each["uuid"]: each for each in of_kind(FILES, "datasets").values()}
SLUGS = [each["slug"] for each in of_kind(FILES, "dashboards").values()]
WEEK = Scale(hosts=3, vms=12, minutes=10_080, seed=5)


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    folder = tmp_path_factory.mktemp("week")
    made = Pipeline(settings_in(folder / "home", superset=True))
    try:
        made.run("up")
        # The charts need events; a twentieth of the other lines of a real fleet is enough.
        write(Simulation(WEEK, chatter=0.05), folder / "logs")
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


@dataclass(frozen=True)
class Drawn:
    """What one tab of a dashboard shows."""

    failures: list[str]
    alerts: list[str]
    titles: set[str]
    numbers: dict[str, str]
    """The big numbers, by title."""
    tables: dict[str, list[dict[str, str]]]
    """The rows of the tables in TABLES, by title."""
    answers: list[dict[str, Any]]


Draw = Callable[[str, str], Drawn]


@pytest.fixture(scope="module")
def draw(week: Pipeline, page: Page, pytestconfig: pytest.Config) -> Draw:
    """Open a tab of a dashboard, once for all tests: that takes seconds."""

    @cache
    def opened(slug: str, tab: str) -> Drawn:
        shown = open_dashboard(page, week.settings, slug, tab=tab)
        folder = pytestconfig.getoption("--screenshots")
        if folder and tab == tabs(slug)[0]:
            picture(page, Path(folder) / f"dashboard_{slug}.png")
        titles = shown.titles()
        return Drawn(
            failures=shown.failures,
            alerts=shown.alerts(),
            titles=titles,
            numbers={each: shown.number(each) for each in titles & big_numbers(slug).keys()},
            tables={
                each: shown.table(each) for of, each in TABLES if of == slug and each in titles
            },
            answers=shown.answers,
        )

    return opened


def charts(slug: str, viz_type: str = "") -> list[dict[str, Any]]:
    return [
        each
        for name, each in of_kind(FILES, "charts").items()
        if name.split("/")[1] == slug and viz_type in ("", each["viz_type"])
    ]


def tab_of(slug: str, title: str) -> str:
    """Return the tab that contains a chart; empty if it is above the tabs."""
    [dashboard] = [each for each in of_kind(FILES, "dashboards").values() if each["slug"] == slug]
    [parents] = [
        part["parents"]
        for part in dashboard["position"].values()
        if isinstance(part, dict) and part.get("meta", {}).get("sliceName") == title
    ]
    return next((each for each in parents if each.startswith("TAB-")), "")


def expression(chart: dict[str, Any], metric: str) -> tuple[str, str]:
    """Return the SQL of a metric, and its view."""
    dataset = DATASETS[chart["dataset_uuid"]]
    [found] = [each for each in dataset["metrics"] if each["metric_name"] == metric]
    return found["expression"], dataset["table_name"]


TABLES = (
    ("stuns", "VMs stunned most"),
    ("stuns", "Datastores stunned most"),
    ("latency", "Slowest devices"),
    ("conflicts", "Candidates for stuck reservations"),
    ("fleet_now", "Inventory sending logs"),
)
"""The tables whose rows are compared with a query: dashboard and title."""


def decimals(number: str) -> int:
    return len(number.partition(".")[2])


def big_numbers(slug: str) -> dict[str, dict[str, Any]]:
    """Return the charts that show one number, by title."""
    found = (*charts(slug, "big_number_total"), *charts(slug, "pop_kpi"))
    return {each["slice_name"]: each for each in found}


@pytest.mark.parametrize("slug", SLUGS)
def test_every_chart_draws(draw: Draw, slug: str) -> None:
    titles = set()
    for tab in tabs(slug):
        shown = draw(slug, tab)
        assert shown.failures == []
        assert shown.alerts == []
        titles |= shown.titles
    assert {each["slice_name"] for each in charts(slug)} <= titles


@pytest.mark.parametrize("slug", SLUGS)
def test_the_big_numbers_equal_a_query_of_their_view(week: Pipeline, draw: Draw, slug: str) -> None:
    for title, chart in big_numbers(slug).items():
        sql, view = expression(chart, chart["params"]["metric"])
        # This view also contains the rows of one week earlier.
        only = "WHERE span = 'last hour'" if view == "stuns_now" else ""
        wanted = week.one(f"SELECT {sql} FROM {view} {only}")
        told = draw(slug, tab_of(slug, title) or tabs(slug)[0]).numbers[title]
        if wanted is None:
            assert told == "No data" or value(told) == 0
        else:
            assert value(told) == round(float(wanted), decimals(told))


@pytest.mark.parametrize(("slug", "title"), TABLES)
def test_the_tables_equal_a_query_of_their_view(
    week: Pipeline, draw: Draw, slug: str, title: str
) -> None:
    [chart] = [each for each in charts(slug, "table") if each["slice_name"] == title]
    # The text of a link is the name in its column.
    keys = [each.removesuffix("_link") for each in chart["params"]["groupby"]]
    metrics = chart["params"]["metrics"]
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
    rows = draw(slug, tab_of(slug, title) or tabs(slug)[0]).tables[title]
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


def test_a_shorter_range_shows_hours_instead_of_days(week: Pipeline, page: Page) -> None:
    # Every day and hour of the range is drawn, also an empty one.
    since, until = map(date.fromisoformat, ranges.of_all_data(week.settings).split(" : "))
    days = (until - since).days
    chosen = (
        "(NATIVE_FILTER-time_grain:(id:NATIVE_FILTER-time_grain,extraFormData:(time_grain_sqla:PT1H),"
        "filterState:(label:Hour,value:!(PT1H))))"
    )
    for query, moments in (("", days), (f"?native_filters={chosen}", 24 * days)):
        tab = tab_of("latency", "KAVG and DAVG")
        shown = open_dashboard(page, week.settings, "latency", query, tab)
        drawn = {"event_time", "DAVG", "KAVG"}
        [lines] = [each for each in shown.answers if set(each.get("colnames", ())) == drawn]
        assert lines["rowcount"] == moments


def test_every_dashboard_links_to_the_others(week: Pipeline, page: Page) -> None:
    open_dashboard(page, week.settings, "fleet_now")
    page.get_by_role("link", name="Which storage is slow?").click()
    page.wait_for_url("**/superset/dashboard/latency/**")


CONTROLS = "#main-menu, .header-with-actions, .header-controls, [data-test=filter-bar]"


def test_the_wall_fits_the_screen_without_controls_and_refreshes_itself(
    week: Pipeline, page: Page
) -> None:
    page.set_viewport_size(SCREEN)
    try:
        shown = open_dashboard(page, week.settings, "wall", "?standalone=1")
        assert shown.failures == []
        assert shown.alerts() == []
        assert shown.titles() == {each["slice_name"] for each in charts("wall")}
        assert not [each for each in page.locator(CONTROLS).all() if each.is_visible()]
        assert page.evaluate(
            "() => [...document.querySelectorAll('.dashboard-component-chart-holder')]"
            ".every(each => each.getBoundingClientRect().bottom <= innerHeight)"
        )
        # 25 mm are readable from 5 m. A pixel of a 55 inch screen has 0.63 mm.
        sizes = page.locator(".header-line").evaluate_all(
            "lines => lines.map(each => parseFloat(getComputedStyle(each).fontSize))"
        )
        assert min(sizes) >= 40
        with page.expect_response("**/api/v1/chart/data**", timeout=60_000) as again:
            pass  # without a click
        assert again.value.ok
    finally:
        page.set_viewport_size(TALL)  # the page is shared


def test_a_read_only_user_cannot_open_sql_lab(week: Pipeline, page: Page) -> None:
    open_dashboard(page, week.settings, "fleet_now")
    assert "SQL" not in page.locator("nav, .ant-menu").first.inner_text().split()
    page.goto(f"http://127.0.0.1:{week.settings.superset_port}/sqllab/")
    page.wait_for_timeout(2_000)
    assert page.locator(".ace_editor, .SqlLab").count() == 0
    assert "sqllab" not in page.url or page.locator("text=/denied|forbidden|403/i").count()


TALLEST_PICTURE = 1600
"""Pixels: a page with a taller picture is hard to read."""


def picture(page: Page, path: Path) -> None:
    """Save a screenshot with few colours, so that the file is small."""
    from io import BytesIO  # noqa: PLC0415

    from PIL import Image  # noqa: PLC0415 (matplotlib brings it)

    bottom = page.evaluate(
        "most => Math.max(...[...document.querySelectorAll('.dashboard-component-chart-holder')]"
        ".map(each => each.getBoundingClientRect().bottom).filter(each => each < most)) + 16",
        TALLEST_PICTURE,
    )
    clip = {"x": 0, "y": 0, "width": 1600, "height": bottom}
    drawn = Image.open(BytesIO(page.screenshot(clip=clip)))
    smaller = drawn.convert("RGB").resize((1200, int(bottom * 0.75)), Image.Resampling.LANCZOS)
    path.parent.mkdir(parents=True, exist_ok=True)
    smaller.quantize(256, method=Image.Quantize.MAXCOVERAGE, kmeans=2).save(path, optimize=True)
