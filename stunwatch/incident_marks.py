"""Stores user input on incidents: mutes, acknowledgements and verdicts reported as wrong."""

from __future__ import annotations

import getpass
import os
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import orjson

from stunwatch.clickhouse import as_user
from stunwatch.settings import Settings


def note_mute(
    settings: Settings, names: dict[str, str], length: timedelta, reason: str
) -> tuple[str, datetime]:
    """Store a mute of these names (by `host`, `device`, `datastore`), starting now.

    Returns the id of the mute and its expiry.
    """
    muted_at = datetime.now(UTC)
    expires_at = muted_at + length
    mute_id = str(uuid4())
    row = {"mute_id": mute_id, **names, "reason": reason, "muted_by": user()}
    times = {"muted_at": milliseconds(muted_at), "expires_at": milliseconds(expires_at)}
    insert(settings, "mutes_stored", row | times)
    return mute_id, expires_at


def insert(settings: Settings, table: str, row: dict[str, Any]) -> None:
    """Store a row of `mutes_stored` or `incident_marks_stored`."""
    text = orjson.dumps(row).decode()
    as_user(settings, "ingest").command(f"INSERT INTO {table} FORMAT JSONEachRow {text}")


def user() -> str:
    """Return the name of the user who runs the command."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return str(os.getuid())


def milliseconds(at: datetime) -> str:
    """Format a time for ClickHouse, in milliseconds."""
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03}"
