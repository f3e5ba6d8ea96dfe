"""The time range with which a dashboard opens.

The dashboard's file sets it, such as the last day. If logs were only replayed, the last day is
empty, so every dashboard opens with the range of all data.
"""

from __future__ import annotations

from typing import Any

from stunwatch.clickhouse import as_user
from stunwatch.settings import Settings

_STORED = """
    SELECT
        is_live,
        toString(toDate(least_at)),
        toString(toDate(newest_event_at) + 1)
    FROM fleet_clock
    CROSS JOIN
    (
        SELECT min(first_at) AS least_at, count() AS tables
        FROM
        (
            SELECT min(ended_at) AS first_at, count() AS events FROM stuns_by_time_stored
            UNION ALL
            SELECT min(started_at), count() FROM reservation_conflicts_stored
            UNION ALL
            SELECT min(hour), count() FROM latency_hours_stored
            UNION ALL
            SELECT min(opened_at), count() FROM incidents_stored
        )
        WHERE events > 0
    ) AS stored
    WHERE tables > 0
"""


def of_all_data(settings: Settings) -> str:
    """Return the range of all data as Superset's time range, in whole days.

    It is empty if lines arrive live, or if nothing is stored yet.
    """
    for is_live, first_day, day_after in as_user(settings, "analyst").rows(_STORED):
        if not is_live:
            return f"{first_day} : {day_after}"
    return ""


def opened_with(metadata: dict[str, Any], span: str) -> dict[str, Any]:
    """Return a dashboard's metadata with another default time range."""
    return {
        **metadata,
        "native_filter_configuration": [
            {**each, "defaultDataMask": _mask(span)} if is_range(each) else each
            for each in metadata["native_filter_configuration"]
        ],
    }


def default_of(metadata: dict[str, Any]) -> str:
    """Return the time range with which a dashboard opens; empty if it has none."""
    for each in metadata.get("native_filter_configuration", []):
        if is_range(each):
            return str(each["defaultDataMask"].get("extraFormData", {}).get("time_range", ""))
    return ""


def is_range(native_filter: dict[str, Any]) -> bool:
    """True if a dashboard's filter is the one of the time range."""
    return native_filter.get("filterType") == "filter_time"


def is_of_all_data(span: str) -> bool:
    """True if a range was set by `of_all_data`: it consists of two dates."""
    return " : " in span


def _mask(span: str) -> dict[str, Any]:
    return {
        "extraFormData": {"time_range": span},
        "filterState": {"value": span},
        "ownState": {},
    }
