"""The state of the alert service, for `stunwatch status`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stunwatch.settings import Settings


def report_path(settings: Settings) -> Path:
    """Return the path of the file with {"troubles": [sentence, …], "waiting": n, "held": n}."""
    return settings.run / "alerts.json"


def read_report(settings: Settings) -> dict[str, Any]:
    """Read the last state of the service. Raises OSError or JSONDecodeError."""
    found: dict[str, Any] = json.loads(report_path(settings).read_text())
    return found


def write_report(settings: Settings, troubles: list[str], waiting: int, held: int) -> None:
    """Write the state: problems, number of waiting messages, number of held messages."""
    draft = report_path(settings).with_suffix(".partial")
    draft.write_text(json.dumps({"troubles": troubles, "waiting": waiting, "held": held}))
    draft.rename(report_path(settings))
