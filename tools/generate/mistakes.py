"""What is wrong in the definitions, before anything is generated from them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from jsonschema import Draft202012Validator

from stunwatch.definitions import COMMON, SCHEMAS, Field

_ALLOWED: Final = Draft202012Validator(
    yaml.safe_load(Path(__file__).with_name("definition.schema.yaml").read_text())
)
_WITH_UNIT: Final = re.compile(r"(?:.+_)?(?:us|ms|mb|bytes|seconds|per_second)")
_NUMBERS: Final = ("uint32", "uint64", "float", "uint64s")


def mistakes() -> list[str]:
    """A sentence for each mistake in a definition, with its file and place."""
    return [
        f"schemas/{path.name}: {each}"
        for path in sorted(SCHEMAS.glob("*.yaml"))
        if path != COMMON
        for each in mistakes_in(yaml.safe_load(path.read_text()))
    ]


def mistakes_in(definition: Mapping[str, Any]) -> list[str]:
    """The mistakes in one definition, as it is in its file."""
    errors = sorted(_ALLOWED.iter_errors(definition), key=lambda error: list(error.path))
    return [f"{error.json_path}: {error.message}" for error in errors] or [
        *_units(definition["fields"])
    ]


def _units(fields: Mapping[str, Field]) -> Iterator[str]:
    """A number has its unit as the last word of its name, or else the key `unit`."""
    for name, field in fields.items():
        is_named = bool(_WITH_UNIT.fullmatch(name))
        if field["type"] in _NUMBERS and is_named == ("unit" in field):
            says = "has a unit in its name: remove `unit`" if is_named else "has no `unit`"
            yield f"$.fields.{name}: {says}"
        yield from _units(field.get("fields", {}))
