"""What must survive: kills in the middle of a replay, and a disk that fills up."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stunwatch.bench import vmware_log_lines
from tests.end_to_end.conftest import Pipeline

LINES = 1_000_000

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

CONTENT = {
    "log_lines": "event_time, source, program, host, vm, datastore, severity, thread, head,"
    " message, file, generation, offset, line_bytes, time_quality, truncated",
    "stuns": "event_id, host, vm, datastore, started_at, ended_at, duration_us, reported_us,"
    " measured_by, cause, severity, evidence",
    "rejected_lines": "source, host, vm, datastore, file, generation, offset, line, reason",
}
"""Of each view what another run gives again: all but run ids and the times of arrival."""


def fleet(folder: Path, count: int, vms_seed: int = 5) -> Path:
    """Logs of 200 VMs, `count` lines in all."""
    files: dict[str, Any] = {}
    for vm, line in vmware_log_lines(count, vms_seed):
        if vm not in files:
            place = folder / "esx01.bench.example/vmfs/volumes/ds-fleet" / vm
            place.mkdir(parents=True)
            files[vm] = (place / "vmware.log").open("w")
        files[vm].write(line + "\n")
    for file in files.values():
        file.close()
    return folder


def content(pipeline: Pipeline) -> dict[str, Any]:
    """A count and a fingerprint of every view."""
    return {
        view: pipeline.rows(f"SELECT count(), sum(cityHash64({columns})) FROM {view}")
        for view, columns in CONTENT.items()
    }


def kill(pipeline: Pipeline, component: str) -> None:
    """Kill -9 every process of a component."""
    for each in pipeline.processes(component):
        os.kill(each.pid, signal.SIGKILL)


def healthy(pipeline: Pipeline, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while (status := pipeline.status()).returncode:
        assert time.monotonic() < deadline, status.stdout + status.stderr
        time.sleep(1)


def test_kills_during_a_replay_change_nothing(
    pipelines: Callable[..., Pipeline], tmp_path: Path
) -> None:
    logs = fleet(tmp_path / "logs", LINES)
    calm = pipelines(tmp_path / "calm")
    calm.run("up")
    calm.run("replay", logs)
    wanted = content(calm)
    assert wanted["log_lines"][0][0] == LINES
    calm.run("down")

    hit = pipelines(tmp_path / "hit")
    hit.run("up")
    replay = hit.start("replay", logs)
    said: list[str] = []
    assert replay.stdout is not None
    reading = threading.Thread(target=lambda: said.extend(replay.stdout or []))
    reading.start()
    killed = 0
    for component in ("taskmanager", "kafka", "clickhouse", "taskmanager"):
        time.sleep(6)
        if replay.poll() is None:
            kill(hit, component)
            killed += 1
    assert replay.wait(900) == 0, "".join(said)
    reading.join()
    assert killed >= 3, "the replay ended before the kills"
    assert content(hit) == wanted
    healthy(hit)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1500 MiB of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1500m", "tmpfs", str(place)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("only root can mount a small file system")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_stops_intake_and_loses_nothing(
    small_disk: Path, pipelines: Callable[..., Pipeline], tmp_path: Path
) -> None:
    logs = fleet(tmp_path / "logs", 200_000)
    full = pipelines(small_disk / "home", min_free_mb=300)
    full.run("up")
    replay = None
    try:
        free_mb = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize >> 20
        ballast = small_disk / "ballast"
        replay = full.start("replay", logs)
        time.sleep(4)
        with ballast.open("wb") as file:
            for _ in range(max(0, free_mb - 250)):
                file.write(bytes(1 << 20))
        deadline = time.monotonic() + 60
        while "Intake is stopped" not in (done := full.status()).stdout + done.stderr:
            assert time.monotonic() < deadline
            time.sleep(1)
        assert done.returncode == 3
        ballast.unlink()
        healthy(full)
        assert replay.wait(600) == 0
        assert full.one("SELECT count() FROM log_lines") == 200_000
        assert full.one("SELECT count() FROM stuns") == full.one(
            "SELECT countIf(startsWith(message, 'Checkpoint_Unstun')) FROM log_lines"
        )
    finally:
        if replay is not None:
            replay.kill()
        full.run("down")
