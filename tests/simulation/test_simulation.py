"""Simulated logs can be parsed and replayed, and match their truth."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from stunwatch import cli
from stunwatch.ingest.replay import Options, plan
from stunwatch.ingest.replay.esxtop import samples_in
from stunwatch.ingest.replay.reading import Reading
from stunwatch.simulation import truth as truths
from stunwatch.simulation.esxtop import is_weighty
from stunwatch.simulation.fleet import ERAS
from stunwatch.simulation.live import TOPICS, records_by_second
from stunwatch.simulation.run import Scale, Simulation, write

pytestmark = pytest.mark.integration

SCALE = Scale(hosts=10, vms=60, minutes=180, seed=11)
STUN = re.compile(r"(?:Checkpoint_Unstun: vm stopped|CPT: vm was stunned) for (\d+) us")

Row = dict[str, Any]


@dataclass
class Night:
    """The folder of a small fleet, parsed."""

    folder: Path
    truth: Row
    records: list[Row]
    samples: list[Row]
    rejected: list[Row]
    problems: list[Any]
    kinds: Counter[str]

    def messages(self, source: str) -> Iterator[Row]:
        return (each for each in self.records if each["source"] == source)


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Night:
    folder = tmp_path_factory.mktemp("night")
    write(Simulation(SCALE), folder)
    true = truths.load((folder / truths.FILE).read_bytes())
    made = Night(folder, true, [], [], [], [], Counter())
    with plan([folder], Options()) as what:
        made.problems = what.problems
        for file in what.files:
            made.kinds[file.kind] += 1
            for messages in Reading(file, "test"):
                for topic, _, record in messages:
                    if "reason" in record:
                        made.rejected.append(record)
                    elif topic == "esxi.esxtop":
                        made.samples += samples_in(record)
                    elif record["kind"] == "line":
                        made.records.append(record)
    return made


def test_every_file_is_a_log_and_every_line_has_a_head(night: Night) -> None:
    assert not night.problems
    assert not night.rejected
    assert night.kinds.keys() == {"syslog", "vmware_log", "esxtop"}
    assert all(each.get("head") for each in night.records)


def test_every_line_has_a_time_and_a_host_or_vm(night: Night) -> None:
    first, last = night.truth["started_at"], night.truth["ended_at"]
    hosts = set(night.truth["hosts"])
    for record in night.records:
        assert record["time_quality"] in {"exact", "year_inferred"}
        # Uptime milliseconds are added to whole seconds, so a time may be a second early or late.
        assert first[:17] <= record["event_time"][:17] <= last[:17]
        assert record["host"] in hosts
        if record["source"] == "vmware_log":
            assert record["vm"]
            assert record["datastore"]


def test_the_fleet_has_hosts_of_every_release(night: Night) -> None:
    assert len(night.truth["hosts"]) == SCALE.hosts
    names = {host.era.name for host in Simulation(SCALE).fleet.hosts}
    assert names == {era.name for era in ERAS}


def test_less_than_one_line_in_a_hundred_is_evidence() -> None:
    simulation = Simulation(Scale(hosts=12, vms=75))
    for _ in simulation.files():
        pass
    truth = simulation.truth
    assert 0 < truth.mattering_lines < 0.01 * truth.lines


def stuns_in(night: Night) -> dict[tuple[str, str], set[tuple[str, int]]]:
    found: dict[tuple[str, str], set[tuple[str, int]]] = {}
    for record in night.messages("vmware_log"):
        match = STUN.fullmatch(record["message"])
        if match:
            of = found.setdefault((record["datastore"], record["vm"]), set())
            of.add((record["event_time"][:23], int(match[1])))
    return found


def test_every_expected_stun_has_a_line_and_every_line_a_stun(night: Night) -> None:
    written = stuns_in(night)
    told = 0
    for stun in night.truth["stuns"]:
        if stun["measured_by"] != "unstun":
            continue
        told += 1
        owner = (stun["datastore"], stun["vm"])
        assert (stun["ended_at"][:23], stun["duration_us"]) in written[owner]
    unstuns = {
        (each["datastore"], each["vm"], each["event_time"], each["message"])
        for each in night.messages("vmware_log")
        if each["message"].startswith("Checkpoint_Unstun")
    }
    # If the Unstun line of a stun was throttled, only the second line exists.
    assert told >= len(unstuns) > 20


def test_a_stun_shown_by_mode_changes_has_both_lines(night: Night) -> None:
    told = [each for each in night.truth["stuns"] if each["measured_by"] == "cpt_mode"]
    ends = {
        (each["datastore"], each["vm"], each["event_time"][:23])
        for each in night.messages("vmware_log")
        if each["message"] == "CPT current = 2, requesting 6"
    }
    assert told
    for stun in told:
        assert (stun["datastore"], stun["vm"], stun["ended_at"][:23]) in ends
        assert stun["duration_us"] % 1000 == 0


def test_every_snapshot_operation_has_its_first_and_last_line(night: Night) -> None:
    moments = {
        (each["datastore"], each["vm"], each["event_time"][:23])
        for each in night.messages("vmware_log")
        if re.match("Snapshot|MainMem|ConsolidateEnd|DISK: |[0-9a-z-]+ Snapshot", each["message"])
    }
    operations = night.truth["snapshot_operations"]
    assert {each["outcome"] for each in operations} >= {"ok", "failed"}
    for each in operations:
        owner = (each["datastore"], each["vm"])
        assert (*owner, each["started_at"][:23]) in moments
        assert each["ended_at"] is None or (*owner, each["ended_at"][:23]) in moments
        if each["is_converging"] is not None:
            assert len(each["helper_sizes"]) == each["iterations"]


def test_a_count_down_has_as_many_lines_as_steps(night: Night) -> None:
    written: Counter[tuple[str, str]] = Counter()
    for record in night.messages("syslog"):
        if record["program"] == "vmkernel":
            for each in re.findall(r"vm (\d+): 117: Sync CR at", record["message"]):
                written[record["host"], each] += 1
            for each in re.findall(r"Sync CR .* \(wid (\d+)\)", record["message"]):
                written[record["host"], each] += 1
    told: Counter[tuple[str, str]] = Counter()
    for each in night.truth["reservation_conflicts"]:
        if each["dialect"] == "sync_cr":
            told[each["host"], each["world_id"]] += each["steps"]
    assert told == written
    assert told


def test_the_log_lines_of_unmap_runs_have_the_expected_blocks(night: Night) -> None:
    blocks: Counter[tuple[str, str]] = Counter()
    for record in night.messages("syslog"):
        match = re.fullmatch(r"Unmap: Async Unmapped (\d+) blocks from volume (\S+)",
                             record["message"])  # fmt: skip
        if match:
            blocks[record["host"], match[2]] += int(match[1])
    told: Counter[tuple[str, str]] = Counter()
    for each in night.truth["unmap_runs"]:
        told[each["host"], each["volume"]] += each["blocks_total"]
    assert told == blocks
    assert told


def test_the_samples_are_slow_exactly_when_the_truth_says_so(night: Night) -> None:
    slow: dict[tuple[str, str, str], list[str]] = {}
    for each in night.samples:
        for metric, limit in (("davg", 25.0), ("kavg", 2.0)):
            value = each[f"{metric}_ms"]
            if value > limit and is_weighty(value, limit, each["commands_per_second"]):
                slow.setdefault((each["host"], each["device"], metric), []).append(
                    each["event_time"][:19]
                )
    told: Counter[tuple[str, str, str]] = Counter()
    for each in night.truth["latency"]:
        if each["origin"] != "esxtop":
            continue
        key = (each["host"], each["device"], each["metric"])
        told[key] += each["samples"]
        within = [at for at in slow[key] if each["started_at"][:19] <= at <= each["ended_at"][:19]]
        assert len(within) == each["samples"]
    assert told == Counter({key: len(moments) for key, moments in slow.items()})


def fingerprint(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        digest.update(str(path.relative_to(folder)).encode())
        if path.name != truths.FILE:
            digest.update(str(path.stat().st_mtime_ns).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def test_the_same_seed_writes_the_same_bytes(night: Night, tmp_path: Path) -> None:
    write(Simulation(SCALE), tmp_path)
    assert fingerprint(tmp_path) == fingerprint(night.folder)


def test_another_name_changes_names_and_nothing_else(night: Night, tmp_path: Path) -> None:
    scale = Scale(SCALE.hosts, SCALE.vms, SCALE.minutes, SCALE.seed, name="again")
    simulation = Simulation(scale)
    write(simulation, tmp_path)
    assert simulation.truth.lines == night.truth["lines"]
    assert [each.duration_us for each in simulation.truth.stuns] == [
        each["duration_us"] for each in night.truth["stuns"]
    ]
    assert "s11" not in {host.rpartition("-")[2] for host in simulation.truth.hosts}


def test_a_simulation_of_now_gives_records_for_every_live_topic() -> None:
    scale = Scale(hosts=3, vms=4, minutes=60, seed=5)
    now = datetime.now(UTC)
    topics: Counter[str] = Counter()
    before = 0
    for second_us, batches in records_by_second(Simulation(scale, now)):
        assert second_us >= before
        before = second_us
        for topic, batch in batches.items():
            topics[topic] += len(batch)
    assert set(topics) == set(TOPICS.values())


def test_the_command_writes_files_and_does_not_overwrite_any(tmp_path: Path) -> None:
    words = ["simulate", "--hosts", "2", "--vms", "2", "--minutes", "60", "--seed", "3"]
    done = CliRunner().invoke(cli.app, [*words, "--out", str(tmp_path / "night")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "night" / truths.FILE).exists()
    again = CliRunner().invoke(cli.app, [*words, "--out", str(tmp_path / "night")])
    assert again.exit_code != 0
