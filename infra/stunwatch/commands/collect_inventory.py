"""`stunwatch collect inventory`."""

from __future__ import annotations

from typing import Annotated

import typer


def inventory(
    once: Annotated[
        bool, typer.Option("--once", help="End when everything was looked at once.")
    ] = False,
) -> None:
    """Tell what vCenter has, what changes of it, and who made or removed which snapshot.

    Everything is looked at once a day, and whenever vCenter's events tell of a change; only what is
    new is told. A host in maintenance alarms nobody. Of several collectors one does it, and another
    takes over when that one is gone. Which vCenter, and who logs in, the environment says
    (docs/collection.md).

    Examples:

        stunwatch collect inventory

        stunwatch collect inventory --once
    """
    from stunwatch.collecting import inventory as collecting  # noqa: PLC0415
    from stunwatch.collecting.service import serve  # noqa: PLC0415

    serve("inventory", collecting.run, is_once=once)
