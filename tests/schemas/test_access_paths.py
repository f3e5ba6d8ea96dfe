"""Queries of public views by time, by host or by VM read few granules of the stored tables.

The tables have the sort keys, partitions and indexes of `sql/tables`, and granules of 32 rows. The
data is a year of a small fleet.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from stunwatch.clickhouse import ClickHouse
from stunwatch.schema import sql_files
from tests.clickhouse_server import Server, running

pytestmark = pytest.mark.integration

ROWS = 24_000
GRANULE = 32

AT_HOST = "esx07.lab.example"
AT_VM = "vm027"
IN_A_DAY = "{0} >= '2025-09-14 00:00:00' AND {0} < '2025-09-15 00:00:00'"

MOST = 0.4
"""The greatest share of granules that a query may read."""

# 40 hosts in 8 clusters, 10 VMs per host; a cluster has 4 LUNs with a datastore each. Each row is
# at another minute of the year.
VALUES = {
    "event_id": "generateUUIDv4(number)",
    "revision": "1",
    "run_id": "'live'",
    "host": "concat('esx', leftPad(toString(vm_number % 40), 2, '0'), '.lab.example')",
    "vm": "concat('vm', leftPad(toString(vm_number), 3, '0'))",
    "datastore": "concat('san-', toString(lun))",
    "device": "concat('naa.', leftPad(toString(lun), 4, '0'))",
    "volume": "concat('volume-', toString(lun))",
    "datastore_uuid": "concat('volume-', toString(lun))",
    "path": "concat('vmhba1:C0:T0:L', toString(lun % 4))",
    "object_class": "'scsi_device'",
    "source": "'vmware_log'",
    "program": "['vmkernel', 'hostd', 'vobd'][number % 3 + 1]",
    "dialect": "['sync_cr', 'device_status'][number % 2 + 1]",
    "kind": "['create', 'remove', 'path_dead', 'gap'][number % 4 + 1]",
    "message": "concat('a line ', toString(number))",
    "line": "concat('a line ', toString(number))",
    "generation": "toString(vm_number)",
    "offset": "number * 100",
    "line_bytes": "100",
    "measured_by": "'unstun'",
    "window_seconds": "60",
}
VALUES_OF = {
    # A VM's log has more lines than a granule.
    "log_lines_stored": {
        "vm": "concat('vm', leftPad(toString(host_number), 3, '0'))",
        "datastore": "'san-1'",
        # Lines are partitioned by week of arrival, and few weeks are stored.
        "given_received_at": "toDateTime64('2025-12-20 00:00:00', 6, 'UTC')",
    },
    # Few conflicts have a path.
    "reservation_conflicts_stored": {"path": "''"},
}
"""Other values in single tables."""

AT = "toDateTime64('2025-01-01 00:00:00', 6, 'UTC') + toIntervalMinute(number * 21)"

BY_HOST = f"host = '{AT_HOST}'"
BY_VM = f"vm = '{AT_VM}'"

PATHS: dict[str, tuple[str, ...]] = {
    "latency_episodes": (IN_A_DAY.format("started_at"), BY_HOST, "device = 'naa.0013'"),
    "latency_hours": (IN_A_DAY.format("hour"), BY_HOST),
    "latency_samples": (IN_A_DAY.format("sampled_at"), BY_HOST),
    "latency_windows": (IN_A_DAY.format("window_start"), BY_HOST),
    "log_lines": (IN_A_DAY.format("event_time"), BY_HOST, BY_VM),
    "log_lines_with(words = 'line 47')": (IN_A_DAY.format("event_time"), BY_HOST, BY_VM),
    "nfs_servers": (IN_A_DAY.format("started_at"), BY_HOST),
    "path_events": (IN_A_DAY.format("started_at"), BY_HOST),
    "quality_events": (IN_A_DAY.format("started_at"),),
    # Its rows are those of 30 days.
    "rejected_lines": (BY_HOST,),
    "reservation_conflicts": (IN_A_DAY.format("started_at"), BY_HOST),
    "scsi_errors": (IN_A_DAY.format("started_at"), BY_HOST),
    "snapshot_operations": (IN_A_DAY.format("started_at"), BY_HOST, BY_VM),
    "stuns": (IN_A_DAY.format("ended_at"), BY_HOST, BY_VM),
    "stuns_by_time": (IN_A_DAY.format("ended_at"),),
    "tasks": (IN_A_DAY.format("started_at"), BY_VM),
    "unmap_runs": (IN_A_DAY.format("started_at"), BY_HOST),
}
"""The access paths of each view: conditions that must exclude granules."""

TABLES = {"log_lines_with(words = 'line 47')": "log_lines_stored"}
"""The table of a view, if it has another name."""

ALONE = {
    "borrowed_names": "one row per name of a host",
    "change_effects_of": "its parameters select the time and the objects",
    "changes": "hundreds of rows",
    "changes_near": "its parameters select the time",
    "coverage": "one row per file",
    "device_facts": "one row per device",
    "fleet_clock": "one row",
    "heard_at": "one row per host and VM",
    "host_aliases": "one row per name of a host",
    "host_extents": "one row per datastore of a host",
    "incident_marks": "entered by people",
    "incidents": "thousands of rows, each with lists of hosts",
    "inventory": "one row per LUN of a host",
    "inventory_at": "one row per LUN of a host",
    "limits": "one row",
    "mutes": "entered by people",
    "newest_line": "one row",
    "open_snapshots_at": "one row per open snapshot",
    "silent_sources": "it reads the last week",
    "site": "one row",
    "verdict_scores": "entered by people",
    "vm_storage": "one row per VM",
}
"""Views that are small, or whose parameters select the rows."""


def with_small_granules(statement: str) -> str:
    """Return the statement that creates a stored table with granules of GRANULE rows."""
    if not re.search(r"^ENGINE = \w*MergeTree", statement, re.MULTILINE):
        return statement
    setting = f"SETTINGS index_granularity = {GRANULE}"
    if "\nSETTINGS " in statement:
        return statement.replace("\nSETTINGS ", f"\n{setting}, ")
    return f"{statement}\n{setting}"


def fill(clickhouse: ClickHouse, table: str) -> None:
    """Insert a year into a table: its times are AT, its other columns are those of VALUES."""
    values = VALUES | VALUES_OF.get(table, {})
    columns = {}
    for name, kind in clickhouse.rows(
        "SELECT name, type FROM system.columns WHERE database = 'stunwatch'"
        f" AND table = '{table}' AND default_kind NOT IN ('MATERIALIZED', 'ALIAS')"
    ):
        if name in values and "Array" not in kind:
            columns[name] = values[name]
        elif "DateTime" in kind:
            columns[name] = AT
    clickhouse.command(
        f"INSERT INTO {table} ({', '.join(columns)})"
        " WITH cityHash64(number) % 400 AS vm_number, vm_number % 40 AS host_number,"
        " intDiv(host_number, 5) * 4 + intDiv(vm_number, 40) % 4 AS lun"
        f" SELECT {', '.join(columns.values())} FROM numbers({ROWS})"
    )


@pytest.fixture(scope="module")
def a_year(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("granules"), with_small_granules) as made:
        made.admin.command("SYSTEM STOP TTL MERGES")
        for view in made.names():
            if view.endswith("_mv") and view != "stuns_by_time_mv":
                made.admin.command(f"DROP VIEW {view} SYNC")
        for view in PATHS:
            table = TABLES.get(view, f"{view}_stored")
            if not made.admin.rows(f"SELECT 1 FROM {table} LIMIT 1"):
                fill(made.admin, table)
        yield made


def granules(clickhouse: ClickHouse, query: str) -> tuple[Counter[str], Counter[str]]:
    """Return the granules that a query reads, and those that there are, per table."""
    [(plan,)] = clickhouse.rows(
        f"SELECT * FROM (EXPLAIN json = 1, indexes = 1 {query})",
        settings={"max_execution_time": "60"},
    )
    read, all_of = Counter[str](), Counter[str]()

    def visit(node: dict[str, Any]) -> None:
        if node["Node Type"] == "ReadFromMergeTree":
            table = node["Description"].removeprefix("stunwatch.")
            all_of[table] += node["Indexes"][0]["Initial Granules"]
            read[table] += node["Indexes"][-1]["Selected Granules"]
        for each in node.get("Plans", ()):
            visit(each)

    visit(orjson.loads(plan)[0]["Plan"])
    return read, all_of


@pytest.mark.parametrize(
    ("view", "condition"), [(view, each) for view, paths in PATHS.items() for each in paths]
)
def test_a_query_by_time_host_or_vm_reads_few_granules(
    a_year: Server, view: str, condition: str
) -> None:
    read, all_of = granules(a_year.admin, f"SELECT * FROM {view} WHERE {condition}")
    table = TABLES.get(view, f"{view}_stored")
    assert all_of[table] > 700
    assert read[table] <= MOST * all_of[table]


def test_every_public_view_has_an_access_path_or_a_reason() -> None:
    views = {
        name
        for each in sql_files()
        if each.stage == "views"
        for name in each.created
        if name not in {"change_effects_in", "change_scopes_of"}
    }
    with_paths = {each.partition("(")[0] for each in PATHS}
    assert views == with_paths | ALONE.keys()
    assert not with_paths & ALONE.keys()
