"""Kafka may deliver a message twice, and a replay stores its lines again: every view counts once.

ClickHouse removes the second copy of a row when it merges, which may be days later.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from stunwatch.schema import sql_files
from tests.answers.scenarios import QUICK, fill
from tests.clickhouse_server import Server

CLOCKS = {"fleet_clock", "newest_line"}
"""These views return the time of the query."""

VIEWS = {
    file.created[0]
    for file in sql_files()
    if file.stage == "views" and not any("{" in each for each in file.statements)
} - CLOCKS
"""The views without parameters."""

COLUMNS = {"latency_episodes": "* EXCEPT (baseline_ms, baseline_spread)"}
"""Approximate quantiles of all samples. Repeated samples change their last digits."""


def _rows(server: Server, view: str) -> list[str]:
    return sorted(map(repr, server.admin.rows(f"SELECT {COLUMNS.get(view, '*')} FROM {view}")))


@pytest.mark.parametrize("name", [*QUICK, pytest.param("pool_full", marks=pytest.mark.slow)])
def test_rows_that_are_stored_twice_count_once(server: Server, name: str, tmp_path: Path) -> None:
    fill(server, name, tmp_path)
    once = {view: _rows(server, view) for view in VIEWS}
    assert sum(map(bool, once.values())) > 5
    replacing = [
        table
        for (table,) in server.admin.rows(
            "SELECT name FROM system.tables"
            " WHERE database = 'stunwatch' AND engine LIKE 'Replacing%'"
        )
    ]
    try:
        for table in replacing:
            server.admin.command(f"SYSTEM STOP MERGES {table}")
        for table in replacing:
            server.admin.command(f"INSERT INTO {table} SELECT * FROM {table}")
        for view in VIEWS:
            assert _rows(server, view) == once[view], view
    finally:
        for table in replacing:
            server.admin.command(f"SYSTEM START MERGES {table}")
