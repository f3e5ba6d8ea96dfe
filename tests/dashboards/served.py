"""Run Superset with a ClickHouse, without Kafka and Flink."""

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
from stunwatch.local import fetch, superset
from stunwatch.settings import Settings
from tests.clickhouse_server import Server

STARTS_S = 300
"""Superset starts within this time, even if other tests use the processor."""

VIEWER = "looker"
VIEWERS_PASSWORD = "only looks"


@contextmanager
def serving(server: Server) -> Iterator[Settings]:
    """Start Superset for a ClickHouse server; stop it at the end."""
    settings = replace(server.settings, superset=True)
    fetch.ensure(settings, Console(stderr=True))
    process = subprocess.Popen(
        [sys.executable, "-m", "stunwatch.local.launch", "superset"],
        env=os.environ | settings.environment(),
    )
    try:
        deadline = time.monotonic() + STARTS_S
        while unhealthy_reason := superset.unhealthy_reason(settings):
            assert process.poll() is None, "Superset has ended"
            assert time.monotonic() < deadline, unhealthy_reason
            time.sleep(0.1)
        yield settings
    finally:
        process.terminate()
        process.wait(timeout=30)


def add_viewer(settings: Settings) -> None:
    """Create a user with the read-only role."""
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
