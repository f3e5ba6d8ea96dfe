"""`stunwatch doctor`."""

from __future__ import annotations

import typer

MARKS = {"good": "[green]✓", "lacking": "[yellow]![/]", "missing": "[red]✗"}
EXIT_MISSING = 1


def doctor() -> None:
    """Say what this machine lacks for the pipeline, and what to do about it.

    Exits with 1 where the pipeline cannot run.

    Example:

        stunwatch doctor
    """
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    from stunwatch.runtime.diagnosis import findings  # noqa: PLC0415
    from stunwatch.settings import load_settings  # noqa: PLC0415

    found = findings(load_settings())
    table = Table("", "what", "found", "what to do")
    for each in found:
        table.add_row(MARKS[each.grade], each.what, each.found, each.remedy)
    Console().print(table)
    if any(each.grade == "missing" for each in found):
        raise typer.Exit(EXIT_MISSING)
