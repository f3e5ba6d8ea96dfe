"""The age of the newest live line: one row in every state, by Kafka's clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from stunwatch import schema
from stunwatch.schema import SQL
from stunwatch.settings import load_settings
from tests.clickhouse_server import ARRIVED, Server


@pytest.fixture(autouse=True)
def nothing_is_stored(server: Server) -> None:
    server.empty()


def newest_line(server: Server) -> dict[str, Any]:
    [row] = server.reader.named_rows("SELECT * FROM newest_line")
    return row


def arrived(server: Server, seconds_ago: int, source: str = "syslog") -> None:
    server.admin.command(
        "INSERT INTO newest_lines_stored (source, arrived_at, line_at)"
        f" VALUES ('{source}', now64(3) - {seconds_ago}, now64(6) - {seconds_ago} - 1)"
    )


def active(server: Server, host: str, seconds_ago: int) -> None:
    server.admin.command(
        "INSERT INTO source_activity_stored"
        " (source, host, bucket, first_received_at, last_received_at)"
        f" SELECT 'syslog', '{host}', toStartOfFiveMinutes(at), at, at"
        f" FROM (SELECT now64(6) - {seconds_ago} AS at)"
    )


def test_without_any_line_the_state_is_never(server: Server) -> None:
    row = newest_line(server)
    assert (row["state"], row["is_silent"]) == ("never", 1)
    assert row["age_s"] is row["arrived_at"] is row["line_at"] is None


def test_after_only_a_replay_the_state_is_replayed_only(server: Server) -> None:
    server.admin.command("INSERT INTO owners_seen_stored (host, seen_at) VALUES ('esx01', now())")
    assert (newest_line(server)["state"], newest_line(server)["is_silent"]) == ("replayed_only", 0)


@pytest.mark.parametrize(("seconds_ago", "state"), [(5, "ok"), (580, "ok"), (35 * 60, "silent")])
def test_the_state_is_silent_if_the_age_exceeds_the_limit(
    server: Server, seconds_ago: int, state: str
) -> None:
    arrived(server, 90 * 86400, "esxtop")
    arrived(server, seconds_ago)
    row = newest_line(server)
    assert (row["state"], row["source"], row["limit_s"]) == (state, "syslog", 600)
    assert row["age_s"] == pytest.approx(seconds_ago, abs=10)


def test_a_setting_changes_the_limit(server: Server) -> None:
    arrived(server, 120)
    assert newest_line(server)["state"] == "ok"
    schema.store_limits(server.admin, {"newest_line_s": 60})
    assert (newest_line(server)["state"], newest_line(server)["limit_s"]) == ("silent", 60)
    schema.store_limits(server.admin, {"newest_line_s": 300})
    assert newest_line(server)["state"] == "ok"


def test_the_default_limit_of_the_view_matches_the_setting(server: Server) -> None:
    assert newest_line(server)["limit_s"] == load_settings({}).limits["newest_line_s"]


def test_one_active_host_of_many_is_reported(server: Server) -> None:
    arrived(server, 5)
    for number in range(5):
        active(server, f"esx0{number}", 5 if number == 0 else 3 * 86_400)
    row = newest_line(server)
    assert (row["state"], row["message"]) == ("few_hosts", "Only 1 of 5 hosts send lines")
    active(server, "esx01", 30)
    active(server, "esx02", 30)
    assert newest_line(server)["state"] == "ok"


def test_new_samples_do_not_hide_missing_lines(server: Server) -> None:
    arrived(server, 5, "vcenter")
    assert newest_line(server)["state"] == "ok"
    arrived(server, 3600)
    row = newest_line(server)
    assert (row["state"], row["source"]) == ("silent", "syslog")


def test_after_rejected_live_lines_the_state_is_never(server: Server) -> None:
    server.admin.command("INSERT INTO owners_seen_stored (host, seen_at) VALUES ('esx01', now())")
    server.admin.command(
        "INSERT INTO rejected_lines_stored (received_at, line, run_id) VALUES (now(), 'x', 'live')"
    )
    assert newest_line(server)["state"] == "never"


@pytest.mark.parametrize(
    "query", ["SELECT * FROM blind_spots_now", "queries/watch/blind_spots.sql"]
)
def test_missing_live_lines_are_the_first_blind_spot(server: Server, query: str) -> None:
    text = (SQL / query).read_text() if query.endswith(".sql") else f"{query} ORDER BY rank"
    never = server.reader.named_rows(text)[0]
    assert (never["kind"], never["since"], never["count"]) == ("no_live_lines", None, 0)
    arrived(server, 35 * 60)
    for minute in range(35, 100, 5):
        active(server, "esx01", minute * 60)
        active(server, "esx02", (minute + 60) * 60)
    rows = server.reader.named_rows(text)
    assert [each["kind"] for each in rows] == ["no_live_lines", "silent_source"]
    assert rows[0]["count"] == pytest.approx(2100, abs=30)
    server.admin.command("TRUNCATE TABLE newest_lines_stored")
    arrived(server, 5)
    assert [each["kind"] for each in server.reader.named_rows(text)] == ["silent_source"]


def test_a_source_without_lines_for_days_is_still_listed(server: Server) -> None:
    server.admin.command(
        "INSERT INTO source_activity_stored"
        " (source, host, bucket, first_received_at, last_received_at)"
        " SELECT 'syslog', host, toStartOfFiveMinutes(at), at, at FROM ("
        " SELECT ['esx01', 'esx02'][1 + number % 2] AS host,"
        " now64(6) - 300 * intDiv(number, 2) - 3 * 86400 * (number % 2) AS at FROM numbers(600))"
    )
    active(server, "esx03", 3 * 86_400)  # rarely sends
    [row] = server.reader.named_rows("SELECT * FROM silent_sources")
    assert row["host"] == "esx02"
    assert row["silent_s"] == pytest.approx(3 * 86_400, abs=30)


def test_quality_events_contain_past_periods_without_live_lines(server: Server) -> None:
    for minute in (0, 5, 10, 55, 60, 65):
        active(server, "esx01", minute * 60 + 1200)
    rows = server.reader.named_rows(
        "SELECT * FROM quality_events WHERE kind = 'no_live_lines' ORDER BY started_at"
    )
    assert [round(each["count"] / 60) for each in rows] == [45, 20]
    assert [each["ended_at"] is None for each in rows] == [False, True]


def test_metrics_contain_the_age_and_the_limit(server: Server) -> None:
    def metrics() -> dict[str, float]:
        rows = server.reader.rows((SQL / "queries" / "metrics" / "pipeline.sql").read_text())
        return {row[0]: row[4] for row in rows if "line" in row[0]}

    limit = "stunwatch_newest_line_limit_seconds"
    assert metrics() == {"stunwatch_live_lines_missing": 1, limit: 600}
    arrived(server, 700)
    found = metrics()
    assert found.pop("stunwatch_newest_line_age_seconds") == pytest.approx(700, abs=30)
    assert found == {"stunwatch_live_lines_missing": 1, limit: 600}
    arrived(server, 5)
    assert metrics()["stunwatch_live_lines_missing"] == 0


@pytest.mark.parametrize("ahead", [timedelta(hours=5), timedelta(hours=-5)])
def test_clocks_of_hosts_and_shippers_do_not_affect_the_age(
    server: Server, ahead: timedelta
) -> None:
    """Uses a line without a host, as in a tailed vmware.log; such lines count as well."""
    kafka_at = datetime.fromisoformat(ARRIVED).replace(tzinfo=UTC)
    wrong = f"{kafka_at + ahead:%Y-%m-%dT%H:%M:%S}.000Z"
    record = {
        "event_time": wrong,
        "received_at": wrong,
        "kind": "line",
        "source": "vmware_log",
        "vm": "sql01",
        "datastore": "ds1",
        "message": "words",
        "run_id": "live",
        "time_quality": "exact",
    }
    replayed = {**record, "run_id": "a run", "source": "syslog", "host": "esx01"}
    topics = ("esxi.vmware_log", "esxi.backfill")
    messages = zip(topics, (record, replayed), strict=True)
    server.read((topic, orjson.dumps(each)) for topic, each in messages)
    row = newest_line(server)
    assert (row["arrived_at"], row["source"]) == (ARRIVED, "vmware_log")
    assert row["line_at"].replace(" ", "T")[:19] == wrong[:19]
    assert row["is_silent"]
