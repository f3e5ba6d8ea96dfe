"""`stunwatch backup`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def backup(
    folder: Annotated[Path, typer.Argument(help="A folder that does not exist yet, or is empty.")],
) -> None:
    """Back up what ClickHouse holds, and how far it had read Kafka, while everything goes on.

    ClickHouse writes the folder itself, so it must lie on a disk that its machine has. Passwords,
    Kafka's messages and Flink's checkpoints are not in it.

        $ stunwatch backup /backups/2026-11-22
    """
    from rich.console import Console  # noqa: PLC0415

    from stunwatch.runtime import backups  # noqa: PLC0415
    from stunwatch.settings import load_settings  # noqa: PLC0415

    console = Console(stderr=True)
    with console.status("backing up"):
        made = backups.back_up(load_settings(), folder)
    console.print(
        f"Backed up {made.rows:,} rows of {len(made.tables)} tables, {made.bytes:,} bytes,"
        f" to {folder}.",
        highlight=False,
        soft_wrap=True,
    )
