"""`stunwatch restore`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def restore(
    folder: Annotated[Path, typer.Argument(help="What `stunwatch backup` wrote.")],
) -> None:
    """Bring a back-up's rows into the running pipeline, and read Kafka from where it ended.

    What ClickHouse holds already stays; a row that both have is one row. Returns when all that
    Kafka holds has been read. Run again after a failure, it changes nothing that was restored.

        $ stunwatch restore /backups/2026-11-22
    """
    from rich.console import Console  # noqa: PLC0415

    from stunwatch.runtime import backups, pipeline  # noqa: PLC0415
    from stunwatch.settings import load_settings  # noqa: PLC0415

    console = Console(stderr=True)
    settings = load_settings()
    settings.make_folders()
    with console.status("restoring") as shown, pipeline.alone(settings):
        done = backups.restore(settings, folder, shown.update)
    console.print(
        f"Restored {done.backup.rows:,} rows of {done.backup.made_at}, then read"
        f" {done.read_again:,} messages of Kafka again.",
        highlight=False,
        soft_wrap=True,
    )
    if done.lost:
        console.print(
            f"[yellow]{done.lost:,} messages that came after the back-up are no longer in Kafka."
            " `stunwatch audit` tells what is missing of files.",
            highlight=False,
            soft_wrap=True,
        )
