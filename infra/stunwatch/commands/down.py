"""`stunwatch down`."""

from __future__ import annotations


def down() -> None:
    """Stop the local pipeline in order. All data stays; `up` goes on with it.

    $ stunwatch down
    """
    from rich.console import Console  # noqa: PLC0415

    from stunwatch.runtime import pipeline  # noqa: PLC0415
    from stunwatch.settings import load_settings  # noqa: PLC0415

    console = Console(stderr=True)
    was_up = pipeline.down(load_settings(), console)
    console.print("The pipeline is down." if was_up else "The pipeline was not running.")
