"""Output formats of commands: a table for people, or JSON for programs."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from stunwatch.printable import echo

SEVERITY_STYLES: Final = {
    "critical": "bold red",
    "warning": "yellow",
    "notice": "cyan",
    "normal": "dim",
}
"""Rich styles by severity."""


class Format(StrEnum):
    """The values of `--format`."""

    TABLE = "table"
    JSON = "json"


FormatOption = Annotated[
    Format, typer.Option("--format", "-f", help="Print a table for people, or json for programs.")
]

JsonFlag = Annotated[bool, typer.Option("--json", hidden=True)]
"""The older spelling of `--format json`."""


def print_json(value: Any) -> None:
    """Print one JSON document on one line; times and ids as text.

    All characters outside ASCII are escaped. A terminal then cannot execute control sequences from
    a log, and a program still receives every character.
    """
    echo(json.dumps(value, default=str))
