"""`stunwatch collect latency`."""

from __future__ import annotations

from typing import Annotated

import typer


def latency(
    once: Annotated[
        bool, typer.Option("--once", help="End when everything that there is was taken.")
    ] = False,
) -> None:
    """Ask vCenter for the latency of devices and virtual disks, every 20 seconds' numbers once.

    After an absence it catches up as far as hosts remember: one hour. Several collectors share the
    hosts and VMs. Which vCenter, and who logs in, the environment says (docs/collection.md).

    Examples:

        stunwatch collect latency

        stunwatch collect latency --once
    """
    from stunwatch.collecting import latency as collecting  # noqa: PLC0415
    from stunwatch.collecting.service import serve  # noqa: PLC0415

    serve("latency", collecting.run, is_once=once)
