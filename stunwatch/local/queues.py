"""ClickHouse's Kafka tables: which of them do not read, and the restart of one.

A table can stop reading without an error. The lag shows it only when messages arrive.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from stunwatch.clickhouse import as_user
from stunwatch.errors import UserError
from stunwatch.schema import SQL
from stunwatch.settings import Settings

STALLED_S: Final = 60
"""A table polls at least every few seconds, and waits at most for one insert."""

RESTART_S: Final = 300
"""After this time without a poll, librdkafka leaves the group (max.poll.interval.ms). So a restart
interrupts no insert that Kafka still waits for.
"""

ASKED_S: Final = 5.0
"""Timeout for ClickHouse."""

RESTARTED_S: Final = 10.0
"""Timeout of each statement of a restart. The keeper does nothing else then."""


@dataclass(frozen=True)
class Queue:
    """A Kafka table, the seconds since its last poll, and its newest error, "" if none."""

    name: str
    seconds: int
    error: str

    @property
    def sentence(self) -> str:
        """A sentence for people."""
        error = f" Its last error: {self.error}." if self.error else ""
        return (
            f"The table {self.name} has not read from Kafka for {self.seconds} s.{error} The job"
            f" supervisor restarts it after {RESTART_S} s; docs/runbooks/lag.md shows how to do it"
            " now."
        )


def look(settings: Settings) -> list[Queue]:
    """Return the Kafka tables of the server that answers; none if ClickHouse does not answer."""
    with suppress(UserError, OSError):
        clickhouse = as_user(settings, "analyst", timeout_s=ASKED_S)
        rows = clickhouse.rows((SQL / "queries" / "metrics" / "queues.sql").read_text())
        return [Queue(*row) for row in rows]
    return []


def stalled(settings: Settings) -> list[Queue]:
    """Return the tables that do not read; none if ClickHouse does not answer."""
    return [each for each in look(settings) if each.seconds > STALLED_S]


def restart(settings: Settings, name: str) -> None:
    """Detach a Kafka table and attach it again. No message is lost: Kafka keeps the offsets.

    Raises UserError or OSError if ClickHouse does not do it in time.
    """
    clickhouse = as_user(settings, "admin", timeout_s=RESTARTED_S)
    try:
        clickhouse.command(f"DETACH TABLE {name}")
    finally:
        clickhouse.command(f"ATTACH TABLE IF NOT EXISTS {name}")
