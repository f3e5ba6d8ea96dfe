"""Kills in the middle of a replay and a full disk lose and change nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline import Pipeline
from tools.bench.lines import vmware_log_lines

LINES = 400_000

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

CONTENT = {
    "log_lines": "event_time, source, program, host, vm, datastore, severity, thread, head,"
    " message, file, generation, offset, line_bytes, time_quality, truncated",
    "stuns": "event_id, host, vm, datastore, started_at, ended_at, duration_us, reported_us,"
    " measured_by, cause, severity, evidence",
    "rejected_lines": "source, host, vm, datastore, file, generation, offset, line, reason",
}
"""The columns of each view that a second run repeats: all but run IDs and arrival times."""


def fleet(folder: Path, count: int, vms_seed: int = 5) -> Path:
    """Write logs of 200 VMs, `count` lines in total."""
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
    """Return a count and a fingerprint of every view."""
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


def test_kills_during_a_replay_do_not_change_the_result(
    pipelines: Callable[..., Pipeline], tmp_path: Path
) -> None:
    logs = fleet(tmp_path / "logs", LINES)
    pipeline = pipelines()
    pipeline.run("up")
    replay = pipeline.start("replay", logs)
    deadline = time.monotonic() + 120
    while not pipeline.one("SELECT count() FROM log_lines"):
        assert time.monotonic() < deadline, "no line was stored"
        time.sleep(0.5)
    killed = 0
    # The first kill comes early: a replay cannot end before the TaskManager runs again.
    for pause_s, component in (
        (1, "taskmanager"),
        (6, "kafka"),
        (6, "clickhouse"),
        (6, "taskmanager"),
    ):
        time.sleep(pause_s)
        if replay.poll() is None:
            kill(pipeline, component)
            killed += 1
    pipeline.finish(replay, 900)
    assert killed >= 3, "the replay ended before the kills"
    healthy(pipeline)
    # Every line of the files is stored once, and the events are those that follow from the lines.
    found = content(pipeline)
    assert found["log_lines"][0][0] == LINES
    assert pipeline.differences() == set()
    # A replay without faults gives the same rows; a different row would show here.
    pipeline.run("replay", logs)
    assert content(pipeline) == found


@pytest.fixture
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A separate file system of 1500 MiB; a socket's path must be short."""
    place = tmp_path_factory.mktemp("disk")
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
        full.finish(replay, 900)
        assert full.one("SELECT count() FROM log_lines") == 200_000
        assert full.one("SELECT count() FROM stuns") == full.one(
            "SELECT countIf(startsWith(message, 'Checkpoint_Unstun')) FROM log_lines"
        )
    finally:
        if replay is not None:
            replay.kill()
        full.run("down")
