"""Generated files are fresh, and what is written by hand fits the definitions in schemas/."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from stunwatch import detectors, incidents
from stunwatch.definitions import Definition, Field, definitions, events
from stunwatch.detectors.volume_devices.tracker import Extent
from stunwatch.inventory.items import Item
from stunwatch.local.kafka import wanted_topics
from stunwatch.schema import SQL
from stunwatch.settings import ROOT
from tests.public.texts import golden
from tools import generate
from tools.generate.columns import columns
from tools.generate.mistakes import mistakes, mistakes_in

EVENTS = [*events().values()]
COMMON = [
    *("event_id UUID", "revision UInt64", "is_deleted UInt8", "run_id String"),
    "version UInt128",
]
ADDED_LATER = {
    "inventory_item": ("moid", "name", "cluster", "is_in_maintenance", "tags"),
    "latency_window": ("origin",),
}
"""Fields whose columns are the last ones of a table: `up` adds a column at the end."""

NOT_SHOWN = {
    "inventory": {
        *("kind", "told_by", "alias", "vm", "path"),
        *("moid", "name", "cluster", "is_in_maintenance", "tags"),
    },
    "quality_events": {"vm", "datastore"},
}
"""Fields that a view does not show. Of inventory, `inventory` shows LUNs; other views the rest."""

PARTS = {Extent: "inventory_item", Item: "inventory_item"}
"""Classes that have a part of the fields, or another order."""

PYTHON = {
    **dict.fromkeys(("text", "time", "uuid"), str),
    **dict.fromkeys(("uint32", "uint64", "flag"), int),
    **{"float": float, "bool": bool, "rows": list[dict[str, Any]]},
    **{"texts": list[str], "uuids": list[str], "uint64s": list[int]},
}
"""Type of a field → type in Python."""

LOW_CARDINALITY, SAME = r"^LowCardinality\((.+)\)$", r"\1"


def test_generated_files_are_fresh() -> None:
    made = generate.texts()
    present = {path: path.read_text() for path in generate.present()}
    stale = [str(path) for path in made.keys() | present if made.get(path) != present.get(path)]
    assert not stale, "run `make generate`"


def test_definitions_have_no_mistakes() -> None:
    assert mistakes() == []


@pytest.mark.parametrize(
    ("field", "mistake"),
    [
        ({"type": "uint64"}, "$.fields.size: has no `unit`"),
        ({"type": "uint64", "nulable": True}, "nulable"),
        ({"type": "int"}, "'int' is not one of"),
        ({"type": "rows", "fields": {"wait_ms": {"type": "float", "unit": "ms"}}}, "wait_ms"),
    ],
)
def test_a_mistake_in_a_field_is_found(field: dict[str, Any], mistake: str) -> None:
    definition = {
        **{"version": 1, "meaning": "One line.", "topics": ["esxi.syslog"]},
        **{"table": "lines_stored", "kept": "1 day", "kept_by": "received_at"},
        "fields": {"size": field},
    }
    [found] = mistakes_in(definition)
    assert mistake in found


def test_every_event_has_its_topic_and_every_topic_of_events_its_definition() -> None:
    assert {each for each in wanted_topics() if each.startswith("events.")} == {*events()}


# -- Tables and views


def columns_of(table: str) -> list[str]:
    """`name type` of each column of a table, without how it is compressed and calculated.

    Indexes, and the part of the host's name in a sort key, are no columns of a definition.
    """
    text = (SQL / "tables" / f"{table}.sql").read_text()
    body = text.partition("\n(\n")[2].partition("\n)\n")[0]
    found = []
    for name, said in re.findall(r"^    (\w+) (.+?),?$", body, re.MULTILINE):
        if name in {"INDEX", "host_label"}:
            continue
        kind = re.sub(r",? -- noqa.*| (?:CODEC|DEFAULT|MATERIALIZED)\b.*", "", said)
        found.append(f"{name} {re.sub(LOW_CARDINALITY, SAME, kind)}")
    return found


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name)
def test_a_table_has_the_columns_of_its_definition(event: Definition) -> None:
    wanted = [f"{each.name} {each.type}" for each in columns(event)]
    last = [each for each in wanted if each.split()[0] in ADDED_LATER.get(event.name, ())]
    wanted = [*(each for each in wanted if each not in last), *last]
    arrival = f"{event.kept_by} DateTime64(3, 'UTC')"
    found = columns_of(event.table)
    assert [each for each in found if each not in {*COMMON, arrival}] == wanted
    assert {*COMMON, arrival} <= {*found}


def columns_of_views() -> dict[str, set[str]]:
    """View → its columns, as ClickHouse has described them (tests/public)."""
    found: dict[str, set[str]] = {}
    for block in golden("views").read_text().split("\n\n"):
        head, *lines = block.strip().splitlines()
        found[head.split()[0]] = {line.split()[0] for line in lines}
    return found


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name)
def test_a_view_shows_every_field(event: Definition) -> None:
    wanted = {*event.fields} - {"detector", "revision", "is_deleted"}
    assert wanted - columns_of_views()[event.view] == NOT_SHOWN.get(event.view, set())


# -- Rows in Python and in Flink SQL


def rows_in_python() -> Iterator[type]:
    """The classes whose objects become events."""
    for package in (detectors, incidents):
        for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for found in vars(importlib.import_module(each.name)).values():
                is_own = isinstance(found, type) and found.__module__ == each.name
                if is_own and {"event_id", "revision"} <= {*names_of(found)}:
                    yield found


def names_of(row: type) -> list[str]:
    return [each.name for each in fields(row)] if is_dataclass(row) else []


def fits(hint: Any, field: Field) -> bool:
    """Whether a field can hold what the type hint allows."""
    allowed = {*get_args(hint)} if isinstance(hint, UnionType) else {hint}
    [kind] = allowed - {NoneType}
    base = type(get_args(kind)[0]) if get_origin(kind) is Literal else kind
    return base == PYTHON[field["type"]] and (NoneType not in allowed or "nullable" in field)


@pytest.mark.parametrize("row", [*rows_in_python(), Item], ids=lambda row: row.__name__)
def test_a_class_has_the_fields_of_its_definition(row: type) -> None:
    names, hints = names_of(row), get_type_hints(row)
    if row in PARTS:
        event = definitions()[PARTS[row]]
        assert {*names} <= {*event.fields}
    else:
        event = next(each for each in EVENTS if [*each.fields] == names)
    assert [name for name in names if not fits(hints[name], event.fields[name])] == []


def test_java_writes_the_fields_of_a_latency_window() -> None:
    functions = ROOT / "flink-jobs/functions/src/main/java/io/github/stunwatch"
    text = (functions / "SampleWindows.java").read_text()
    _, _, written = text.partition("private Row minuteRow(")
    named = re.findall(r'told\.put\(\s*"(\w+)"', written.partition("return Row.of(")[0])
    assert named == [*definitions()["latency_window"].fields]
