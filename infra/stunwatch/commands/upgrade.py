"""`stunwatch upgrade`."""

from __future__ import annotations


def upgrade() -> None:
    """Go over to the checkout's version while the pipeline runs: topics, tables, the live job.

    The live job stops with a savepoint and its new version goes on from there; if that one does not
    run, the one before it does. No line is lost or counted twice. The savepoint stays.

        $ git pull
        $ stunwatch upgrade
    """
    from rich.console import Console  # noqa: PLC0415

    from stunwatch.runtime import pipeline, upgrading  # noqa: PLC0415
    from stunwatch.settings import load_settings  # noqa: PLC0415

    console = Console(stderr=True)
    settings = load_settings()
    settings.make_folders()
    with console.status("upgrading"), pipeline.alone(settings):
        upgrading.upgrade(
            settings, lambda text: console.print(text, highlight=False, soft_wrap=True)
        )
