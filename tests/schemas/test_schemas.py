"""Every schema accepts its passing samples and refuses its failing ones; topics and tables fit."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

ROOT = Path(__file__).parents[2]
SCHEMAS = {
    path.name.removesuffix(".schema.json"): json.loads(path.read_text())
    for path in sorted((ROOT / "schemas").glob("*.schema.json"))
}
SAMPLES = sorted((ROOT / "schemas/samples").glob("*.json"))


@pytest.mark.parametrize("name", SCHEMAS)
def test_schema_is_valid_and_has_samples_of_both_kinds(name: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[name])
    kinds = {path.name.split(".")[-2] for path in SAMPLES if path.name.startswith(f"{name}.")}
    assert kinds == {"pass", "fail"}


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_sample_passes_or_fails_as_its_name_says(path: Path) -> None:
    schema = SCHEMAS[".".join(path.name.split(".")[:2])]
    is_valid = Draft202012Validator(schema).is_valid(json.loads(path.read_text()))
    assert is_valid == path.name.endswith(".pass.json")


PARSED_IN = {
    "log_line.v1": "readers/records_reader",
    "esxtop_sample.v1": "readers/samples_reader",
    "incident.v1": "intakes/incidents_intake",
    "inventory_item.v1": "intakes/inventory_intake",
    "rejected_line.v1": "readers/rejected_reader",
    "latency_episode.v1": "intakes/latency_episodes_intake",
    "reservation_conflict.v1": "intakes/reservation_conflicts_intake",
    "snapshot_operation.v1": "intakes/snapshot_operations_intake",
    "stun.v1": "intakes/stuns_intake",
    "task.v1": "intakes/tasks_intake",
    "path_event.v1": "intakes/path_events_intake",
    "quality_event.v1": "intakes/quality_events_intake",
    "scsi_error.v1": "intakes/scsi_errors_intake",
    "latency_window.v1": "intakes/latency_windows_intake",
    "unmap_run.v1": "intakes/unmap_runs_intake",
}
UNREAD = {"truncated", "detector"}
EVENT_TOPICS = (ROOT / "sql/readers/events_reader.sql").read_text()


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_field_has_its_column_in_clickhouse(name: str) -> None:
    text = (ROOT / f"sql/{PARSED_IN[name]}.sql").read_text()
    columns = set(re.findall(r"^ +(\w+) [A-Z]", text, re.MULTILINE))
    assert set(SCHEMAS[name]["properties"]) - columns <= UNREAD
    lists = re.findall(r"kafka_topic_list = '(.*)'", text + EVENT_TOPICS)
    topics = {topic for each in lists for topic in each.split(",")}
    assert set(SCHEMAS[name]["x-topics"]) <= topics
