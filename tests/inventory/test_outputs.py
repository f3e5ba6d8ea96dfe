"""Conversion of esxcli outputs to items; the cases are in `cases/`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from stunwatch.inventory.outputs import outputs_in
from tests.inventory.golden import CASES, golden, items_in

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "schemas/inventory_item.v1.schema.json").read_text()
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_case_gives_the_expected_items(case: Path) -> None:
    assert golden(case) == (case / "expected.jsonl").read_text()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_items_match_the_schema_and_have_unique_ids(case: Path) -> None:
    items = items_in((case / "input.txt").read_text())
    for item in items:
        Draft202012Validator(SCHEMA).validate(item)
    assert len({item["event_id"] for item in items}) == len(items)
    # The same file gives the same items again.
    assert items == items_in((case / "input.txt").read_text())


def test_several_outputs_in_one_text_are_read_in_any_order() -> None:
    texts = [(case / "input.txt").read_text() for case in CASES if case.name != "json_of_a_bundle"]
    forwards, backwards = outputs_in("\n".join(texts)), outputs_in("\n".join(texts[::-1]))
    one_by_one = [output for text in texts for output in outputs_in(text)]
    for command in {output.command for output in one_by_one} - {"system hostname get"}:
        sizes = {
            sum(len(output.entries) for output in outputs if output.command == command)
            for outputs in (forwards, backwards, one_by_one)
        }
        assert len(sizes) == 1, command


@given(st.text(max_size=2000))
def test_any_text_is_read_without_an_error(text: str) -> None:
    assert isinstance(outputs_in(text), list)
    assert isinstance(items_in(text), list)
