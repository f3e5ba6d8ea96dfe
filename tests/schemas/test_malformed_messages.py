"""No message stops ClickHouse's views. A message that violates its schema is one rejected line."""

from __future__ import annotations

import copy
import json
import math
import os
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import cache
from itertools import islice
from typing import Any

import pytest
from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.validators import extend

from stunwatch.definitions import definitions
from stunwatch.folders import ROOT
from stunwatch.schema import sql_files
from tests.clickhouse_server import Server
from tests.hostile_messages import SCHEMAS, Hostile, broken_messages, mutated_messages
from tools.generate.json_schema import TIME

FUZZ_SECONDS = float(os.environ.get("STUNWATCH_FUZZ_SECONDS", "20"))
FUZZ_SEED = int(os.environ.get("STUNWATCH_FUZZ_SEED", "17"))

TABLES = {
    "late": ("latency_windows_late", "device"),
    **{
        each.message: (each.table, "event_id" if each.is_event else "generation, file, offset")
        for each in definitions().values()
    },
}
"""Schema → table of its rows, and the columns that identify a row."""

WITH_DEFAULTS = {"truncated", "origin"}
MEASURES = SCHEMAS["esxtop_row.v1"]["properties"]["measures"]["properties"]
BY_ARRIVAL = {"event_time", "received_at", "stamped_at", "time_quality"}
"""Columns of lines, samples and rejected lines. Another value is stored if the time is far from the
time of arrival."""
ZERO_WHERE_UNKNOWN = {"offset", "line_bytes"}
"""Columns that are part of a line's identity, and 0 for lines from the network."""

IS_TIME = re.compile(
    r"(?:19|2[0-2])\d\d-\d\d-\d\dT(?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)(?:\.\d{1,9})?Z"
)


# -- The row that a message must be stored as


def stored_rows(message: Hostile) -> list[dict[str, Any]] | None:
    """Return the rows to store, each as its fields; None if the message is rejected."""
    if not message.schema:
        return None
    is_event = message.topic.startswith("events.")
    try:
        fields, names = parsed(message.value)
    except (ValueError, RecursionError):
        return None
    is_twice = is_event and len(set(names)) < len(names)
    if is_twice or not validator(message.schema, is_event).is_valid(fields):
        return None
    properties = SCHEMAS[message.schema]["properties"]
    for name, each in fields.items():
        is_time = properties.get(name, {}).get("pattern") == TIME
        # `stamped_at` may be an impossible time. Then the line is stored with its time of arrival.
        if name != "stamped_at" and is_time and isinstance(each, str) and not exists(each):
            return None
    if fields.get("kind") == "progress":
        return []
    return samples_in(fields) if message.schema == "esxtop_row.v1" else [fields]


