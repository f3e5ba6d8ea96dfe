"""The named queries of `sql/queries/investigations/` and their parameters."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo

from stunwatch.errors import UserError, did_you_mean
from stunwatch.schema import SQL, statements
from stunwatch.times import FORMS, moment

# -- param most = 10 : how many rows
_PARAMETER = re.compile(r"-- param (?P<name>\w+)(?: =(?P<default>.*?))? : (?P<meaning>.*)")
# {until:DateTime64(6, 'UTC')}
_USE = re.compile(r"\{(?P<name>\w+):(?P<type>\w+)")

AS_TEXT = {"at": "DateTime64", "until": "DateTime64", "free_gib": "Float64"}
"""True types of parameters that some queries take as text: an empty text means "not given"."""

_FIRST_YEAR, _LAST_YEAR = 1970, 2105
"""The range of ClickHouse's DateTime."""


@dataclass(frozen=True)
class Investigation:
    """One named query: its first comment line, its SQL, and its parameters with their defaults.

    A parameter whose default is None is required.
    """

    name: str
    question: str
    query: str
    defaults: Mapping[str, str | None]
    meanings: Mapping[str, str]
    types: Mapping[str, str]
    """ClickHouse type of each parameter, without arguments, such as DateTime64."""

    def parameters(self, given: Mapping[str, str], site: tzinfo = UTC) -> dict[str, str]:
        """Return the defaults, replaced by the given values, in ClickHouse's format.

        `site`: the time zone of `today` and `yesterday`.

        Raises:
            UserError: a parameter is unknown, missing, or does not match its type.
        """
        if unknown := sorted(set(given) - set(self.defaults)):
            known = f"It has: {', '.join(self.defaults)}." if self.defaults else "It has none."
            raise UserError(
                f"The investigation {self.name} has no parameter {unknown[0]}."
                f"{did_you_mean(unknown[0], self.defaults)} {known}"
            )
        merged = {}
        for name, value in {**self.defaults, **given}.items():
            if value is None:
                raise UserError(
                    f"The investigation {self.name} needs --param {name}=… ({self.meanings[name]})."
                )
            merged[name] = as_type(self.types.get(name, "String"), name, value, site)
        return merged


def types_in(query: str) -> dict[str, str]:
    """Return the ClickHouse type of each parameter of a query, without arguments: DateTime64."""
    return {each["name"]: each["type"] for each in _USE.finditer(query)}


def as_type(kind: str, name: str, value: str, site: tzinfo = UTC) -> str:
    """Return a parameter's value in ClickHouse's format. Raises UserError on a wrong type.

    `site`: the time zone of `today` and `yesterday`. Only times and numbers are checked here;
    ClickHouse checks the other types.
    """
    if name in AS_TEXT and kind == "String":
        if not value:
            return value  # optional and not given
        kind = AS_TEXT[name]
    if kind.startswith("DateTime"):
        return _time(name, value, site, has_fraction=kind == "DateTime64")
    if kind.startswith("UInt") and not _is_count(value, int(kind.removeprefix("UInt"))):
        raise UserError(
            f"--param {name}={value}: {value!r} is not a whole number of 0 or more. Use for"
            f" example {name}=10."
        )
    if kind.startswith("Float") and not _is_number(value):
        raise UserError(
            f"--param {name}={value}: {value!r} is not a number. Use for example {name}=0.5."
        )
    return value if kind == "String" else value.strip()


def _time(name: str, value: str, site: tzinfo, *, has_fraction: bool) -> str:
    try:
        at = moment(value, site=site)
    except UserError:
        raise UserError(
            f"--param {name}={value}: {value!r} is not a time. Use one of: {', '.join(FORMS)}."
        ) from None
    if not _FIRST_YEAR <= at.year <= _LAST_YEAR:
        raise UserError(
            f"--param {name}={value}: the year {at.year} is out of range. Use {_FIRST_YEAR} to"
            f" {_LAST_YEAR}."
        )
    fraction = f".{at.microsecond:06}" if at.microsecond and has_fraction else ""
    return f"{at:%Y-%m-%d %H:%M:%S}{fraction}"


def _is_count(text: str, bits: int) -> bool:
    words = text.strip()
    return len(words) <= 20 and words.isascii() and words.isdigit() and int(words) < 1 << bits


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text)) and "_" not in text
    except ValueError:
        return False


def investigations() -> dict[str, Investigation]:
    """Return all investigations, by name."""
    found = {}
    for path in sorted((SQL / "queries" / "investigations").glob("*.sql")):
        text = path.read_text()
        parameters = [match.groupdict() for match in _PARAMETER.finditer(text)]
        found[path.stem] = Investigation(
            name=path.stem,
            question=text.splitlines()[0].removeprefix("-- "),
            query=statements(text)[0],
            defaults={
                each["name"]: None if each["default"] is None else each["default"].strip()
                for each in parameters
            },
            meanings={each["name"]: each["meaning"] for each in parameters},
            types=types_in(statements(text)[0]),
        )
    return found
