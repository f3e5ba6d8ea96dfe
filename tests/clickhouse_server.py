"""A ClickHouse server for tests, with the tables and views of `sql/`, without Kafka and Flink."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console

from stunwatch.clickhouse import ClickHouse, as_user
from stunwatch.local import fetch
from stunwatch.local.clickhouse import COMPONENT, administrator
from stunwatch.schema import sql_files
from stunwatch.settings import Settings
from tests.pipeline import settings_in

KAFKA = re.compile(r"^ENGINE = Kafka\(.*", re.MULTILINE | re.DOTALL)
STAND_IN = """(
    raw String,
    _topic LowCardinality(String),
    _partition UInt64,
    _offset UInt64,
    _timestamp_ms Nullable(DateTime64(3))
)
ENGINE = Null"""
"""Replaces a Kafka engine table. Rows inserted into it are processed like messages."""


READERS = {
    topic: file.created[0]
    for file in sql_files()
    if file.stage == "queues"
    for topics in re.findall(r"kafka_topic_list = '(.*)'", file.statements[0])
    for topic in topics.split(",")
}
"""The Kafka engine table of each topic."""

LEFT_OUT = {"retention.sql", "backfills"}
"""Stages that change tables but create none."""

AS_TSV = [
    chr(each) if 32 <= each < 127 and each != ord("\\") else f"\\x{each:02X}" for each in range(256)
]
ARRIVED = "2026-11-21 05:00:01.123"


GIVEN = {"received_at": "given_received_at", "head": "given_head"}
"""Column of a stored table → the column that sets it in an insert, if another one."""


def insertion(table: str, rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the statement that inserts rows into a stored table; missing columns get defaults.

    Fields that the table does not have are ignored.
    """
    [text] = [
        each
        for file in sql_files()
        if file.stage == "tables"
        for each, name in zip(file.statements, file.created, strict=True)
        if name == table
    ]
    known = {*re.findall(r"^    (\w+) ", text, re.MULTILINE)}
    names = {each: each if GIVEN.get(each) not in known else GIVEN[each] for each in known}
    made = [{names[each]: row[each] for each in row if each in known} for row in rows]
    columns = ", ".join(sorted({each for row in made for each in row})) or "*"
    return f"INSERT INTO {table} ({columns}) FORMAT JSONEachRow\n" + "\n".join(
        orjson.dumps(each).decode() for each in made
    )


def without_kafka(statement: str) -> str:
    """Return the statement with STAND_IN instead of a Kafka engine table."""
    if not KAFKA.search(statement):
        return statement
    before, columns, _ = KAFKA.sub("", statement).partition("(raw String)")
    assert columns, statement
    return before + STAND_IN


@dataclass(frozen=True)
class Server:
    """A running server. `admin` fills its tables; `reader` queries it as the commands do."""

    settings: Settings
    admin: ClickHouse
    reader: ClickHouse

    def as_(self, user: str) -> ClickHouse:
        return as_user(self.settings, user)

    def read(self, messages: Iterable[tuple[str, bytes]]) -> None:
        """Process messages as if they came from Kafka: (topic, value); the first has offset 0.

        Raises QueryError if a view fails. With Kafka, ClickHouse would retry such a message for
        ever.
        """
        rows: dict[str, list[str]] = {}
        for offset, (topic, value) in enumerate(messages):
            text = "".join(map(AS_TSV.__getitem__, value))
            rows.setdefault(READERS[topic], []).append(f"{text}\t{topic}\t0\t{offset}\t{ARRIVED}\n")
        for reader, lines in rows.items():
            self.admin.command(f"INSERT INTO {reader} FORMAT TSV\n{''.join(lines)}")

    @property
    def created(self) -> list[str]:
        """Return the names of all tables and views of sql/."""
        files = (each for each in sql_files() if each.stage not in LEFT_OUT)
        return [name for each in files for name in each.created]

    def names(self) -> list[str]:
        """Return the names of all tables and views that exist now."""
        rows = self.admin.rows("SELECT name FROM system.tables WHERE database = 'stunwatch'")
        return [name for (name,) in rows]

    def tables(self) -> list[str]:
        """Return the tables that store rows."""
        return [
            name
            for (name,) in self.admin.rows(
                "SELECT name FROM system.tables"
                " WHERE database = 'stunwatch' AND engine LIKE '%MergeTree'"
            )
        ]

    def empty(self) -> None:
        """Delete all rows."""
        for name in self.tables():
            self.admin.command(f"TRUNCATE TABLE {name}")


@contextmanager
def running(
    home: Path, adapted: Callable[[str], str] = lambda statement: statement
) -> Iterator[Server]:
    """Start a server in its own folder, on its own ports; stop it at the end.

    Every statement of `sql/` passes through `adapted` before it runs.
    """
    settings = settings_in(home)
    fetch.ensure(settings, Console(stderr=True))
    process = subprocess.Popen(
        [sys.executable, "-m", "stunwatch.local.launch", "clickhouse"],
        env=os.environ | settings.environment(),
    )
    try:
        deadline = time.monotonic() + 300
        while unhealthy_reason := COMPONENT.unhealthy_reason(settings):
            assert process.poll() is None, "ClickHouse has ended"
            assert time.monotonic() < deadline, unhealthy_reason
            time.sleep(0.1)
        admin = administrator(settings)
        admin.command("CREATE DATABASE IF NOT EXISTS stunwatch", database="default")
        for each in sql_files():
            if each.stage not in LEFT_OUT:
                for statement in each.statements:
                    admin.command(adapted(without_kafka(statement)))
        yield Server(settings, admin, as_user(settings, "analyst"))
    finally:
        process.terminate()
        process.wait(timeout=60)
