"""Add empty hours and days to the query of a chart.

Superset groups by the rounded time, so an hour without rows is missing. A line chart then connects
the hours before and after it, and the axis ends at the last event. ClickHouse's WITH FILL adds the
missing steps: a count becomes 0, a Nullable value becomes NULL, which is a gap in the line.
https://clickhouse.com/docs/sql-reference/statements/select/order-by#order-by-expr-with-fill-modifier
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

STEPS = {
    "toStartOfMinute": ("1 MINUTE", timedelta(minutes=1)),
    "toStartOfHour": ("1 HOUR", timedelta(hours=1)),
    "toStartOfDay": ("1 DAY", timedelta(days=1)),
    "toMonday": ("1 WEEK", timedelta(weeks=1)),
    "toStartOfMonth": ("1 MONTH", timedelta(days=28)),
}
"""Function with which Superset rounds times → step in SQL, and its shortest duration. Steps of
five, ten and thirty minutes have no function: Superset divides seconds."""

MOST_STEPS = 5_000
"""Above this number no steps are added. A chart has fewer pixels."""

_QUERY = re.compile(
    r"SELECT (?P<rounded>(?P<function>\w+)\((?:intDiv\(toUInt32\()?toDateTime\((?P<time>.+?)\)"
    r"(?:\), (?P<seconds>\d{1,9})\)\*\d{1,9})?\)) AS `event_time`"
    r".*GROUP BY `event_time`(?P<series>(?:, `[^`]+`)*)\s+(?:ORDER BY|LIMIT)",
    re.DOTALL,
)
_BY_HOUR_OF_DAY = re.compile(
    r"SELECT .*GROUP BY (?P<before>(?:`[^`]+`, )*)`hour_of_day`(?P<after>(?:, `[^`]+`)*)"
    r"\s+(?:ORDER BY|LIMIT)",
    re.DOTALL,
)


def filled(sql: str) -> str:
    """Return the query with a row for every step of its time range, or for every hour of the day.

    Other queries are returned unchanged. Without a time range, the first and the last row are the
    limits. A query without rows stays without rows, so that the chart shows that it is empty.
    """
    if found := _BY_HOUR_OF_DAY.match(sql):
        series = (found["before"] + found["after"].removeprefix(", ")).removesuffix(", ")
        return _filled(sql, series, "`hour_of_day` WITH FILL FROM 0 TO 24")
    found = _QUERY.match(sql)
    if found is None or not (found["seconds"] or found["function"] in STEPS):
        return sql
    if found["seconds"]:
        step, shortest = f"{found['seconds']} SECOND", timedelta(seconds=int(found["seconds"]))
    else:
        step, shortest = STEPS[found["function"]]
    since, until = (_limit(sql, found["time"], sign) for sign in (">=", "<"))
    limits = ""
    if since and until:
        # Steps in the future are unknown, not empty.
        last = min(until - timedelta(seconds=1), datetime.now(UTC).replace(tzinfo=None))
        if (last - since) / shortest > MOST_STEPS:
            return sql
        first_step, last_step = (
            # Match whole words: a column can be named `at`, which toDateTime contains.
            re.sub(
                rf"(?<!\w){re.escape(found['time'])}(?!\w)",
                f"'{each:%Y-%m-%d %H:%M:%S}'",
                found["rounded"],
            )
            for each in (since, last)
        )
        limits = f"FROM {first_step} TO {last_step} + INTERVAL {step} "
    elif shortest < timedelta(hours=1):
        return sql
    series = found["series"].removeprefix(", ")
    return _filled(sql, series, f"`event_time` WITH FILL {limits}STEP INTERVAL {step}")


def _filled(sql: str, series: str, column: str) -> str:
    """Return the query with the missing values of a column in each series."""
    query = sql.rstrip().removesuffix(";")
    order = ", ".join(filter(None, ("is_known", series, column)))
    # WITH FILL also adds rows to an empty result, but with 0 in `is_known`.
    return (
        "SELECT * EXCEPT (is_known) FROM (SELECT * FROM"
        f" (SELECT *, materialize(1) AS is_known FROM ({query})) ORDER BY {order})"
        " WHERE is_known"
    )


def _limit(sql: str, time: str, sign: str) -> datetime | None:
    """Return one limit of the query's time range, None without one."""
    found = re.search(rf"{re.escape(time)} {sign} toDateTime(?:64)?\('([\d:. -]{{19}})", sql)
    return datetime.fromisoformat(found[1]) if found else None
