"""A real pipeline: up, up again, all processes killed, up with all data, down without leftovers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from stunwatch.ingest.records import LineRecords, Origin, Record
from stunwatch.local import clickhouse, flink, kafka, live
from stunwatch.local.components import BY_NAME
from stunwatch.local.processes import processes
from tests.pipeline import Pipeline, settings_in

pytestmark = pytest.mark.slow

RESIDENT_MB = 4096


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    """A running pipeline."""
    pipeline = Pipeline(settings_in(tmp_path_factory.mktemp("killed")))
    try:
        pipeline.run("up")
        yield pipeline
    finally:
        pipeline.run("down")


def test_a_second_up_starts_nothing(started: Pipeline) -> None:
    pipeline = started
    assert "✓" not in pipeline.run("up").stderr
    health = json.loads(pipeline.run("status", "--json").stdout)
    assert health["is_healthy"]
    assert {each["name"] for each in health["components"]} == set(BY_NAME) - {
        *("alerts", "metrics", "superset", "collect-vmlogs", "collect-latency", "collect-inventory")
    }
    assert sum(each["memory_mb"] for each in health["components"]) < RESIDENT_MB


def stun_line(vm: str, text: str, offset: int) -> Record:
    """Return a line of the VM's vmware.log, written now."""
    now = datetime.now(UTC)
    file = f"/vmfs/volumes/ds-1/{vm}/vmware.log"
    origin = Origin("live", "vmware_log", "esx01.lab.example", vm, "ds-1", file, "g1")
    stamp = f"{now:%Y-%m-%dT%H:%M:%S}.{now.microsecond // 1000:03}Z"
    line = f"{stamp} In(05) vcpu-0 - {text}".encode()
    return LineRecords(origin, written_at=now).make(line, stamp, offset=offset, line_bytes=100)


def test_a_killed_component_is_restarted_with_its_state_and_without_leftovers(
    started: Pipeline,
) -> None:
    pipeline = started
    causes = "SELECT groupArray(cause) FROM stuns WHERE vm = 'killed'"
    start = "SnapshotVMX_TakeSnapshot start: 'nightly', deviceState=0, lazy=0"
    stun = "Checkpoint_Unstun: vm stopped for 48211 us"
    pipeline.ship("esxi.vmware_log", stun_line("killed", start, 0), stun_line("killed", stun, 100))
    pipeline.wait_for(causes, ["snapshot_create"])
    live.make_checkpoint(pipeline.settings, 60)
    (before,) = [each for each in pipeline.processes("taskmanager") if each.pid == each.group]
    os.kill(before.pid, signal.SIGKILL)
    deadline = time.monotonic() + 120
    while before.group in {each.group for each in pipeline.processes("taskmanager")} or (
        pipeline.status().returncode
    ):
        assert time.monotonic() < deadline, pipeline.status().stdout
        time.sleep(0.5)
    # Kafka's offsets in the checkpoint are beyond the start of the snapshot.
    pipeline.ship("esxi.vmware_log", stun_line("killed", stun, 200))
    pipeline.wait_for(causes, ["snapshot_create"] * 2)


def test_unreadable_state_and_lost_tables_are_rebuilt_from_kafka(started: Pipeline) -> None:
    pipeline = started
    count = "SELECT count() FROM stuns WHERE startsWith(vm, 'again')"
    for vm in ("again1", "again2"):
        lines = (f"Checkpoint_Unstun: vm stopped for {number} us" for number in (48211, 50302))
        for number, text in enumerate(lines):
            pipeline.ship("esxi.vmware_log", stun_line(vm, text, number * 100))
            time.sleep(1.1)
    pipeline.wait_for(count, 4)
    before = pipeline.rows("SELECT * EXCEPT (detected_at) FROM stuns ORDER BY event_id")
    lines = "SELECT event_time, message FROM log_lines WHERE startsWith(vm, 'again') ORDER BY ALL"
    pipeline.wait_for(f"SELECT count() FROM ({lines})", 4)
    lines_before = pipeline.rows(lines)
    folder = flink.checkpoints(pipeline.settings)
    deadline = time.monotonic() + 60
    while not list(folder.glob("*/chk-*/_metadata")):
        assert time.monotonic() < deadline, "no checkpoint was completed"
        time.sleep(0.2)
    pipeline.run("down")
    # Simulate another state format.
    folder.rename(folder.with_name("1"))
    shutil.rmtree(pipeline.settings.home / "clickhouse")
    pipeline.run("up")
    pipeline.wait_for(f"SELECT count() FROM ({lines})", 4)
    assert pipeline.rows(lines) == lines_before
    pipeline.ship(
        "esxi.vmware_log", stun_line("again1", "Checkpoint_Unstun: vm stopped for 61000 us", 200)
    )
    pipeline.wait_for(count, 5)
    assert (
        pipeline.rows(
            "SELECT * EXCEPT (detected_at) FROM stuns WHERE duration_us != 61000 ORDER BY event_id"
        )
        == before
    )
    said = (pipeline.settings.logs / "keeper.log").read_text()
    submitted = [line for line in said.splitlines() if "submitting the live job" in line]
    assert submitted[-1].endswith("from the earliest offsets")


def test_killing_all_processes_loses_no_data(started: Pipeline) -> None:
    pipeline = started
    settings = pipeline.settings
    admin = clickhouse.administrator(settings)
    admin.command("CREATE TABLE survives (number UInt64) ENGINE = MergeTree ORDER BY number")
    admin.command("INSERT INTO survives SELECT number FROM numbers(1000)")
    pipeline.produce("events.inventory", b"{}", b"{}", key="esx01")
    for each in list(processes(settings)):
        os.kill(each.pid, signal.SIGKILL)

    pipeline.run("up")
    assert admin.rows("SELECT count(), sum(number) FROM survives") == [(1000, 499_500)]
    topics = json.loads(pipeline.run("status", "--json").stdout)["topics"]
    assert {each["name"] for each in topics} == set(kafka.wanted_topics())
    assert {each["name"]: each["messages"] for each in topics}["events.inventory"] == 2

    assert "is stopped" in pipeline.run("down").stderr
    assert list(processes(settings)) == []
    pipeline.run("status", code=4)
    assert "was not running" in pipeline.run("down").stderr
