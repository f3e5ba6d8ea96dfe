"""`stunwatch up`."""

from __future__ import annotations


def up() -> None:
    """Start the local pipeline, or what of it does not run, and wait until it is healthy.

    Fetches Kafka, ClickHouse and the connectors at the first time. Run again, it changes nothing;
    after a crash it goes on with all data. Ports and folders are set by the environment:

        $ stunwatch up

        $ STUNWATCH_KAFKA_PORT=29092 stunwatch up
    """
    import time  # noqa: PLC0415

    from rich.console import Console  # noqa: PLC0415

    from stunwatch.runtime import pipeline  # noqa: PLC0415
    from stunwatch.settings import load_settings  # noqa: PLC0415

    console = Console(stderr=True)
    began = time.monotonic()
    pipeline.up(load_settings(), console)
    console.print(f"The pipeline is up ({time.monotonic() - began:.1f} s).", highlight=False)
