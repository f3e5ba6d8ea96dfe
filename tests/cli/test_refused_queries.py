"""ClickHouse's errors are explained, without bare error codes or stack traces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from stunwatch.clickhouse import QueryError
from stunwatch.query_errors import MEANINGS, explained
from tests.clickhouse_server import Server

CASES = yaml.safe_load(Path(__file__).with_name("refused_queries.yaml").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["query"])
def test_an_error_states_the_problem_and_the_remedy(case: dict[str, Any]) -> None:
    assert explained(case["answer"]) == case["told"]


@pytest.mark.parametrize("name", MEANINGS)
def test_an_error_with_unexpected_text_is_explained(name: str) -> None:
    said = explained(f"Code: 1. DB::Exception: anything, and 'more' of it ({name}) (version 1.2.3)")
    assert said.endswith(f"[ClickHouse: {name}]")
    assert "Code:" not in said
    assert "Exception" not in said


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELECT durations_us FROM stuns", "Did you mean duration_us?"),
        ("SELECT * FROM stunz", "Did you mean stuns?"),
        ("SELECT 1 FROM", "ends too early"),
        ("SELECT 'a", "is not closed"),
        ("SELECT {most:UInt32}", "Add --param most=…"),
        ("SELECT * FROM stuns WHERE ended_at > 'yesterday'", "'yesterday' is not a time"),
        # Fails after rows were sent.
        (
            "SELECT sleepEachRow(0.3) FROM numbers(100)"
            " SETTINGS max_block_size = 1, max_execution_time = 1",
            "took too long",
        ),
    ],
)
def test_the_pinned_clickhouse_reports_these_errors(server: Server, query: str, told: str) -> None:
    with pytest.raises(QueryError) as caught:
        for _ in server.reader.stream(query, output="TSV"):
            pass
    assert told in str(caught.value)
    assert "Code:" not in str(caught.value)
