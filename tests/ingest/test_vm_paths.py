"""Datastore and VM from a path: equal in replay, Fluent Bit and the vCenter collector."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from trees import tgz, vmware_log, write

from stunwatch.ingest.replay import REJECTED, Options, Reading, plan
from stunwatch.ingest.vcenter.fleet import Machine
from stunwatch.ingest.vm_paths import vm_of

CASES: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("vm_paths.yaml").read_text())
"""Paths without the leading slash; test_fluent_bit.py runs the same ones through Fluent Bit."""


def pair(names: list[str] | None) -> tuple[str, ...] | None:
    return tuple(names) if names else None


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["path"])
def test_datastore_and_vm_are_read_from_a_path(case: dict[str, Any]) -> None:
    path = f"/{case['path']}"
    assert vm_of(path) == pair(case["replayed"])
    if "tailed" in case:
        glob = "/".join("*" for _ in path.split("/")[1:-1])
        tailed = f"/other/*.log, /{glob}/vmware*.log"
        assert vm_of(path, tailed) == pair(case["tailed"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["path"])
def test_a_replay_reports_a_log_without_a_vm_and_stores_nothing(
    tmp_path: Path, case: dict[str, Any]
) -> None:
    path = write(tmp_path / case["path"], vmware_log())
    other = write(tmp_path / "vmfs/volumes/ds/other/vmware.log", vmware_log(day=1))
    archive = write(tmp_path / "a.tgz", tgz({case["path"]: vmware_log(day=2)}))
    shutil.copy(path, tmp_path / "vmware.log")
    for each in (path, archive):
        with plan([each, other]) as what:
            found = [(file.datastore, file.vm) for file in what.files]
        expected = pair(case["replayed"])
        assert sorted(found) == sorted([("ds", "other"), *([expected] if expected else [])])
        sentences = [problem.sentence for problem in what.problems]
        assert len(sentences) == (not expected)
        assert all("Give --vm and --datastore" in sentence for sentence in sentences)


def test_a_tailed_folder_is_replayed_with_the_same_names(tmp_path: Path) -> None:
    write(tmp_path / "nfs/ds-gold/web01/vmware.log", vmware_log())
    options = Options(tailed=f"{tmp_path}/nfs/*/*/vmware*.log")
    with plan([tmp_path / "nfs"], options) as what:
        assert [(file.datastore, file.vm) for file in what.files] == [("ds-gold", "web01")]
        assert what.problems == []


def test_a_wrapped_line_that_names_no_vm_is_rejected(tmp_path: Path) -> None:
    """`grep -h` omits the path; the other lines of the file have it."""
    [line] = vmware_log(count=1).decode().split("\r\n")[:-1]
    named = f"/vmfs/volumes/ds-gold/web01/vmware.log:7:{line}\n"
    content = named * 3 + json.dumps({"message": line}) + "\n"
    with plan([write(tmp_path / "found.log", content.encode())]) as what:
        [file] = what.files
        messages = [each for batch in Reading(file, "r1") for each in batch]
    stored = [record for topic, _, record in messages if topic != REJECTED]
    assert {(record["datastore"], record["vm"]) for record in stored} == {("ds-gold", "web01")}
    [rejected] = [record for topic, _, record in messages if topic == REJECTED]
    assert "without VM name" in rejected["reason"]


@pytest.mark.parametrize("folder", ["web01", "team a/web01"])
def test_the_vcenter_collector_uses_the_same_names(folder: str) -> None:
    machine = Machine("vm-1", "shown", "esx01", "", "lab", "ds-gold", folder, {})
    path = f"/vmfs/volumes/{machine.datastore}/{machine.log_folder}/vmware.log"
    assert vm_of(path) == (machine.datastore, machine.folder_name)
