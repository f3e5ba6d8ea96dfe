"""`stunwatch up`."""

from __future__ import annotations

from typing import Annotated

import typer


def up(
    with_superset: Annotated[
        bool, typer.Option("--superset/--no-superset", help="Whether dashboards are served.")
    ] = True,
    with_collectors: Annotated[
        bool,
        typer.Option(
            "--collect/--no-collect", help="Whether a vCenter is asked for what it knows."
        ),
    ] = False,
    is_secured: Annotated[
        bool,
        typer.Option(
            "--secure/--no-secure", help="Whether Kafka asks everybody for TLS and a password."
        ),
    ] = False,
) -> None:
    """Start the local pipeline, or what of it does not run, and wait until it is healthy.

    Fetches Kafka, ClickHouse and the connectors at the first time. Run again, it changes nothing;
    after a crash it goes on with all data. Ports and folders are set by the environment:

        $ stunwatch up

        $ stunwatch up --no-superset

        $ stunwatch up --secure

        $ STUNWATCH_VCENTER=vcenter.lab.example stunwatch up --collect

        $ STUNWATCH_KAFKA_PORT=29092 stunwatch up
    """
    import time  # noqa: PLC0415

    from rich.console import Console  # noqa: PLC0415

    from stunwatch.runtime import pipeline  # noqa: PLC0415
    from stunwatch.settings import load_settings  # noqa: PLC0415

    console = Console(stderr=True)
    began = time.monotonic()
    pipeline.up(
        load_settings(),
        console,
        with_superset=with_superset,
        with_collectors=with_collectors,
        is_secured=is_secured,
    )
    console.print(f"The pipeline is up ({time.monotonic() - began:.1f} s).", highlight=False)
