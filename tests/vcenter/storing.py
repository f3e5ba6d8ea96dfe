"""Kafka and ClickHouse without Flink: what collectors ship, as the views show it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stunwatch import schema
from stunwatch.clickhouse import as_user
from stunwatch.runtime import clickhouse, kafka
from stunwatch.settings import Settings
from tests.end_to_end.conftest import settings_in


class Storing:
    """Both, running."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return as_user(self.settings, "reader").rows(sql)

    def wait_for(self, sql: str, wanted: Any, seconds: float = 60) -> None:
        """Until the query's only value is `wanted`."""
        deadline = time.monotonic() + seconds
        while (found := self.rows(sql)[0][0]) != wanted:
            assert time.monotonic() < deadline, f"{sql}: {found}, not {wanted}"
            time.sleep(0.2)


@contextmanager
def storing(home: Path) -> Iterator[Storing]:
    """Start both in a folder and on ports of their own; stop them at the end."""
    settings = settings_in(home)
    settings.make_folders()
    started = []
    try:
        for each in (kafka.COMPONENT, clickhouse.COMPONENT):
            with (settings.logs / f"{each.name}.log").open("w") as log:
                process = subprocess.Popen(
                    [sys.executable, "-m", "stunwatch.runtime.launch", each.name],
                    env=os.environ | settings.environment(),
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            started.append(process)
            deadline = time.monotonic() + 90
            while ailment := each.ailment(settings):
                assert process.poll() is None, f"{each.name} has ended"
                assert time.monotonic() < deadline, ailment
                time.sleep(0.1)
        kafka.apply_topics(settings)
        schema.apply(clickhouse.administrator(settings))
        yield Storing(settings)
    finally:
        # One after the other: ClickHouse's consumers take their leave of Kafka.
        for process in reversed(started):
            process.terminate()
            process.wait(timeout=60)
