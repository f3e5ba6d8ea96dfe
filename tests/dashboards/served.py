"""Superset over a ClickHouse without Kafka and Flink: enough to apply, to look and to refuse."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from rich.console import Console

from stunwatch.dashboards.api import Superset, administrator
from stunwatch.runtime import fetch, superset
from stunwatch.settings import Settings
from tests.investigations.server import Server

VIEWER = "looker"
VIEWERS_PASSWORD = "only looks"


@contextmanager
def serving(server: Server) -> Iterator[Settings]:
    """Start Superset beside a ClickHouse; stop it at the end."""
    settings = replace(server.settings, superset=True)
    fetch.ensure(settings, Console(stderr=True))
    process = subprocess.Popen(
        [sys.executable, "-m", "stunwatch.runtime.launch", "superset"],
        env=os.environ | settings.environment(),
    )
    try:
        deadline = time.monotonic() + 90
        while ailment := superset.ailment(settings):
            assert process.poll() is None, "Superset has ended"
            assert time.monotonic() < deadline, ailment
            time.sleep(0.1)
        yield settings
    finally:
        process.terminate()
        process.wait(timeout=30)


def add_viewer(settings: Settings) -> None:
    """Make a user whose one role is that of the dashboards."""
    api = administrator(settings)
    roles = {row["name"]: row["id"] for row in api.listed("security/roles", ("id", "name"))}
    api.post(
        "security/users/",
        {
            "username": VIEWER,
            "first_name": "ops",
            "last_name": "viewer",
            "email": "looker@localhost",
            "active": True,
            "password": VIEWERS_PASSWORD,
            "roles": [roles["ops_viewer"]],
        },
    )


def viewer(settings: Settings) -> Superset:
    """Log in as that user."""
    return Superset(superset.address(settings), VIEWER, VIEWERS_PASSWORD)
