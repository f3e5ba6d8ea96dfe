"""The demo's incident on the first dashboard, at the address that the demo prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from stunwatch.commands.demo import WORST_VM
from stunwatch.runtime import superset
from tests.dashboards.browser import looking, open_dashboard
from tests.dashboards.served import VIEWER, VIEWERS_PASSWORD, add_viewer
from tests.end_to_end.conftest import Pipeline, settings_in

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_the_demos_incident_is_shown_without_a_click(tmp_path: Path) -> None:
    made = Pipeline(settings_in(tmp_path / "home", superset=True))
    try:
        said = made.run("demo").stdout
        assert "/superset/dashboard/fleet_now/" in said
        assert str(superset.password_file(made.settings)) in said
        add_viewer(made.settings)
        verdict = made.one(
            f"SELECT verdict FROM incidents WHERE has(vms, '{WORST_VM}')"
            " ORDER BY worst_stun_us DESC LIMIT 1"
        )
        with looking(made.settings, VIEWER, VIEWERS_PASSWORD) as page:
            shown = open_dashboard(page, made.settings, "fleet_now")
            rows = shown.table("Incidents, open ones first")
        assert verdict in {row["verdict"] for row in rows}
    finally:
        made.run("down")
