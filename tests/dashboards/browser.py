"""Open dashboards in a real browser: Debian's chromium, controlled by Playwright."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import Page, Response, TimeoutError, ViewportSize, sync_playwright

from stunwatch.local import superset
from stunwatch.settings import Settings

FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
TALL = ViewportSize(width=1600, height=2600)
"""Tall, because Superset draws a chart below the window only after scrolling."""

SCREEN = ViewportSize(width=1920, height=1080)

IS_DRAWN = """() => {
    const charts = [...document.querySelectorAll('.dashboard-component-chart-holder')]
        .filter(each => each.querySelector('.dashboard-chart, [data-test=chart-grid-component]'))
        .filter(each => each.getBoundingClientRect().top < window.innerHeight);
    const isDone = each => each.querySelector('.slice_container, [role=alert]')
        || each.innerText.includes('No results');
    const isWaiting = each => each.querySelector('[data-test=loading-indicator]');
    return charts.length > 0 && charts.every(isDone) && !charts.some(isWaiting);
}"""
"""True if everything in the window is drawn."""

NUMBER = re.compile(r"-?[\d,]+(\.\d+)?")


@dataclass
class Dashboard:
    """A dashboard that is open in the browser."""

    page: Page
    seconds: float
    failures: list[str] = field(default_factory=list)
    """Failed responses to queries of charts."""
    answers: list[dict[str, Any]] = field(default_factory=list)
    """Successful responses: `colnames`, `rowcount` and more."""

    def titles(self) -> set[str]:
        """Return the titles of all charts."""
        return {each.strip() for each in self.page.locator(".header-title").all_inner_texts()}

    def alerts(self) -> list[str]:
        """Return the error messages that charts show."""
        return self.page.locator("[role=alert]").all_inner_texts()

    def number(self, title: str) -> str:
        """Return the text of the big number with this title."""
        chart = self._chart(title)
        if chart.locator(".header-line").count():
            return chart.locator(".header-line").inner_text().strip()
        # A number that is compared with a week earlier has no CSS class, and an arrow behind it.
        first, *_ = chart.locator(".slice_container").inner_text().strip().splitlines()
        return first.rstrip("↑↓ ")

    def table(self, title: str) -> list[dict[str, str]]:
        """Return the rows of the table with this title: column → value."""
        # A fixed header is a separate table element.
        tables = self._chart(title).locator("table")
        with suppress(TimeoutError):  # a busy browser draws the rows later than the header
            tables.last.locator("tbody tr").first.wait_for(timeout=60_000)
        header = [each.strip() for each in tables.first.locator("thead th").all_inner_texts()]
        found = []
        for row in tables.last.locator("tbody tr").all():
            cells = [each.strip() for each in row.locator("td").all_inner_texts()]
            found.append(dict(zip(header, cells, strict=True)))
        return found

    def _chart(self, title: str):  # type: ignore[no-untyped-def]
        return self.page.locator(".dashboard-component-chart-holder").filter(
            has=self.page.locator(".header-title", has_text=re.compile(f"^{re.escape(title)}$"))
        )


@contextmanager
def looking(
    settings: Settings, user: str, password: str, window: ViewportSize = TALL
) -> Iterator[Page]:
    """Open a browser and log in."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("There is no chromium: `apt-get install chromium` brings it.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        page = browser.new_page(viewport=window)
        # If the form is filled before its scripts run, the text is lost.
        page.goto(f"{superset.address(settings)}/login/", wait_until="networkidle")
        page.fill("#username", user)
        page.fill("#password", password)
        page.keyboard.press("Enter")
        page.wait_for_url(lambda url: "/login" not in url)
        yield page
        browser.close()


def open_dashboard(
    page: Page, settings: Settings, slug: str, query: str = "", tab: str = ""
) -> Dashboard:
    """Open a dashboard; return when everything in the window is drawn."""
    told: list[Response] = []

    def note(response: Response) -> None:
        if "/api/v1/chart/data" in response.url:
            told.append(response)

    page.goto("about:blank")  # cancels requests of the previous page
    page.on("response", note)
    began = time.monotonic()
    page.goto(f"{superset.address(settings)}/superset/dashboard/{slug}/{query}#{tab}")
    # Polling at every frame would make the browser draw more frames.
    page.wait_for_function(IS_DRAWN, polling=50, timeout=60_000)
    seconds = time.monotonic() - began
    page.wait_for_timeout(1_000)  # charts are still being resized
    page.remove_listener("response", note)
    return Dashboard(
        page,
        seconds,
        [f"{each.status} {each.text()[:500]}" for each in told if not each.ok],
        [each.json()["result"][0] for each in told if each.ok],
    )


def value(text: str) -> float:
    """Parse the number of a tile or a cell."""
    found = NUMBER.fullmatch(text)
    assert found is not None, text
    return float(text.replace(",", ""))
