"""Hours of the day use the site's time zone, with daylight saving time. Stored times stay UTC."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from stunwatch.investigations import investigations
from stunwatch.schema import sql_files
from tests.clickhouse_server import Server

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu")

ZONED = {
    old.name
    for old, new in zip(sql_files(), sql_files("Europe/Berlin"), strict=True)
    if old.fingerprint != new.fingerprint
}

TIMES = [
    datetime(2024, month, day, tzinfo=UTC) + timedelta(minutes=30 * half)
    # Days around both clock changes in Europe, North America and Australia.
    for month, day in ((3, 10), (3, 31), (4, 6), (7, 1), (10, 5), (10, 27), (11, 3))
    for half in range(48)
]


def set_zone(server: Server, name: str) -> None:
    """Apply the SQL files that contain the time zone, as `up` does after the setting changed."""
    for each in sql_files(name):
        if each.name in ZONED:
            for statement in each.statements:
                server.admin.command(statement)


@pytest.fixture(scope="module")
def stunned(server: Server) -> Iterator[Server]:
    rows = ", ".join(
        f"('0badcafe-0000-5000-8000-{place:012}', 1, 'vm', 'ds', '{at:%F %T}', 7)"
        for place, at in enumerate(TIMES)
    )
    server.admin.command(
        "INSERT INTO stuns_stored (event_id, revision, vm, datastore, ended_at, duration_us)"
        f" VALUES {rows}"
    )
    yield server
    set_zone(server, "UTC")


@pytest.mark.parametrize("name", ZONES)
def test_hours_and_weekdays_equal_those_of_python(stunned: Server, name: str) -> None:
    set_zone(stunned, name)
    found = stunned.as_("reader").rows(
        "SELECT toString(ended_at), hour_of_day, toInt8(weekday) FROM stuns_by_time ORDER BY 1"
    )
    expected = []
    for at in TIMES:
        local = at.astimezone(ZoneInfo(name))
        expected.append((f"{at:%F %T}.000000", local.hour, local.isoweekday()))
    assert found == sorted(expected)


def test_two_hours_in_berlin_are_2_when_clocks_go_back_and_none_when_they_go_forward(
    stunned: Server,
) -> None:
    set_zone(stunned, "Europe/Berlin")
    counts = "SELECT countIf(hour_of_day = 2) FROM stuns_by_time WHERE toDate(ended_at) = "
    assert stunned.reader.rows(f"{counts}'2024-10-27'") == [(4,)]
    assert stunned.reader.rows(f"{counts}'2024-03-31'") == [(0,)]
    assert stunned.reader.rows(f"{counts}'2024-07-01'") == [(2,)]


def test_the_usual_hour_of_a_backup_is_in_the_sites_time_zone(stunned: Server) -> None:
    """The backup starts at 02:15 in Berlin, in winter and in summer."""
    for at in ("2024-03-30 01:15:00", "2024-04-01 00:15:00", "2024-04-02 00:15:00"):
        stunned.admin.command(
            "INSERT INTO snapshot_operations_stored (event_id, revision, vm, datastore, kind, name,"
            f" started_at, outcome) VALUES (generateUUIDv4(), 1, 'db', 'ds', 'create', 'nightly',"
            f" '{at}', 'ok')"
        )
        stunned.admin.command(
            "INSERT INTO stuns_stored (event_id, revision, vm, datastore, started_at, ended_at,"
            f" duration_us, cause) VALUES (generateUUIDv4(), 1, 'db', 'ds', '{at}', '{at}', 7,"
            " 'snapshot_create')"
        )
    set_zone(stunned, "Europe/Berlin")
    job = investigations()["backup_jobs_that_stun"]
    given = {"vm": "db", "until": "2024-04-02 12:00"}
    [row] = stunned.reader.named_rows(job.query, job.parameters(given))
    assert (row["stuns"], row["usual_hour_utc"], row["usual_hour"]) == (3, 0, 2)


def test_only_views_are_applied_again_when_the_zone_changes() -> None:
    assert {"views/site.sql", "views/stuns_by_time.sql"} <= ZONED
    assert {name.split("/")[0] for name in ZONED} <= {"views", "queries"}


def test_usual_stuns_are_shown_at_the_same_local_time_across_a_change_of_the_clock(
    stunned: Server,
) -> None:
    """A backup at 02:15 in Berlin is at 01:15 UTC in winter, at 00:15 UTC in summer."""
    set_zone(stunned, "Europe/Berlin")
    stunned.admin.command(
        "INSERT INTO stuns_stored (event_id, revision, vm, datastore, ended_at, duration_us)"
        " VALUES (generateUUIDv4(), 1, 'usual', 'ds', '2024-03-25 01:15:00', 7)"
    )
    assert stunned.reader.rows(
        "SELECT toString(shown_at) FROM stuns_and_usual WHERE vm = 'usual' AND weeks_before = 1"
    ) == [("2024-04-01 00:15:00.000000",)]
