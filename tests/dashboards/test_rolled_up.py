"""What dashboards read instead of the whole: revised, taken back or replayed, it stays the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stunwatch.schema import SQL, statements
from tests.investigations.server import Server, running

A, B = (f"0badcafe-0000-5000-8000-00000000000{each}" for each in "ab")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("rolled_up")) as made:
        yield made


def stun(server: Server, event_id: str, revision: int, is_deleted: int, microseconds: int) -> None:
    server.admin.command(
        "INSERT INTO stuns_stored (event_id, revision, is_deleted, detected_at, run_id, host, vm,"
        " datastore, started_at, ended_at, duration_us, cause, severity) VALUES"
        f" ('{event_id}', {revision}, {is_deleted}, '2024-05-06 07:00:00', 'live', 'esx01', 'vm01',"
        f" 'ds', '2024-05-06 06:59:59', '2024-05-06 07:00:00', {microseconds}, 'unknown', 'notice')"
    )


def window(server: Server, minute: int, davg_ms: float) -> None:
    server.admin.command(
        "INSERT INTO latency_windows_stored (event_id, revision, is_deleted, detected_at, host,"
        " object_class, device, window_seconds, window_start, window_end, avg_davg_ms, max_davg_ms,"
        f" avg_kavg_ms, samples) VALUES (generateUUIDv4(), 1, 0, now(), 'esx01', 'scsi_device',"
        f" 'naa.1', 60, '2024-05-06 07:{minute:02}:00', '2024-05-06 07:{minute + 1:02}:00',"
        f" {davg_ms}, {davg_ms * 2}, 0.1, 12)"
    )


def test_stuns_by_time_are_the_stuns(server: Server) -> None:
    compared = "event_id, host, vm, datastore, ended_at, duration_us, cause, severity, run_id"
    for told in (
        [(A, 1, 0, 700_000), (B, 1, 0, 300_000)],
        [(A, 2, 0, 750_000)],
        [(A, 1, 0, 700_000)],
        [(B, 2, 1, 300_000)],
    ):
        for each in told:
            stun(server, *each)
        stuns, by_time = (
            server.reader.rows(f"SELECT {compared} FROM {view} ORDER BY event_id")
            for view in ("stuns", "stuns_by_time")
        )
        assert by_time == stuns
    assert [row[5] for row in by_time] == [750_000]


def test_an_hour_of_latency_stays_the_same_when_it_is_replayed(server: Server) -> None:
    asked = "SELECT hour, max(worst_davg_ms), max(peak_davg_ms) FROM latency_hours GROUP BY hour"
    found = []
    for _ in range(2):
        for minute, davg_ms in enumerate((3.0, 40.0, 5.0)):
            window(server, minute, davg_ms)
        found.append(server.reader.rows(asked))
    assert found[0] == found[1] == [("2024-05-06 07:00:00", 40.0, 80.0)]


@pytest.mark.parametrize("name", ["stuns_by_time", "latency_hours"])
def test_what_was_stored_before_is_taken_over(server: Server, name: str) -> None:
    stun(server, A, 1, 0, 700_000)
    window(server, 1, 3.0)
    asked = f"SELECT * FROM {name} ORDER BY ALL"
    server.admin.command(f"OPTIMIZE TABLE {name}_stored FINAL")
    before = server.reader.rows(asked)
    server.admin.command(f"TRUNCATE TABLE {name}_stored")
    for statement in statements((SQL / "backfills" / f"{name}.sql").read_text()):
        server.admin.command(statement)
    assert server.reader.rows(asked) == before != []
