"""The generated pages are up to date and complete."""

from __future__ import annotations

import re

import pytest

from stunwatch.detectors.catalogue import detectors
from tests.clickhouse_server import Server
from tests.documentation.accept import columns_of
from tools.documentation import DOCS, Columns, detector_page, pages


@pytest.fixture(scope="module")
def columns(server: Server) -> Columns:
    return columns_of(server.reader)


def test_every_generated_page_is_up_to_date(columns: Columns) -> None:
    made = pages(columns)
    stale = [str(path) for path, text in made.items() if path.read_text() != text]
    assert not stale, "run `make docs`"
    kept = {*(DOCS / "detectors").glob("*.md")}
    assert kept <= set(made), "a page has no detector"


def test_every_column_and_field_is_described(columns: Columns) -> None:
    assert {"stuns", "log_lines", "log_lines_with", "incidents"} <= set(columns)
    page = (DOCS / "data.md").read_text()
    assert "| `duration_us` | `UInt64` |" in page
    assert all(re.search(rf"^### `{view}`$", page, re.M) for view in columns)
    missing = re.findall(r"^\| `(\w+)` \|.*\|  \|$", page, re.M)
    assert not missing, "describe it in its schema or in tools/documentation.yaml"


@pytest.mark.parametrize("name", [each.name for each in detectors()])
def test_a_detectors_page_contains_its_thresholds_lines_and_cases(name: str) -> None:
    [detector] = [each for each in detectors() if each.name == name]
    page = detector_page(detector)
    assert all(f"| `{each}` | {value} |" in page for each, value in detector.thresholds.items())
    assert all(f"\n`{each}`\n\n    " in page for each in detector.patterns)
    assert page.count("\n- ") >= len(list(detector.folder.glob("cases/*")))
