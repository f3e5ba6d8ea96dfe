"""`stunwatch logs`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def logs(
    name: Annotated[str, typer.Argument(help="A component, or supervisord.")],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new lines.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of the last.")] = 50,
) -> None:
    """Show the last lines of a component's log.

    Examples:

        stunwatch logs kafka

        stunwatch logs taskmanager -f -n 200
    """
    from collections import deque  # noqa: PLC0415

    from stunwatch.errors import UserError  # noqa: PLC0415
    from stunwatch.settings import load_settings  # noqa: PLC0415

    folder = load_settings().logs
    path = folder / f"{name}.log"
    if not path.is_file():
        known = ", ".join(sorted(each.stem for each in folder.glob("*.log")))
        there = f"there are: {known}" if known else "`stunwatch up` makes them"
        raise UserError(f"There is no log named {name}; {there}.")
    with path.open(errors="replace") as file:
        for line in deque(file, maxlen=lines):
            typer.echo(line, nl=False)
        position = file.tell()
    if follow:
        _follow(path, position)


def _follow(path: Path, position: int) -> None:
    """Print what is written after `position`, past the log's rotation, until interrupted."""
    import time  # noqa: PLC0415

    while True:
        size = path.stat().st_size if path.exists() else 0
        if size < position:
            position = 0
        if size > position:
            with path.open("rb") as file:
                file.seek(position)
                typer.echo(file.read().decode(errors="replace"), nl=False)
                position = file.tell()
        time.sleep(0.3)
