"""Measurements of one device by esxtop and by vCenter are never in one window, hour or baseline."""

from __future__ import annotations

from typing import Any

from tests.clickhouse_server import Server, insertion

HOST = {"host": "esx01", "object_class": "scsi_device", "device": "naa.1"}


def insert(server: Server, table: str, *rows: dict[str, Any]) -> None:
    server.admin.command(insertion(table, (HOST | each for each in rows)))


def test_a_recomputed_minute_keeps_the_origins_apart(server: Server) -> None:
    server.empty()
    for second, davg_ms, origin in (
        (0, 3, ""),
        (20, 5, ""),
        (20, 40, "vcenter"),
        (40, 60, "vcenter"),
    ):
        at = f"2024-05-06 07:08:{second:02}"
        insert(
            server,
            "latency_samples_stored",
            {"sampled_at": at, "davg_ms": davg_ms, "origin": origin},
        )
    insert(server, "latency_windows_late", {"window_start": "2024-05-06 07:08:00"})
    found = server.reader.rows(
        "SELECT origin, samples, avg_davg_ms, event_id FROM latency_windows ORDER BY origin"
    )
    assert [each[:3] for each in found] == [("esxtop", 2, 4), ("vcenter", 2, 50)]
    assert found[0][3] != found[1][3]


def test_an_hour_and_its_baseline_keep_the_origins_apart(server: Server) -> None:
    server.empty()
    for origin, davg_ms in (("esxtop", 3.0), ("vcenter", 50.0)):
        insert(
            server,
            "latency_windows_stored",
            {
                "event_id": f"00000000-0000-5000-8000-{int(davg_ms):012}",
                "revision": 1,
                "window_start": "2024-05-06 07:08:00",
                "avg_davg_ms": davg_ms,
                "max_davg_ms": davg_ms,
                "origin": origin,
            },
        )
        insert(
            server,
            "latency_samples_stored",
            {
                "sampled_at": "2024-05-06 07:08:00",
                "davg_ms": davg_ms,
                "origin": "" if origin == "esxtop" else origin,
            },
        )
        insert(
            server,
            "latency_episodes_stored",
            {
                "event_id": f"00000000-0000-5000-8000-{int(davg_ms):012}",
                "revision": 1,
                "metric": "davg",
                "origin": origin,
                "started_at": "2024-05-06 07:08:00",
            },
        )
    by_origin = [("esxtop", 3.0), ("vcenter", 50.0)]
    for query in (
        "SELECT origin, max(peak_davg_ms) FROM latency_hours GROUP BY origin ORDER BY origin",
        "SELECT origin, baseline_ms FROM latency_episodes ORDER BY origin",
        "SELECT origin, davg_ms FROM latency_samples ORDER BY origin",
    ):
        assert server.reader.rows(query) == by_origin, query
