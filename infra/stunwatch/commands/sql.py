"""`stunwatch sql`: a query, or one of the named investigations."""

from __future__ import annotations

import codecs
import sys
from typing import Annotated

import typer

from stunwatch.clickhouse import as_user
from stunwatch.errors import UserError
from stunwatch.investigations import investigations
from stunwatch.printable import printable_lines
from stunwatch.settings import load_settings


def sql(
    query: Annotated[
        str | None, typer.Argument(help="A query, or an investigation's name.", show_default=False)
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", metavar="NAME=VALUE", help="A parameter; may be repeated."),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            help="Any of ClickHouse's: Pretty, CSV, TSVWithNames, JSONEachRow, Vertical, …"
            " Default: Pretty on a terminal, TSVWithNames elsewhere.",
        ),
    ] = None,
    list_all: Annotated[bool, typer.Option("--list", help="Show the investigations.")] = False,
) -> None:
    """Ask ClickHouse. Standard output holds the rows and nothing else.

    Examples:

        stunwatch sql "SELECT vm, max(duration_us) FROM stuns GROUP BY vm"

        stunwatch sql longest_stuns --param most=20 --format CSV

        stunwatch sql --list
    """
    known = investigations()
    if list_all:
        for each in known.values():
            typer.echo(f"{each.name}\n    {each.question}")
            for name, default in each.defaults.items():
                shown = "must be given" if default is None else f"default: {default or 'any'}"
                typer.echo(f"    --param {name}=…  {each.meanings[name]} ({shown})")
        return
    if query is None:
        raise UserError(
            "Give a query or an investigation's name; `stunwatch sql --list` shows them."
        )
    parameters = dict(_name_and_value(each) for each in param or [])
    if query in known:
        parameters = known[query].parameters(parameters)
        query = known[query].query
    elif query.isidentifier():
        raise UserError(
            f"There is no investigation named {query}; `stunwatch sql --list` shows them."
        )
    output = output or ("PrettyCompact" if sys.stdout.isatty() else "TSVWithNames")
    reader = as_user(load_settings(), "reader")
    pieces = reader.stream(query.rstrip("; \n"), parameters, output=output)
    if sys.stdout.isatty():
        # A program gets the bytes as they are; a terminal would obey those that are commands.
        for text in codecs.iterdecode(pieces, "utf-8", errors="replace"):
            sys.stdout.write(printable_lines(text))
    else:
        for piece in pieces:
            sys.stdout.buffer.write(piece)
    sys.stdout.flush()


def _name_and_value(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UserError(f"--param takes NAME=VALUE, not {text!r}.")
    return name, value
