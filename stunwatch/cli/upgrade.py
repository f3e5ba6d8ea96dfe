"""`stunwatch upgrade`."""

from __future__ import annotations


def upgrade() -> None:
    """Upgrade the running pipeline to this version: topics, tables and the live job.

    The live job stops with a savepoint, and its new version continues from there. If the new
    version does not run, the old one continues. No line is lost or counted twice.

    Example:

        git pull
        stunwatch upgrade
    """
    from stunwatch.local import pipeline, upgrading  # noqa: PLC0415
    from stunwatch.printable import Terminal  # noqa: PLC0415
    from stunwatch.settings import load_settings  # noqa: PLC0415

    console = Terminal(stderr=True)
    settings = load_settings()
    settings.make_folders()
    with console.status("upgrading"), pipeline.alone(settings):
        upgrading.upgrade(
            settings, lambda text: console.print(text, highlight=False, soft_wrap=True)
        )
