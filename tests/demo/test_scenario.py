"""The demo's live scenario: its lines, and the events that the trackers find in them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from stunwatch.demo.scenario import Scenario, ScenarioLine, load, stamp
from stunwatch.demo.shippers import LiveRecords
from stunwatch.incidents.configuration import BAD_STUN_US
from stunwatch.incidents.correlator import Correlator, Incident
from stunwatch.incidents.seasonal_baseline import Hours
from stunwatch.incidents.signals import signal_of
from stunwatch.incidents.topology import Topology
from stunwatch.triage.finding import VIEWS
from tools.score import in_memory

STARTED_AT = datetime(2026, 11, 21, 5, 0, tzinfo=UTC)
Row = dict[str, Any]


def written(scenario: Scenario) -> list[tuple[ScenarioLine, datetime, str]]:
    times = [STARTED_AT + timedelta(seconds=each.at_s) for each in scenario.lines]
    return [(each, at, each.written(at)) for each, at in zip(scenario.lines, times, strict=True)]


def records() -> list[Row]:
    made = LiveRecords(load().datastore)
    return [made.make(line, text, at) for line, at, text in written(load())]


def write(scenario: Scenario, folder: Path) -> None:
    """Write the scenario as files that replay can read."""
    for line, _, text in written(scenario):
        name = f"volumes/{scenario.datastore}/{line.vm}/vmware.log" if line.vm else "messages.log"
        path = folder / ("vmfs" if line.vm else "syslog") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as log:
            log.write(f"{text}\n")


@cache
def found(folder: Path) -> dict[str, list[Row]]:
    write(load(), folder)
    result = in_memory.find(folder)
    assert not result.rejected
    return result.rows


def test_every_line_becomes_a_live_record_with_the_time_of_sending() -> None:
    for record, (line, at, text) in zip(records(), written(load()), strict=True):
        assert "reason" not in record
        assert record["run_id"] == "live"
        assert datetime.fromisoformat(record["event_time"]) == at
        assert f"{record['head']}{record['message']}" == text
        assert record["source"] == ("vmware_log" if line.vm else "syslog")


def test_lines_of_a_vm_have_consecutive_offsets() -> None:
    for vm in load().vms:
        own = [each for each in records() if each.get("vm") == vm]
        ends = [0, *(each["offset"] + each["line_bytes"] for each in own)]
        assert [each["offset"] for each in own] == ends[:-1]
        assert len({each["generation"] for each in own}) == 1


def test_every_name_starts_with_demo() -> None:
    scenario = load()
    names = {*scenario.hosts, *scenario.vms, scenario.datastore}
    assert {each["host"] for each in records() if "host" in each} == {*scenario.hosts}
    assert all(each.startswith("demo-") for each in names)


def test_the_scenario_takes_30_seconds_and_contains_every_stun() -> None:
    scenario = load()
    assert 20 <= scenario.seconds <= 30
    assert [each.at_s for each in scenario.lines] == sorted(each.at_s for each in scenario.lines)
    assert all(each.stun_us < each.at_s * 1e6 for each in scenario.lines if each.stun_us)
    assert scenario.worst_vm in scenario.vms


def test_the_trackers_find_every_stun_with_its_cause(tmp_path: Path) -> None:
    stuns = {(each["vm"], each["duration_us"]): each for each in found(tmp_path)["stuns"]}
    assert stuns.keys() == {(each.vm, each.stun_us) for each in load().lines if each.stun_us}
    causes = {each["cause"] for each in stuns.values() if each["duration_us"] >= BAD_STUN_US}
    assert causes == {"snapshot_remove"}
    operations = found(tmp_path)["snapshot_operations"]
    assert {each["outcome"] for each in operations} == {"ok"}


def test_one_incident_opens_before_the_last_line(tmp_path: Path) -> None:
    [incident] = found(tmp_path)["incidents"]
    detected_at = datetime.fromisoformat(incident["detected_at"])
    assert detected_at < STARTED_AT + timedelta(seconds=load().seconds - 5)
    assert incident["datastores"] == [load().datastore]
    assert incident["vms"] == sorted(load().vms)


def incidents_of(rows: dict[str, list[Row]]) -> list[Incident]:
    """Return the incidents of these events. As with tailed files, VM events have no host."""
    fed = [
        (topic, {**each, "host": ""} if each.get("vm") else each)
        for topic, view in VIEWS.items()
        for each in rows[view]
    ]
    signals = [(signal_of(*each), *each) for each in fed]
    correlator, bands, places = Correlator("live", 900_000_000), dict[str, Hours](), Topology()
    best = {}
    for signal, topic, event in sorted(
        (each for each in signals if each[0]), key=lambda each: each[0].known_us
    ):
        for incident in correlator.feed(topic, event, bands, places, signal.known_us):
            best[incident.event_id] = incident
    best |= {each.event_id: each for each in correlator.look(places)}
    return [each for each in best.values() if not each.is_deleted]


def test_an_incident_of_the_users_own_fleet_stays_separate(tmp_path: Path) -> None:
    # A stun without a host may belong to any slow device with an unknown datastore.
    write(load(), tmp_path)
    at = stamp(STARTED_AT + timedelta(seconds=10))
    (tmp_path / "syslog" / "others.log").write_text(
        "".join(
            f"<180>{at} {host} vmkernel: cpu1:4113)WARNING: ScsiDeviceIO: 1218: Device"
            " naa.60a98000572d54724a34aa01 performance has deteriorated. I/O latency increased from"
            " average value of 1651 microseconds to 331746 microseconds.\n"
            for host in ("esx01", "esx02")
        )
    )
    demos, users = sorted(incidents_of(in_memory.find(tmp_path).rows), key=lambda each: each.hosts)
    assert (demos.hosts, demos.vms) == (["demo-esx01"], sorted(load().vms))
    assert (users.hosts, users.vms) == (["esx01", "esx02"], [])
