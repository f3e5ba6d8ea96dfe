"""The `stunwatch` command. Each of its commands is a module of `stunwatch.cli`.

A module is imported when its command runs or is listed. It imports slow libraries inside functions,
so that `--help` is fast and no command loads libraries that only another one needs.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import inspect
import sys
from typing import Annotated, Any, NoReturn

import typer
from rich.text import Text
from typer.core import TyperGroup

from stunwatch import extras
from stunwatch.errors import UserError, did_you_mean
from stunwatch.printable import Terminal, echo, printable_lines
from stunwatch.version import described

EXIT_FAILED = 2
"""The command failed. docs/commands.md lists all exit codes."""

_OBJECTS_PER_SEARCH = 50_000
"""New objects after which Python searches for garbage: 70 times as many as by default."""

COMMANDS = (
    "triage",
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
    "anonymise",
    "audit",
    "alerts",
    "change",
    "inventory",
    "collect",
    "receive",
    "dashboards",
    "doctor",
    "backup",
    "restore",
    "upgrade",
)
"""Commands in the order of `--help`. `stunwatch.cli.<name>` contains a function of the same name,
or a group of commands (a Typer).
"""


class Commands(TyperGroup):
    """Finds the module of a command by the command's name."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return all commands, in the order of `--help`."""
        return list(COMMANDS)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command. For an unknown name, fail and suggest the nearest one."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(
                f"There is no command {args[0]}.{did_you_mean(args[0], COMMANDS)}"
                " `stunwatch --help` lists the commands."
            )
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command; None if no command has that name."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"stunwatch.cli.{cmd_name}")
        command = getattr(module, cmd_name)
        if not isinstance(command, typer.Typer):
            one = typer.Typer(add_completion=False, rich_markup_mode="rich")
            one.command(cmd_name)(command)
            command = one
        found = typer.main.get_command(command)
        found.name = cmd_name  # a group has no name, and `--help` would show none
        return _flowed(found)

    def invoke(self, ctx: Any) -> Any:
        """Run a command. Raises UserError if it needs an extra that is not installed."""
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            if remedy := extras.remedy(error):
                raise UserError(remedy) from error
            raise


def _flowed(command: Any) -> Any:
    """Join the lines of each paragraph of the help text, so that it fits any terminal.

    Indented paragraphs are examples and keep their lines.
    """
    if command.help:
        paragraphs = inspect.cleandoc(command.help).split("\n\n")
        command.help = "\n\n".join(
            each if each.startswith(" ") else " ".join(each.split()) for each in paragraphs
        )
    for each in getattr(command, "commands", {}).values():
        _flowed(each)
    return command


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="""Find storage problems in the logs of VMware ESXi: stuns, conflicts, latency.

    `stunwatch COMMAND --help` explains a command and shows examples.
    Exit codes, forms of times and JSON: docs/commands.md.

    Examples:

        stunwatch up

        stunwatch replay ./esx-esx01-2024-05-06.tgz

        stunwatch incident list
    """,
)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        echo(f"stunwatch {described()}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line. A user error prints one message and exits with code 2."""
    # Imports create many objects that stay. Searching them for garbage, again and again and once
    # more at the end, took 0.15 s of a command.
    gc.set_threshold(_OBJECTS_PER_SEARCH)
    atexit.register(gc.freeze)
    try:
        app(prog_name="stunwatch")
    except UserError as error:
        _fail(str(error))
    except OSError as error:
        # An OSError without a file name is a bug, so its traceback is shown.
        if not error.filename or not error.strerror:
            raise
        said = f"Cannot use {error.filename}: {error.strerror.lower()}."
        if isinstance(error, PermissionError):
            said += " Run the command as a user who may, or change the file's permissions."
        _fail(said)


def _fail(said: str) -> NoReturn:
    text = Text.assemble(("stunwatch:", "red"), " ", printable_lines(said))
    Terminal(stderr=True).print(text, highlight=False, soft_wrap=True)
    sys.exit(EXIT_FAILED)
