"""Whether the pipeline takes in lines, and why not."""

from __future__ import annotations

from pathlib import Path

from stunwatch.runtime import checks
from stunwatch.settings import Settings

RESUME_FACTOR = 1.25
"""Intake goes on with this many times `min_free_mb`, so that it does not stop and go."""


def flag(settings: Settings) -> Path:
    """The file that stands there while the keeper has stopped intake. It is empty: the disk is."""
    return settings.run / "intake_stopped"


def why_intake_is_stopped(settings: Settings) -> str | None:
    """Say how full the disk is and what to do; None while lines are taken in."""
    free_mb = checks.free_mb(settings.home)
    if free_mb >= settings.min_free_mb and not flag(settings).exists():
        return None
    return (
        f"Intake is stopped: the file system of {settings.home} has {free_mb} MiB left,"
        f" {needed_mb(settings)} are needed. Free space and it goes on by itself."
    )


def needed_mb(settings: Settings) -> int:
    """How much must be free for a stopped intake to go on, in MiB."""
    return int(settings.min_free_mb * RESUME_FACTOR)
