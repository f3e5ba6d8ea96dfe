"""Empty hours and days get a row in the SQL that Superset writes for ClickHouse."""

from __future__ import annotations

import runpy
from collections.abc import Callable

import pytest

from stunwatch.settings import ROOT
from tests.clickhouse_server import Server

filled: Callable[[str], str] = runpy.run_path(str(ROOT / "infra" / "superset" / "gaps.py"))[
    "filled"
]

RANGE = "ended_at >= toDateTime('{}') AND ended_at < toDateTime('{}') AND "
DAYS = RANGE.format("2024-05-01 12:00:00", "2024-05-08 00:00:00")
STUNS = """
    SELECT
        toDateTime64('2024-05-02 01:00:00', 6, 'UTC') + toIntervalHour(number * 49) AS ended_at,
        toLowCardinality(if(number = 1, 'vmotion', 'unknown')) AS cause, 0.5 AS duration_s
    FROM numbers(3)
"""
"""Stuns on the 2nd, the 4th and the 6th."""


def query(
    rounded: str = "toStartOfDay(toDateTime(ended_at))", series: str = "", condition: str = DAYS
) -> str:
    """Return a query of a chart as Superset 6.1 writes it."""
    column = f"`{series}` AS `{series}`, " if series else ""
    group = f", `{series}`" if series else ""
    return (
        f"SELECT {rounded} AS `event_time`, {column}count() AS `stuns`,"
        f" maxOrNull(duration_s) AS `max` \nFROM ({STUNS}) \nWHERE {condition}true"
        f" GROUP BY `event_time`{group} ORDER BY `stuns` DESC\n LIMIT 10000;\n\n"
    )


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count() AS `stuns` FROM `stunwatch`.`stuns` LIMIT 100",
        "SELECT `vm` AS `vm`, count() AS `stuns` FROM `stunwatch`.`stuns` GROUP BY `vm` LIMIT 50",
        "SELECT toStartOfDay(toDateTime(ended_at)) AS `day` FROM stuns LIMIT 5",
        query("toStartOfQuarter(toDateTime(ended_at))"),
        # Minutes of an unknown number of years.
        query("toStartOfMinute(toDateTime(ended_at))", condition=""),
        # More minutes than a chart has pixels.
        query(
            "toStartOfMinute(toDateTime(ended_at))",
            condition=RANGE.format("2024-01-01 00:00:00", "2024-05-08 00:00:00"),
        ),
    ],
)
def test_other_queries_are_unchanged(sql: str) -> None:
    assert filled(sql) == sql


def test_days_without_rows_have_count_0_and_no_longest_stun(server: Server) -> None:
    rows = server.reader.rows(filled(query()))
    assert [(str(day)[:10], count, longest) for day, count, longest in rows] == [
        ("2024-05-01", 0, None),
        ("2024-05-02", 1, 0.5),
        ("2024-05-03", 0, None),
        ("2024-05-04", 1, 0.5),
        ("2024-05-05", 0, None),
        ("2024-05-06", 1, 0.5),
        ("2024-05-07", 0, None),
    ]


def test_each_series_is_filled(server: Server) -> None:
    rows = list(server.reader.rows(filled(query(series="cause"))))
    assert [(cause, count) for _, cause, count, _ in rows] == [
        ("unknown", each) for each in (0, 1, 0, 0, 0, 1, 0)
    ] + [("vmotion", each) for each in (0, 0, 0, 1, 0, 0, 0)]


@pytest.mark.parametrize(
    ("rounded", "steps"),
    [
        ("toStartOfMinute(toDateTime(ended_at))", 24 * 60),
        ("toDateTime(intDiv(toUInt32(toDateTime(ended_at)), 300)*300)", 24 * 12),
        ("toDateTime(intDiv(toUInt32(toDateTime(ended_at)), 1800)*1800)", 24 * 2),
        ("toStartOfHour(toDateTime(ended_at))", 24),
        ("toStartOfDay(toDateTime(ended_at))", 1),
        ("toMonday(toDateTime(ended_at))", 1),
        ("toStartOfMonth(toDateTime(ended_at))", 1),
    ],
)
def test_every_grain_of_a_day_is_filled(server: Server, rounded: str, steps: int) -> None:
    day = RANGE.format("2024-05-02 00:00:00", "2024-05-03 00:00:00")
    rows = list(server.reader.rows(filled(query(rounded, condition=day))))
    assert len(rows) == steps
    assert sum(count for _, count, _ in rows) == 1


def test_without_a_range_the_first_and_the_last_row_are_the_limits(server: Server) -> None:
    rows = list(server.reader.rows(filled(query(condition=""))))
    assert [count for _, count, _ in rows] == [1, 0, 1, 0, 1]


def test_a_query_without_rows_stays_empty(server: Server) -> None:
    """The chart then shows its text for an empty result."""
    for series in ("", "cause"):
        sql = query(series=series).replace("WHERE ", "WHERE duration_s > 1 AND ")
        assert list(server.reader.rows(filled(sql))) == []


def test_the_future_is_not_filled(server: Server) -> None:
    century = RANGE.format("2024-05-01 00:00:00", "2100-01-01 00:00:00")
    rows = list(server.reader.rows(filled(query("toMonday(toDateTime(ended_at))", "", century))))
    [(today,)] = server.reader.rows("SELECT toString(toMonday(now()))")
    assert str(rows[-1][0]) == today


@pytest.mark.parametrize("columns", [["hour_of_day", "cause"], ["cause", "hour_of_day"]])
def test_every_hour_of_the_day_has_a_row(server: Server, columns: list[str]) -> None:
    stuns = f"(SELECT *, toHour(ended_at) AS hour_of_day FROM ({STUNS}))"
    named = ", ".join(f"`{each}` AS `{each}`" for each in columns)
    group = ", ".join(f"`{each}`" for each in columns)
    sql = (
        f"SELECT {named}, count() AS `stuns` \nFROM {stuns} \nGROUP BY {group}"
        " ORDER BY `stuns` DESC\n LIMIT 10000;\n\n"
    )
    rows = [dict(zip(columns, row, strict=False)) for row in server.reader.rows(filled(sql))]
    assert [(row["cause"], row["hour_of_day"]) for row in rows] == [
        (cause, hour) for cause in ("unknown", "vmotion") for hour in range(24)
    ]
