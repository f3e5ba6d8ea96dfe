"""`stunwatch restore`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stunwatch.output import Format, FormatOption, print_json


def restore(
    folder: Annotated[Path, typer.Argument(help="A folder that `stunwatch backup` wrote.")],
    output: FormatOption = Format.TABLE,
) -> None:
    """Restore a backup into the running pipeline, then read Kafka from where the backup ended.

    Rows that ClickHouse already has stay; a row that both have is stored once. The command returns
    when everything in Kafka has been read. After a failure, run it again.

    Example:

        stunwatch restore /backups/2026-11-22
    """
    from stunwatch.local import backups, pipeline  # noqa: PLC0415
    from stunwatch.printable import Terminal  # noqa: PLC0415
    from stunwatch.settings import load_settings  # noqa: PLC0415

    console = Terminal(stderr=True)
    settings = load_settings()
    settings.make_folders()
    with console.status("restoring") as shown, pipeline.alone(settings):
        done = backups.restore(settings, folder, shown.update)
    if output is Format.JSON:
        print_json(
            {
                "folder": str(folder),
                "made_at": done.backup.made_at,
                "rows": done.backup.rows,
                "messages_read_again": done.read_again,
                "messages_lost": done.lost,
            }
        )
    console.print(
        f"Restored {done.backup.rows:,} rows from the backup of {done.backup.made_at}; read"
        f" {done.read_again:,} later messages from Kafka.",
        highlight=False,
        soft_wrap=True,
    )
    if done.lost:
        console.print(
            f"{done.lost:,} messages later than the backup are no longer in Kafka."
            " `stunwatch audit` lists the files with missing lines.",
            style="yellow",
            highlight=False,
            soft_wrap=True,
        )
