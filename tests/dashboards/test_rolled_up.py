"""Aggregated tables for dashboards stay correct after revisions, retractions and replays."""

from __future__ import annotations

import pytest

from stunwatch.schema import SQL, statements
from tests.clickhouse_server import Server

A, B, C = (f"0badcafe-0000-5000-8000-00000000000{each}" for each in "abc")


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


def test_stuns_by_time_equals_stuns(server: Server) -> None:
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
def test_a_backfill_copies_rows_that_were_stored_before(server: Server, name: str) -> None:
    stun(server, A, 1, 0, 700_000)
    window(server, 1, 3.0)
    asked = f"SELECT * FROM {name} ORDER BY ALL"
    server.admin.command(f"OPTIMIZE TABLE {name}_stored FINAL")
    before = server.reader.rows(asked)
    server.admin.command(f"TRUNCATE TABLE {name}_stored")
    for statement in statements((SQL / "backfills" / f"{name}.sql").read_text()):
        server.admin.command(statement)
    assert server.reader.rows(asked) == before != []


def test_usual_stuns_are_the_mean_of_the_same_weekdays(server: Server) -> None:
    """28 and 21 days before there is one stun each, 14 days before none, 7 days before three.

    So the mean of the four weeks is 1.25.
    """
    for number, days_before in enumerate((35, 28, 21, 7, 7, 7, 0, 0)):
        server.admin.command(
            "INSERT INTO stuns_stored (event_id, revision, is_deleted, detected_at, run_id, host,"
            " vm, datastore, started_at, ended_at, duration_us, cause, severity) WITH"
            f" toDateTime64('2023-05-08 02:00:0{number}', 6, 'UTC')"
            f" - INTERVAL {days_before} DAY AS at SELECT generateUUIDv4(), 1, 0, at, 'history',"
            " 'esx01', 'weekly', 'ds', at, at, 1000, 'unknown', 'normal'"
        )
    compared = "countIf(weeks_before = 0), sum(share), max(weeks_known)"
    asked = f"SELECT {compared} FROM stuns_and_usual WHERE vm = 'weekly' AND toDate(shown_at) = "
    assert server.reader.rows(f"{asked} '2023-05-08'") == [(2, 1.25, 4)]
    # One week after the first stun, the mean has one week.
    assert server.reader.rows(f"{asked} '2023-04-10'") == [(1, 1, 1)]
    assert server.reader.rows(f"{asked} '2023-04-03'") == [(1, 0, 0)]
    # Future weeks are not shown.
    later = "SELECT count() FROM stuns_and_usual WHERE shown_at > (SELECT as_of FROM fleet_clock)"
    assert server.reader.rows(later) == [(0,)]


def test_the_evidence_of_a_stun_is_described_in_words(server: Server) -> None:
    name = "Checkpoint_Unstun: vm stopped for 5 us"
    evidence = [
        "2024-05-06T07:00:00Z In(05) vcpu-0 - Checkpoint_Unstun: vm stopped for 700000 us",
        f"2024-05-06T06:59:59Z In(05) vmx - SnapshotVMX_TakeSnapshot start: '{name}',"
        " deviceState=1, lazy=0, quiesced=0, forceNative=0, tryNative=0, saveAllocMaps=0",
        "2024-05-06T06:59:59Z In(05) vmx - SnapshotVMXConsolidateOnlineCB: Another iteration is"
        " needed.",
    ]
    literals = ", ".join("'" + each.replace("'", "\\'") + "'" for each in evidence)
    server.admin.command(
        "INSERT INTO stuns_stored (event_id, revision, is_deleted, detected_at, run_id, host, vm,"
        " datastore, started_at, ended_at, duration_us, cause, severity, evidence) VALUES"
        f" ('{C}', 1, 0, now(), 'live', 'esx01', 'vm02', 'ds', '2024-05-06 06:59:59', '2024-05-06"
        f" 07:00:00', 700000, 'snapshot_create_memory', 'notice', [{literals}])"
    )
    server.admin.command(
        "INSERT INTO incidents_stored (event_id, revision, verdict, stun_count, evidence_ids)"
        f" VALUES ('{B}', 1, 'It is the LUN.', 1, ['{C}'])"
    )
    asked = "SELECT evidence_in_words, incident, verdict FROM worst_stuns WHERE vm = 'vm02'"
    assert server.reader.rows(asked) == [
        (
            f"vmware.log: stopped for 700000 µs; snapshot '{name}' with memory;"
            " consolidation needed another pass",
            B[:8],
            "It is the LUN.",
        )
    ]
