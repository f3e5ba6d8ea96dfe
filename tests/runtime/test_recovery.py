"""A real pipeline: up, up again, killed as a whole, up with all data, down without a trace."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable

import pytest

from stunwatch.runtime import clickhouse, kafka
from stunwatch.runtime.components import BY_NAME
from stunwatch.runtime.processes import processes
from tests.end_to_end.conftest import Pipeline

RESIDENT_MB = 4096


@pytest.mark.timeout(400)
def test_kill_minus_nine_of_everything_loses_nothing(
    pipelines: Callable[..., Pipeline],
) -> None:
    pipeline = pipelines()
    settings = pipeline.settings
    pipeline.run("up")
    began = time.monotonic()
    again = pipeline.run("up")
    assert time.monotonic() - began < 3
    assert "✓" not in again.stderr
    health = json.loads(pipeline.run("status", "--json").stdout)
    assert health["is_healthy"]
    assert {each["name"] for each in health["components"]} == set(BY_NAME) - {
        *("alerts", "metrics", "superset", "collect-vmlogs", "collect-latency", "collect-inventory")
    }
    assert sum(each["memory_mb"] for each in health["components"]) < RESIDENT_MB

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

    assert "is down" in pipeline.run("down").stderr
    assert list(processes(settings)) == []
    pipeline.run("status", code=4)
    assert "was not running" in pipeline.run("down").stderr


def test_what_dies_is_restarted_without_its_orphans(
    pipelines: Callable[..., Pipeline],
) -> None:
    pipeline = pipelines()
    pipeline.run("up")
    (before,) = [each for each in pipeline.processes("taskmanager") if each.pid == each.group]
    os.kill(before.pid, signal.SIGKILL)
    deadline = time.monotonic() + 120
    while before.group in {each.group for each in pipeline.processes("taskmanager")} or (
        pipeline.status().returncode
    ):
        assert time.monotonic() < deadline, pipeline.status().stdout
        time.sleep(0.5)
