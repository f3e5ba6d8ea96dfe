"""The score of a small fleet's night and of a scenario, computed in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stunwatch.simulation import run
from stunwatch.simulation import truth as truths
from stunwatch.simulation.fleet import Fleet, make_fleet
from stunwatch.simulation.run import Scale, Simulation
from stunwatch.simulation.scenarios import ScenarioSimulation, write
from tests.incidents.agreeing import contradictions
from tools.score import in_memory
from tools.score.figures import Section
from tools.score.sections import Comparison

pytestmark = pytest.mark.slow


def assert_met(sections: list[Section]) -> None:
    for section in sections:
        missed = [each for each in section.figures if not each.is_met]
        assert not missed, (section.name, missed, section.examples)


def test_a_small_fleet_meets_every_limit(tmp_path: Path) -> None:
    about, sections = in_memory.run(Scale(10, 60, 180, seed=23, name="memory23"), tmp_path)
    assert about["lines"] > 50_000
    assert_met(sections)


@pytest.mark.parametrize("name", ["quiet_night", "bad_host", "slow_lun"])
def test_a_scenario_meets_every_limit(name: str, tmp_path: Path) -> None:
    write(ScenarioSimulation(name, 23, chatter=0.1), tmp_path)
    true = truths.load((tmp_path / truths.FILE).read_bytes())
    found = in_memory.find(tmp_path)
    assert not found.rejected
    assert_met(Comparison(true, found.rows).sections())
    rows = found.rows["incidents"]
    assert [(row["verdict"], each) for row in rows for each in contradictions(row)] == []


def collected(form: str | None) -> Fleet:
    """Return a fleet with all ESXi lines in this form; None: in the hosts' own files."""
    scale = Scale(10, 40, 60, seed=31)
    fleet = make_fleet(
        seed=scale.seed, name="same", hosts=scale.hosts, vms=scale.vms,
        started_us=int(run.night_of(scale.seed).timestamp()) * 1_000_000, minutes=scale.minutes,
    )  # fmt: skip
    for host in fleet.hosts:
        host.by_syslog = form is not None and not host.era.is_yearless
        host.relay = form if form is not None and host.by_syslog else ""
    for vm in fleet.vms:
        is_able = vm.host.by_syslog and vm.host.era.has_column and vm.is_shipped
        vm.is_by_syslog = is_able and vm.name.isalnum()
    return fleet


def test_files_relayed_lines_and_json_give_the_same_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: dict[str | None, tuple[Any, ...]] = {}
    for form in (None, "rsyslog", "json"):
        monkeypatch.setattr(run, "make_fleet", lambda form=form, **_: collected(form))
        folder = tmp_path / str(form)
        run.write(Simulation(Scale(10, 40, 60, seed=31)), folder)
        found = in_memory.find(folder)
        assert not found.rejected
        assert_met(
            Comparison(truths.load((folder / truths.FILE).read_bytes()), found.rows).sections()
        )
        shown[form] = (
            sorted((row["vm"], row["duration_us"], row["cause"]) for row in found.rows["stuns"]),
            sorted(
                (row["device"], row["dialect"], row["outcome"], row["steps"])
                for row in found.rows["reservation_conflicts"]
            ),
            sorted(
                (row["kind"], row["path"], row["device"], row["datastore"])
                for row in found.rows["path_events"]
            ),
        )
    own = shown.pop(None)
    assert all(own)
    assert all(each == own for each in shown.values())
