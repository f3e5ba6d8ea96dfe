"""`stunwatch up`."""

from __future__ import annotations

from typing import Annotated

import typer


def up(
    with_superset: Annotated[
        bool, typer.Option("--superset/--no-superset", help="Start Superset with the dashboards.")
    ] = True,
    with_collectors: Annotated[
        bool,
        typer.Option(
            "--collect/--no-collect", help="Collect from vCenter: logs, latency, inventory."
        ),
    ] = False,
    is_secured: Annotated[
        bool,
        typer.Option(
            "--secure/--no-secure", help="Require TLS and a password for Kafka and Flink."
        ),
    ] = False,
) -> None:
    """Start the local pipeline, and wait until it is healthy.

    The first run downloads Kafka, ClickHouse and the connectors. Components that already run are
    left alone; after a crash the pipeline continues with all data. Environment variables set ports
    and folders.

    Examples:

        stunwatch up

        stunwatch up --no-superset

        stunwatch up --secure

        STUNWATCH_VCENTER=vcenter.lab.example stunwatch up --collect

        STUNWATCH_KAFKA_PORT=29092 stunwatch up
    """
    import time  # noqa: PLC0415

    from stunwatch.local import pipeline  # noqa: PLC0415
    from stunwatch.printable import Terminal  # noqa: PLC0415
    from stunwatch.settings import load_settings  # noqa: PLC0415

    console = Terminal(stderr=True)
    began = time.monotonic()
    pipeline.up(
        load_settings(),
        console,
        with_superset=with_superset,
        with_collectors=with_collectors,
        is_secured=is_secured,
    )
    console.print(f"The pipeline is up ({time.monotonic() - began:.1f} s).", highlight=False)
