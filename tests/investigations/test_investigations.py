"""Every investigation returns the expected rows from known rows: `cases/NAME.yaml`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, UUID, uuid5

import pytest
import yaml

from stunwatch.investigations import investigations
from tests.clickhouse_server import Server, insertion

CASES = Path(__file__).parent / "cases"

_FRACTION = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\.(\d*?)0*$")
_IDS = {"event_id", "change_id"}


def _plain(value: Any) -> Any:
    """Format a value as in a case: times without a fraction if it is zero."""
    if isinstance(value, datetime):
        value = f"{value:%Y-%m-%d %H:%M:%S.%f}"
    elif isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str) and (match := _FRACTION.match(value)):
        return f"{match[1]}.{match[2]}" if match[2] else match[1]
    return value


def _uuid(word: str) -> str:
    try:
        return str(UUID(word))
    except ValueError:
        return str(uuid5(NAMESPACE_OID, word))


def _shifted(row: dict[str, Any], seconds: float) -> dict[str, Any]:
    return {
        name: value + timedelta(seconds=seconds) if isinstance(value, datetime) else value
        for name, value in row.items()
    }


def _rows_in(case: dict[str, Any], table: str) -> Iterator[dict[str, Any]]:
    """Return the rows of a table, completed with the case's defaults.

    An id can be any word; a row without one gets its own. `times` and `every_s` repeat a row, each
    this many seconds after the previous one.
    """
    for number, given in enumerate(case["rows"][table]):
        row = {**case.get("defaults", {}).get(table, {}), **given}
        times, every_s = row.pop("times", 1), row.pop("every_s", 0)
        for turn in range(times):
            made = {"event_id": f"{table} {number} {turn}", "revision": 1, "run_id": "live"}
            made |= _shifted(row, turn * every_s)
            if "duration_us" in made and "started_at" not in made:
                made["started_at"] = made["ended_at"] - timedelta(microseconds=made["duration_us"])
            yield {
                name: _uuid(value) if name in _IDS else _plain(value)
                for name, value in made.items()
            }


def fill(server: Server, case: dict[str, Any]) -> None:
    """Store the rows of a case."""
    for table in case["rows"]:
        for _ in server.admin.stream(
            insertion(table, _rows_in(case, table)),
            # Store every revision, as if each came with a separate insert.
            settings={"optimize_on_insert": "0"},
        ):
            pass


def _asked(server: Server, name: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of `stunwatch sql NAME`, queried as `reader`."""
    investigation = investigations()[name]
    given = {each: str(_plain(value)) for each, value in parameters.items()}
    rows = server.reader.named_rows(investigation.query, investigation.parameters(given))
    return [{column: _plain(value) for column, value in row.items()} for row in rows]


@pytest.mark.parametrize("name", sorted(path.stem for path in CASES.glob("*.yaml")))
def test_an_investigation_returns_the_rows_of_its_case(server: Server, name: str) -> None:
    case = yaml.safe_load((CASES / f"{name}.yaml").read_text())
    server.empty()
    fill(server, case)
    for ask in case["asks"]:
        expected = [
            {column: _plain(value) for column, value in row.items()} for row in ask["answer"]
        ]
        assert _asked(server, name, ask.get("parameters", {})) == expected, ask


@pytest.mark.parametrize("name", investigations())
def test_every_investigation_has_a_question_and_a_case(name: str) -> None:
    assert "?" in investigations()[name].question, "its first line is no question"
    assert (CASES / f"{name}.yaml").exists(), f"write tests/investigations/cases/{name}.yaml"
