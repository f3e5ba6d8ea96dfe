"""The `stunwatch` command. Each of its commands is a module of `stunwatch.commands`.

A module is imported when its command runs or is listed, and keeps its own imports of anything slow
inside its functions: so `--help` is quick and one command does not wait for another's libraries.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperGroup

from stunwatch.errors import UserError
from stunwatch.printable import printable_lines

COMMANDS = (
    "up",
    "down",
    "status",
    "logs",
    "replay",
    "sql",
    "watch",
    "report",
    "incident",
    "demo",
    "simulate",
    "audit",
    "alerts",
    "change",
    "inventory",
    "collect",
    "dashboards",
    "doctor",
    "backup",
    "restore",
    "upgrade",
)
"""In the order of `--help`; `stunwatch.commands.<name>` holds a function of the same name, or a
group of commands (a Typer)."""


class Commands(TyperGroup):
    """Finds a command's module by the command's name."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return every command, in the order of `--help`."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command; None where there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"stunwatch.commands.{cmd_name}")
        command = getattr(module, cmd_name)
        if isinstance(command, typer.Typer):
            return typer.main.get_command(command)
        one = typer.Typer(add_completion=False, rich_markup_mode="rich")
        one.command(cmd_name)(command)
        return typer.main.get_command(one)


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Finds storage trouble in the logs of VMware ESXi: stuns, conflicts, latency.",
)


@app.callback()
def _options() -> None:
    pass


def main() -> None:
    """Run the command line; what a user can put right is one sentence and exit code 2."""
    try:
        app()
    except UserError as error:
        said = f"[red]stunwatch:[/] {escape(printable_lines(str(error)))}"
        Console(stderr=True).print(said, highlight=False, soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
