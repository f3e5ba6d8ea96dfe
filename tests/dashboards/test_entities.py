"""Click from the dashboard `last_night` to the lines of a stun and the report of its incident."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, ViewportSize, expect

from stunwatch import dashboards
from stunwatch.dashboards.api import administrator
from stunwatch.local import superset
from stunwatch.settings import Settings
from tests.clickhouse_server import running
from tests.dashboards import night
from tests.dashboards.browser import IS_DRAWN, looking, open_dashboard
from tests.dashboards.served import VIEWER, VIEWERS_PASSWORD, add_viewer, serving

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SCREENS = {
    "laptop": ViewportSize(width=1440, height=900),
    "wall": ViewportSize(width=1920, height=1080),
    "phone": ViewportSize(width=390, height=844),
}
MOST_CLICKS = 5
PATIENCE_MS = 60_000
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    with running(tmp_path_factory.mktemp("entities")) as server, serving(server) as made:
        night.fill(server)
        dashboards.apply(made)
        add_viewer(made)
        yield made


@pytest.fixture(scope="module")
def page(settings: Settings) -> Iterator[Page]:
    with looking(settings, VIEWER, VIEWERS_PASSWORD, SCREENS["laptop"]) as opened:
        opened.set_default_timeout(PATIENCE_MS)
        yield opened


def chart(page: Page, title: str) -> Locator:
    """Scroll to the chart with this title and return it when it is drawn."""
    found = page.locator(".dashboard-component-chart-holder").filter(
        has=page.locator(".header-title", has_text=re.compile(f"^{re.escape(title)}$"))
    )
    found.scroll_into_view_if_needed()
    page.wait_for_function(IS_DRAWN, polling=200, timeout=PATIENCE_MS)
    return found


def link(page: Page, title: str, text: str) -> Locator:
    """Return the first link with this text in a chart."""
    return chart(page, title).get_by_role("link", name=text, exact=True).first


@pytest.mark.parametrize("screen", SCREENS)
def test_from_last_night_to_the_report_of_an_incident(
    settings: Settings, page: Page, screen: str, request: pytest.FixtureRequest
) -> None:
    page.set_viewport_size(SCREENS[screen])
    folder = request.config.getoption("--screenshots")
    clicks = 0

    def click(target: Locator) -> None:
        nonlocal clicks
        clicks += 1
        target.click()

    def picture(name: str) -> None:
        if folder:
            page.screenshot(path=Path(folder) / f"walk_{screen}_{clicks}_{name}.png")

    open_dashboard(page, settings, "last_night")
    newest = chart(page, "Newest live line").locator("tbody td")
    expect(newest).to_have_text("Only replayed logs: no live line was ever received")
    worst_vm = link(page, "VMs by stun time", night.WORST_VM)
    expect(worst_vm).to_be_visible()
    picture("last_night")
    click(worst_vm)
    page.wait_for_url("**/dashboard/entities/**")

    stuns = chart(page, "Stuns of the VM")
    expect(stuns.get_by_role("link", name="lines", exact=True)).to_have_count(3)
    picture("vm")
    worst = stuns.locator("tbody tr").filter(has_text=f"{night.WORST_AT:%Y-%m-%d %H:%M:%S}")
    click(worst.get_by_role("link", name="lines", exact=True))

    lines = chart(page, "Lines of the VM")
    expect(lines.locator("tbody tr")).to_have_count(1)
    expect(lines).to_contain_text(f"vm stopped for {night.WORST_S}000000 us")
    picture("lines")
    lines_of_host = chart(page, "Lines of its host")
    expect(lines_of_host).to_contain_text("<b>H:0x0</b>")
    picture("lines_of_its_host")

    click(link(page, "Stuns of the VM", str(night.incident_id())[:8]))
    page.wait_for_url(f"**/incident/{night.incident_id()}")
    expect(page.locator("h1")).to_contain_text("DAVG up to 44 ms")
    picture("report")
    assert clicks <= MOST_CLICKS


@pytest.mark.parametrize(
    ("kind", "name", "titles"),
    [
        ("datastore", night.DATASTORE, ("VMs stunned on the datastore", "LUNs of the datastore")),
        ("device", night.DEVICE, ("Hosts that use the LUN", "VMs on the LUN")),
        ("host", night.HOST, ("Stuns on the host", "Lines of the host")),
    ],
)
def test_a_name_opens_its_tab(
    settings: Settings, page: Page, kind: str, name: str, titles: tuple[str, ...]
) -> None:
    page.set_viewport_size(SCREENS["laptop"])
    page.goto(f"{superset.address(settings)}/entity/{kind}?{kind}={name}")
    for title in titles:
        expect(chart(page, title).locator("tbody tr").first).to_be_visible()
    expect(page.locator(".ant-tabs-tab-active")).to_have_text(
        {"datastore": "Datastore", "device": "LUN", "host": "Host"}[kind]
    )


def test_a_hostile_name_is_shown_as_text_and_links_to_its_vm(
    settings: Settings, page: Page
) -> None:
    said: list[str] = []
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    page.set_viewport_size(SCREENS["wall"])
    open_dashboard(page, settings, "stuns", tab="TAB-4")
    shown = chart(page, "Stuns with evidence")
    links = {}
    for name in night.HOSTILE:
        found = shown.get_by_role("link", name=name, exact=True)
        expect(found).to_have_count(1)
        links[name] = found.get_attribute("href")
    assert shown.locator("td img, td script").count() == 0
    assert all((address or "").startswith("/entity/vm?vm=") for address in links.values())
    # A name with a tag, one with Superset's quotation marks, and the longest one.
    for name in (night.HOSTILE[2], night.HOSTILE[5], night.HOSTILE[-1]):
        page.goto(f"{superset.address(settings)}{links[name]}")
        stuns = chart(page, "Stuns of the VM")
        expect(stuns.get_by_role("link", name=name, exact=True)).to_have_count(1)
        expect(stuns.get_by_role("link", name="lines", exact=True)).to_have_count(1)
    assert said == []


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """Do not follow redirects."""


def asked_by_a_stranger(settings: Settings, path: str) -> urllib.error.HTTPError:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Stay)
    with pytest.raises(urllib.error.HTTPError) as refused:
        opener.open(superset.address(settings) + path, timeout=60)
    return refused.value


@pytest.mark.parametrize("path", [f"/incident/{night.incident_id()}", "/entity/vm?vm=sql01"])
def test_without_a_login_every_page_redirects_to_the_login(settings: Settings, path: str) -> None:
    answer = asked_by_a_stranger(settings, path)
    assert answer.code == 302
    assert "/login/" in answer.headers["Location"]


def test_a_report_runs_no_script_loads_nothing_and_cannot_be_framed(
    settings: Settings, page: Page
) -> None:
    answer = page.goto(f"{superset.address(settings)}/incident/{night.incident_id()}")
    assert answer is not None
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'")
    assert "frame-ancestors 'none'" in policy
    assert "script-src" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "no-store" in answer.headers["cache-control"]
    for name in night.HOSTILE:
        if "<" in name:
            assert name in page.locator("body").inner_text()
    assert page.locator("img, script, a[href^=http]").count() == 0
    made = page.locator("footer").inner_text()
    page.reload()
    assert page.locator("footer").inner_text() == made, "it was made again at once"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/incident/00000000-0000-4000-8000-000000000000", 404),
        ("/incident/..%2F..%2Fetc%2Fpasswd", 404),
        ("/incident/1 OR 1=1", 404),
        ("/entity/cluster?cluster=a", 404),
        ("/entity/vm", 404),
        ("/entity/vm?vm=a&from=now", 404),
    ],
)
def test_a_wrong_address_is_not_found(
    settings: Settings, page: Page, path: str, status: int
) -> None:
    answer = page.goto(superset.address(settings) + path)
    assert answer is not None
    assert answer.status == status


def test_without_access_to_the_data_a_report_is_refused(settings: Settings, page: Page) -> None:
    api = administrator(settings)
    roles = {row["name"]: row["id"] for row in api.listed("security/roles", ("id", "name"))}
    stranger = {"username": "stranger", "password": "sees nothing", "email": "s@localhost"}
    person = {"first_name": "no", "last_name": "data", "active": True, "roles": [roles["Gamma"]]}
    api.post("security/users/", stranger | person)
    browser = page.context.browser
    assert browser is not None
    other = browser.new_context().new_page()
    other.goto(f"{superset.address(settings)}/login/", wait_until="networkidle")
    other.fill("#username", "stranger")
    other.fill("#password", "sees nothing")
    other.keyboard.press("Enter")
    other.wait_for_url(lambda url: "/login" not in url, timeout=PATIENCE_MS)
    answer = other.goto(f"{superset.address(settings)}/incident/{night.incident_id()}")
    assert answer is not None
    assert answer.status == 403
