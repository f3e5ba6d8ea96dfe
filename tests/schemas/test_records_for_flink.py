"""Flink skips messages that violate the schema of lines. ClickHouse stores them with a reason."""

from __future__ import annotations

import json

import pytest
from pyflink.common import Row

from stunwatch.engine.tracking import RECORD_FIELDS, to_record
from stunwatch.settings import ROOT

SCHEMA = json.loads((ROOT / "schemas/log_line.v1.schema.json").read_text())
REQUIRED = sorted({*SCHEMA["required"], *SCHEMA["then"].get("required", [])} - {"received_at"})
LINE = {
    "owner": "esx01",
    "event_time": "2024-05-06T07:08:09.123Z",
    "kind": "line",
    "source": "syslog",
    "message": "a message",
    "run_id": "live",
    "time_quality": "exact",
}


def row(**fields: str) -> Row:
    return Row(*(fields.get(name) for name in RECORD_FIELDS))


def test_a_valid_line_is_a_record() -> None:
    record = to_record(row(**LINE))
    assert record is not None
    assert record.items() >= LINE.items()


@pytest.mark.parametrize("field", REQUIRED)
def test_a_line_without_a_required_field_is_not_a_record(field: str) -> None:
    assert to_record(row(**{name: each for name, each in LINE.items() if name != field})) is None
