"""Tables of ClickHouse that stop reading from Kafka are found and restarted."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import orjson
import pytest

from stunwatch.access import ADMIN, kafka_access
from stunwatch.clickhouse import as_user
from stunwatch.errors import UserError
from stunwatch.local import clickhouse, kafka, keeper, queues
from stunwatch.local.queues import RESTART_S, STALLED_S, Queue
from stunwatch.schema import sql_files
from stunwatch.settings import load_settings
from stunwatch.shipping import Shipper
from tests.kafka_and_clickhouse import Storing, storing

QUEUES = [each for file in sql_files() if file.stage == "queues" for each in file.statements]
KAFKA_TABLES = sorted(
    found[1] for each in QUEUES if (found := re.search(r"(\w+_queue) \(raw", each))
)

LONG = "Cmd failed. " * 5_000
LONG_LINES = 12_000
"""Together three quarters of a gigabyte."""

SOON_S = 30.0
"""On an idle machine, 6 s. With librdkafka's default session, former members hold their partitions
for 45 s."""


def test_a_table_with_several_consumers_has_a_thread_for_each() -> None:
    assert len(KAFKA_TABLES) == 5
    for each in QUEUES:
        if "kafka_num_consumers" in each:
            assert "kafka_thread_per_consumer = 1" in each


def test_a_table_is_stalled_after_a_minute_without_a_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = [
        Queue("late_queue", 0, ""),
        Queue("events_queue", STALLED_S, ""),
        Queue("records_queue", 61, "brokers are down"),
    ]
    monkeypatch.setattr(queues, "look", lambda _: seen)
    [stalled] = queues.stalled(load_settings({}))
    assert stalled.sentence == (
        "The table records_queue has not read from Kafka for 61 s. Its last error: brokers are"
        " down. The job supervisor restarts it after 300 s; docs/runbooks/lag.md shows how to do it"
        " now."
    )


def test_the_keeper_restarts_each_table_that_has_not_read_for_five_minutes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = [Queue(name, RESTART_S + 1, "") for name in ("events_queue", "records_queue")]
    monkeypatch.setattr(queues, "look", lambda _: [*seen, Queue("late_queue", RESTART_S, "")])
    restarted = []

    def restart(_: object, name: str) -> None:
        restarted.append(name)
        raise UserError("ClickHouse does not answer.")

    monkeypatch.setattr(queues, "restart", restart)
    keeper.restart_queues(load_settings({}))
    assert restarted == ["events_queue", "records_queue"]
    assert "events_queue is not restarted: ClickHouse does not answer." in capsys.readouterr().out


def ship(stored: Storing, host: str, lines: int = 8, text: str = "") -> None:
    """Send lines of a host. Eight are enough for each partition to get some."""
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    record = {"event_time": now, "received_at": now, "kind": "line", "source": "syslog"}
    record |= {"program": "vmkernel", "host": host, "run_id": "live", "time_quality": "exact"}
    shipper = Shipper(kafka_access(stored.settings, ADMIN), lambda: None)
    for first in range(0, lines, 100):
        batch = []
        for number in range(first, min(first + 100, lines)):
            value = orjson.dumps(record | {"message": f"{number} {text}"})
            batch.append({"key": str(number).encode(), "value": value})
        shipper.send("esxi.syslog", batch)
    shipper.flush()


def wait_for_lines(stored: Storing, host: str, seconds: float = 60) -> None:
    stored.wait_for(f"SELECT count() FROM log_lines WHERE host = '{host}'", 8, seconds)


@contextmanager
def without_a_view(stored: Storing) -> Iterator[None]:
    """Detach the view that reads records: ClickHouse then stops polling for it."""
    admin = as_user(stored.settings, "admin")
    admin.command("DETACH TABLE records_mv")
    try:
        yield
    finally:
        admin.command("ATTACH TABLE records_mv")


def test_a_table_that_stops_polling_is_named_and_a_restart_loses_nothing(
    stored: Storing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "STALLED_S", 10)
    assert [each.name for each in queues.look(stored.settings)] == KAFKA_TABLES
    with without_a_view(stored):
        ship(stored, "esx-stalled")
        deadline = time.monotonic() + 60
        while not (found := queues.stalled(stored.settings)):
            assert time.monotonic() < deadline, "no table is stalled"
            time.sleep(0.2)
    assert [each.name for each in found] == ["records_queue"]
    queues.restart(stored.settings, "records_queue")
    wait_for_lines(stored, "esx-stalled")
    assert stored.rows("SELECT count() FROM log_lines WHERE host = 'esx-stalled'") == [(8,)]


@pytest.mark.slow
def test_a_backlog_of_the_longest_lines_is_stored_within_the_servers_memory(
    stored: Storing,
) -> None:
    exceeded = "SELECT sum(value) FROM system.errors WHERE name = 'MEMORY_LIMIT_EXCEEDED'"
    admin = as_user(stored.settings, "admin")
    before = admin.rows(exceeded)
    with without_a_view(stored):  # so that all of them are in Kafka when ClickHouse reads
        ship(stored, "esx-long", LONG_LINES, LONG)
    told = "SELECT count() FROM log_lines WHERE host = 'esx-long'"
    stored.wait_for(told, LONG_LINES, 240)
    ship(stored, "esx-after")
    wait_for_lines(stored, "esx-after")
    assert admin.rows(exceeded) == before


@pytest.mark.slow
def test_former_members_of_a_group_delay_no_lines_after_a_kill_and_a_restart(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with storing(tmp_path_factory.mktemp("kills")) as both:
        ship(both, "esx-before")
        wait_for_lines(both, "esx-before")
        both.kill(clickhouse.COMPONENT)
        ship(both, "esx-killed")
        both.start(clickhouse.COMPONENT)
        wait_for_lines(both, "esx-killed", SOON_S)
        both.stop()
        both.start(kafka.COMPONENT)
        ship(both, "esx-stopped")
        both.start(clickhouse.COMPONENT)
        wait_for_lines(both, "esx-stopped", SOON_S)
