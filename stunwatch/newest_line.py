"""Checks whether live lines still arrive: the age of the newest one, for `watch` and `status`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stunwatch.clickhouse import as_user
from stunwatch.errors import UserError
from stunwatch.local.health import STYLES, Health, LiveLines
from stunwatch.local.queues import ASKED_S
from stunwatch.schema import SQL, statements
from stunwatch.settings import Settings

LIVE_TOPICS: Final = ("esxi.syslog", "esxi.vmware_log", "esxi.esxtop", "esxi.vcenter")

COLLECTORS: Final = "collect-"
"""Prefix of the names of components that collect from a vCenter."""

STORES_LINES: Final = ("clickhouse-records", "clickhouse-samples")
"""ClickHouse's consumer groups of the live topics (sql/queues)."""

MANY_UNREAD: Final = 100
"""Fewer unread messages are normal: they are in transit."""


def ask(settings: Settings, timeout_s: float) -> dict[str, Any]:
    """Return the row of the view `newest_line`. Raises UserError or OSError."""
    reader = as_user(settings, "analyst", timeout_s=timeout_s)
    query = statements((SQL / "queries" / "watch" / "newest_line.sql").read_text())[0]
    return reader.named_rows(query)[0]


def look(settings: Settings, health: Health) -> LiveLines:
    """Query and assess the newest line; the state is unknown if ClickHouse does not answer."""
    try:
        return live_lines(ask(settings, ASKED_S), "", health)
    except (UserError, OSError) as error:
        return live_lines(None, str(error), health)


def live_lines(row: Mapping[str, Any] | None, trouble: str, health: Health | None) -> LiveLines:
    """Assess the newest line.

    Args:
        row: The last known row of `newest_line`, None if there is none.
        trouble: The reason that there is no newer row; "" if there is one.
        health: The pipeline's health; None if unknown.
    """
    if row is None:
        return LiveLines("unknown", f"Live lines: unknown. {trouble or 'No data yet.'}")
    if trouble:
        return LiveLines("unknown", f"Live lines: unknown since {row['as_of']:.19} UTC. {trouble}")
    state, sentence = str(row["state"]), str(row["message"])
    if state == "replayed_only" and _collects(health):
        state, sentence = "never", "No live line was ever received from vCenter"
    if state in STYLES:
        return LiveLines(state, sentence)
    return LiveLines(state, f"{sentence}. {_where_to_look(health)}")


def _collects(health: Health | None) -> bool:
    return health is not None and any(
        each.name.startswith(COLLECTORS) for each in health.components
    )


def _where_to_look(health: Health | None) -> str:
    """Return which part of the path from a host to ClickHouse to check."""
    unread = sum(
        count
        for topic in (health.topics if health else ())
        if topic.name in LIVE_TOPICS
        for group, count in topic.behind.items()
        if group in STORES_LINES
    )
    if unread >= MANY_UNREAD:
        return f"Kafka holds {unread:,} live messages that ClickHouse has not stored."
    if health and health.intake:
        return health.intake
    return "Check the hosts, the relay, Fluent Bit and the collectors."
