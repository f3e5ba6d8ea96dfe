"""Keyed state is bounded: log keys without recent lines leave no state."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from stunwatch.access import ADMIN, kafka_access
from stunwatch.local import flink
from stunwatch.local.live import live_jobs
from stunwatch.shipping import Shipper
from tests.pipeline import Pipeline

OWNERS = 20_000
ROUNDS = 3
QUIET = timedelta(days=30)
"""Longer than any detector keeps a line."""


@dataclass(frozen=True)
class Size:
    """The size of the live job's state and memory, in bytes."""

    state: int
    heap: int
    """Heap of the TaskManager, after a full collection."""
    memory: int
    """Resident memory of the TaskManager, with its Python."""


def record(number: int, at: datetime, kind: str) -> dict[str, Any]:
    fields = {
        "event_time": f"{at:%Y-%m-%dT%H:%M:%S}.{number % 1000:03}Z",
        "received_at": f"{at:%Y-%m-%dT%H:%M:%S}Z",
        "kind": kind,
        "source": "vmware_log",
        "vm": f"quiet{number}",
        "datastore": "ds-state",
        "file": "vmware.log",
        "generation": "0000000000000000",
        "offset": number,
        "run_id": "live",
        "time_quality": "exact",
    }
    if kind == "line":
        fields |= {
            "head": f"{fields['event_time']}| vcpu-0| ",
            "message": f"Checkpoint_Unstun: vm stopped for {1000 + number} us",
            "line_bytes": 80,
        }
    return fields


def ship(pipeline: Pipeline, records: Iterator[dict[str, Any]]) -> None:
    shipper = Shipper(kafka_access(pipeline.settings, ADMIN), lambda: None)
    for each in records:
        key = f"{each['datastore']}/{each['vm']}".encode()
        shipper.send("esxi.vmware_log", [{"key": key, "value": orjson.dumps(each)}])
    shipper.flush()


def size(pipeline: Pipeline) -> Size:
    """Return the sizes after a checkpoint that started after the call."""
    settings = pipeline.settings
    [job] = live_jobs(settings)
    asked_ms = time.time() * 1000

    def newest() -> dict[str, Any]:
        found = flink.get(settings, f"/jobs/{job.job_id}/checkpoints")["latest"]["completed"]
        return found or {"trigger_timestamp": 0}

    while (checkpoint := newest())["trigger_timestamp"] < asked_ms:
        time.sleep(0.5)
    [java] = pipeline.processes("taskmanager")
    jcmd(java.pid, "GC.run")
    used = re.search(r"used (\d+)K", jcmd(java.pid, "GC.heap_info"))
    assert used
    return Size(checkpoint["state_size"], int(used[1]) * 1024, java.resident_bytes)


def jcmd(pid: int, command: str) -> str:
    done = subprocess.run(["jcmd", str(pid), command], check=True, capture_output=True, text=True)
    return done.stdout


@pytest.mark.release
def test_log_keys_without_recent_lines_leave_no_state(pipelines: Callable[..., Pipeline]) -> None:
    pipeline = pipelines()
    pipeline.run("up")
    now = datetime.now(UTC)
    sizes = [size(pipeline)]
    for each in range(ROUNDS):
        first = each * OWNERS
        numbers = range(first, first + OWNERS)
        ship(pipeline, (record(number, now, "line") for number in numbers))
        pipeline.wait_for("SELECT count() FROM stuns", first + OWNERS, seconds=180)
        sizes.append(size(pipeline))
        ship(pipeline, (record(number, now + QUIET, "progress") for number in numbers))
        # Offsets and the sources' own state vary by about ten kilobytes.
        most = sizes[0].state + (sizes[1].state - sizes[0].state) // 50
        deadline = time.monotonic() + 60
        while (after := size(pipeline)).state >= most:
            assert time.monotonic() < deadline, (*sizes, after)
        sizes.append(after)
    print(*sizes, sep="\n")
    empty, grown, quiet = sizes[0], sizes[1::2], sizes[2::2]
    assert all(each.state > empty.state + OWNERS * 400 for each in grown)
    # Not the first round: it loads classes, compiles and fills caches of a fixed size.
    assert quiet[-1].heap < quiet[0].heap * 1.1
    assert quiet[-1].memory < quiet[0].memory * 1.1
