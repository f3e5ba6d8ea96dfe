"""`stunwatch report`: writes one incident as an HTML page."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from stunwatch.cli.completing import incident_ids
from stunwatch.clickhouse import as_user
from stunwatch.errors import UserError
from stunwatch.output import Format, FormatOption, print_json
from stunwatch.printable import echo
from stunwatch.settings import load_settings
from stunwatch.times import zone as zone_named


def report(
    incident: Annotated[
        str,
        typer.Argument(
            help="The incident's id; its first characters are enough.",
            autocompletion=incident_ids,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="The file to write. Default: incident-<id>.html in this folder."),
    ] = None,
    zone: Annotated[
        str | None,
        typer.Option(
            help="The time zone of the page, for example Europe/Berlin. Default: the site's."
        ),
    ] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Write a report of one incident as an HTML page, and print the page's path.

    The page needs no network, no script and no other file: attach it to a ticket or print it. It
    shows the verdict, a timeline, next steps, affected objects, the log lines that prove it, and
    the SQL behind each number.

    Examples:

        stunwatch report 1f0a3a51

        stunwatch report 1f0a3a51 --out vendor.html --zone Europe/Berlin
    """
    settings = load_settings()
    # matplotlib stores its list of fonts in this folder.
    os.environ.setdefault("MPLCONFIGDIR", str(settings.build / "matplotlib"))
    from stunwatch.report.contents import find, gather  # noqa: PLC0415
    from stunwatch.report.page import render  # noqa: PLC0415 (slow to import)

    place = zone_named(zone) if zone else settings.site_timezone
    reader = as_user(settings, "analyst")
    incident_id = find(reader, incident)
    page = render(gather(reader, incident_id, datetime.now(UTC)), place)
    path = out or Path(f"incident-{str(incident_id)[:8]}.html")
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"Cannot write {path}: {(error.strerror or str(error)).lower()}. Use --out to write"
            " another file."
        ) from None
    if output is Format.JSON:
        print_json({"incident_id": str(incident_id), "path": str(path.absolute())})
    else:
        echo(str(path))
