"""The alert service as a component. It runs only if receivers are configured."""

from __future__ import annotations

import json
import sys
import time

from stunwatch.alerts.configuration import is_configured
from stunwatch.alerts.reports import read_report, report_path
from stunwatch.local.component import Component, Launch
from stunwatch.settings import Settings

SILENT_S = 120
"""Receivers may be slow, but a service without a heartbeat for this long hangs."""


def launch(settings: Settings) -> Launch:
    """Run the service."""
    report_path(settings).unlink(missing_ok=True)
    return Launch([sys.executable, "-m", "stunwatch.alerts.service"])


def unhealthy_reason(settings: Settings) -> str | None:
    """Return why the service cannot send alerts; None if it runs."""
    try:
        age_seconds = time.time() - report_path(settings).stat().st_mtime
    except FileNotFoundError:
        return "it has not started yet"
    if age_seconds > SILENT_S:
        return f"no heartbeat for {age_seconds:.0f} s"
    return None


def trouble(settings: Settings) -> str | None:
    """Return which receivers do not accept messages; None if all do."""
    try:
        troubles = read_report(settings)["troubles"]
    except (OSError, json.JSONDecodeError, KeyError):
        return None
    return "; ".join(troubles) or None


COMPONENT = Component(
    "alerts",
    after=("kafka",),
    launch=launch,
    unhealthy_reason=unhealthy_reason,
    stop_seconds=15,
    is_wanted=is_configured,
    trouble=trouble,
)
