"""Whether the pipeline takes in lines, and why not."""

from __future__ import annotations

import json
from pathlib import Path

from stunwatch.settings import Settings


def path(settings: Settings) -> Path:
    """The file that holds the reason while intake is stopped."""
    return settings.run / "intake.json"


def why_intake_is_stopped(settings: Settings) -> str | None:
    """Return the keeper's sentence about a disk that is too full; None while intake goes on."""
    try:
        return str(json.loads(path(settings).read_text())["reason"])
    except (OSError, ValueError):
        return None
