"""`stunwatch doctor`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from stunwatch.output import Format, FormatOption, print_json

MARKS = {"good": ("✓", "green"), "lacking": ("!", "yellow"), "missing": ("✗", "red")}
"""The sign of each grade and its colour."""
EXIT_MISSING = 1


def doctor(
    host: Annotated[
        str, typer.Option(help="Check this ESXi host and its VMs through vCenter instead.")
    ] = "",
    fix: Annotated[
        bool, typer.Option("--fix", help="With --host: print commands that correct the settings.")
    ] = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Check whether this machine can run the pipeline, or whether a host sends its logs.

    Exit code 1 if something required is missing. For a host it reads syslog settings, clock and VM
    logging from vCenter (docs/collection.md). It changes nothing: --fix only prints commands.

    Examples:

        stunwatch doctor

        stunwatch doctor --host esx01.lab.example --fix
    """
    from stunwatch.errors import UserError  # noqa: PLC0415

    if fix and not host:
        raise UserError("--fix needs an ESXi host. Add --host NAME.")
    has_missing = _host(host, fix, output) if host else _machine(output)
    if has_missing:
        raise typer.Exit(EXIT_MISSING)


def _machine(output: Format) -> bool:
    from rich.table import Column, Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    from stunwatch.local.diagnosis import findings, look  # noqa: PLC0415
    from stunwatch.printable import Terminal  # noqa: PLC0415
    from stunwatch.settings import load_settings  # noqa: PLC0415

    settings = load_settings()
    found = findings(look(settings), settings)
    if output is Format.JSON:
        print_json([asdict(each) for each in found])
        return any(each.grade == "missing" for each in found)
    # Paths must not be truncated.
    table = Table("", "check", Column("found", overflow="fold"), "what to do")
    for each in found:
        table.add_row(Text(*MARKS[each.grade]), each.what, Text(each.found), Text(each.remedy))
    Terminal().print(table)
    return any(each.grade == "missing" for each in found)


def _host(name: str, fix: bool, output: Format) -> bool:
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    from stunwatch.errors import UserError  # noqa: PLC0415
    from stunwatch.ingest.vcenter.collectors.diagnosis import findings, told  # noqa: PLC0415
    from stunwatch.ingest.vcenter.session import (  # noqa: PLC0415
        Session,
        VCenterError,
        address_from,
        credentials_from,
    )
    from stunwatch.printable import Terminal, echo  # noqa: PLC0415

    try:
        session = Session(address_from(), credentials_from(), patience_s=30.0)
        try:
            known = told(session, name)
        finally:
            session.close()
    except VCenterError as error:
        raise UserError(str(error)) from error
    found = findings(known)
    if output is Format.JSON:
        print_json([asdict(each) for each in found])
        return any(each.grade == "missing" for each in found)
    console = Terminal()
    table = Table("", "check", "found", "consequence", title=known.host)
    for each in found:
        table.add_row(Text(*MARKS[each.grade]), each.what, Text(each.found), Text(each.loss))
    console.print(table)
    commands = dict.fromkeys(command for each in found for command in each.commands)
    if fix and commands:
        echo(f"# Run these on {known.host}. None of them has been run.")
        for command in commands:
            echo(command)
    return any(each.grade == "missing" for each in found)
