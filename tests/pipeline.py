"""A real pipeline for tests: Kafka, Flink and ClickHouse with their own folder and ports."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, cast
from unittest.mock import patch

import orjson

from stunwatch import cli
from stunwatch.access import ADMIN, authority, is_secured, kafka_access, password
from stunwatch.audit.events import CHECKS, all_spans, compare, kept_since
from stunwatch.audit.files import Finder, stored_files
from stunwatch.clickhouse import ClickHouse, as_user
from stunwatch.ingest.records import kafka_key
from stunwatch.local import trial
from stunwatch.local.processes import Process, processes
from stunwatch.schema import sql_files
from stunwatch.settings import Settings
from stunwatch.shipping import Shipper

STUNWATCH = Path(sys.executable).with_name("stunwatch")

STARTS_PROCESSES = {"up", "down", "demo", "restore", "upgrade", "backup"}
"""Commands that tests run in a separate process, as a user does."""


WIDE = {"COLUMNS": "400"}
"""A terminal so wide that no message is wrapped, however long the path of the test's folder is."""


def in_this_process(words: list[str], environment: dict[str, str]) -> CompletedProcess[str]:
    """Run `stunwatch` in this process; return its output and exit code as a process would."""
    out, error = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    code = 0
    with (
        patch.dict(os.environ, environment | WIDE),
        patch.object(sys, "argv", [str(STUNWATCH), *words]),
        redirect_stdout(out),
        redirect_stderr(error),
    ):
        try:
            cli.main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(bool(end.code))
        except Exception:
            traceback.print_exc()
            code = 1
    shown, said = (cast(io.BytesIO, each.buffer).getvalue().decode() for each in (out, error))
    return CompletedProcess(words, code, shown, said)


def last_log_lines(settings: Settings, most: int = 15) -> str:
    """Return the end of every component's log, for the message of a failed test."""
    shown = []
    for log in sorted(settings.logs.glob("*.log")):
        lines = log.read_text(errors="replace").splitlines()[-most:]
        if lines:
            shown.append("\n".join([f"--- {log.name}", *lines]))
    return "\n".join(shown)


def wait_for(
    ask: Callable[[], Any], wanted: Any, what: str, settings: Settings, seconds: float
) -> None:
    """Wait until `ask` returns `wanted`. `what` is named in the message if it does not in time."""
    deadline = time.monotonic() + seconds
    while True:
        asked = time.monotonic()
        found = ask()
        if found == wanted:
            return
        now = time.monotonic()
        assert now < deadline, f"{what}: {found}, expected {wanted}\n{last_log_lines(settings)}"
        # Queries must not take the processor from what they wait for.
        time.sleep(max(0.1, 3 * (now - asked)))


