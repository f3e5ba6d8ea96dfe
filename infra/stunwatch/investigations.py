"""The named questions of `sql/investigations/`, and the parameters that each takes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from stunwatch.errors import UserError
from stunwatch.schema import SQL, statements

# -- param most = 10 : how many rows
_PARAMETER = re.compile(r"-- param (?P<name>\w+)(?: =(?P<default>.*?))? : (?P<meaning>.*)")


@dataclass(frozen=True)
class Investigation:
    """One question: its first comment line, its query, its parameters (None: must be given)."""

    name: str
    question: str
    query: str
    defaults: Mapping[str, str | None]
    meanings: Mapping[str, str]

    def parameters(self, given: Mapping[str, str]) -> dict[str, str]:
        """The defaults with what was given over them. Raises UserError for what does not fit."""
        if unknown := sorted(set(given) - set(self.defaults)):
            known = ", ".join(self.defaults) or "none"
            raise UserError(f"{self.name} has no parameter {unknown[0]}; it takes: {known}.")
        merged = {**self.defaults, **given}
        for name, value in merged.items():
            if value is None:
                raise UserError(f"{self.name} needs --param {name}=… ({self.meanings[name]}).")
        return {name: value for name, value in merged.items() if value is not None}


def investigations() -> dict[str, Investigation]:
    """All of them, by name."""
    found = {}
    for path in sorted((SQL / "investigations").glob("*.sql")):
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
        )
    return found
