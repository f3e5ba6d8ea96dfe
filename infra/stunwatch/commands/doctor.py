"""`stunwatch doctor`."""

from __future__ import annotations

from typing import Annotated

import typer

MARKS = {"good": "[green]✓", "lacking": "[yellow]![/]", "missing": "[red]✗"}
EXIT_MISSING = 1


def doctor(
    host: Annotated[
        str, typer.Option(help="Look at this ESXi host and its VMs instead, through vCenter.")
    ] = "",
    fix: Annotated[
        bool, typer.Option("--fix", help="Print the commands that would put it right.")
    ] = False,
) -> None:
    """Say what this machine lacks for the pipeline, or a host for its logs to arrive.

    Exits with 1 where something essential is missing. Of a host it reads what vCenter tells of its
    syslog, its clock and its VMs' logs (docs/collection.md): it changes nothing, and --fix only
    prints commands.

    Examples:

        stunwatch doctor

        stunwatch doctor --host esx01.lab.example --fix
    """
    from stunwatch.errors import UserError  # noqa: PLC0415

    if fix and not host:
        raise UserError("--fix is about an ESXi host: name it with --host.")
    has_missing = _host(host, fix) if host else _machine()
    if has_missing:
        raise typer.Exit(EXIT_MISSING)


def _machine() -> bool:
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    from stunwatch.runtime.diagnosis import findings  # noqa: PLC0415
    from stunwatch.settings import load_settings  # noqa: PLC0415

    found = findings(load_settings())
    table = Table("", "what", "found", "what to do")
    for each in found:
        table.add_row(MARKS[each.grade], each.what, each.found, each.remedy)
    Console().print(table)
    return any(each.grade == "missing" for each in found)


def _host(name: str, fix: bool) -> bool:
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    from ingest.vcenter.session import (  # noqa: PLC0415
        Session,
        VCenterError,
        address_from,
        credentials_from,
    )
    from stunwatch.collecting.diagnosis import findings, told  # noqa: PLC0415
    from stunwatch.errors import UserError  # noqa: PLC0415

    try:
        session = Session(address_from(), credentials_from(), patience_s=30.0)
        try:
            known = told(session, name)
        finally:
            session.close()
    except VCenterError as error:
        raise UserError(str(error)) from error
    found = findings(known)
    console = Console()
    table = Table("", "what", "found", "what is lost", title=known.host)
    for each in found:
        table.add_row(MARKS[each.grade], each.what, Text(each.found), Text(each.loss))
    console.print(table)
    commands = dict.fromkeys(command for each in found for command in each.commands)
    if fix and commands:
        print(f"# on {known.host}; nothing of this has been done")
        for command in commands:
            print(command)
    return any(each.grade == "missing" for each in found)
