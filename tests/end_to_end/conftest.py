"""One real pipeline for all end-to-end tests of a session: Kafka, Flink and ClickHouse."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from ingest.records import kafka_key
from stunwatch.access import ADMIN, authority, is_secured, kafka_access, password
from stunwatch.audit.events import CHECKS, all_spans, compare, kept_since
from stunwatch.audit.files import Finder, stored_files
from stunwatch.clickhouse import ClickHouse, as_user
from stunwatch.runtime.processes import Process, processes
from stunwatch.schema import sql_files
from stunwatch.settings import Settings, load_settings
from stunwatch.shipping import Shipper

STUNWATCH = Path(sys.executable).with_name("stunwatch")


@dataclass
class Pipeline:
    """A pipeline in a folder of its own, on ports of its own, and the command line on it."""

    settings: Settings
    known_differences: set[tuple[str, ...]] = field(default_factory=set)
    audited_content: tuple[tuple[Any, ...], ...] = ()
    """What was stored when lines and events were compared last."""

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | self.settings.environment()

    @property
    def for_fluent_bit(self) -> dict[str, str]:
        """What a Fluent Bit must be told to write to this Kafka (docs/security.md)."""
        told = {"STUNWATCH_KAFKA_PORT": str(self.settings.kafka_port)}
        if not is_secured(self.settings):
            return told
        return told | {
            "STUNWATCH_KAFKA_SECURITY_PROTOCOL": "sasl_ssl",
            "STUNWATCH_KAFKA_CA_FILE": str(authority(self.settings)),
            "STUNWATCH_KAFKA_FLUENT_BIT_PASSWORD": password(self.settings, "fluent-bit"),
        }

    def run(self, *words: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run the command; its exit code must be `code`."""
        done = subprocess.run(
            [STUNWATCH, *words], env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def start(self, *words: str | Path) -> subprocess.Popen[str]:
        """Start the command without waiting for its end."""
        return subprocess.Popen(
            [STUNWATCH, *words],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def status(self) -> subprocess.CompletedProcess[str]:
        """What `status` says, whatever its exit code."""
        return subprocess.run(
            [STUNWATCH, "status"],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def reader(self) -> ClickHouse:
        return as_user(self.settings, "reader")

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
        """Until the query's only value is `wanted`."""
        deadline = time.monotonic() + seconds
        while (found := self.one(sql)) != wanted:
            assert time.monotonic() < deadline, f"{sql}: {found}, not {wanted}"
            time.sleep(0.2)

    def views(self) -> dict[str, list[tuple[Any, ...]]]:
        """Everything that the views show, but what asks for a parameter or what the time is."""
        named = self.rows(
            "SELECT name FROM system.tables WHERE database = 'stunwatch' AND engine = 'View'"
            " AND name NOT IN ('quality_events', 'mutes', 'fleet_clock',"
            # Maxima, whatever the rows: how many there are depends on what is merged.
            " 'latency_hours') AND create_table_query NOT LIKE '%{%:%}%'"
        )
        drawn = {
            name for file in sql_files() if file.stage == "dashboards" for name in file.created
        }
        return {
            view: sorted(self.rows(f"SELECT * FROM {view}"), key=repr)
            for (view,) in named
            if view not in drawn
        }

    def content(self) -> tuple[tuple[Any, ...], ...]:
        """Differs whenever anything that `stunwatch audit` looks at was written or altered."""
        return tuple(
            as_user(self.settings, "admin").rows(
                "SELECT table, name FROM system.parts WHERE active AND table IN ("
                "'log_lines_stored', 'rejected_lines_stored', 'latency_samples_stored',"
                " 'stuns_stored', 'reservation_conflicts_stored') ORDER BY ALL"
            )
        )

    def differences(self) -> set[tuple[str, ...]]:
        """What `stunwatch audit` would tell now: (finding, whose, when) and (gap, file)."""
        since = kept_since(self.reader)
        found = {
            (each.finding, each.owner, each.anchor)
            for check in CHECKS
            for span in all_spans(self.reader)
            for each in compare(self.reader, check, span, since).differences
        }
        finder = Finder()
        files = (finder.measure(each) for each in stored_files(self.reader, since))
        return found | {("gap", each.name, str(each.gaps)) for each in files if each.gaps}

    def processes(self, component: str) -> list[Process]:
        return [each for each in processes(self.settings) if each.component == component]


def free_ports(count: int) -> list[int]:
    """Ports below those that the kernel gives to outgoing connections."""
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(20_000, 32_000)
        with closing(socket.socket()) as each:
            if port not in found and each.connect_ex(("127.0.0.1", port)):
                found.append(port)
    return found


def settings_in(home: Path, **more: Any) -> Settings:
    names = [each.name for each in fields(Settings) if each.name.endswith("_port")]
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    own = {"home": home, "alerts": home / "alerts.yaml", "superset": False}
    return replace(load_settings({}), **(own | ports | more))


@pytest.fixture(scope="session")
def pipeline(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Pipeline]:
    home, is_secured = tmp_path_factory.mktemp("pipeline"), pytestconfig.getoption("--secure")
    made = Pipeline(settings_in(home, secure=is_secured))
    try:
        made.run("up")
        yield made
    finally:
        made.run("down")


@pytest.fixture(autouse=True)
def audited(request: pytest.FixtureRequest) -> Iterator[None]:
    """After every test on the shared pipeline, lines, events and files must still agree.

    A test that makes up events without lines says so with the marker `made_up`.
    """
    yield
    if "pipeline" not in request.fixturenames:
        return
    made: Pipeline = request.getfixturevalue("pipeline")
    content = made.content()
    if content == made.audited_content:
        return
    made.audited_content = content
    new = made.differences() - made.known_differences
    if request.node.get_closest_marker("made_up"):
        made.known_differences |= new
        return
    deadline = time.monotonic() + 20
    while new and time.monotonic() < deadline:
        # A live line may be stored before its event is.
        time.sleep(1)
        new = made.differences() - made.known_differences
    # So that the next test is not blamed for it.
    made.known_differences |= new
    assert not new, sorted(new)


@pytest.fixture
def pipelines(tmp_path: Path, pytestconfig: pytest.Config) -> Iterator[Callable[..., Pipeline]]:
    """Makes pipelines for one test that does to them what others must not see."""
    made: list[Pipeline] = []

    def make(home: Path = tmp_path / "home", **more: Any) -> Pipeline:
        more = {"secure": pytestconfig.getoption("--secure")} | more
        made.append(Pipeline(settings_in(home, **more)))
        return made[-1]

    yield make
    for each in made:
        each.run("down")
