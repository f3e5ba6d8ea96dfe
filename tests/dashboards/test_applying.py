"""Files are applied as dashboards, changes are pulled as files, and permissions are enforced."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stunwatch import dashboards
from stunwatch.clickhouse import as_user
from stunwatch.dashboards.api import Superset, administrator
from stunwatch.dashboards.assets import ASSETS, of_kind
from stunwatch.errors import UserError
from stunwatch.local import superset
from stunwatch.settings import Settings
from tests.clickhouse_server import running
from tests.dashboards.browser import looking, open_dashboard
from tests.dashboards.files import FILES
from tests.dashboards.served import VIEWER, VIEWERS_PASSWORD, add_viewer, serving, viewer
from tests.dashboards.test_browser import tab_of

pytestmark = pytest.mark.slow

TITLES = {"dashboard": "dashboard_title", "chart": "slice_name", "dataset": "table_name"}


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    with running(tmp_path_factory.mktemp("served")) as server, serving(server) as made:
        dashboards.apply(made)
        add_viewer(made)
        yield made


@pytest.fixture
def api(settings: Settings) -> Superset:
    return administrator(settings)


def everything(api: Superset) -> list[Any]:
    """Return everything in Superset, with the ids that links in a browser contain."""
    return [
        sorted((row["id"], row["uuid"], row[title]) for row in api.listed(kind, columns))
        for kind, title in TITLES.items()
        for columns in [("id", "uuid", title)]
    ]


LOADED = """
import serve
from sqlglot.dialects.dialect import Dialect
assert "clickhouse" in Dialect._classes
"""


def test_clickhouses_dialect_is_loaded_before_the_first_query(settings: Settings) -> None:
    """Queries of charts failed while sqlglot loaded it: "Error parsing near …"."""
    launch = superset.launch(settings)
    environment = os.environ | settings.environment() | launch.environment
    done = subprocess.run(
        [launch.command[0], "-c", LOADED],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_applying_twice_changes_nothing(settings: Settings, api: Superset) -> None:
    before = everything(api)
    assert [len(each) for each in before] == [
        len(of_kind(FILES, kind)) for kind in ("dashboards", "charts", "datasets")
    ]
    assert dashboards.apply(settings).removed == ()
    assert everything(api) == before


def test_without_a_change_pull_writes_no_file(settings: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "assets"
    shutil.copytree(ASSETS, folder)
    assert dashboards.pull(settings, folder) == []


def test_a_change_in_the_browser_is_a_small_difference_in_its_file(
    settings: Settings, api: Superset, tmp_path: Path
) -> None:
    name = "charts/stuns/stuns_by_cause.yaml"
    [row] = [
        row for row in api.listed("chart", ("id", "uuid")) if row["uuid"] == FILES[name]["uuid"]
    ]
    params = json.loads(api.get(f"chart/{row['id']}")["result"]["params"])
    params["y_axis_title"] = "how many"
    api.put(f"chart/{row['id']}", {"params": json.dumps(params), "slice_name": "Stuns and why"})
    folder = tmp_path / "assets"
    shutil.copytree(ASSETS, folder)
    assert dashboards.pull(settings, folder) == [name]
    before = (ASSETS / name).read_text().splitlines()
    after = (folder / name).read_text().splitlines()
    assert len(before) == len(after)
    changed = [new for old, new in zip(before, after, strict=True) if old != new]
    assert changed == ["slice_name: Stuns and why", "  y_axis_title: how many"]
    dashboards.apply(settings)
    assert dashboards.pull(settings, folder) == [name]
    assert (folder / name).read_text().splitlines() == before


def test_assets_of_deleted_files_are_removed_and_assets_of_users_stay(
    settings: Settings, api: Superset
) -> None:
    own = api.post(
        "chart/",
        {
            "slice_name": "my own",
            "viz_type": "table",
            "datasource_type": "table",
            "datasource_id": next(iter(api.listed("dataset", ("id",))))["id"],
            "params": "{}",
        },
    )["id"]
    fewer = copy.deepcopy(FILES)
    gone = fewer.pop("charts/stuns/stuns_by_cause.yaml")
    dashboard = fewer["dashboards/stuns.yaml"]
    [part] = [
        name
        for name, each in dashboard["position"].items()
        if isinstance(each, dict) and each.get("meta", {}).get("uuid") == gone["uuid"]
    ]
    del dashboard["position"][part]
    for each in dashboard["position"].values():
        if isinstance(each, dict) and part in each.get("children", []):
            each["children"].remove(part)
    assert dashboards.apply(settings, fewer).removed == ("chart Stuns by cause",)
    titles = {row["slice_name"] for row in api.listed("chart", ("slice_name",))}
    assert "Stuns by cause" not in titles
    assert "my own" in titles
    api.delete(f"chart/{own}")
    assert dashboards.apply(settings).removed == ()


def test_the_error_names_an_invalid_file_and_nothing_is_imported(
    settings: Settings, api: Superset
) -> None:
    before = everything(api)
    wrong = copy.deepcopy(FILES)
    wrong["charts/stuns/stuns_by_cause.yaml"]["slice_nam"] = "mistyped"
    wrong["charts/stuns/stuns.yaml"]["slice_name"] = "would be renamed"
    with pytest.raises(UserError, match=r"charts/stuns/stuns_by_cause\.yaml.*slice_nam"):
        dashboards.apply(settings, wrong)
    assert everything(api) == before


def test_annotations_are_drawn_from_the_changes(settings: Settings, api: Superset) -> None:
    wanted = {
        each["uuid"] for each in FILES.values() if each.get("params", {}).get("annotation_layers")
    }
    rows = {row["uuid"]: row["id"] for row in api.listed("chart", ("id", "uuid"))}
    for uuid in wanted:
        params = json.loads(api.get(f"chart/{rows[uuid]}")["result"]["params"])
        layers = params["annotation_layers"]  # limits are formulas
        [layer] = [each for each in layers if each["annotationType"] == "EVENT"]
        source = api.get(f"chart/{layer['value']}")["result"]
        assert source["slice_name"] == "Recorded changes"
        assert json.loads(source["query_context"])["queries"]


def test_a_viewer_sees_dashboards_and_nothing_else(settings: Settings) -> None:
    looks = viewer(settings)
    shown = {row["slug"] for row in looks.listed("dashboard", ("slug",))}
    slugs = {each["slug"] for each in of_kind(FILES, "dashboards").values()}
    assert slugs <= shown
    for refused in ("sqllab/", "database/", "security/users/", "security/roles/", "log/"):
        with pytest.raises(UserError, match=r"40[34]"):
            looks.get(refused)
    with pytest.raises(UserError, match="403"):
        looks.post("sqllab/execute/", {"database_id": 1, "sql": "SELECT 1"})
    chart = next(iter(looks.listed("chart", ("id",))))["id"]
    for change in (
        lambda: looks.put(f"chart/{chart}", {"slice_name": "mine"}),
        lambda: looks.delete(f"chart/{chart}"),
    ):
        with pytest.raises(UserError, match=r"40[34]"):
            change()


@pytest.mark.parametrize("path", ["chart/", "dashboard/", "dataset/", "database/"])
def test_without_a_login_every_page_is_refused(settings: Settings, path: str) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{superset.address(settings)}/api/v1/{path}") as answer:
            assert json.load(answer)["count"] == 0
    except urllib.error.HTTPError as error:
        assert error.code in {401, 403}


def test_telemetry_of_the_login_page_does_not_end_a_login(settings: Settings) -> None:
    """If its response arrived after the login, its cookie would replace that of the login."""
    cookies = urllib.request.HTTPCookieProcessor()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), cookies)
    opener.open(f"{superset.address(settings)}/login/").close()
    assert [each.name for each in cookies.cookiejar] == ["session"]
    told = f"{superset.address(settings)}/superset/log/?explode=events"
    with opener.open(told, data=b"events=[]") as answer:
        assert answer.status == 204
        assert answer.headers.get_all("Set-Cookie") is None


def test_passwords_are_files_that_only_their_owner_can_read(settings: Settings) -> None:
    for name in ("superset_admin", "superset_secret_key"):
        assert (settings.secrets / name).stat().st_mode & 0o777 == 0o600
    assert (settings.home / "superset").stat().st_mode & 0o077 == 0
    metadata = (settings.home / "superset" / "metadata.db").read_bytes()
    assert (settings.secrets / "reader").read_text().strip().encode() not in metadata


def test_superset_may_read_one_database_and_write_none(settings: Settings) -> None:
    api = administrator(settings)
    database = next(iter(api.listed("database", ("id",))))["id"]
    for sql in ("INSERT INTO changes_stored (title) VALUES ('x')", "SELECT * FROM system.users"):
        with pytest.raises(UserError):
            api.post("sqllab/execute/", {"database_id": database, "sql": sql, "runAsync": False})


def test_a_formula_in_an_export_is_text(settings: Settings, api: Superset) -> None:
    as_user(settings, "admin").command(
        "INSERT INTO changes_stored (change_id, changed_at, kind, title)"
        """ VALUES (generateUUIDv4(), now64(3), 'other', '=HYPERLINK("x","y")')"""
    )
    [changes] = [
        row["id"]
        for row in api.listed("dataset", ("id", "table_name"))
        if row["table_name"] == "changes"
    ]
    asked = {
        "datasource": {"id": changes, "type": "table"},
        "queries": [{"columns": ["title"], "metrics": [], "row_limit": 10}],
        "result_format": "csv",
        "result_type": "full",
    }
    _, told = api._ask("POST", "chart/data", asked).decode("utf-8-sig").splitlines()
    # With an apostrophe in front, no spreadsheet calculates the formula.
    assert "'=HYPERLINK" in told


def test_a_name_that_contains_html_is_shown_as_text(settings: Settings) -> None:
    as_user(settings, "admin").command(
        "INSERT INTO stuns_stored (event_id, revision, detected_at, host, vm, datastore,"
        " started_at, ended_at, duration_us, measured_by, cause, severity, evidence)"
        " SELECT generateUUIDv4(), 1, now(), 'esx66', name, name, now() - 900, now(), 900000000,"
        " 'unstun', 'unknown', 'critical', [name]"
        " FROM (SELECT '<img src=x onerror=alert(1)>' AS name)"
    )
    dialogs: list[str] = []
    with looking(settings, VIEWER, VIEWERS_PASSWORD) as page:
        page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
        for title in ("VMs stunned most", "Stuns with evidence"):
            tab = tab_of("stuns", title)
            shown = open_dashboard(page, settings, "stuns", tab=tab).table(title)
            # Superset may truncate the text, but must not interpret it as HTML.
            assert any(row["vm"].startswith("<img") for row in shown), shown
            assert page.locator("img[src='x'], [onerror]").count() == 0
    assert dialogs == []
