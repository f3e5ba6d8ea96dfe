"""`stunwatch collect latency`."""

from __future__ import annotations

from typing import Annotated

import typer


def latency(
    once: Annotated[
        bool, typer.Option("--once", help="Exit after all available samples were read.")
    ] = False,
) -> None:
    """Collect the latency of devices and virtual disks from vCenter, in samples of 20 seconds.

    After an interruption, samples of the last hour are read; hosts keep no more. Several collectors
    share the hosts and VMs. Settings: `stunwatch collect --help`.

    Examples:

        stunwatch collect latency

        stunwatch collect latency --once
    """
    from stunwatch.ingest.vcenter.collectors import latency as collecting  # noqa: PLC0415
    from stunwatch.ingest.vcenter.collectors.service import serve  # noqa: PLC0415

    serve("latency", collecting.run, is_once=once)