def samples_in(fields: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return the samples of a row of esxtop, each as its fields; None if it is rejected."""
    devices, given = fields.pop("devices"), fields.pop("measures")
    measures = {name: each for name, each in given.items() if name in MEASURES}
    if "device" in fields or any(len(each) not in (0, len(devices)) for each in measures.values()):
        return None
    return [
        fields | {"device": device} | {name: each[place] for name, each in measures.items() if each}
        for place, device in enumerate(devices)
    ]


def parsed(value: bytes) -> tuple[dict[str, Any], list[str]]:
    """Return the fields, and their names with repetitions. Raises ValueError."""
    names: list[str] = []

    def of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names[:] = [name for name, _ in pairs]
        return dict(reversed(pairs))  # the first of several equal names counts

    def of_float(text: str) -> float:
        if not math.isfinite(number := float(text)):
            raise ValueError(text)
        return number

    def of_int(text: str) -> int:
        if not -(2**63) <= (number := int(text)) < 2**64:
            raise ValueError(text)
        return number

    def of_constant(text: str) -> None:
        raise ValueError(text)

    found = json.loads(
        value.decode(),
        object_pairs_hook=of_pairs,
        parse_float=of_float,
        parse_int=of_int,
        parse_constant=of_constant,
    )
    json.dumps(found, ensure_ascii=False).encode()  # raises for half a surrogate pair
    if not isinstance(found, dict):
        raise ValueError("it is no object")
    return found, names


@cache
def validator(name: str, is_event: bool) -> Draft202012Validator:
    """Return a validator for the schema that ignores unknown fields."""
    text = json.dumps(SCHEMAS[name]).replace('$"', '\\\\Z"')
    schema = copy.deepcopy(json.loads(text))
    schema.pop("additionalProperties", None)
    for each in schema["properties"].values():
        if each.get("type") == "object":
            each.pop("additionalProperties", None)
    types = Draft202012Validator.TYPE_CHECKER
    if not is_event:
        # In JSON Schema 1.0 is an integer. The view for lines checks the text, and rejects it.
        types = types.redefine(
            "integer", lambda _, each: isinstance(each, int) and not isinstance(each, bool)
        )
    return extend(Draft202012Validator, type_checker=types)(schema, format_checker=FormatChecker())


def exists(text: str) -> bool:
    """True if the time exists, from 1900 to 2299. Second 60 is a leap second."""
    try:
        datetime.fromisoformat(re.sub(r":60(?=[.Z])", ":59", text)[:19])
    except ValueError:
        return False
    return bool(IS_TIME.fullmatch(text))


# -- The rows that were stored


def differences(server: Server, messages: Iterable[Hostile]) -> list[str]:
    """Send messages and describe where the stored rows differ; then empty the tables."""
    sent = list(messages)
    server.read((each.topic, each.value) for each in sent)
    rejected = defaultdict(list)
    for file, offset, reason in server.admin.rows(
        "SELECT file, offset, reason FROM rejected_lines_stored WHERE match(file, '^[a-z_.]+/0$')"
    ):
        rejected[file, offset].append(reason)
    rows = {of_table: stored(server, *of_table) for of_table in TABLES.values()}
    found, taken = [], set()
    for offset, each in enumerate(sent):
        reasons = rejected.pop((f"{each.topic}/0", offset), [])
        expected = stored_rows(each)
        if expected is None:
            if len(reasons) != 1 or not reasons[0]:
                found.append(f"{each.about}: {len(reasons)} rejected rows, expected 1")
        elif reasons:
            found.append(f"{each.about}: rejected, {reasons}")
        elif expected:
            table = TABLES[each.schema]
            own = of_message(expected[0], table[1], rows[table])
            if len(own) != len(expected):
                found.append(f"{each.about}: {len(own)} rows, expected {len(expected)}")
                continue
            own.sort(key=lambda row: str(row.get("device")))
            expected.sort(key=lambda fields: str(fields.get("device")))
            for fields, row in zip(expected, own, strict=True):
                taken.add(id(row))
                found += [f"{each.about}: {wrong}" for wrong in changed(each.schema, fields, row)]
    found += [f"nobody sent {each}" for each in rejected]
    for (table, _), by_name in rows.items():
        more = {id(row): row for each in by_name.values() for row in each if id(row) not in taken}
        found += [f"a row of {table} that no message has: {row}" for row in more.values()]
    server.empty()
    return found


Rows = dict[tuple[str, Any], list[dict[str, Any]]]
"""Rows by (column, value) of the columns that identify them."""


def stored(server: Server, table: str, columns: str) -> Rows:
    """Return the rows of a table without those of rejected messages."""
    of_lines = " WHERE NOT match(file, '^[a-z_.]+/0$')" if table == "rejected_lines_stored" else ""
    found: Rows = defaultdict(list)
    for row in server.admin.named_rows(f"SELECT * FROM {table}{of_lines}"):
        for name in columns.split(", "):
            found[name, row[name]].append(row)
    return found


def of_message(expected: dict[str, Any], columns: str, rows: Rows) -> list[dict[str, Any]]:
    """Return the rows of a message.

    If one of the identifying fields is broken, other rows can have the same value.
    """
    found = [rows.get((name, expected.get(name)), []) for name in columns.split(", ")]
    return min(filter(None, found), key=len, default=[])


def changed(schema: str, expected: dict[str, Any], row: dict[str, Any]) -> Iterator[str]:
    """Describe fields stored with another value, and unknown ones stored as 0."""
    for name, each in row.items():
        wanted = expected.get(name)
        if name in WITH_DEFAULTS | BY_ARRIVAL or (
            name not in expected and name in ZERO_WHERE_UNKNOWN
        ):
            continue
        if wanted is None:
            if name in SCHEMAS[schema]["properties"] and each not in (None, "", []):
                yield f"{name} is {each!r}, expected unknown"
        elif "number" in SCHEMAS[schema]["properties"].get(name, {}).get("type", []):
            if not math.isclose(wanted, each, rel_tol=1e-12):
                yield f"{name} is {each!r}, expected {wanted!r}"
        elif not same(wanted, each):
            yield f"{name} is {each!r}, expected {wanted!r}"


def same(wanted: Any, found: Any) -> bool:
    if isinstance(wanted, str) and IS_TIME.fullmatch(wanted):
        digits = re.sub(r"\D", "", str(found))
        return re.sub(r"\D", "", wanted).ljust(23, "0").startswith(digits.rstrip("0"))
    if isinstance(wanted, list) and wanted and isinstance(wanted[0], dict):
        return len(wanted) == len(found)
    return bool(wanted == found)


# -- Tests


CONVERTS = re.compile(
    r"\b(?:to(?:U?Int\d+|Float\d+|Decimal\d+|DateTime(?:64)?|Date(?:32)?|UUID|IPv\d)"
    r"|parseDateTime\w*?(?<!OrNull)(?<!OrZero)|throwIf|accurateCast|reinterpret\w*)\("
)
CANNOT_FAIL = {
    "toDateTime(toStartOfHour(window_start), 'UTC')",
    "toDate(received_at)",
    "toDate(last_received_at)",
}
"""Conversions of values that are already times."""


@pytest.mark.parametrize("stage", ["parsing", "materialized_views"])
def test_no_view_has_a_conversion_that_raises(stage: str) -> None:
    for file in (each for each in sql_files() if each.stage == stage):
        text = ";\n".join(file.statements)
        for each in CANNOT_FAIL:
            text = text.replace(each, "")
        assert not CONVERTS.findall(text), file.name


def test_views_find_the_fields_of_a_message_with_tuple_element() -> None:
    """`record.host` takes ClickHouse half a millisecond for each name and block."""
    for file in sql_files():
        text = re.sub(r"'(?:[^'\\]|\\.)*'", "", ";".join(file.statements))
        if file.stage in ("parsing", "materialized_views") and "JSONExtract(raw, )" in text:
            assert not re.findall(r"\b(?:record|event)\.\w+", text), file.name
            assert "tupleElement(" in text, file.name


def once(messages: Iterable[Hostile]) -> Iterator[Hostile]:
    """Keep the first of the topics with the same schema, because one view reads them all."""
    known = {each["x-topics"][0] for each in SCHEMAS.values()}
    return (each for each in messages if each.topic in known)


def test_a_row_with_too_many_objects_is_rejected(server: Server) -> None:
    path = ROOT / "schemas/samples/esxtop_row.v1.two_devices.pass.json"
    row = json.loads(path.read_text()) | {"measures": {"davg_ms": []}}
    messages = [
        Hostile("esxi.esxtop", "", json.dumps(made).encode(), "esxtop_row.v1", f"{count} devices")
        for count in (1000, 1001)
        for made in [row | {"devices": [f"naa.{n}" for n in range(count)], "offset": count}]
    ]
    assert [stored_rows(each) is None for each in messages] == [False, True]
    assert not differences(server, messages)


def test_every_seventh_broken_message_is_rejected_or_stored_unchanged(server: Server) -> None:
    assert not differences(server, islice(once(broken_messages()), 0, None, 7))


@pytest.mark.slow
def test_every_broken_message_is_rejected_or_stored_unchanged(server: Server) -> None:
    by_topic = defaultdict(list)
    for each in broken_messages():
        by_topic[each.topic].append(each)
    for messages in by_topic.values():
        assert not differences(server, messages)


@pytest.mark.slow
def test_randomly_mutated_messages_are_rejected_or_stored_unchanged(server: Server) -> None:
    messages = mutated_messages(FUZZ_SEED)
    deadline = time.monotonic() + FUZZ_SECONDS
    while time.monotonic() < deadline:
        assert not differences(server, islice(messages, 5000))
