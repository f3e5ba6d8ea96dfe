"""`stunwatch down`."""

from __future__ import annotations


def down() -> None:
    """Stop the local pipeline. All data stays; `stunwatch up` starts it again.

    Example:

        stunwatch down
    """
    from stunwatch.local import pipeline  # noqa: PLC0415
    from stunwatch.printable import Terminal  # noqa: PLC0415
    from stunwatch.settings import load_settings  # noqa: PLC0415

    console = Terminal(stderr=True)
    was_up = pipeline.down(load_settings(), console)
    console.print("The pipeline is stopped." if was_up else "The pipeline was not running.")
