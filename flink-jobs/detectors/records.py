"""Helpers for trackers that derive properties of a record from its fields."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# 2019-06-03T08:15:00.100Z| vmx| I125+ second line of a note
# 2023-06-03T08:15:00.100Z In(05)+ vmx - second line of a note
# 2023-06-03T08:15:00.100Z In(166)[+] Hostd[2098914]: second line of an event
_CONTINUATION = re.compile(r"(?:\b[A-Z]\d{3}|\b[A-Z][a-z]\(\d{1,3}\))\[?\+")
_CLOCK = re.compile(r"\d:\d\d")


def verbatim(record: Mapping[str, Any]) -> str:
    """Return the line, verbatim; if the record joins two lines (`detectors.two_lines`), both."""
    return str(record.get("verbatim") or str(record.get("head", "")) + str(record["message"]))


def is_continuation(record: Mapping[str, Any]) -> bool:
    """True if the line continues the message of the line before it.

    The guest controls how such a line begins, so it must not be used as evidence.
    """
    return _CONTINUATION.search(record.get("head", "")) is not None


def has_own_time(record: Mapping[str, Any]) -> bool:
    """True if the line itself contains a time; if not, its event time was inferred.

    It is then the time of a neighbouring line or of arrival.
    """
    return record["time_quality"] != "arrival" and _CLOCK.search(record.get("head", "")) is not None
