"""The pages that are made of the folders say what the folders say today."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from detectors.catalogue import detectors
from stunwatch.documentation import DOCS, Columns, detector_page, fill, pages
from tests.documentation.accept import columns_of
from tests.investigations.server import running


@pytest.fixture(scope="module")
def columns(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Columns]:
    with running(tmp_path_factory.mktemp("clickhouse")) as server:
        yield columns_of(server.reader)


def test_every_page_is_fresh(columns: Columns) -> None:
    made = pages(columns)
    stale = [str(path) for path, text in made.items() if path.read_text() != text]
    assert not stale, "`make docs` writes them anew"
    kept = {*(DOCS / "detectors").glob("*.md")}
    assert kept <= set(made), "a detector is gone, its page is not"


def test_every_column_and_field_says_what_it_is(columns: Columns) -> None:
    assert {"stuns", "log_lines", "log_lines_with", "incidents"} <= set(columns)
    page = (DOCS / "data.md").read_text()
    assert "| `duration_us` | `UInt64` |" in page
    assert all(re.search(rf"^### {view}$", page, re.M) for view in columns)
    silent = re.findall(r"^\| `(\w+)` \|.*\|  \|$", page, re.M)
    assert not silent, "say it in its schema, or in infra/stunwatch/documentation.yaml"


@pytest.mark.parametrize("name", [each.name for each in detectors()])
def test_a_detectors_page_holds_its_thresholds_lines_and_cases(name: str) -> None:
    [detector] = [each for each in detectors() if each.name == name]
    page = detector_page(detector)
    assert all(f"| `{each}` | {value} |" in page for each, value in detector.thresholds.items())
    assert all(f"\n`{each}`\n\n    " in page for each in detector.patterns)
    assert page.count("\n- ") >= len(list(detector.folder.glob("cases/*")))


def test_a_page_without_a_place_for_its_table_is_told() -> None:
    with pytest.raises(ValueError, match="no place for the table disk"):
        fill("# No mark\n", {"disk": (("a",), [("1",)])})
