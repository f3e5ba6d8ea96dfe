"""`stunwatch backup`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stunwatch.output import Format, FormatOption, print_json


def backup(
    folder: Annotated[
        Path, typer.Argument(help="The folder to write. It must be empty or not exist yet.")
    ],
    output: FormatOption = Format.TABLE,
) -> None:
    """Back up all rows of ClickHouse and its positions in Kafka, while the pipeline runs.

    ClickHouse writes the folder itself, so the folder must be on a disk of ClickHouse's machine.
    The backup does not contain passwords, Kafka's messages or Flink's checkpoints.

    Example:

        stunwatch backup /backups/2026-11-22
    """
    from stunwatch.local import backups  # noqa: PLC0415
    from stunwatch.printable import Terminal  # noqa: PLC0415
    from stunwatch.settings import load_settings  # noqa: PLC0415

    console = Terminal(stderr=True)
    with console.status("backing up"):
        made = backups.back_up(load_settings(), folder)
    if output is Format.JSON:
        print_json(
            {
                "folder": str(folder),
                "made_at": made.made_at,
                "rows": made.rows,
                "tables": len(made.tables),
                "bytes": made.bytes,
            }
        )
    console.print(
        f"Backed up {made.rows:,} rows of {len(made.tables)} tables, {made.bytes:,} bytes,"
        f" to {folder}.",
        highlight=False,
        soft_wrap=True,
    )
