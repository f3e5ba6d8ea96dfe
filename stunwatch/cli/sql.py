"""`stunwatch sql`: runs a query or a named investigation."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterable
from typing import Annotated

import typer

from stunwatch.clickhouse import ClickHouse, as_user
from stunwatch.errors import UserError, did_you_mean
from stunwatch.investigations import Investigation, as_type, investigations, types_in
from stunwatch.known_names import KINDS, check_parameters, why_unknown
from stunwatch.output import print_json
from stunwatch.printable import echo
from stunwatch.settings import load_settings
from stunwatch.short_ids import CHANGE_IDS, INCIDENT_IDS, SHORT, the_one
from stunwatch.times import TIME_HELP

JSON_ROWS = {
    "output_format_json_array_of_rows": "1",
    "output_format_json_quote_64bit_integers": "0",
}
"""ClickHouse's settings for `--format json`: one array, integers as numbers."""


def _names(incomplete: str) -> list[tuple[str, str]]:
    """Complete the name of an investigation; its question is the description."""
    return [
        (name, each.question)
        for name, each in investigations().items()
        if name.startswith(incomplete)
    ]


def _parameters(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Complete `--param NAME=` for the investigation that was typed before."""
    known = investigations()
    # If the value of a preceding option is still missing, typer does not assign the words to
    # parameters.
    typed = [ctx.params.get("query"), *ctx.args]
    meanings = next((known[word].meanings for word in typed if word in known), {})
    return [
        (f"{name}=", meaning) for name, meaning in meanings.items() if name.startswith(incomplete)
    ]


def sql(
    query: Annotated[
        str | None,
        typer.Argument(
            help="A query, or the name of an investigation.",
            show_default=False,
            autocompletion=_names,
        ),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            "-p",
            metavar="NAME=VALUE",
            help="Set a parameter. Repeat it for several parameters.",
            autocompletion=_parameters,
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            help="table, json, or any format of ClickHouse: CSV, JSONEachRow, Vertical, …"
            " Default: table on a terminal, otherwise TSVWithNames.",
        ),
    ] = None,
    list_all: Annotated[
        bool, typer.Option("--list", help="List the investigations and their parameters.")
    ] = False,
) -> None:
    """Run a query or a named investigation. Standard output holds only the rows.

    A parameter that is a time takes the same forms everywhere: `stunwatch sql --list` names them.
    A parameter that is the id of an incident or a change may be cut to its first characters.

    Examples:

        stunwatch sql "SELECT vm, max(duration_us) FROM stuns GROUP BY vm"

        stunwatch sql longest_stuns --param most=20 --format json

        stunwatch sql what_is_missing --param from_at="yesterday 22:00"

        stunwatch sql --list
    """
    known = investigations()
    is_json = (output or "").lower() == "json"
    if list_all:
        _list(known.values(), is_json)
        return
    if query is None:
        raise UserError(
            "No query given. Add a query in quotes, or the name of an investigation;"
            " `stunwatch sql --list` lists them."
        )
    settings = load_settings()
    site = settings.site_timezone
    parameters = dict(_name_and_value(each) for each in param or [])
    investigation = known.get(query)
    if investigation is not None:
        parameters = investigation.parameters(parameters, site)
        query = investigation.query
    elif not query.isidentifier():
        types = types_in(query)
        parameters = {
            name: as_type(types.get(name, "String"), name, value, site)
            for name, value in parameters.items()
        }
    else:
        raise UserError(
            f"There is no investigation named {query}.{did_you_mean(query, known)}"
            " `stunwatch sql --list` lists them."
        )
    reader = as_user(settings, "analyst")
    if investigation is not None:
        parameters |= _whole_ids(reader, investigation, parameters)
        check_parameters(reader, investigation.meanings, parameters)
        _check_change(reader, investigation, parameters)
    pieces = reader.stream(
        query.rstrip("; \n"),
        parameters,
        output=_format(output),
        settings=JSON_ROWS if is_json else None,
    )
    has_rows = False
    if sys.stdout.isatty():
        # Programs receive the bytes unchanged. On a terminal, control characters are replaced.
        for text in codecs.iterdecode(pieces, "utf-8", errors="replace"):
            has_rows = True
            echo(text, end="")
    else:
        for piece in pieces:
            has_rows = True
            sys.stdout.buffer.write(piece)
    if sys.stdout.isatty() and not has_rows:
        echo("No rows.")
    sys.stdout.flush()


def _format(asked: str | None) -> str:
    """Return the name of ClickHouse's format."""
    if asked is None:
        return "PrettyCompact" if sys.stdout.isatty() else "TSVWithNames"
    return {"json": "JSONEachRow", "table": "PrettyCompact"}.get(asked.lower(), asked)


def _list(known: Iterable[Investigation], is_json: bool) -> None:
    if is_json:
        print_json(
            [
                {
                    "name": each.name,
                    "question": each.question,
                    "parameters": [
                        {"name": name, "meaning": each.meanings[name], "default": default}
                        for name, default in each.defaults.items()
                    ],
                }
                for each in known
            ]
        )
        return
    for each in known:
        echo(f"{each.name}\n    {each.question}")
        for name, default in each.defaults.items():
            shown = "required" if default is None else f"default: {default or 'any'}"
            echo(f"    --param {name}=…  {each.meanings[name]} ({shown})")
    echo(f"A time has {TIME_HELP[0].lower()}{TIME_HELP[1:]}")


def _whole_ids(
    reader: ClickHouse, investigation: Investigation, parameters: dict[str, str]
) -> dict[str, str]:
    """Return the full ids of the incident and the change that parameters abbreviate."""
    found = {}
    for name, query in (("incident", INCIDENT_IDS), ("change", CHANGE_IDS)):
        if name in investigation.defaults and parameters.get(name):
            found[name] = the_one(reader, query, parameters[name], name, f"stunwatch {name} list")[
                "id"
            ]
    return found


def _check_change(
    reader: ClickHouse, investigation: Investigation, parameters: dict[str, str]
) -> None:
    """Check the names of the change that an investigation compares.

    For a change with an unknown name, the investigation would return no rows.

    Raises UserError if a name is unknown.
    """
    if "change" not in investigation.defaults or parameters.get("at"):
        return
    noted = reader.named_rows(
        "SELECT toString(change_id) AS id, title, host, device, datastore FROM changes"
        " WHERE {change:String} IN ('', id) ORDER BY changed_at DESC LIMIT 1",
        {"change": parameters.get("change", "")},
    )
    for each in noted:
        names = {kind: each[kind] for kind in KINDS if each.get(kind) and not parameters.get(kind)}
        if unknown := [why for kind in names if (why := why_unknown(reader, kind, names[kind]))]:
            raise UserError(
                f"The change {each['id'][:SHORT]} ({each['title']}) concerns an unknown name."
                f" {' '.join(unknown)} Remove the change and add it again, or name another one"
                " with --param change=…"
            )


def _name_and_value(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UserError(f"--param is {text!r}. Write it as NAME=VALUE, for example most=20.")
    return name, value
