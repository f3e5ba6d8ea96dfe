"""One collector keeps up with 20,000 VMs on 1,200 hosts that each write a line per second."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from stunwatch.ingest.vcenter.collectors.polls import Limits
from tests.kafka_and_clickhouse import storing
from tests.vcenter.simulator import Simulator

HOSTS, VMS, DATASTORES = 1200, 20_000, 100
SWEEP_S = Limits().sweep_s
CORES = 2
STUNWATCH = Path(sys.executable).with_name("stunwatch")

pytestmark = [pytest.mark.release, pytest.mark.timeout(1800)]


def lines_of_a_sweep() -> bytes:
    """Return what a VM writes between two polls: one line per second."""
    began = datetime(2024, 5, 6, 8, 0, tzinfo=UTC)
    written = []
    for second in range(int(SWEEP_S)):
        at = (began + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        written.append(f"{at} In(05) vcpu-0 - Guest: tick {second}, the guest's clock goes on\n")
    return "".join(written).encode()


def test_the_lines_of_a_sweep_are_read_before_the_next_one(tmp_path: Path) -> None:
    log = lines_of_a_sweep()
    with (
        storing(tmp_path / "home") as stored,
        Simulator(
            tmp_path / "vcenter", clusters=40, hosts=HOSTS, vms=VMS, datastores=DATASTORES
        ) as vcenter,
    ):
        folders = vcenter.folders()
        assert len(folders) == VMS
        for folder in folders.values():
            (folder / "vmware.log").write_bytes(log)
        began, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [STUNWATCH, "collect", "vmlogs", "--once"],
            env=os.environ | stored.settings.environment() | vcenter.environment,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        wall_s, now_used = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = (now_used.ru_utime - used.ru_utime) + (now_used.ru_stime - used.ru_stime)
        lines = VMS * int(SWEEP_S)
        print(
            f"{lines:,} lines of {VMS:,} VMs in {wall_s:.0f} s, {cpu_s:.0f} s of CPU:"
            f" {lines / wall_s:,.0f} a second"
        )
        stored.wait_for("SELECT count() FROM log_lines", lines, seconds=600)
    # The first poll also looks for rotated logs. Later polls are cheaper.
    assert wall_s < SWEEP_S
    assert cpu_s < SWEEP_S * CORES
