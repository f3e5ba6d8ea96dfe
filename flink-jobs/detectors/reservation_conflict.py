"""The event of both detectors of reservation conflicts, and their shared helpers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from stunwatch.ingest.records import owner_key

# 3:04:17:09.120 cpu2:1043): days, hours, minutes, seconds since boot, at the end of a head.
_UPTIME = re.compile(
    r"\b(\d{1,6}):(\d\d):(\d\d):(\d\d)\.(\d{3}) cpu\d{1,19}:\d{1,19}(?: opID=[^\s)]+)?\)", re.ASCII
)


DEVICE_NAMES = ("naa.", "eui.", "t10.", "mpx.", "vml.")
"""Prefixes of device names."""


@dataclass(frozen=True)
class ReservationConflict:
    """One row of the view, except `detected_at`. Times are UTC with microseconds."""

    event_id: str
    detector: str
    revision: int
    is_deleted: int
    run_id: str
    host: str
    world_id: int | None
    opcode: str | None
    first_remaining: int | None
    last_remaining: int | None
    steps: int
    started_at: str
    ended_at: str
    duration_ms: int
    eta_ms: int | None
    outcome: Literal["recovered", "failed", "open"]
    device: str
    path: str
    datastore: str
    dialect: Literal["sync_cr", "device_status", "long_reservation"]
    is_stuck: bool
    is_expected: bool
    evidence: list[str]


def host_key(record: Mapping[str, Any]) -> str:
    """Return the first label of the host name; if the line names no host, the record's log key."""
    host = record.get("host")
    return owner_key(host) if host else str(record.get("owner", ""))


def uptime_ms(line: str) -> int | None:
    """Return milliseconds since boot from the head of an ESX 3 or 4 line; None for later lines."""
    found = _UPTIME.search(line)
    if found is None:
        return None
    days, hours, minutes, seconds, milliseconds = (int(part) for part in found.groups())
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + milliseconds
