"""The time grain `auto`, which depends on the time range: hours for a day, days for a month.

A chart's file contains one grain, but users choose the time range. One bar per day is too few for a
night, one bar per hour too many for a year.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

AUTO = "auto"

ADDONS = {AUTO: "Follows the time range"}
"""Superset's TIME_GRAIN_ADDONS: labels in the list of grains."""

EXPRESSIONS = {"clickhousedb": {AUTO: "toStartOfDay(toDateTime({col}))"}}
"""Superset's TIME_GRAIN_ADDON_EXPRESSIONS: the meaning of `auto` without a time range."""

_GRAINS = (
    (timedelta(hours=3), "PT1M"),
    (timedelta(hours=12), "PT10M"),
    (timedelta(days=4), "PT1H"),
    (timedelta(days=200), "P1D"),
    (timedelta(days=1500), "P1W"),
)
"""Longest range → grain. A chart has about 200 points at most."""


def grain_of(since: datetime | None, until: datetime | None) -> str:
    """Return the grain of a range as an ISO 8601 duration; a day if the range has no start."""
    if since is None:
        return "P1D"
    span = (until or datetime.now(since.tzinfo)) - since
    return next((grain for longest, grain in _GRAINS if span <= longest), "P1M")


def choose(query: Any) -> None:
    """Replace `auto` in a query of Superset by the grain of its range."""
    grain = grain_of(query.from_dttm, query.to_dttm)
    columns = [each for each in query.columns if isinstance(each, dict)]
    for place, key in (
        (query.extras, "time_grain_sqla"),
        *((each, "timeGrain") for each in columns),
    ):
        if place.get(key) == AUTO:
            place[key] = grain
