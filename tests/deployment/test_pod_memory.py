"""ClickHouse with the settings of a pod stores a backlog of long lines within its memory."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from rich.console import Console

from stunwatch import schema
from stunwatch.access import ADMIN, kafka_access
from stunwatch.local import clickhouse, fetch, kafka
from stunwatch.shipping import Shipper
from tests.deployment.test_shards import serve, users_of_a_cluster
from tests.kafka_and_clickhouse import Storing
from tests.pipeline import settings_in

LONG = "Cmd failed. " * 5_000
LINES = 8_000
"""Together half a gigabyte, in Kafka before ClickHouse reads them, so they are one block of 5 s."""

MEMORY = 3 << 30
"""Bytes. A pod has 7.2 GiB, but then the backlog would have to be larger and the test slower."""


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Storing]:
    """Kafka, and a ClickHouse with the users and profiles of a pod. Views are not created yet."""
    settings = settings_in(tmp_path)
    settings.make_folders()
    fetch.ensure(settings, Console(stderr=True))
    configuration = tmp_path / "configuration"
    shutil.copytree(clickhouse.CONFIG, configuration)
    (configuration / "users.xml").write_text(users_of_a_cluster())
    config = configuration / "config.xml"
    limit, replaced = re.subn(r"(?<=<max_server_memory_usage>)\d+", str(MEMORY), config.read_text())
    assert replaced == 1
    config.write_text(limit)
    both = Storing(settings)
    both.start(kafka.COMPONENT)
    server = serve(settings, configuration, settings.clickhouse_host)
    try:
        kafka.apply_topics(settings)
        deadline = time.monotonic() + 300
        while unhealthy_reason := clickhouse.unhealthy_reason(settings):
            assert time.monotonic() < deadline, unhealthy_reason
            time.sleep(0.1)
        yield both
    finally:
        server.kill()
        server.wait()
        both.stop()


@pytest.mark.slow
def test_a_pod_stores_a_backlog_of_the_longest_lines_without_a_memory_error(pod: Storing) -> None:
    record = {"event_time": "2026-03-04T05:06:07Z", "received_at": "2026-03-04T05:06:08Z"}
    record |= {"kind": "line", "source": "syslog", "host": "esx-long", "run_id": "night"}
    record |= {"time_quality": "exact"}
    shipper = Shipper(kafka_access(pod.settings, ADMIN), lambda: None)
    for first in range(0, LINES, 100):
        values = [record | {"message": f"{number} {LONG}"} for number in range(first, first + 100)]
        shipper.send(
            "esxi.backfill",
            [
                {"key": str(first + place).encode(), "value": orjson.dumps(value)}
                for place, value in enumerate(values)
            ],
        )
    shipper.flush()
    admin = clickhouse.administrator(pod.settings)
    schema.apply(admin)
    pod.wait_for("SELECT count() FROM log_lines", LINES, 200)
    exceeded = "SELECT sum(value) FROM system.errors WHERE name = 'MEMORY_LIMIT_EXCEEDED'"
    assert admin.rows(exceeded) == [(0,)]
