"""Kafka and ClickHouse for tests, without Flink: for data that collectors send."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient
from rich.console import Console

from stunwatch import schema
from stunwatch.access import ADMIN, kafka_access
from stunwatch.clickhouse import as_user
from stunwatch.consumers import wait_until_read
from stunwatch.kafka import Kafka
from stunwatch.local import clickhouse, fetch, kafka
from stunwatch.local.component import Component
from stunwatch.settings import Settings
from tests.pipeline import settings_in, wait_for


class Storing:
    """Both servers, running."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        """In the order of their start."""

    def start(self, component: Component) -> None:
        """Start a component, and wait until it is healthy."""
        with (self.settings.logs / f"{component.name}.log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "stunwatch.local.launch", component.name],
                env=os.environ | self.settings.environment(),
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._processes[component.name] = process
        deadline = time.monotonic() + 300
        while unhealthy_reason := component.unhealthy_reason(self.settings):
            said = Path(log.name).read_text()[-3000:]
            assert process.poll() is None, f"{component.name} has ended:\n{said}"
            assert time.monotonic() < deadline, f"{unhealthy_reason}\n{said}"
            time.sleep(0.1)

    def kill(self, component: Component) -> None:
        """Kill -9 a component."""
        process = self._processes.pop(component.name)
        process.kill()
        process.wait()

    def shut_down(self, component: Component) -> None:
        """End a component as the supervisor does."""
        process = self._processes.pop(component.name)
        process.terminate()
        process.wait(timeout=60)

    def stop(self) -> None:
        """Stop both, ClickHouse first: it commits offsets while Kafka runs."""
        for process in reversed(self._processes.values()):
            process.terminate()
            process.wait(timeout=60)
        self._processes = {}

    @contextmanager
    def stalled_broker(self) -> Iterator[None]:
        """Stop Kafka's process for a while, as a long pause of its machine does."""
        broker = self._processes[kafka.COMPONENT.name]
        broker.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            broker.send_signal(signal.SIGCONT)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return as_user(self.settings, "analyst").rows(sql)

    def wait_for(self, sql: str, wanted: Any, seconds: float = 60) -> None:
        """Wait until the query's only value is `wanted`."""
        wait_for(lambda: self.rows(sql)[0][0], wanted, sql, self.settings, seconds)

    def wait_for_nothing_behind(self, topic: str, group: str) -> None:
        """Wait until ClickHouse has read a topic up to its current end."""
        known = Kafka(kafka_access(self.settings, ADMIN))
        wait_until_read(known, group, known.ends([topic]), lambda: None)

    def wait_for_members(self, group: str, members: int, seconds: float = 60) -> None:
        """Wait until this many consumers share a group's partitions, and each has some."""
        client = AdminClient(kafka_access(self.settings, ADMIN))
        deadline = time.monotonic() + seconds
        while True:
            described = client.describe_consumer_groups([group])[group].result(10)
            shares = [len(each.assignment.topic_partitions) for each in described.members]
            if len(shares) == members and all(shares) and described.state.name == "STABLE":
                return
            assert time.monotonic() < deadline, f"{group}: {shares}, expected {members} members"
            time.sleep(0.1)


@contextmanager
def storing(home: Path) -> Iterator[Storing]:
    """Start both in their own folder, on their own ports; stop them at the end."""
    settings = settings_in(home)
    settings.make_folders()
    fetch.ensure(settings, Console(stderr=True))
    both = Storing(settings)
    try:
        both.start(kafka.COMPONENT)
        both.start(clickhouse.COMPONENT)
        kafka.apply_topics(settings)
        schema.apply(clickhouse.administrator(settings))
        yield both
    finally:
        both.stop()
