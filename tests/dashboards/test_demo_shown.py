"""Run the demo as a user does: the replayed incident, the live one, and the first dashboard."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from stunwatch.cli.demo import WORST_VM
from stunwatch.demo.scenario import load
from stunwatch.local import superset
from tests.dashboards.browser import looking, open_dashboard
from tests.dashboards.served import VIEWER, VIEWERS_PASSWORD, add_viewer
from tests.pipeline import Pipeline, settings_in

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

LIVE_STUN = re.compile(r"✓ stun +(\S+) stunned for ([\d.]+) s .*: in the view ([\d.]+) s after")
LIVE_INCIDENT = re.compile(r"✓ incident +(\w{8}) .*(opened: in the view|is open since)")
EVER = (
    "?native_filters=(NATIVE_FILTER-time_range:(id:NATIVE_FILTER-time_range,"
    "extraFormData:(time_range:'No filter'),filterState:(value:'No filter')))"
)
"""All times, where the dashboard opens with the last 24 hours."""

STUNS = "SELECT vm, duration_us FROM stuns"


def test_the_demo_shows_a_replayed_incident_and_a_live_one(tmp_path: Path) -> None:
    scenario = load()
    live_stuns = sorted((each.vm, each.stun_us) for each in scenario.lines if each.stun_us)
    made = Pipeline(settings_in(tmp_path / "home", superset=True))
    try:
        said = made.run("demo").stdout
        assert "/superset/dashboard/last_night/" in said
        assert str(superset.password_file(made.settings)) in said
        shipper = "Fluent Bit (" if shutil.which("fluent-bit") else "the Python shipper ("
        assert f"through {shipper}" in said
        assert f"delete {made.settings.home}" in said
        # Each live stun is in the view after a short delay.
        shown = LIVE_STUN.findall(said)
        assert sorted((vm, round(float(each) * 1e3)) for vm, each, _ in shown) == [
            (vm, round(length / 1e3)) for vm, length in live_stuns
        ]
        assert max(float(delay_s) for *_, delay_s in shown) < 60
        [(incident, how)] = LIVE_INCIDENT.findall(said)
        assert how == "opened: in the view"
        live_verdict = made.one(
            f"SELECT verdict FROM incidents WHERE startsWith(toString(incident_id), '{incident}')"
        )
        assert scenario.datastore in live_verdict
        verdict = made.one(
            f"SELECT verdict FROM incidents WHERE has(vms, '{WORST_VM}')"
            " ORDER BY worst_stun_us DESC LIMIT 1"
        )
        add_viewer(made.settings)
        with looking(made.settings, VIEWER, VIEWERS_PASSWORD) as page:
            shown_now = open_dashboard(page, made.settings, "fleet_now")
            rows = shown_now.table("Incidents, open first")
            assert {row["verdict"] for row in rows} == {live_verdict}
            shown_ever = open_dashboard(page, made.settings, "fleet_now", EVER)
            rows = shown_ever.table("Incidents, open first")
            assert {verdict, live_verdict} <= {row["verdict"] for row in rows}
            # The address that the demo prints for the replayed incident.
            [replayed] = re.findall(r"http\S+/entity/vm\?vm=\w+", said)
            page.goto(replayed)
            page.get_by_text("eql-pool-1").first.wait_for(timeout=60_000)

        # Run it again: the replay changes nothing, and each live stun counts once.
        before = made.rows(STUNS)
        said = made.run("demo").stdout
        again = made.rows(STUNS)
        assert sorted(again) == sorted([*before, *live_stuns])
        assert LIVE_INCIDENT.findall(said) == [(incident, "is open since")]
        assert made.one("SELECT count() FROM rejected_lines") == 0
        assert made.differences() == set()
        assert not list(made.settings.run.glob("demo-*"))
    finally:
        made.run("down")
