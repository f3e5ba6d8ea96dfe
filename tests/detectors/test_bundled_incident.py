"""The bundled incident contains exactly the events of the `expected.json` next to it."""

import json
from itertools import chain
from pathlib import Path

from stunwatch.detectors.catalogue import detector
from tests.detectors.cases import Event, final_rows, records_of, run

DEMO = Path(__file__).parents[2] / "stunwatch/demo"
INCIDENT = DEMO / "incident"
EXPECTED = json.loads((DEMO / "expected.json").read_text())
FILES = sorted(path for path in INCIDENT.rglob("*") if path.is_file())


def stuns_of(vm: str) -> list[Event]:
    """Return the rows of one `<datastore>/<vm>`, its rotated logs read oldest first."""
    [folder] = INCIDENT.glob(f"*/vmfs/volumes/{vm}")
    logs = sorted(folder.glob("vmware*.log"), key=lambda log: (log.name == "vmware.log", log.name))
    records = chain.from_iterable(records_of(log, "vm") for log in logs)
    return final_rows(run(detector("stuns"), records))


def test_the_files_have_the_expected_number_of_lines_and_are_small() -> None:
    lines = {str(path.relative_to(INCIDENT)): path.read_bytes().count(b"\n") for path in FILES}
    assert lines == EXPECTED["lines"]
    assert sum(path.stat().st_size for path in FILES) < 400 * 1024


def test_the_head_of_every_line_is_parsed() -> None:
    for path in FILES:
        owner = "vm" if "volumes" in path.parts else "host"
        records = list(records_of(path, owner))
        assert len(records) == EXPECTED["lines"][str(path.relative_to(INCIDENT))]
        assert {record["time_quality"] for record in records} == {"exact"}


def test_every_vm_has_the_expected_stuns() -> None:
    stuns = {vm: stuns_of(vm) for vm in EXPECTED["stuns"]}
    assert {vm: len(rows) for vm, rows in stuns.items()} == EXPECTED["stuns"]
    every = (row["duration_us"] for rows in stuns.values() for row in rows)
    assert sorted(every, reverse=True)[:10] == EXPECTED["worst_stuns_us"]
    assert {row["measured_by"] for rows in stuns.values() for row in rows} == {"unstun"}


def test_the_vm_on_the_array_had_the_worst_stuns_and_recovered() -> None:
    rows = stuns_of("eql-pool-1/sql01")
    removals = [row["duration_us"] for row in rows if row["duration_us"] > 3_000_000]
    after = [row["duration_us"] for row in rows if row["ended_at"] > "2012-05-13"]
    assert max(removals) == EXPECTED["worst_stuns_us"][0]
    assert [length for length in after if length in removals] == EXPECTED["stuns_after_the_fix_us"]


def test_the_vm_on_local_disks_has_normal_stuns_only() -> None:
    assert {row["severity"] for row in stuns_of("local-esx01/web01")} == {"normal"}
    text = (INCIDENT / "esx01.lab.example/vmfs/volumes/local-esx01/web01/vmware.log").read_text()
    assert text.count("Checkpoint_Unstun") == EXPECTED["stuns"]["local-esx01/web01"] + 2


def test_each_stun_of_the_vm_on_esxi_8_has_two_lines() -> None:
    for row in stuns_of("flash-1/app01"):
        assert 28_000 < row["reported_us"] - row["duration_us"] < 30_000
