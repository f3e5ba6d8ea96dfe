"""The alert service as a component; it runs only where somebody is to be told."""

from __future__ import annotations

import json
import sys
import time

from stunwatch.alerts.configuration import is_configured
from stunwatch.alerts.reports import read_report, report_path
from stunwatch.runtime.component import Component, Launch
from stunwatch.settings import Settings

SILENT_S = 120
"""Receivers may be slow; one that is silent for longer hangs."""


def launch(settings: Settings) -> Launch:
    """Run the service."""
    report_path(settings).unlink(missing_ok=True)
    return Launch([sys.executable, "-m", "stunwatch.alerts.service"])


def ailment(settings: Settings) -> str | None:
    """Say why nobody is told of anything; None if the service runs."""
    try:
        age_seconds = time.time() - report_path(settings).stat().st_mtime
    except FileNotFoundError:
        return "it has not begun yet"
    if age_seconds > SILENT_S:
        return f"it has not been heard of for {age_seconds:.0f} s"
    return None


def trouble(settings: Settings) -> str | None:
    """Say which receivers do not accept what they are sent; None if all do."""
    try:
        troubles = read_report(settings)["troubles"]
    except (OSError, json.JSONDecodeError, KeyError):
        return None
    return "; ".join(troubles) or None


COMPONENT = Component(
    "alerts",
    after=("kafka",),
    launch=launch,
    ailment=ailment,
    stop_seconds=15,
    is_wanted=is_configured,
    trouble=trouble,
)
