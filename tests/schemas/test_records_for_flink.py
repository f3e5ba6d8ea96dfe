"""Flink skips messages that violate the schema of lines. ClickHouse stores them with a reason."""

from __future__ import annotations

import json

import pytest

from stunwatch.engine.tracking import to_json, to_record
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


def test_a_valid_line_is_a_record() -> None:
    record = to_record(to_json(LINE))
    assert record is not None
    assert record.items() >= LINE.items()


@pytest.mark.parametrize("field", REQUIRED)
def test_a_line_without_a_required_field_is_not_a_record(field: str) -> None:
    assert to_record(to_json({**LINE, field: None})) is None
