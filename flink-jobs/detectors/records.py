"""What trackers ask of a record beyond its fields."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# 2019-06-03T08:15:00.100Z| vmx| I125+ second line of a note
# 2023-06-03T08:15:00.100Z In(05)+ vmx - second line of a note
# 2023-06-03T08:15:00.100Z In(166)[+] Hostd[2098914]: second line of an event
_CONTINUATION = re.compile(r"(?:\b[A-Z]\d{3}|\b[A-Z][a-z]\(\d+\))\[?\+")
_CLOCK = re.compile(r"\d:\d\d")


def verbatim(record: Mapping[str, Any]) -> str:
    """The line as it was written."""
    return str(record.get("head", "")) + str(record["message"])


def is_continuation(record: Mapping[str, Any]) -> bool:
    """Whether the line continues the message of the line before it.

    A guest decides what such a line begins with, so it is evidence of nothing.
    """
    return _CONTINUATION.search(record.get("head", "")) is not None


def has_own_time(record: Mapping[str, Any]) -> bool:
    """Whether the line itself names a time; if not, its event time is a neighbour's or arrival."""
    return record["time_quality"] != "arrival" and _CLOCK.search(record.get("head", "")) is not None
