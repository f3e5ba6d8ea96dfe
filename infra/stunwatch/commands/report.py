"""`stunwatch report`: an incident as one page, for the ticket or the vendor."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer

from stunwatch.clickhouse import as_user
from stunwatch.errors import UserError
from stunwatch.settings import load_settings


def report(
    incident: Annotated[
        str, typer.Argument(help="Its incident_id, or as much of it as is unique.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Where to write.  Default: incident-<its first 8>.html, here."),
    ] = None,
    zone: Annotated[
        str, typer.Option(help="The zone of all times, for example Europe/Berlin.")
    ] = "UTC",
) -> None:
    """Write one HTML page about an incident and print where it is.

    It needs no network, no script and no other file: attach it to the ticket or print it. It shows
    the verdict, the timeline drawn, next steps, what is affected, the lines that prove it, and the
    SQL behind each number.

    Examples:

        stunwatch report 1f0a3a51

        stunwatch report 1f0a3a51 --out /tmp/for-the-vendor.html --zone Europe/Berlin
    """
    settings = load_settings()
    # Where the drawing keeps its list of fonts.
    os.environ.setdefault("MPLCONFIGDIR", str(settings.build / "matplotlib"))
    from stunwatch.report.contents import find, gather  # noqa: PLC0415
    from stunwatch.report.page import render  # noqa: PLC0415 (slow to import)

    place = zone_named(zone)
    reader = as_user(settings, "reader")
    incident_id = find(reader, incident)
    page = render(gather(reader, incident_id, datetime.now(UTC)), place)
    path = out or Path(f"incident-{str(incident_id)[:8]}.html")
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"{path} cannot be written: {error.strerror}. --out names another file."
        ) from None
    typer.echo(path)


def zone_named(name: str) -> ZoneInfo:
    """A time zone. Raises UserError where there is none of that name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UserError(
            f"{name!r} is no time zone; UTC and Europe/Berlin are such names."
        ) from None
