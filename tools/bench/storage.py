"""What stored lines take on disk: bytes per line by column, and the ratio to their text."""

from __future__ import annotations

from stunwatch.clickhouse import ClickHouse

TABLE = "log_lines_stored"
LEAST_SHOWN = 0.05
"""Columns with fewer bytes per line are shown together."""


def line_bytes(clickhouse: ClickHouse) -> dict[str, float]:
    """Merge all lines, then return the ratio with and without index, and bytes per line by column.

    The text of a line is its head and message with one byte for the end of the line. Everything on
    disk counts: columns, marks, indexes and checksums. Merging many lines takes a while.
    """
    clickhouse.command(f"OPTIMIZE TABLE {TABLE} FINAL")
    [(text, lines)] = clickhouse.rows(
        f"SELECT sum(length(head) + length(message) + 1), count() FROM {TABLE}"
    )
    of_table = f"active AND database = 'stunwatch' AND table = '{TABLE}'"
    [(disk,)] = clickhouse.rows(f"SELECT sum(bytes_on_disk) FROM system.parts WHERE {of_table}")
    columns = dict(
        clickhouse.rows(
            "SELECT column, sum(column_bytes_on_disk) FROM system.parts_columns"
            f" WHERE {of_table} GROUP BY column ORDER BY sum(column_bytes_on_disk) DESC"
        )
    )
    [(index,)] = clickhouse.rows(
        "SELECT sum(secondary_indices_compressed_bytes + secondary_indices_marks_bytes)"
        f" FROM system.parts WHERE {of_table}"
    )
    shown = {name: used / lines for name, used in columns.items() if used / lines >= LEAST_SHOWN}
    return {
        "stored_lines": lines,
        "stored_text_bytes_per_line": text / lines,
        "stored_bytes_per_line": disk / lines,
        "stored_ratio": text / disk,
        "stored_ratio_without_index": text / (disk - index),
        **{f"stored_bytes_per_line_{name}": used for name, used in shown.items()},
        "stored_bytes_per_line_index": index / lines,
        "stored_bytes_per_line_other": (disk - index) / lines - sum(shown.values()),
    }
