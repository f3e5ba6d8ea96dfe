"""Times inside lines create no partitions, so inserts never fail because of too many parts."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from stunwatch.clickhouse import ClickHouse
from stunwatch.schema import SqlFile, sql_files
from tests.clickhouse_server import Server

LINES = ("tables/log_lines_stored", "tables/latency_samples_stored", "tables/rejected_lines_stored")
MOST_PARTITIONS = 64


def sql(name: str) -> SqlFile:
    return next(each for each in sql_files() if each.name == f"{name}.sql")


def text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def dates() -> list[datetime]:
    """300 dates, from 1970 to 2199."""
    first, last = datetime(1970, 1, 2, tzinfo=UTC), datetime(2199, 12, 30, tzinfo=UTC)
    return [first + (last - first) * number / 299 for number in range(300)]


@pytest.fixture
def now() -> datetime:
    """The time of the test: lines that are minutes old are late."""
    return datetime.now(UTC).replace(microsecond=0)


@pytest.fixture(autouse=True)
def emptied(server: Server) -> None:
    server.empty()


def feed(clickhouse: ClickHouse, view: str, topic: str, messages: list[dict[str, Any]]) -> None:
    """Send messages through a materialized view as if they came from Kafka."""
    [statement] = sql(f"parsing/{view}").statements
    table = statement.split(" TO ")[1].split()[0]
    select = re.split(r" AS\n", statement, maxsplit=1)[1]
    raw = ", ".join(f"'{orjson.dumps(each).decode()}'" for each in messages)
    given = (
        f"(SELECT arrayJoin([{raw}]) AS raw, '{topic}' AS _topic, 0 AS _partition,"
        " 1 AS _offset, toNullable(now64(3)) AS _timestamp_ms)"
    )
    select = re.sub(r"FROM \w+_queue", f"FROM {given}", select)
    clickhouse.command(f"INSERT INTO {table} {select}")


def line(event_time: str, received_at: str, **more: Any) -> dict[str, Any]:
    return {
        "event_time": event_time,
        "received_at": received_at,
        "kind": "line",
        "source": "syslog",
        "host": "esx01",
        "head": "<14>",
        "message": event_time,
        "run_id": "live",
        "time_quality": "exact",
        **more,
    }


def partitions(clickhouse: ClickHouse, table: str) -> int:
    [(count,)] = clickhouse.rows(
        "SELECT uniqExact(partition_id) FROM system.parts"
        f" WHERE active AND database = 'stunwatch' AND table = '{table}'"
    )
    return int(count)


def test_lines_of_300_dates_are_stored_in_one_partition(server: Server, now: datetime) -> None:
    in_files = [line(text(each), text(now), file="/a", run_id="r") for each in dates()]
    for _ in range(3):
        feed(server.admin, "records_mv", "esxi.backfill", in_files)
    assert partitions(server.admin, "log_lines_stored") <= 2
    assert server.reader.rows("SELECT count(), min(event_time) < '1971-01-01' FROM log_lines") == [
        (300, 1)
    ]


def test_messages_with_300_arrival_dates_are_stored_in_few_partitions(
    server: Server, now: datetime
) -> None:
    of_every_date = [line(text(now), text(each)) for each in dates()]
    feed(server.admin, "records_mv", "esxi.syslog", of_every_date)
    assert partitions(server.admin, "log_lines_stored") <= 3
    samples = [
        {**line(text(now), text(each)), "object_class": "scsi_device", "device": "d", "davg_ms": 1}
        | {"source": "esxtop"}
        for each in dates()
    ]
    server.read(("esxi.esxtop", orjson.dumps(each)) for each in samples)
    assert partitions(server.admin, "latency_samples_stored") in (1, 2, 3)


def test_a_network_line_with_a_distant_time_is_stored_at_its_arrival(
    server: Server, now: datetime
) -> None:
    shipped = [
        line(text(each), text(now))
        for each in (*dates(), now - timedelta(days=39), now + timedelta(hours=23))
    ]
    feed(server.admin, "records_mv", "esxi.syslog", shipped)
    of_a_shipper = line(text(now), text(now), time_quality="arrival", message="doubted")
    feed(
        server.admin,
        "records_mv",
        "esxi.syslog",
        [{**of_a_shipper, "stamped_at": "2199-12-31T00:00:00.5Z"}],
    )
    [(lines, near, believed, last)] = server.reader.rows(
        "SELECT count(), countIf(abs(dateDiff('day', event_time, received_at)) <= 40),"
        " countIf(time_quality = 'exact' AND isNull(stamped_at)), toString(max(stamped_at))"
        " FROM log_lines"
    )
    assert (lines, near, last) == (303, 303, "2199-12-31 00:00:00.500000")
    # One of the 300 dates can be near the time of arrival.
    assert believed in (2, 3)
    [(kind, count)] = server.reader.rows("SELECT kind, count FROM quality_events WHERE count > 100")
    assert kind == "clock_skew"
    assert 295 <= count <= 301


def test_a_line_that_is_replayed_in_another_week_stays_one_row(
    server: Server, now: datetime
) -> None:
    for days, run_id in ((35, "first"), (0, "second")):
        one = line("2019-05-06T07:08:09Z", text(now - timedelta(days=days)), file="/a")
        feed(server.admin, "records_mv", "esxi.backfill", [{**one, "run_id": run_id}])
    assert partitions(server.admin, "log_lines_stored") == 2
    server.admin.command("OPTIMIZE TABLE log_lines_stored FINAL")
    assert server.reader.rows("SELECT run_id FROM log_lines") == [("first",)]
    found = server.reader.rows("SELECT run_id FROM log_lines_with(words = '2019')")
    assert found == [("first",)]


def test_rows_of_230_years_fit_into_one_insert_of_every_table(server: Server) -> None:
    """The number of partitions per insert is limited."""
    by_own_time = server.admin.rows(
        "SELECT table, name, type FROM system.columns WHERE database = 'stunwatch'"
        # The materialized views set the time of arrival.
        " AND is_in_partition_key AND name NOT IN ('received_on', 'bucket')"
    )
    assert len(by_own_time) >= 6
    for table, column, kind in by_own_time:
        last = "2100-01-01" if kind.startswith("DateTime(") else "2199-12-31"
        server.admin.command(
            f"INSERT INTO {table} ({column})"
            " SELECT toDateTime64('1970-01-02', 6, 'UTC') + toIntervalMonth(number)"
            f" FROM numbers(dateDiff('month', toDate32('1970-01-01'), toDate32('{last}')))"
        )
        assert 1 < partitions(server.admin, table) <= MOST_PARTITIONS, table
