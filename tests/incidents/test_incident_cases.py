"""Incidents from cases; neither the order of events nor the pace changes the result."""

from __future__ import annotations

import random
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import jsonschema
import orjson
import pytest

from stunwatch.engine.correlating import LIVE_EVERY_US
from stunwatch.engine.history import HISTORY_EVERY_US
from stunwatch.incidents.correlator import SEEN_TOPIC, Correlator, Incident, superseded
from stunwatch.incidents.topology import Topology
from tests.incidents.scenario import CASES, Fed, cases, events, final_rows, known_us, load

SCHEMA = orjson.loads(Path("schemas/incident.v1.schema.json").read_bytes())


def told(row: Incident, expected: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that a case expects.

    Of next steps, this is whether any step, or the first one, has the expected words.
    """
    fields = asdict(row)
    steps = orjson.dumps(row.next_steps).decode()
    found = {name: fields[name] for name in expected if name in fields and name != "next_steps"}
    if "first_step" in expected:
        first = row.next_steps[0]["step"]
        found["first_step"] = expected["first_step"] if expected["first_step"] in first else first
    if "verdict" in expected:
        found["verdict"] = [each for each in expected["verdict"] if each in row.verdict]
    if "next_steps" in expected:
        found["next_steps"] = [each for each in expected["next_steps"] if each in steps]
    if "no_next_steps" in expected:
        found["no_next_steps"] = [each for each in expected["no_next_steps"] if each not in steps]
    for name in ("opened_at", "closed_at", "detected_at"):
        if found.get(name):
            found[name] = found[name][11:19]
    return found


def facts(rows: list[Incident]) -> list[Incident]:
    """Return the rows without their revisions, which count intermediate versions."""
    return [replace(row, revision=0) for row in rows]


@pytest.mark.parametrize("path", cases(), ids=lambda path: path.stem)
def test_a_case_gives_its_expected_incidents(path: Path) -> None:
    case = load(path)
    fed = sorted(events(case), key=known_us)
    rows = final_rows(fed, case["until"], LIVE_EVERY_US)
    for row in rows:
        jsonschema.validate(asdict(row), SCHEMA)
    expected = case["incidents"]
    assert len(rows) == len(expected), [row.verdict for row in rows]
    found = [told(row, each) for row, each in zip(rows, expected, strict=True)]
    assert found == expected, [row.verdict for row in rows]


@pytest.mark.parametrize("path", cases(), ids=lambda path: path.stem)
def test_live_and_history_give_the_same_incidents(path: Path) -> None:
    case = load(path)
    fed = sorted(events(case), key=known_us)
    live = facts(final_rows(fed, case["until"], LIVE_EVERY_US))
    assert facts(final_rows(fed, case["until"], HISTORY_EVERY_US)) == live
    # A replay ships again what is already there.
    twice = sorted([*fed, *fed], key=known_us)
    assert facts(final_rows(twice, case["until"], LIVE_EVERY_US)) == live


@pytest.mark.parametrize("path", cases(), ids=lambda path: path.stem)
def test_the_order_of_events_does_not_change_the_incidents(path: Path) -> None:
    case = load(path)
    if any("+" in line for line in case["events"]):
        pytest.skip("usual hours are learned from days in their order")
    fed = sorted(events(case), key=known_us)
    expected = final_rows(fed, case["until"], LIVE_EVERY_US)
    for seed in range(5):
        shuffled = list(fed)
        random.Random(seed).shuffle(shuffled)
        found = final_rows(shuffled, case["until"], HISTORY_EVERY_US)
        assert facts(found) == facts(expected)


def as_stored(fed: Fed) -> Fed:
    """Return an event as ClickHouse returns it: a whole number has no fraction."""
    topic, event = fed
    return topic, {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in event.items()
    }


@pytest.mark.parametrize("path", cases(), ids=lambda path: path.stem)
def test_events_from_clickhouse_give_the_same_rows_and_revisions(path: Path) -> None:
    case = load(path)
    fed = sorted(events(case), key=known_us)
    stored = [as_stored(each) for each in fed]
    expected = final_rows(fed, case["until"], LIVE_EVERY_US)
    assert final_rows(stored, case["until"], LIVE_EVERY_US) == expected


def test_a_host_that_is_reported_late_still_counts() -> None:
    case = load(CASES / "one_slow_lun.yaml")
    fed = sorted(events(case), key=known_us)
    seen = [each for each in fed if each[0] == SEEN_TOPIC]
    others = [each for each in fed if each[0] != SEEN_TOPIC]
    [expected] = final_rows(fed, case["until"], LIVE_EVERY_US)
    correlator, topology = Correlator("case", LIVE_EVERY_US), Topology()
    for topic, event in others:
        list(correlator.feed(topic, event, {}, topology))
    [before] = correlator.look(topology)
    assert before.reporting_hosts < expected.reporting_hosts
    for topic, event in seen:
        assert not list(correlator.feed(topic, event, {}, topology))
    [after] = correlator.advance_time(correlator.now_us + LIVE_EVERY_US, topology)
    assert after.reporting_hosts == expected.reporting_hosts
    # A host that is already counted changes nothing.
    for topic, event in seen:
        list(correlator.feed(topic, event, {}, topology))
    assert not correlator.is_dirty


def test_every_case_file_is_loaded() -> None:
    assert len(cases()) >= 15
    assert {each.suffix for each in CASES.iterdir()} == {".yaml"}


def test_an_incident_that_became_part_of_another_is_retracted() -> None:
    case = load(CASES / "array_beside_a_storm.yaml")
    fed = sorted(events(case), key=known_us)
    true = final_rows(fed, case["until"], HISTORY_EVERY_US)
    part = {"event_id": "a part of it", "revision": 7, "evidence_ids": true[0].evidence_ids[1:2]}
    standing = [
        {**part, "is_deleted": 0},
        {**part, "event_id": "taken back", "is_deleted": 1},
        {**part, "event_id": "of another night", "is_deleted": 0, "evidence_ids": ["another"]},
        asdict(true[0]),
    ]
    [row] = superseded(standing, true, "run")
    assert (row["event_id"], row["revision"], row["is_deleted"]) == ("a part of it", 8, 1)


def test_a_corrected_row_replaces_one_with_a_higher_revision() -> None:
    case = load(CASES / "bad_host_with_a_vm_elsewhere.yaml")
    fed = sorted(events(case), key=known_us)
    true = final_rows(fed, case["until"], HISTORY_EVERY_US)
    told_before = asdict(true[0]) | {"vms": ["web01", "web09"], "revision": true[0].revision * 2}
    [row] = superseded([told_before], true, "run")
    assert row["vms"] == ["web01"]
    assert row["revision"] == true[0].revision * 2 + 1
