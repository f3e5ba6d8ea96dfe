"""All revisions of an event have the same partition and sort key in ClickHouse.

`FINAL` compares only revisions of one partition (docs/decisions/0028), so an event that moved would
be shown twice.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from stunwatch.definitions import Definition, events
from stunwatch.detectors.catalogue import Detector, detectors
from stunwatch.folders import ROOT
from tests.detectors.cases import (
    Event,
    Record,
    cases_of,
    joins_of,
    progress_after,
    records_by_owner,
    records_of,
    run,
    run_joined,
)

ORDERS = 5
"""Random orders per case, besides the order of the log."""

DEFINITIONS = {each.topics[0]: each for each in events().values()}


def shuffled(records: list[Record]) -> Iterator[list[Record]]:
    yield records
    for seed in range(ORDERS):
        yield random.Random(seed).sample(records, len(records))


def table_sql(definition: Definition) -> str:
    return (ROOT / "sql/tables" / f"{definition.table}.sql").read_text()


def place(event: Event, definition: Definition) -> dict[str, Any]:
    """Return the values that decide where a row is stored."""
    sql = table_sql(definition)
    [key] = re.findall(r"^ORDER BY \((.*)\)$", sql, re.MULTILINE)
    [time] = re.findall(r"^PARTITION BY .*toYear\((\w+)\)", sql, re.MULTILINE)
    found = {name: event.get(name) for name in key.split(", ")}
    if "host_label" in found:
        found["host_label"] = event["host"].split(".")[0].lower()
    # A stun that a host's log reports has a partition of its own.
    is_of_a_month = event.get("measured_by") != "hostd"
    return {**found, "time": event[time] if is_of_a_month else ""}


def moved(found: list[Event]) -> list[Any]:
    """Return the events that have revisions in different places."""
    places: dict[str, dict[str, Any]] = defaultdict(dict)
    for event in found:
        where = place(event, DEFINITIONS[topic_of(event)])
        places[event["event_id"]][repr(where)] = event
    return [each for each in places.values() if len(each) > 1]


def topic_of(event: Event) -> str:
    [by] = [each for each in detectors() if each.name == event["detector"]]
    return by.topic


BY_MONTH = [each for each in detectors() if "toYear(" in table_sql(DEFINITIONS[each.topic])]


@pytest.mark.parametrize("each", BY_MONTH, ids=lambda each: each.name)
def test_no_revision_of_an_event_moves(each: Detector) -> None:
    seen = 0
    for case in cases_of(each) if each.owner in ("vm", "host") else ():
        records = list(records_of(case / "input.log", each.owner))
        for ordered in shuffled(records):
            found = run(each, [*ordered, progress_after(records)])
            seen += len(found)
            assert not moved(found), case.name
    for join in joins_of(each):
        records = [record for its in records_by_owner(join).values() for record in its]
        for ordered in shuffled(records):
            found = run_joined(ordered)
            seen += len(found)
            assert not moved(found), join.name
    assert seen or each.owner == "esxtop"
