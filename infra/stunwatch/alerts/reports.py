"""Where the alert service says how it fares, for `stunwatch status` to show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stunwatch.settings import Settings


def report_path(settings: Settings) -> Path:
    """The file that holds {"troubles": [sentence, …], "waiting": n, "held": n}."""
    return settings.run / "alerts.json"


def read_report(settings: Settings) -> dict[str, Any]:
    """What the service said last. Raises OSError or JSONDecodeError."""
    found: dict[str, Any] = json.loads(report_path(settings).read_text())
    return found


def write_report(settings: Settings, troubles: list[str], waiting: int, held: int) -> None:
    """Say how it goes: what is wrong, how many messages wait, how many are held back."""
    draft = report_path(settings).with_suffix(".partial")
    draft.write_text(json.dumps({"troubles": troubles, "waiting": waiting, "held": held}))
    draft.rename(report_path(settings))
