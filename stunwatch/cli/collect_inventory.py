"""`stunwatch collect inventory`."""

from __future__ import annotations

from typing import Annotated

import typer


def inventory(
    once: Annotated[
        bool, typer.Option("--once", help="Exit after everything was read once.")
    ] = False,
) -> None:
    """Collect vCenter's inventory, its changes, and who created or removed snapshots.

    Everything is read once a day, and after each event of a change; only differences are stored.
    No alerts are sent for a host in maintenance mode. If several collectors run, one of them
    collects, and another takes over if it stops. Settings: `stunwatch collect --help`.

    Examples:

        stunwatch collect inventory

        stunwatch collect inventory --once
    """
    from stunwatch.ingest.vcenter.collectors import inventory as collecting  # noqa: PLC0415
    from stunwatch.ingest.vcenter.collectors.service import serve  # noqa: PLC0415

    serve("inventory", collecting.run, is_once=once)
