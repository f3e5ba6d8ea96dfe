"""Where `FINAL` compares the rows of one partition only, all copies of a row are in one partition.

Copies of lines, samples and rejected lines arrive in different weeks (docs/decisions/0028).
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from stunwatch.folders import ROOT

SQL = ROOT / "sql"
SETTING = "do_not_merge_across_partitions_select_final = 1"
FILES = {path: path.read_text() for path in sorted(SQL.rglob("*.sql"))}
TABLES = {path.stem: text for path, text in FILES.items() if path.parent.name == "tables"}
VIEWS = {path.stem: text for path, text in FILES.items() if "CREATE OR REPLACE VIEW" in text}
BY_WEEK = {name for name, text in TABLES.items() if "PARTITION BY toMonday" in text}
WITH_SETTING = [path for path, text in FILES.items() if SETTING in text]


LARGE = {
    "latency_episodes_stored",
    "reservation_conflicts_stored",
    "snapshot_operations_stored",
    "stuns_by_time_stored",
    "stuns_stored",
}
"""Tables by month of which a year has millions of rows. Without the setting, `FINAL` compares the
rows of all months, and a query takes seconds."""

FINAL = re.compile(r"(?:FROM|JOIN) (\w+_stored)(?: AS \w+)? FINAL")


def read_with_final(text: str, seen: frozenset[str] = frozenset()) -> set[str]:
    """Return the tables that a query reads with FINAL, also through views."""
    found = set(FINAL.findall(text))
    for name in set(re.findall(r"(?:FROM|JOIN) (\w+)", text)) - seen:
        if view := VIEWS.get(name):
            found |= read_with_final(view, seen | {name})
    return found


def parts_with_setting(text: str) -> list[str]:
    """Return what the setting applies to: the whole query, or a common table expression."""
    if re.search(rf"^SETTINGS {SETTING}", text, re.MULTILINE):
        return [text]
    before = text.split(f"SETTINGS {SETTING}")[:-1]
    return [each.rpartition(" AS\n    (\n")[2] for each in before]


@pytest.mark.parametrize("path", WITH_SETTING, ids=lambda path: path.stem)
def test_the_setting_applies_to_no_table_by_week_of_arrival(path: Path) -> None:
    for part in parts_with_setting(FILES[path]):
        tables = read_with_final(part)
        assert tables, "the setting has no effect"
        assert not tables & BY_WEEK


def test_the_setting_applies_wherever_a_large_table_is_read_with_final() -> None:
    without = {}
    for path, text in FILES.items():
        read = Counter(FINAL.findall(text))
        with_setting = Counter(
            name for part in parts_with_setting(text) for name in FINAL.findall(part)
        )
        if missing := {*(read - with_setting)} & LARGE:
            without[path.stem] = missing
    assert without == {}


def test_lines_samples_and_rejected_lines_are_by_week() -> None:
    assert {"log_lines_stored", "latency_samples_stored", "rejected_lines_stored"} == BY_WEEK
    for view in ("log_lines", "latency_samples", "rejected_lines"):
        assert read_with_final(f"SELECT * FROM {view}") & BY_WEEK
