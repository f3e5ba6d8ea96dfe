"""Keeps the live job running, and the disk from filling up."""

from __future__ import annotations

import sys

from stunwatch.runtime.component import Component, Launch
from stunwatch.settings import Settings


def launch(settings: Settings) -> Launch:
    """Run this module."""
    return Launch(["sleep", "1000000"])


def ailment(settings: Settings) -> str | None:
    """Tell."""
    return None


COMPONENT = Component(
    "keeper",
    after=("kafka", "clickhouse", "taskmanager"),
    launch=launch,
    ailment=ailment,
    stop_seconds=20,
)
