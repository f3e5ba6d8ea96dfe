"""Every investigation answers from known rows what a person would see: `cases/NAME.yaml`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, UUID, uuid5

import orjson
import pytest
import yaml

from stunwatch.investigations import investigations
from tests.investigations.server import Server, running

CASES = Path(__file__).parent / "cases"

_FRACTION = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\.(\d*?)0*$")
_IDS = {"event_id", "change_id"}


def _plain(value: Any) -> Any:
    """A value as a case spells it: times to the second where they have no fraction."""
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
    """The rows of a table, with the case's defaults under them.

    An identity may be any word, and is one of its own where the row gives none. `times` and
    `every_s` make many rows of one, each so many seconds after the one before.
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


def _fill(server: Server, case: dict[str, Any]) -> None:
    for table in case["rows"]:
        lines = b"\n".join(orjson.dumps(row) for row in _rows_in(case, table))
        for _ in server.admin.stream(
            f"INSERT INTO {table} FORMAT JSONEachRow\n{lines.decode()}",
            # Every revision is stored, as if each had come by itself.
            settings={"optimize_on_insert": "0", "input_format_skip_unknown_fields": "1"},
        ):
            pass


def _asked(server: Server, name: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    """What `stunwatch sql NAME` answers to a reader."""
    investigation = investigations()[name]
    given = {each: str(_plain(value)) for each, value in parameters.items()}
    rows = server.reader.named_rows(investigation.query, investigation.parameters(given))
    return [{column: _plain(value) for column, value in row.items()} for row in rows]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("clickhouse")) as started:
        # What is kept for 30 days would be gone at the next merge: cases lie in a known past.
        started.admin.command("SYSTEM STOP TTL MERGES source_activity_stored")
        yield started


@pytest.mark.parametrize("name", sorted(path.stem for path in CASES.glob("*.yaml")))
def test_case(server: Server, name: str) -> None:
    case = yaml.safe_load((CASES / f"{name}.yaml").read_text())
    server.empty()
    _fill(server, case)
    for ask in case["asks"]:
        expected = [
            {column: _plain(value) for column, value in row.items()} for row in ask["answer"]
        ]
        assert _asked(server, name, ask.get("parameters", {})) == expected, ask


@pytest.mark.parametrize("name", investigations())
def test_every_investigation_has_a_question_and_a_case(name: str) -> None:
    assert "?" in investigations()[name].question, "its first line is no question"
    assert (CASES / f"{name}.yaml").exists(), f"write tests/investigations/cases/{name}.yaml"
