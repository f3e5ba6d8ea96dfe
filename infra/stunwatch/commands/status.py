"""`stunwatch status`."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from stunwatch.runtime.health import Health

EXIT_UNHEALTHY = 3
EXIT_NOT_RUNNING = 4


def status(
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Show the health of every component, and how far each reader is behind.

    Exits with 0 where all is healthy, with 3 where something is not, with 4 where nothing runs.

    Examples:

        stunwatch status

        stunwatch status --json | python3 -m json.tool
    """
    import json  # noqa: PLC0415

    from rich.console import Console  # noqa: PLC0415

    from stunwatch.runtime import superset  # noqa: PLC0415
    from stunwatch.runtime.health import examine  # noqa: PLC0415
    from stunwatch.settings import load_settings  # noqa: PLC0415

    settings = load_settings()
    health = examine(settings)
    if as_json:
        typer.echo(json.dumps(health.as_json()))
    else:
        console = Console()
        console.print(_components(health))
        if health.topics:
            console.print(_topics(health))
        if health.is_running and superset.is_wanted(settings):
            console.print(superset.how_to_enter(settings), highlight=False, soft_wrap=True)
        if health.intake:
            console.print(f"[red]{health.intake}", highlight=False)
    if not health.is_running:
        raise typer.Exit(EXIT_NOT_RUNNING)
    if not health.is_healthy:
        raise typer.Exit(EXIT_UNHEALTHY)


def _components(health: Health) -> Table:
    from rich.table import Table  # noqa: PLC0415

    table = Table("component", "health", "pid", "MiB", "up for", "note")
    for column in ("pid", "MiB", "up for"):
        next(each for each in table.columns if each.header == column).justify = "right"
    for each in health.components:
        if each.is_healthy:
            shown = "[green]healthy"
        else:
            shown = f"[red]{each.state if not each.pid else 'unhealthy'}"
        table.add_row(
            each.name,
            shown,
            str(each.pid or ""),
            str(each.memory_mb or ""),
            str(timedelta(seconds=each.uptime_seconds)) if each.pid else "",
            each.note,
        )
    table.add_section()
    table.add_row("in all", "", "", str(sum(each.memory_mb for each in health.components)))
    return table


def _topics(health: Health) -> Table:
    """Show the topics that hold something; the others have nothing to tell."""
    from rich.table import Table  # noqa: PLC0415

    table = Table("topic", "messages", "per second", "not read yet, by reader")
    for column in table.columns[1:3]:
        column.justify = "right"
    for each in health.topics:
        if each.messages:
            table.add_row(
                each.name,
                f"{each.messages:,}",
                "" if each.per_second is None else f"{each.per_second:,.0f}",
                ", ".join(f"{group}: {count:,}" for group, count in each.behind.items()),
            )
    return table
