"""Fills a server with a year of a fleet: see `year/README.md`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from stunwatch.schema import statements
from tests.clickhouse_server import Server

YEAR = Path(__file__).parent / "year"

NOW = datetime.now(UTC)
"""The end of the year."""

ROWS = {
    "latency_baselines_stored": 1_060_000,
    "latency_hours_stored": 640 * 24 * 365,
    "latency_samples_stored": 25_000_000,
    "latency_windows_stored": 54_800_000,
    "snapshot_operations_stored": 14_746_000,
    "stuns_stored": 15_150_000,
}
"""Tables that are too large for one insert. All others are filled with one."""

AT_A_TIME = 5_000_000

SHARE = "cityHash64(number, 'part') % 16 = 0"

OF_1000_VMS = {
    "inventory_stored": "h < 64",
    "latency_baselines_stored": "h < 64",
    "latency_episodes_stored": SHARE,
    "latency_samples_stored": "if(is_disk, thing < 1000, h < 64)",
    "latency_windows_stored": "h < 64",
    "log_lines_stored": SHARE,
    "owners_seen_stored": "v < 1000",
    "path_events_stored": SHARE,
    "quality_events_stored": SHARE,
    "rejected_lines_stored": SHARE,
    "reservation_conflicts_stored": SHARE,
    "scsi_errors_stored": SHARE,
    "snapshot_operations_stored": "v < 1000",
    "source_activity_stored": "pair % 1000 < 64",
    "stuns_stored": "v < 1000",
    "unmap_runs_stored": SHARE,
}
"""The files are a year of 20,000 VMs on 1,000 hosts. A fleet of 1,000 VMs has the rows of 1,000 VMs
or 64 hosts, or the same share of the rows."""

PAST_MONTHS = """
SELECT DISTINCT table, partition
FROM system.parts
WHERE active AND (database, table) IN (
    SELECT database, name
    FROM system.tables
    WHERE position(engine_full, 'min_age_to_force_merge_on_partition_only = 1') > 0
)"""
"""The partitions of the tables that ClickHouse merges into one part per month."""


def fill(server: Server, path: Path, vms: int = 20_000) -> None:
    """Fill the table that a file is named after: in pieces, to limit the server's memory."""
    table = path.stem
    (insert,) = statements(path.read_text())
    if vms < 20_000 and table in OF_1000_VMS:
        before, word, after = insert.rpartition("\nWHERE ")
        insert = f"{before}{word}({after}) AND " if word else f"{insert}\nWHERE "
        insert += OF_1000_VMS[table]
    rows = ROWS.get(table, 1)
    for first in range(0, rows, AT_A_TIME):
        for _ in server.admin.stream(
            insert,
            {
                "now": f"{NOW:%Y-%m-%d %H:%M:%S}.000",
                "first": first,
                "rows": min(AT_A_TIME, rows - first),
            },
            settings={
                "min_insert_block_size_rows": "200000",
                "min_insert_block_size_bytes": "50000000",
            },
        ):
            pass


def merge_past_months(server: Server) -> None:
    """Merge each past month into one part, as ClickHouse does ten minutes after the last insert."""
    this_month = f"{(NOW.year * 12 + NOW.month) % 64}"
    for table, month in server.admin.rows(PAST_MONTHS):
        if month != this_month:
            server.admin.command(f"OPTIMIZE TABLE {table} PARTITION {month} FINAL")
