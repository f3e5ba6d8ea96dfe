"""`stunwatch status`."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import typer

from stunwatch.output import Format, FormatOption, JsonFlag, print_json

if TYPE_CHECKING:
    from rich.table import Table

    from stunwatch.local.health import Health

EXIT_UNHEALTHY = 3
EXIT_NOT_RUNNING = 4


def status(
    output: FormatOption = Format.TABLE,
    as_json: JsonFlag = False,
) -> None:
    """Show the health of every component, and how many messages each reader has left.

    It also shows the age of the newest live line.

    Exit code 0 if everything is healthy, 3 if something is not or live lines have stopped, 4 if
    nothing runs.

    Examples:

        stunwatch status

        stunwatch status --format json | jq .is_healthy
    """
    from stunwatch import newest_line  # noqa: PLC0415
    from stunwatch.local import superset  # noqa: PLC0415
    from stunwatch.local.health import detector_failures, examine  # noqa: PLC0415
    from stunwatch.printable import Terminal, printable  # noqa: PLC0415
    from stunwatch.settings import load_settings  # noqa: PLC0415

    settings = load_settings()
    health = examine(settings)
    if health.is_running:
        health = replace(health, detector_failures=detector_failures(settings))
        health = replace(health, live_lines=newest_line.look(settings, health))
    if as_json or output is Format.JSON:
        print_json(health.as_json())
    else:
        console = Terminal()
        console.print(_components(health))
        if not health.is_running:
            console.print("Nothing runs. `stunwatch up` starts the pipeline.")
        if health.topics:
            console.print(_topics(health))
        if health.is_running and superset.is_wanted(settings):
            console.print(superset.how_to_enter(settings), highlight=False, soft_wrap=True)
        if found := health.live_lines:
            console.print(
                printable(found.sentence), style=found.style, highlight=False, soft_wrap=True
            )
        if health.intake:
            console.print(health.intake, style="red", highlight=False, soft_wrap=True)
        for sentence in health.stuck_readers:
            console.print(sentence, style="red", highlight=False, soft_wrap=True)
        for each in health.detector_failures:
            console.print(each.sentence, style="yellow", highlight=False, soft_wrap=True)
    if not health.is_running:
        raise typer.Exit(EXIT_NOT_RUNNING)
    if not health.is_healthy:
        raise typer.Exit(EXIT_UNHEALTHY)


def _components(health: Health) -> Table:
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table("component", "health", "pid", "MiB", "up for", "note")
    for column in ("pid", "MiB", "up for"):
        next(each for each in table.columns if each.header == column).justify = "right"
    for each in health.components:
        if each.is_healthy:
            shown = Text("healthy", "green")
        else:
            shown = Text(each.state if not each.pid else "unhealthy", "red")
        table.add_row(
            each.name,
            shown,
            str(each.pid or ""),
            str(each.memory_mb or ""),
            str(timedelta(seconds=each.uptime_seconds)) if each.pid else "",
            each.note,
        )
    table.add_section()
    table.add_row("total", "", "", str(sum(each.memory_mb for each in health.components)))
    return table


def _topics(health: Health) -> Table:
    """Return a table of the topics that contain messages."""
    from rich.table import Table  # noqa: PLC0415

    table = Table("topic", "messages", "per second", "unread, by reader")
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
