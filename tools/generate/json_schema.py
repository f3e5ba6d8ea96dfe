"""JSON Schema of a definition: what a message must be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from stunwatch.definitions import Definition, Field, definitions

TIME: Final = "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?Z$"
"""The pattern of every time, UTC."""

LARGEST: Final = {"uint32": 2**32 - 1, "uint64": 2**64 - 1}

_INTEGERS: Final = {
    name: {"type": "integer", "minimum": 0, "maximum": most} for name, most in LARGEST.items()
}
_UUID: Final = {"type": "string", "format": "uuid"}
_JSON: Final[Mapping[str, dict[str, Any]]] = {
    "text": {"type": "string"},
    "time": {"type": "string", "pattern": TIME},
    "uuid": _UUID,
    **_INTEGERS,
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "flag": {"enum": [0, 1]},
    "texts": {"type": "array", "items": {"type": "string"}},
    "uuids": {"type": "array", "items": _UUID},
    "uint64s": {"type": "array", "items": _INTEGERS["uint64"]},
    "rows": {"type": "array"},
    "lists": {"type": "object", "additionalProperties": False},
}


def text_of(definition: Definition) -> str:
    """The file `schemas/<name>.v1.schema.json`."""
    return json.dumps(schema_of(definition), indent=2, ensure_ascii=False) + "\n"


def schema_of(definition: Definition) -> dict[str, Any]:
    """The JSON Schema of the messages."""
    schema: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": definition.message,
        "description": definition.meaning,
        "x-topics": list(definition.topics),
        **_object(definition.fields),
    }
    for name, field in definition.fields.items():
        if "only_if" in field:
            condition = {each: {"const": value} for each, value in field["only_if"].items()}
            schema["if"] = {"properties": condition}
            schema["then"] = {"required": [name]}
            schema["else"] = {"not": {"required": [name]}}
    return schema


def numbers_of(name: str) -> dict[str, Field]:
    """The fields of a definition that are numbers of the type `float`."""
    fields = definitions()[name].fields
    return {each: field for each, field in fields.items() if field["type"] == "float"}


def _object(fields: Mapping[str, Field]) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": [
            name
            for name, field in fields.items()
            if not field.get("optional") and "only_if" not in field
        ],
        "properties": {name: _property(field) for name, field in fields.items()},
    }


def _property(field: Field) -> dict[str, Any]:
    described = {"description": field["meaning"]} if "meaning" in field else {}
    if "values" in field:
        values = field["values"] + ([None] if field.get("nullable") else [])
        return ({"const": values[0]} if len(values) == 1 else {"enum": values}) | described
    found = dict(_JSON[field["type"]])
    if field.get("nullable"):
        found["type"] = [found["type"], "null"]
    if field["type"] == "rows":
        found["items"] = _object(field["fields"])
    if "least_length_of_each" in field:
        found["items"] = found["items"] | {"minLength": field["least_length_of_each"]}
    if field["type"] == "lists":
        numbers = {"type": "array", "items": {"type": ["number", "null"]}}
        found["properties"] = {
            name: numbers | {"description": each["meaning"]}
            for name, each in numbers_of(field["of"]).items()
        }
    found |= {"pattern": field["pattern"]} if "pattern" in field else {}
    found |= {"minimum": field["least"]} if "least" in field else {}
    least, most = ("minItems", "maxItems") if "items" in found else ("minLength", "maxLength")
    found |= {least: field["least_length"]} if "least_length" in field else {}
    found |= {most: field["most_length"]} if "most_length" in field else {}
    return found | described
