"""Every schema accepts valid samples, rejects invalid ones, and fits its topics and tables."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from stunwatch.definitions import Definition, definitions
from stunwatch.schema import sql_files

ROOT = Path(__file__).parents[2]
SCHEMAS = {
    path.name.removesuffix(".schema.json"): json.loads(path.read_text())
    for path in sorted((ROOT / "schemas").glob("*.schema.json"))
}
SAMPLES = sorted((ROOT / "schemas/samples").glob("*.json"))


@pytest.mark.parametrize("name", SCHEMAS)
def test_schema_is_valid_and_has_passing_and_failing_samples(name: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[name])
    kinds = {path.name.split(".")[-2] for path in SAMPLES if path.name.startswith(f"{name}.")}
    assert kinds == {"pass", "fail"}


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_sample_passes_or_fails_as_its_name_says(path: Path) -> None:
    schema = SCHEMAS[".".join(path.name.split(".")[:2])]
    is_valid = Draft202012Validator(schema).is_valid(json.loads(path.read_text()))
    assert is_valid == path.name.endswith(".pass.json")


RECORDS = [each for each in definitions().values() if not each.is_event]
UNREAD = {"truncated", "devices", "measures"}
"""`devices` and `measures` become a row for each device."""


@pytest.mark.parametrize("record", RECORDS, ids=lambda each: each.name)
def test_every_field_of_a_record_has_its_column_in_clickhouse(record: Definition) -> None:
    topics = re.compile(rf"kafka_topic_list = '{','.join(record.topics)}[,']")
    [queue] = [each for each in sql_files() if topics.search(each.statements[0])]
    columns = set(re.findall(r"^ +(\w+) [A-Z]", queue.statements[1], re.MULTILINE))
    assert set(record.fields) - columns <= UNREAD
