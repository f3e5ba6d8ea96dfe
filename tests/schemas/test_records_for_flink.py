"""Flink skips messages that violate the schema of lines. ClickHouse stores them with a reason."""

from __future__ import annotations

import json

import orjson
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


def test_the_record_has_the_log_key_and_the_offset_of_its_message() -> None:
    record = to_record(to_json({**LINE, "owner": "forged"}), "esx01", 7)
    assert record is not None
    assert (record["owner"], record["kafka_offset"]) == ("esx01", 7)


def test_a_field_that_is_null_or_that_no_tracker_reads_is_left_out() -> None:
    record = to_record(orjson.dumps({**LINE, "vm": None, "peer": "192.0.2.7", "x": [1]}).decode())
    assert record is not None
    assert record.keys() == {*LINE, "event_time_us"}


@pytest.mark.parametrize("value", [5, 1.5, True, ["a"], {"a": "b"}])
@pytest.mark.parametrize("field", ["message", "head", "vm"])
def test_a_field_with_another_type_is_not_a_record(field: str, value: object) -> None:
    assert to_record(orjson.dumps({**LINE, field: value}).decode()) is None


@pytest.mark.parametrize("offset", ["5", 1.5, True, 2**63, 10**4000])
def test_an_offset_that_is_no_whole_number_of_64_bits_is_not_a_record(offset: object) -> None:
    # Half a surrogate pair: the slower parser reads numbers of any size.
    for message in ("a message", "a \ud800 b"):
        text = json.dumps({**LINE, "message": message, "offset": offset})
        assert to_record(text) is None


def test_half_a_surrogate_pair_becomes_a_question_mark() -> None:
    record = to_record(json.dumps({**LINE, "message": "a \ud800 b"}))
    assert record is not None
    assert record["message"] == "a ? b"


@pytest.mark.parametrize("text", ["", "null", "[]", "7", "{", "[" * 100_000, '{"offset": NaN}'])
def test_text_that_is_no_object_is_not_a_record(text: str) -> None:
    assert to_record(text) is None
