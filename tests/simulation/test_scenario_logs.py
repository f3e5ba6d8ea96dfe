"""The logs of a scenario match its truth."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from stunwatch import cli
from stunwatch.errors import UserError
from stunwatch.ingest.replay import Options, plan
from stunwatch.ingest.replay.esxtop import samples_in
from stunwatch.ingest.replay.reading import Reading
from stunwatch.inventory.files import read
from stunwatch.inventory.items import items_of
from stunwatch.simulation import truth as truths
from stunwatch.simulation.scenarios import SCENARIOS, ScenarioSimulation, write

Row = dict[str, Any]
SEED = 5
WITH_INCIDENTS = [name for name in SCENARIOS if name != "quiet_night"]


pytestmark = pytest.mark.integration


@dataclass
class Scenario:
    """The folder of one scenario, parsed."""

    folder: Path
    truth: Row
    records: list[Row]
    samples: list[Row]
    rejected: list[Row]
    problems: list[Any]

    def slow_devices(self) -> set[tuple[str, str]]:
        """Return (host, device) of devices that are slow for long in esxtop."""
        return {
            (each["host"], each["device"])
            for each in self.truth["latency"]
            if each["origin"] == "esxtop" and each["kind"] == "sustained"
        }

    def felt(self) -> set[str]:
        """Return VMs with a stun of a second or longer, without earlier nights."""
        return {
            each["vm"]
            for each in self.truth["stuns"]
            if each["duration_us"] >= 1_000_000 and each["ended_at"] >= self.truth["started_at"]
        }


@pytest.fixture(scope="module", params=SCENARIOS)
def scenario(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    folder = tmp_path_factory.mktemp(request.param)
    write(ScenarioSimulation(request.param, SEED, chatter=0.3), folder)
    true = truths.load((folder / truths.FILE).read_bytes())
    made = Scenario(folder, true, [], [], [], [])
    with plan([folder], Options()) as what:
        made.problems = what.problems
        for file in what.files:
            for messages in Reading(file, "test"):
                for topic, _, record in messages:
                    if "reason" in record:
                        made.rejected.append(record)
                    elif topic == "esxi.esxtop":
                        made.samples += samples_in(record)
                    elif record["kind"] == "line":
                        made.records.append(record)
    return made


def test_every_line_is_read_and_lies_within_the_scenario(scenario: Scenario) -> None:
    assert not scenario.problems
    assert not scenario.rejected
    site, hosts = scenario.truth["name"], set(scenario.truth["hosts"])
    # Uptime milliseconds are added to whole seconds, so a time may be a second early or late.
    last = scenario.truth["ended_at"][:17]
    for record in scenario.records:
        assert record["host"] in hosts
        assert record["event_time"][:17] <= last
        if record["source"] == "vmware_log":
            assert site in record["vm"]
            assert site in record["datastore"]
    assert len(scenario.samples) == scenario.truth["samples"]


def test_a_scenario_has_a_small_fleet_and_few_lines(scenario: Scenario) -> None:
    assert 8 <= len(scenario.truth["hosts"]) <= 10
    assert 40 <= scenario.truth["vms"] <= 80
    assert len(scenario.records) + len(scenario.samples) < 150_000


def test_the_slow_devices_of_the_samples_are_those_of_the_truth(scenario: Scenario) -> None:
    above = Counter(
        (each["host"], each["device"])
        for each in scenario.samples
        if (each["davg_ms"] or 0) > 25 or (each["kavg_ms"] or 0) > 2
    )
    slow = scenario.slow_devices()
    assert {key for key, count in above.items() if count > 15} == slow
    for incident in scenario.truth["incidents"]:
        devices = set(incident["devices"]["least"])
        assert {device for _, device in slow} >= devices
    named = {
        device
        for incident in scenario.truth["incidents"]
        for device in (*incident["devices"]["least"], *incident["devices"]["more"])
    }
    assert {device for _, device in slow} <= named


def test_every_vm_with_a_long_stun_is_in_an_expected_incident(scenario: Scenario) -> None:
    incidents = scenario.truth["incidents"]
    least = {name for incident in incidents for name in incident["vms"]["least"]}
    assert scenario.felt() == least


def test_every_name_of_an_incident_is_on_the_site(scenario: Scenario) -> None:
    hosts = set(scenario.truth["hosts"])
    folders = {
        (each["vm"], each["datastore"])
        for each in scenario.records
        if each["source"] == "vmware_log"
    }
    for incident in scenario.truth["incidents"]:
        assert set(incident["hosts"]["least"]) <= hosts
        assert set(incident["vms"]["least"]) <= {vm for vm, _ in folders}
        assert set(incident["datastores"]["least"]) <= {datastore for _, datastore in folders}
        started, ended = scenario.truth["started_at"], scenario.truth["ended_at"]
        assert started < incident["cause_started_at"] <= incident["first_line_at"]
        assert incident["first_line_at"] <= incident["cause_ended_at"] < ended
        # There must be enough time for the incident to close.
        left = datetime.fromisoformat(ended) - datetime.fromisoformat(incident["cause_ended_at"])
        assert left > timedelta(minutes=10)


def test_the_inventory_contains_the_objects_in_the_logs(scenario: Scenario) -> None:
    reading = read([scenario.folder / "inventory"], None, None)
    assert not reading.problems
    assert {source.host for source in reading.sources} == set(scenario.truth["hosts"])
    items = [
        item
        for source in reading.sources
        for item in items_of(source.outputs, source.host, 0, "test")
    ]
    extents = {(each["host"], each["device"]) for each in items if each["kind"] == "extent"}
    sampled = {
        (each["host"], each["device"])
        for each in scenario.samples
        if each["device"].startswith("naa.")
    }
    assert extents == sampled
    datastores = {each["datastore"] for each in items if each["kind"] == "extent"}
    logged = {each["datastore"] for each in scenario.records if each["source"] == "vmware_log"}
    assert logged <= datastores
    told = {each["device"]: each for each in items if each["told_by"] == "core device list"}
    assert all(told[device]["vendor"] for _, device in extents)
    policies = {each["device"]: each["path_policy"] for each in items if each["path_policy"]}
    assert policies.keys() == {device for _, device in extents}


def night_of(name: str, seed: int, **more: Any) -> ScenarioSimulation:
    simulation = ScenarioSimulation(name, seed, chatter=0.05, **more)
    for _ in simulation.files():
        pass
    return simulation


def fingerprint(name: str, seed: int) -> str:
    simulation = ScenarioSimulation(name, seed, chatter=0.05)
    seen = hashlib.sha256()
    for file in (*simulation.files(), *simulation.inventories()):
        seen.update(f"{file.path} {file.lines}".encode())
    seen.update(simulation.truth.json())
    return seen.hexdigest()


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_same_seed_gives_the_same_bytes(name: str) -> None:
    assert fingerprint(name, 3) == fingerprint(name, 3)


def test_no_two_scenarios_share_a_name_or_a_day() -> None:
    seen: Counter[str] = Counter()
    days: Counter[str] = Counter()
    for name in SCENARIOS:
        for seed in (1, 2, 10, 11):
            for with_cause in (True, False):
                fleet = ScenarioSimulation(name, seed, with_cause=with_cause).fleet
                seen.update(each.name for each in (*fleet.hosts, *fleet.vms, *fleet.datastores))
                seen.update(each.device for each in fleet.datastores)
            days[str(fleet.started_us // 86_400_000_000)] += 1
    assert max(seen.values()) == 1
    assert max(days.values()) == 1


@pytest.mark.parametrize("seed", range(20, 30))
def test_the_first_five_scenarios_expect_the_documented_incidents(seed: int) -> None:
    scopes = {
        name: [
            (each.scopes[0], each.is_note)
            for each in ScenarioSimulation(name, seed).truth.incidents
        ]
        for name in list(SCENARIOS)[:5]
    }
    assert scopes == {
        "array_and_storm": [("array_or_fabric", False), ("device", False)],
        "array_and_nightly_backup": [("array_or_fabric", False), ("device", True)],
        "slow_lun": [("device", False)],
        "bad_host": [("host", False)],
        "quiet_night": [],
    }


@pytest.mark.parametrize("scenario", ["array_and_storm", "array_and_nightly_backup"], indirect=True)
def test_the_backup_storm_overlaps_the_array_incident(scenario: Scenario) -> None:
    array, storm = scenario.truth["incidents"]
    assert len(array["devices"]["least"]) == 2
    assert len(array["hosts"]["least"]) == 4
    assert array["cause_started_at"] < storm["cause_ended_at"]
    assert storm["cause_started_at"] < array["cause_ended_at"]
    assert set(array["hosts"]["least"]) & set(storm["hosts"]["least"])
    assert set(storm["hosts"]["least"]) - set(array["hosts"]["least"])
    assert 8 <= len(storm["vms"]["least"]) <= 20
    nights = {
        each["ended_at"][:10]
        for each in scenario.truth["stuns"]
        if each["vm"] in storm["vms"]["least"] and each["ended_at"] < scenario.truth["started_at"]
    }
    assert (14 <= len(nights) <= 21) == storm["is_note"]


@pytest.mark.parametrize("scenario", ["quiet_night"], indirect=True)
def test_a_quiet_night_has_no_long_stuns(scenario: Scenario) -> None:
    assert len(scenario.truth["stuns"]) > 20
    assert not scenario.felt()
    assert not scenario.slow_devices()
    assert not scenario.truth["path_events"]
    assert all(each["is_expected"] for each in scenario.truth["reservation_conflicts"])
    assert any(each["kind"] == "spike" for each in scenario.truth["latency"])
    assert scenario.truth["quiet"]


@pytest.mark.parametrize("name", WITH_INCIDENTS)
def test_without_its_cause_a_scenario_is_quiet_and_otherwise_equal(name: str) -> None:
    with_it, without = (night_of(name, 6, with_cause=each).truth for each in (True, False))
    assert with_it.incidents
    assert not without.incidents
    assert not without.changes
    assert max(each.duration_us for each in without.stuns) < 1_000_000
    assert not [each for each in without.latency if each.kind == "sustained"]
    assert not without.scsi_errors or {each.device for each in without.scsi_errors} == {""}
    # VMs that are not affected have the same stuns.
    anyhow = {(re.sub(r"-\S+", "", each.vm), each.ended_at) for each in without.stuns}
    caused = {(re.sub(r"-\S+", "", each.vm), each.ended_at) for each in with_it.stuns}
    assert len(anyhow & caused) > 10


def test_the_scenarios_contain_the_numbers_of_the_seed_cases() -> None:
    pool = night_of("pool_full", 8)
    on_local = {vm.name for vm in pool.fleet.vms if vm.datastore.is_local}
    long = [each for each in pool.truth.stuns if each.duration_us > 100_000_000]
    assert len(long) == 7
    assert all(175_000_000 < each.duration_us < 238_000_000 for each in long)
    assert {each.cause for each in long} == {"snapshot_remove"}
    assert max(each.duration_us for each in pool.truth.stuns if each.vm in on_local) < 1_000_000
    assert {each.device_status for each in pool.truth.scsi_errors} == {"0x8", "0x285"}
    assert [each.kind for each in pool.truth.changes] == ["capacity", "firmware", "esxi_build"]
    fixed = night_of("fixed_path_policy", 8)
    [change] = fixed.truth.changes
    slow = [each for each in fixed.truth.latency if each.kind == "sustained"]
    assert min(each.peak_ms for each in slow) > 1000
    assert {each.outcome for each in fixed.truth.reservation_conflicts} == {"recovered"}
    after = datetime.fromisoformat(max(each.ended_at or "" for each in slow))
    minutes = (after - datetime.fromisoformat(change.changed_at)) / timedelta(minutes=1)
    assert 4 < minutes < 10


def test_the_path_policy_differs_after_the_change(tmp_path: Path) -> None:
    write(ScenarioSimulation("fixed_path_policy", 2, chatter=0.05), tmp_path)
    for folder, policy in (("inventory", "FIXED"), ("inventory_after_change", "RR")):
        text = (tmp_path / folder / "esx01-fixed2.txt").read_text()
        assert set(re.findall(r"Selection Policy: VMW_PSP_(\w+)", text)) == {policy}


def test_the_command_writes_a_scenario_and_lists_all_names(tmp_path: Path) -> None:
    runner, out = CliRunner(), tmp_path / "evening"
    words = ["simulate", "--evening", "slow_lun", "--without-cause", "--out", str(out)]
    done = runner.invoke(cli.app, words)
    assert done.exit_code == 0, done.output
    assert truths.load((out / truths.FILE).read_bytes())["evening"] == "slow_lun"
    assert runner.invoke(cli.app, words).exit_code != 0
    told = re.sub(r"[^a-z_]", "", runner.invoke(cli.app, ["simulate", "--help"]).output)
    assert all(name in told for name in SCENARIOS)
    for wrong in (["--without-cause"], ["--evening", "x"]):
        assert runner.invoke(cli.app, ["simulate", "--out", str(tmp_path / "x"), *wrong]).exit_code


def test_an_unknown_scenario_is_an_error() -> None:
    with pytest.raises(UserError, match="quiet_night"):
        ScenarioSimulation("noisy_night", 1)
