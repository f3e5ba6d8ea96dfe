"""A detector's failure is visible in quality_events, the blind spots, metrics and `status`."""

from __future__ import annotations

import pytest

from stunwatch.local import health
from stunwatch.schema import SQL
from stunwatch.settings import load_settings
from tests.clickhouse_server import Server

LINE = "Checkpoint_Unstun: vm stopped for 48211 us"


@pytest.fixture(scope="module")
def failed(server: Server) -> Server:
    """Store two records that the stun detector failed on, and a line of unknown format."""
    for reason, line in (
        ("detector stuns failed: KeyError", LINE),
        ("detector stuns failed: OverflowError", f"{LINE} again"),
        ("unknown line format", "what nobody knows"),
    ):
        server.admin.command(
            "INSERT INTO rejected_lines_stored (received_at, source, host, line, run_id, reason)"
            f" VALUES (now64(6), 'vmware_log', 'esx01', '{line}', 'live', '{reason}')"
        )
    server.admin.command(
        "INSERT INTO source_activity_stored (source, host, bucket, first_received_at,"
        " last_received_at) VALUES ('vmware_log', 'esx01', now(), now(), now())"
    )
    server.admin.command(
        "INSERT INTO newest_lines_stored (source, arrived_at, line_at)"
        " VALUES ('vmware_log', now(), now())"
    )
    return server


def test_quality_events_contain_the_detector_its_error_and_the_record(failed: Server) -> None:
    rows = failed.reader.rows(
        "SELECT kind, count, evidence[1] FROM quality_events"
        " WHERE kind IN ('rejected', 'detector_failed') ORDER BY evidence"
    )
    assert rows == [
        ("detector_failed", 1, f"detector stuns failed: KeyError: {LINE}"),
        ("detector_failed", 1, f"detector stuns failed: OverflowError: {LINE} again"),
        ("rejected", 1, "what nobody knows"),
    ]


@pytest.mark.parametrize(
    "query", ["SELECT * FROM blind_spots_now", "queries/watch/blind_spots.sql"]
)
def test_a_failed_detector_is_a_blind_spot(failed: Server, query: str) -> None:
    text = (SQL / query).read_text() if query.endswith(".sql") else query
    rows = {(row[0], row[4]) for row in failed.reader.rows(text)}
    assert {("detector_failed", 2), ("rejected", 1)} <= rows


def test_a_metric_counts_the_failed_records(failed: Server) -> None:
    rows = failed.reader.rows((SQL / "queries" / "metrics" / "pipeline.sql").read_text())
    assert {row[0]: row[4] for row in rows}["stunwatch_detector_failures"] == 2


def test_status_shows_the_failed_detector(failed: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "as_user", lambda *_, **__: failed.reader)
    [found] = health.detector_failures(load_settings({}))
    assert found.sentence == (
        "The detector stuns failed in the last hour (KeyError, OverflowError), on 2 records that"
        " are kept: `stunwatch sql rejected_by_reason`."
    )


@pytest.mark.unit
def test_status_works_without_clickhouse(tmp_path: object) -> None:
    settings = load_settings({"STUNWATCH_HOME": str(tmp_path)})
    assert health.detector_failures(settings) == []
