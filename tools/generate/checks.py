"""The checks of events in ClickHouse: the kind of each field, and what each kind requires.

A field that no definition names is not checked: a newer version may send it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from stunwatch.definitions import Definition
from tools.generate.json_schema import TIME, schema_of

Property = Mapping[str, Any]

_NO_LIMIT: Final = 2**64 - 1


class Kind(NamedTuple):
    """What a value must be. Fields with equal requirements have the same kind."""

    check: str
    """The name of the check, which is also the reason of a rejected message."""
    can_be_null: int
    least: int
    most: int
    pattern: str
    values: str
    """The known values as JSON, or ''."""


@dataclass
class Checks:
    """The lists of the checks, by topic and field in the order of the messages."""

    required: list[tuple[str, list[str]]] = field(default_factory=list)
    """(topic, its required fields)."""
    fields: list[tuple[str, int]] = field(default_factory=list)
    """(topic and field, the number of its kind)."""
    kinds: dict[Kind, int] = field(default_factory=dict)
    """Kind → its number."""
    known_values: list[str] = field(default_factory=list)
    """The number of a kind and one of its values as JSON."""


def checks_of(events: Iterable[Definition]) -> Checks:
    """The checks of the messages of all topics of events."""
    made = Checks()
    for event in events:
        [topic] = event.topics
        schema = schema_of(event)
        made.required.append((topic, schema["required"]))
        for name, each in schema["properties"].items():
            kind = kind_of(each)
            if kind not in made.kinds:
                number = made.kinds[kind] = len(made.kinds)
                made.known_values += [f"{number} {json.dumps(one)}" for one in _values(each)]
            made.fields.append((f"{topic} {name}", made.kinds[kind]))
    return made


def kind_of(each: Property) -> Kind:
    """The kind of a property of a JSON Schema. Raises ValueError if its type has no check."""
    if values := _values(each):
        return Kind("a known value", 0, 0, 0, "", json.dumps(values))
    types = [each["type"]] if isinstance(each["type"], str) else each["type"]
    can_be_null = int("null" in types)
    [kind] = set(types) - {"null"}
    least, most, pattern = 0, _NO_LIMIT, ""
    match kind:
        case "boolean":
            check = "true or false"
        case "integer":
            check, least, most = "an integer in its range", each["minimum"], each["maximum"]
        case "number":
            check = "a positive number" if each.get("minimum") == 0 else "a number"
        case "string":
            check, pattern = _check_of_text(each)
            least, most = each.get("minLength", 0), each.get("maxLength", most)
        case "array":
            check = _check_of_list(each["items"])
            least, most = each.get("minItems", 0), each.get("maxItems", most)
        case _:
            raise ValueError(f"no check exists for the type {kind}")
    return Kind(check, can_be_null, least, most, pattern, "")


def _values(each: Property) -> list[Any]:
    return [each["const"]] if "const" in each else list(each.get("enum", []))


def _check_of_text(each: Property) -> tuple[str, str]:
    if each.get("format") == "uuid":
        return "a UUID", ""
    if each.get("pattern") == TIME:
        return "a UTC time", ""
    if "pattern" in each:
        inner = each["pattern"].removeprefix("^").removesuffix("$")
        return "a string in its format", f'^"{inner}"$'
    if "maxLength" in each:
        return "a string within its length limit", ""
    return "a non-empty string" if each.get("minLength") else "a string", ""


def _check_of_list(items: Property) -> str:
    if "format" in items:
        return "a list of UUIDs"
    kinds = {"integer": "a list of numbers", "object": "a list of steps"}
    return kinds.get(items["type"], "a list of strings")