@dataclass
class Pipeline:
    """A pipeline in its own folder, on its own ports, with the commands that use it."""

    settings: Settings
    known_differences: set[tuple[str, ...]] = field(default_factory=set)
    """Differences caused by test data: lines without events, and events without lines."""

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | self.settings.environment() | WIDE

    @property
    def for_fluent_bit(self) -> dict[str, str]:
        """Return the environment of a Fluent Bit that writes to this Kafka (docs/security.md)."""
        told = {"STUNWATCH_KAFKA_PORT": str(self.settings.kafka_port)}
        if not is_secured(self.settings):
            return told
        return told | {
            "STUNWATCH_KAFKA_SECURITY_PROTOCOL": "sasl_ssl",
            "STUNWATCH_KAFKA_CA_FILE": str(authority(self.settings)),
            "STUNWATCH_KAFKA_FLUENT_BIT_PASSWORD": password(self.settings, "fluent-bit"),
        }

    def run(self, *words: str | Path, code: int = 0) -> CompletedProcess[str]:
        """Run the command; its exit code must be `code`.

        A command that leaves no process behind runs in this process: starting Python takes half a
        second, and tests run hundreds of commands.
        """
        done = self.command(*words)
        assert done.returncode == code, (
            f"{done.stdout}{done.stderr}\n{last_log_lines(self.settings)}"
        )
        return done

    def command(self, *words: str | Path) -> CompletedProcess[str]:
        """Run the command as `run` does, with any exit code."""
        if words[0] in STARTS_PROCESSES:
            return subprocess.run(
                [STUNWATCH, *words],
                env=self.environment,
                capture_output=True,
                text=True,
                check=False,
            )
        return in_this_process([str(each) for each in words], self.settings.environment())

    def start(self, *words: str | Path) -> subprocess.Popen[str]:
        """Start the command without waiting for its end (see `finish`)."""
        return subprocess.Popen(
            [STUNWATCH, *words],
            env=self.environment | {"PYTHONFAULTHANDLER": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def finish(self, command: subprocess.Popen[str], seconds: float) -> None:
        """Wait until a started command ends; its exit code must be 0.

        If it does not end in time, the message shows the stacks of its threads.
        """
        try:
            shown, _ = command.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            command.send_signal(signal.SIGABRT)
            shown, _ = command.communicate(timeout=60)
        assert command.returncode == 0, f"{shown}\n{last_log_lines(self.settings)}"

    def status(self) -> CompletedProcess[str]:
        """Return the output of `status`, with any exit code."""
        return self.command("status")

    @property
    def reader(self) -> ClickHouse:
        return as_user(self.settings, "analyst")

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.reader.rows(sql)

    def one(self, sql: str) -> Any:
        return self.rows(sql)[0][0]

    def produce(self, topic: str, *values: bytes, key: str = "esx01") -> None:
        shipper = Shipper(kafka_access(self.settings, ADMIN), lambda: None)
        shipper.send(topic, [{"key": key.encode(), "value": value} for value in values])
        shipper.flush()

    def ship(self, topic: str, *records: dict[str, Any]) -> None:
        """Send records as a shipper does."""
        shipper = Shipper(kafka_access(self.settings, ADMIN), lambda: None)
        shipper.send(
            topic,
            [
                {"key": kafka_key(record).encode(), "value": orjson.dumps(record)}
                for record in records
            ],
        )
        shipper.flush()

    def wait_for(self, sql: str, wanted: Any, seconds: float = 60) -> None:
        """Wait until the query's only value is `wanted`."""
        wait_for(lambda: self.one(sql), wanted, sql, self.settings, seconds)

    def views(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return the rows of all views, except those that take parameters or depend on the current
        time.
        """
        named = self.rows(
            "SELECT name FROM system.tables WHERE database = 'stunwatch' AND engine = 'View'"
            " AND name NOT IN ('quality_events', 'mutes', 'fleet_clock', 'newest_line',"
            # A view of maxima. Its number of rows depends on merges.
            " 'latency_hours') AND create_table_query NOT LIKE '%{%:%}%'"
        )
        drawn = {
            name
            for file in sql_files()
            if file.stage == "queries/dashboards"
            for name in file.created
        }
        return {
            view: sorted(self.rows(f"SELECT * FROM {view}"), key=repr)
            for (view,) in named
            if view not in drawn
        }

    def differences(self) -> set[tuple[str, ...]]:
        """Return the findings of `stunwatch audit`: (finding, owner, time) and (gap, file)."""
        since = kept_since(self.reader)
        found = {
            (each.finding, each.owner, each.anchor)
            for check in CHECKS
            for span in all_spans(self.reader, check)
            for each in compare(self.reader, check, span, since).differences
        }
        finder = Finder()
        files = (finder.measure(each) for each in stored_files(self.reader))
        return found | {("gap", each.name, str(each.gaps)) for each in files if each.gaps}

    def processes(self, component: str) -> list[Process]:
        return [each for each in processes(self.settings) if each.component == component]


def settings_in(home: Path, **more: Any) -> Settings:
    # Tests send live lines minutes apart.
    return trial.settings_in(home, **({"newest_line_limit_s": 86_400} | more))
