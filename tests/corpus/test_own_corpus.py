"""Runs every case of the corpus through ingest and the detectors in memory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from stunwatch.ingest.records import Record
from stunwatch.ingest.replay import Reading, plan
from tests.corpus.cases import Case, cases, export
from tests.corpus.detect import records_of, rows_of

PUBLISHED = Path(os.environ.get("STUNWATCH_CORPUS") or Path(__file__).parents[3] / "shared/corpus")
TOO_SHORT_TO_DIFFER = 8


@cache
def made(case_id: str) -> list[Record]:
    [case] = [each for each in cases() if each.id == case_id]
    return records_of(case)


def holds(expected: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    """Return True if all expected fields are equal; a message is compared by its beginning."""
    return all(
        str(found.get(name, "")).startswith(value)
        if name == "message"
        else found.get(name) == value
        for name, value in expected.items()
    )


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.id)
def test_lines_give_the_expected_records(case: Case) -> None:
    records = made(case.id)
    if case.reads != "esxtop" and not case.is_wrapped:
        text = [
            record.get("line") or record.get("head", "") + record["message"] for record in records
        ]
        assert text == list(case.lines)
    if len(case.records) < len(records):  # one record for all lines: all are parsed
        assert len(case.records) == 1
        assert not [record["line"] for record in records if "reason" in record]
        records = records[:1]
    for expected, record in zip(case.records, records, strict=True):
        if "rejected" in expected:
            assert record["reason"]
        else:
            assert "reason" not in record, record
            assert holds(expected, record), (expected, record)


@pytest.mark.parametrize(
    "case", [case for case in cases() if case.reads != "esxtop"], ids=lambda case: case.id
)
def test_lines_give_exactly_the_expected_events(case: Case) -> None:
    rows = rows_of(made(case.id))
    for expected in case.events:
        found = next((row for row in rows if holds(expected, row)), None)
        assert found, (expected, rows)
        rows.remove(found)
    assert not rows


def test_all_lines_of_a_stuck_reservation_are_its_evidence() -> None:
    [case] = [each for each in cases() if each.id == "vmkernel-seed2-3"]
    [row] = rows_of(made(case.id))
    assert row["evidence"] == list(case.lines)


def test_every_case_has_a_unique_id_and_a_consistent_expectation() -> None:
    names = [case.id for case in cases()]
    assert len(names) == len({*names})
    for case in cases():
        assert case.id.startswith(f"{case.family}-")
        assert case.lines
        assert not (case.quiet and (case.events or case.missed)), case.id


def test_exported_files_are_read_without_loss(tmp_path: Path) -> None:
    chosen = [*{case.family: case for case in cases()}.values()]
    export(tmp_path, chosen)
    with plan([tmp_path]) as what:
        readings = [Reading(file, "r1") for file in what.files]
        for reading in readings:
            list(reading)
    headers = sum(case.reads == "esxtop" for case in chosen)
    assert sum(each.lines_read for each in readings) == (
        sum(len(case.lines) for case in chosen) - headers
    )


@pytest.mark.skipif(
    not (PUBLISHED / "INDEX.tsv").is_file(), reason="The published lines are not on this machine."
)
def test_no_line_is_copied_from_a_published_log() -> None:
    published = {
        line.strip()
        for path in PUBLISHED.rglob("*.log")
        for line in path.read_bytes().decode("utf-8", "replace").splitlines()
    }
    own = {line.strip() for case in cases() for line in case.lines}
    assert not {line for line in own & published if len(line) >= TOO_SHORT_TO_DIFFER}
