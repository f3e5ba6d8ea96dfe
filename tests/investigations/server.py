"""A ClickHouse server with the tables and views of `sql/`: no Kafka, no Flink, no other's rows."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from stunwatch.clickhouse import ClickHouse, as_user
from stunwatch.runtime import fetch
from stunwatch.runtime.clickhouse import COMPONENT, administrator
from stunwatch.schema import sql_files
from stunwatch.settings import Settings
from tests.end_to_end.conftest import settings_in

ON_TABLES = {
    "intakes/latency_baselines_intake.sql",
    "intakes/latency_hours_intake.sql",
    "intakes/stuns_by_time_intake.sql",
}
"""The intakes that read a table and not Kafka. The others need the whole pipeline."""


@dataclass(frozen=True)
class Server:
    """A running server: `admin` fills its tables, `reader` asks as a person does."""

    settings: Settings
    admin: ClickHouse
    reader: ClickHouse

    def tables(self) -> list[str]:
        """The tables that keep rows."""
        return [
            name
            for (name,) in self.admin.rows(
                "SELECT name FROM system.tables"
                " WHERE database = 'stunwatch' AND engine LIKE '%MergeTree'"
            )
        ]

    def empty(self) -> None:
        """Forget every row."""
        for name in self.tables():
            self.admin.command(f"TRUNCATE TABLE {name}")


@contextmanager
def running(home: Path) -> Iterator[Server]:
    """Start a server in a folder and on ports of its own; stop it at the end."""
    settings = settings_in(home)
    fetch.ensure(settings, Console(stderr=True))
    process = subprocess.Popen(
        [sys.executable, "-m", "stunwatch.runtime.launch", "clickhouse"],
        env=os.environ | settings.environment(),
    )
    try:
        deadline = time.monotonic() + 60
        while ailment := COMPONENT.ailment(settings):
            assert process.poll() is None, "ClickHouse has ended"
            assert time.monotonic() < deadline, ailment
            time.sleep(0.1)
        admin = administrator(settings)
        admin.command("CREATE DATABASE IF NOT EXISTS stunwatch", database="default")
        for each in sql_files():
            if each.stage in {"tables", "views", "dashboards"} or each.name in ON_TABLES:
                for statement in each.statements:
                    admin.command(statement)
        yield Server(settings, admin, as_user(settings, "reader"))
    finally:
        process.terminate()
        process.wait(timeout=60)
