"""`stunwatch logs`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stunwatch.cli import completing


def logs(
    name: Annotated[
        str,
        typer.Argument(
            help="A component that `stunwatch status` lists, or supervisord.",
            autocompletion=completing.logs,
        ),
    ],
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing new lines until Ctrl-C.")
    ] = False,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=0, help="Start with this many lines.")
    ] = 50,
) -> None:
    """Print the last lines of a component's log.

    Examples:

        stunwatch logs kafka

        stunwatch logs taskmanager -f -n 200
    """
    from collections import deque  # noqa: PLC0415

    from stunwatch.errors import UserError, did_you_mean  # noqa: PLC0415
    from stunwatch.printable import echo  # noqa: PLC0415
    from stunwatch.settings import load_settings  # noqa: PLC0415

    folder = load_settings().logs
    path = folder / f"{name}.log"
    if not path.is_file():
        known = sorted(each.stem for each in folder.glob("*.log"))
        if not known:
            raise UserError(f"There are no logs in {folder}. `stunwatch up` starts the pipeline.")
        raise UserError(
            f"There is no log named {name}.{did_you_mean(name, known)} Logs: {', '.join(known)}."
        )
    with path.open(errors="replace") as file:
        for line in deque(file, maxlen=lines):
            echo(line, end="")
        position = file.tell()
    if follow:
        _follow(path, position)


def _follow(path: Path, position: int) -> None:
    """Print text after `position` until interrupted; continue after a log rotation."""
    import time  # noqa: PLC0415

    from stunwatch.printable import echo  # noqa: PLC0415

    while True:
        size = path.stat().st_size if path.exists() else 0
        if size < position:
            position = 0
        if size > position:
            with path.open("rb") as file:
                file.seek(position)
                echo(file.read().decode(errors="replace"), end="")
                position = file.tell()
        time.sleep(0.3)
