"""Whether the pipeline accepts lines, and if not, why."""

from __future__ import annotations

from pathlib import Path

from stunwatch.local import checks
from stunwatch.settings import Settings

RESUME_FACTOR = 1.25
"""Intake resumes at this multiple of `min_free_mb`, to avoid repeated stops."""


def flag(settings: Settings) -> Path:
    """Return the flag file of a stopped intake. It is empty, because the disk may be full."""
    return settings.run / "intake_stopped"


def why_intake_is_stopped(settings: Settings) -> str | None:
    """Return how full the disk is and the remedy; None while intake runs."""
    free_mb = checks.free_mb(settings.home)
    if free_mb >= settings.min_free_mb and not flag(settings).exists():
        return None
    return (
        f"Intake is stopped: the file system of {settings.home} has {free_mb} MiB free;"
        f" {needed_mb(settings)} are needed. Free some space; intake then continues by itself."
    )


def needed_mb(settings: Settings) -> int:
    """Return the free space at which a stopped intake resumes, in MiB."""
    return int(settings.min_free_mb * RESUME_FACTOR)
