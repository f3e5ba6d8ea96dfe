"""Every command of the command line, by the words after `stunwatch`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from stunwatch import cli


def _walk(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    if path:
        yield path, command
    if hasattr(command, "list_commands"):
        context = typer.Context(command)
        for name in command.list_commands(context):
            yield from _walk(command.get_command(context, name), f"{path} {name}".strip())


WALKED: dict[str, Any] = dict(_walk(typer.main.get_command(cli.app), ""))
"""Commands and groups of commands."""

LEAVES = [path for path, command in WALKED.items() if not hasattr(command, "list_commands")]
"""Commands that can be run."""
