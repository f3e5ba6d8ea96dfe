"""The checks of events in ClickHouse: required fields, and what the value of each field must be.

A field that no definition names is not checked: a newer version may send it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from stunwatch.definitions import Definition
from tools.generate.json_schema import TIME, schema_of

Property = Mapping[str, Any]

_NO_LIMIT: Final = 2**64 - 1

_UUID: Final = '"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"'

_UTC_TIME: Final = (
    '"(?:(?:19|2[0-2])[0-9]{2}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])'
    "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
    "|(?:(?:19|2[0-2])(?:0[48]|[2468][048]|[13579][26])|2000)-02-29)"
    'T(?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:[.][0-9]{1,9})?Z"'
)
"""A day that exists, with leap years from 1904 to 2296."""

STEP: Final = {
    "step": '^"[^"]',
    "because": '^"',
    "kb": '^("|null$)',
    "against": '^("|null$)',
    "evidence_ids": f"^($|\\[({_UUID},?)+\\]$)",
    "precondition": '^($|"[^"])',
    "risk_level": '^($|"none"$|"low"$|"high"$)',
    "risk": '^($|"[^"])',
}
"""Key → the pattern of its value in a next step. The value of a missing key is ''."""


class Kind(NamedTuple):
    """What a value must be. Fields with equal requirements have the same kind."""

    name: str
    """What the reason of a rejected message says that the value is not."""
    form: str
    """The pattern of the value's JSON."""
    least: int = 0
    most: int = 0
    """Limits of an integer, of a string's characters or of a list's items; none if `most` is 0."""
    items: str = ""
    """The pattern of a list's items as JSON."""


@dataclass
class Checks:
    """The lists of the checks, by topic and field in the order of the messages."""

    required: list[tuple[str, list[str]]] = field(default_factory=list)
    """(topic, its required fields)."""
    fields: list[tuple[str, int]] = field(default_factory=list)
    """(topic and field, the number of its kind)."""
    kinds: dict[Kind, int] = field(default_factory=dict)
    """Kind → its number, from 1."""


def checks_of(events: Iterable[Definition]) -> Checks:
    """The checks of the messages of all topics of events."""
    made = Checks()
    for event in events:
        [topic] = event.topics
        schema = schema_of(event)
        made.required.append((topic, schema["required"]))
        for name, each in schema["properties"].items():
            number = made.kinds.setdefault(kind_of(each), len(made.kinds) + 1)
            made.fields.append((f"{topic} {name}", number))
    return made


def kind_of(each: Property) -> Kind:
    """The kind of a property of a JSON Schema. Raises ValueError if its type has no check."""
    if values := [each["const"]] if "const" in each else each.get("enum"):
        known = "|".join(re.escape(json.dumps(one)) for one in values)
        return Kind("a known value", f"^({known})$")
    types = [each["type"]] if isinstance(each["type"], str) else each["type"]
    [type_] = set(types) - {"null"}
    match type_:
        case "boolean":
            kind = Kind("true or false", "(true|false)$")
        case "integer":
            limits = each["minimum"], each["maximum"]
            kind = Kind("an integer in its range", "[0-9]{1,20}$", *limits)
        case "number" if each.get("minimum") == 0:
            kind = Kind("a positive number", "[0-9]")
        case "number":
            kind = Kind("a number", "[-0-9]")
        case "string":
            kind = _kind_of_text(each)
        case "array":
            kind = _kind_of_list(each)
        case _:
            raise ValueError(f"no check exists for the type {type_}")
    return kind._replace(form=f"^(null$|{kind.form})" if "null" in types else f"^{kind.form}")


def _kind_of_text(each: Property) -> Kind:
    if each.get("format") == "uuid":
        return Kind("a UUID", f"{_UUID}$")
    if each.get("pattern") == TIME:
        return Kind("a UTC time", f"{_UTC_TIME}$")
    if "pattern" in each:
        inner = each["pattern"].removeprefix("^").removesuffix("$")
        return Kind("a string in its format", f'"{inner}"$')
    if "maxLength" in each:
        return Kind("a string within its length limit", '"', 0, each["maxLength"])
    if each.get("minLength"):
        return Kind("a non-empty string", '"[^"]')
    return Kind("a string", '"')


def _kind_of_list(each: Property) -> Kind:
    limits = each.get("minItems", 0), each.get("maxItems", _NO_LIMIT)
    items = each["items"]
    if "format" in items:
        return Kind("a list of UUIDs", r"\[", *limits, f"^{_UUID}$")
    match items["type"]:
        case "integer":
            return Kind("a list of numbers", r"\[", *limits, "^[0-9]{1,19}$")
        case "object":
            return Kind("a list of steps", r"\[", *limits, r"^\{")
        case _:
            return Kind("a list of strings", r"\[", *limits, '^"')
