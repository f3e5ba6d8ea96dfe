"""The columns of a definition in ClickHouse: how a field is read from JSON, and its type."""

from __future__ import annotations

from typing import Final, NamedTuple

from stunwatch.definitions import Definition, Field

_TYPES: Final = {
    "text": "String",
    "time": "String",
    "uuid": "UUID",
    "uint32": "UInt32",
    "uint64": "UInt64",
    "float": "Float64",
    "bool": "Bool",
    "texts": "Array(String)",
    "uuids": "Array(UUID)",
    "uint64s": "Array(UInt64)",
}
_UNKNOWN_IS_NULL: Final = ("uint32", "uint64", "float", "bool")
"""An absent text is '' and an absent list is empty. A number has no such value."""


class Column(NamedTuple):
    """A column: its name, its type in the table, its type in the JSON, and its value."""

    name: str
    type: str
    parsed: str
    value: str


def columns(definition: Definition) -> list[Column]:
    """The columns of the definition's own fields, in order."""
    return [
        Column(name, _stored(field), _parsed(field), _value(name, field))
        for name, field in definition.own_fields.items()
    ]


def _is_nullable(field: Field) -> bool:
    if "default" in field:
        return False
    is_unknown = bool(field.get("optional")) and field["type"] in _UNKNOWN_IS_NULL
    return is_unknown or bool(field.get("nullable"))


def _parsed(field: Field) -> str:
    if field["type"] == "rows":
        members = (f"{name} {_member(each)}" for name, each in field["fields"].items())
        return f"Array(Tuple({', '.join(members)}))"
    found = _TYPES[field["type"]]
    return f"Nullable({found})" if _is_nullable(field) else found


def _member(field: Field) -> str:
    """A tuple has no default for a text that an older version did not write: it is NULL."""
    is_unknown = field["type"] == "text" and (field.get("optional") or field.get("nullable"))
    return "Nullable(String)" if is_unknown else _TYPES[field["type"]]


def _stored(field: Field) -> str:
    if field["type"] != "time":
        return _parsed(field)
    found = f"DateTime64({field.get('digits', 6)}, 'UTC')"
    return f"Nullable({found})" if _is_nullable(field) else found


def _value(name: str, field: Field) -> str:
    # ClickHouse takes half a millisecond to find a name such as event.host, for every block.
    value = f"tupleElement(event, '{name}')"
    if field["type"] == "time":
        # Without an exception: only values that passed the checks arrive here.
        unknown = "OrNull" if _is_nullable(field) else "OrZero"
        return f"parseDateTime64BestEffort{unknown}({value}, {field.get('digits', 6)}, 'UTC')"
    if field.get("default"):
        return f"if({value} = '', '{field['default']}', {value})"
    return value
