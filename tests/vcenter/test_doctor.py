"""`doctor --host`: what would be lost with a host's settings, and the commands to fix it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from stunwatch.ingest.vcenter.collectors.diagnosis import Told, VirtualMachine, findings
from stunwatch.ingest.vcenter.session import READING_METHODS
from tests.vcenter.simulator import Simulator

CASES = yaml.safe_load((Path(__file__).parent / "host_settings.yaml").read_text())
STUNWATCH = Path(sys.executable).with_name("stunwatch")


@pytest.mark.parametrize("name", CASES)
def test_each_case_of_host_settings_gives_the_expected_findings(name: str) -> None:
    given: dict[str, Any] = {"host": "esx01.lab.example", **CASES[name]["told"]}
    for listed in ("release", "time_servers", "lacking"):
        given[listed] = tuple(given.get(listed, ()))
    given["vms"] = [VirtualMachine(**each) for each in given.get("vms", [])]
    found = [each for each in findings(Told(**given)) if each.grade != "good"]
    expected = CASES[name]["finds"]
    assert [[each.what, each.grade] for each in found] == [each[:2] for each in expected]
    for each, (_, _, word) in zip(found, expected, strict=True):
        assert word in each.loss
        assert each.commands or given["release"] < (7, 0)


@pytest.fixture(scope="module")
def vcenter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    folder = tmp_path_factory.mktemp("vcenter")
    with Simulator(folder, hosts=2, vms=4, datastores=2) as made:
        yield made


def doctor(vcenter: Simulator, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [STUNWATCH, "doctor", *words],
        env=os.environ | vcenter.environment | {"COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_doctor_reads_through_vcenter_and_changes_nothing(vcenter: Simulator) -> None:
    shown = doctor(vcenter, "--host", "esx001")
    assert "esx001.lab.example" in shown.stdout
    assert "udp://collector.lab.example:514" in shown.stdout
    assert "1,024 bytes" in shown.stdout
    assert "esxcli" not in shown.stdout
    fixed = doctor(vcenter, "--host", "esx001.lab.example", "--fix")
    assert "esxcli system syslog config set --remote-host-max-msg-len=16384" in fixed.stdout
    assert vcenter.called() <= READING_METHODS


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--host", "esx9"), "has no host named esx9"),
        (("--fix",), "--fix needs an ESXi host"),
    ],
)
def test_an_unknown_host_or_a_missing_option_is_an_error(
    vcenter: Simulator, words: tuple[str, ...], sentence: str
) -> None:
    done = doctor(vcenter, *words)
    assert done.returncode == 2
    assert sentence in done.stderr
