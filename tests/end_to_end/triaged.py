"""Compare `triage` of files with the pipeline's views of the same files."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from stunwatch.ingest.replay import Options, plan
from stunwatch.triage.finding import find
from stunwatch.triage.results import EVENTS
from tests.pipeline import Pipeline

COMPARED = (*EVENTS, "incidents")

OWN = frozenset({"run_id", "detected_at", "incident_id", "meaning", "baseline_ms"})
"""Columns that ClickHouse adds or fills in."""

_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)\.(\d{3,6})Z?")


def plain(value: Any) -> Any:
    """Convert a value to the format common to both sides."""
    if isinstance(value, str) and (found := _TIME.fullmatch(value)):
        return f"{found[1]} {found[2]}.{found[3]:0<6}"
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    return round(value, 6) if isinstance(value, float) else value


def by_id(rows: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {
        row["event_id"]: {name: plain(each) for name, each in row.items() if name not in OWN}
        for row in rows
    }


def assert_same(
    pipeline: Pipeline, paths: list[Path], runs: list[str], incidents: list[dict[str, Any]]
) -> dict[str, int]:
    """Check that triage of these files gives the rows of the views; return the count per view."""
    condition = f"run_id IN ({', '.join(map(repr, runs))})"
    with plan(paths, Options()) as what:
        found = find(what, Options(), processes=2)
    assert not found.failures
    hosts = {row["host"] for rows in found.rows.values() for row in rows if row.get("host")}
    counts = {}
    for view in COMPARED:
        if view == "incidents":
            # A replay also evaluates the files of other tests for the same time.
            rows = [row for row in incidents if row["run_id"] in runs]
            rows = [row for row in rows if hosts & {*row["hosts"]} or not row["hosts"]]
        else:
            rows = pipeline.reader.named_rows(f"SELECT * FROM {view} WHERE {condition}")
        stored = by_id(rows)
        triaged = by_id(found.rows[view])
        assert triaged.keys() == stored.keys(), (
            view,
            [triaged[each] for each in triaged.keys() - stored.keys()][:2],
            [stored[each] for each in stored.keys() - triaged.keys()][:2],
        )
        for name, row in stored.items():
            shared = {each: value for each, value in triaged[name].items() if each in row}
            assert shared == {each: row[each] for each in shared}, view
        counts[view] = len(stored)
    quality = {row["event_id"] for row in found.rows["quality_events"]}
    query = f"SELECT event_id FROM quality_events WHERE kind = 'log_throttled' AND {condition}"
    assert {each for (each,) in pipeline.rows(query)} <= quality
    return counts
