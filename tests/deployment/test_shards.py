"""The same SQL works on shards: on two real servers, and as statements for replicas."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree

import orjson
import pytest
from rich.console import Console

from stunwatch import schema
from stunwatch.clickhouse import ClickHouse, QueryError, as_user
from stunwatch.local import clickhouse, fetch
from stunwatch.settings import Settings
from stunwatch.simulation.scenarios import ScenarioSimulation, write
from tests.clickhouse_server import Server, without_kafka
from tests.documentation.stored_history import store
from tests.pipeline import settings_in
from tools import manifests

HOSTS = ("127.0.0.1", "127.0.0.2")
VIEWS_WITHOUT_A_CLOCK = [
    name
    for each in schema.sql_files()
    if each.stage == "views" and not re.search(r"\{\w+:", "".join(each.statements))
    for name in each.created
    # The rows of latency_hours depend on merges; the others on the current time.
    if name not in {"fleet_clock", "latency_hours", "mutes", "newest_line", "quality_events"}
]
OF_A_LOG = ", ".join(schema.LOG_KEY)
NATIVE = "SYSTEM START LISTEN TCP"
ALONE = {each.name: each for each in schema.sql_files()}
REPLICAS = schema.Cluster("main", is_replicated=True, fills_tables=True)


@pytest.mark.parametrize("name", [each for each in ALONE if each.startswith("tables/")])
def test_a_replicated_table_differs_from_a_plain_one_only_in_its_engine(name: str) -> None:
    for alone, spread in zip(
        ALONE[name].statements, schema.spread(ALONE[name], REPLICAS).statements, strict=True
    ):
        found = re.search(r"ENGINE = Replicated(\w+)\('([^']+)', '([^']+)'(?:, (.+))?\)\n", spread)
        assert found is not None
        assert found[2] == "/clickhouse/tables/{shard}/{database}/{table}"
        assert found[3] == "{replica}"
        own = found[1] + (f"({found[4]})" if found[4] else "")
        assert spread.replace(found[0], f"ENGINE = {own}\n").replace("_shard\n", "\n") == alone
        assert re.match(r"CREATE TABLE IF NOT EXISTS \w+_shard\n", spread)


def test_in_a_cluster_every_statement_is_for_a_shard_or_for_all() -> None:
    changed = {
        name
        for name, each in ALONE.items()
        if schema.spread(each, REPLICAS).statements != each.statements
    }
    # Kafka tables and views have the same statements for one server and for a cluster.
    assert {ALONE[name].stage for name in changed} == {
        "tables",
        "retention.sql",
        "materialized_views",
    }
    files = [each for each in ALONE.values() if each.stage == "retention.sql"]
    retention = [one for each in files for one in schema.spread(each, REPLICAS).statements]
    assert all(re.match(r"ALTER TABLE \w+_shard MODIFY TTL ", each) for each in retention)
    for name, each in ALONE.items():
        spread = schema.spread(each, REPLICAS)
        assert spread.fingerprint == each.fingerprint
        follows_a_table = (
            each.stage == "materialized_views" and "_stored" in each.statements[0].split("FROM")[1]
        )
        assert follows_a_table == (each.stage == "materialized_views" and name in changed)


def test_only_one_server_runs_the_backfills() -> None:
    another = replace(REPLICAS, fills_tables=False)
    for each in ALONE.values():
        if each.stage == "backfills":
            assert schema.spread(each, REPLICAS).statements
            assert not schema.spread(each, another).statements


@dataclass(frozen=True)
class Servers:
    """Two servers of the cluster `main`, which differ only in their hosts."""

    settings: Settings

    def server(self, host: str, user: str = "admin") -> ClickHouse:
        return as_user(replace(self.settings, clickhouse_host=host), user)

    def apply(self) -> list[str]:
        return schema.apply_to_all("main", self.server, HOSTS[0])

    def empty(self) -> None:
        """Create what is missing, and delete all rows."""
        self.apply()
        for client in map(self.server, HOSTS):
            # A merge would delete rows of old logs, which have expired.
            client.command("SYSTEM STOP MERGES")
            for (table,) in client.rows(
                "SELECT name FROM system.tables WHERE database = 'stunwatch'"
                f" AND endsWith(name, '{schema.SHARD}')"
            ):
                client.command(f"TRUNCATE TABLE {table}")


# -- Two servers, one shard each. The embedded server has no Keeper, so nothing is replicated here.


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with pytest.MonkeyPatch.context() as patch:
        # No Kafka runs here. Rows inserted into the stand-ins are processed like messages.
        split = schema.statements
        patch.setattr(schema, "statements", lambda text: tuple(map(without_kafka, split(text))))
        yield from two_servers(tmp_path_factory)


def two_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    home = tmp_path_factory.mktemp("shards")
    settings = settings_in(home)
    settings.make_folders()
    fetch.ensure(settings, Console(stderr=True))
    configuration = home / "configuration"
    shutil.copytree(clickhouse.CONFIG, configuration)
    # The servers of a cluster use the native port, which the embedded server leaves closed.
    server = configuration / "server.py"
    opened = server.read_text().replace("STATEMENTS = (\n", f"STATEMENTS = (\n    {NATIVE!r},\n")
    server.write_text(opened)
    (configuration / "config.d").mkdir()
    (configuration / "config.d" / "cluster.xml").write_text(cluster_of(settings))
    (configuration / "users.xml").write_text(users_of_a_cluster())
    running = [serve(settings, configuration, host) for host in HOSTS]
    try:
        for host in HOSTS:
            there = replace(settings, clickhouse_host=host)
            deadline = time.monotonic() + 300
            while unhealthy_reason := clickhouse.unhealthy_reason(there):
                assert time.monotonic() < deadline, unhealthy_reason
                time.sleep(0.1)
        yield Servers(settings)
    finally:
        for each in running:
            each.kill()
            each.wait()


def serve(settings: Settings, configuration: Path, host: str) -> subprocess.Popen[bytes]:
    (settings.home / host).mkdir()
    port = tcp_ports(settings)[host]
    own = replace(settings, home=settings.home / host, bind_address=host, clickhouse_tcp_port=port)
    environment = clickhouse.launch(settings).environment
    environment |= {
        "STUNWATCH_CLICKHOUSE_PATH": f"{own.home}/",
        "STUNWATCH_CLICKHOUSE_LISTEN": host,
        "STUNWATCH_CLICKHOUSE_CLIENTS": "127.0.0.0/8",
    }
    library = str(clickhouse.library(settings))
    words = [sys.executable, str(configuration / "server.py"), library]
    with (own.home / "server.log").open("wb") as log:
        return subprocess.Popen(
            [*words, str(configuration / "config.xml")],
            env=os.environ | own.environment() | environment,
            stdout=log,
            stderr=log,
        )


def tcp_ports(settings: Settings) -> dict[str, int]:
    """Return a separate port per server. With one port, each server would treat 127/8 as itself."""
    return dict(zip(HOSTS, (settings.clickhouse_tcp_port, settings.flink_rpc_port), strict=True))


def cluster_of(settings: Settings) -> str:
    shards = "".join(
        f"<shard><replica><host>{host}</host><port>{port}</port></replica></shard>"
        for host, port in tcp_ports(settings).items()
    )
    cluster = f"<main><secret>only in tests</secret>{shards}</main>"
    return f"<clickhouse><remote_servers>{cluster}</remote_servers></clickhouse>"


def users_of_a_cluster() -> str:
    """Return the users of Kubernetes, and the user of the embedded server's own session."""
    files = manifests.configuration()["spec"]["configuration"]["files"]
    root = ElementTree.fromstring(files["users.d/stunwatch.xml"])
    own = ElementTree.parse(clickhouse.CONFIG / "users.xml").find("users/default")
    users = root.find("users")
    assert own is not None and users is not None
    users.append(own)
    return ElementTree.tostring(root, encoding="unicode")


@pytest.mark.slow
def test_copies_of_a_row_that_arrive_at_two_servers_are_one_row(servers: Servers) -> None:
    first, second = map(servers.server, HOSTS)
    servers.empty()
    assert servers.apply() == []
    for server in (first, second):
        for number in range(20):
            server.command(f"INSERT INTO events FORMAT JSONEachRow {passing(stun(number))}")
    for server in (first, second):
        assert server.rows("SELECT count() FROM stuns") == [(20,)]
        assert server.rows("SELECT count() FROM stuns_by_time") == [(20,)]
        [(here,)] = server.rows("SELECT count(DISTINCT event_id) FROM stuns_stored_shard")
        assert 0 < here < 20
    assert first.rows("SELECT * FROM stuns ORDER BY ALL") == second.rows(
        "SELECT * FROM stuns ORDER BY ALL"
    )


@pytest.mark.slow
def test_copies_of_a_line_that_arrive_at_two_servers_are_one_line(servers: Servers) -> None:
    servers.empty()
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    head = f"{day}T04:05:06.789Z cpu1:2)"
    for host in HOSTS:
        servers.server(host).command(
            "INSERT INTO records (kind, source, program, host, thread, head, message, run_id,"
            " time_quality, event_at, received, topic_time)"
            " SELECT 'line', 'syslog', 'vmkernel', concat('esx', toString(number)), 'cpu1:2',"
            f" '{head}', 'a line', 'live', 'exact',"
            f" '{day} 04:05:06.789', '{day} 04:05:07.5', now64(3) FROM numbers(20)"
        )
    for host in HOSTS:
        assert servers.server(host).rows(
            "SELECT head, received_at, count(), uniqExact(host) FROM log_lines GROUP BY ALL"
        ) == [(head, f"{day} 04:05:07.500000", 20, 20)]
        [(here,)] = servers.server(host).rows("SELECT count() FROM log_lines_stored_shard FINAL")
        assert 0 < here < 20
        assert servers.server(host).rows(
            "SELECT uniqExact(line_hash) > 0, min(line_hash) > 0 FROM log_lines_stored"
        ) == [(1, 1)]


LOGS = 40
BLOCKS = 4
"""Blocks of lines per server. A block stands for a flush of a Kafka table."""

SHARDED = "host LIKE '%.sharded.example'"
UNION_OF_SHARDS = {"file_arrivals_stored", "file_runs_stored", "activity_intervals_stored"}
"""Tables that are filled from a shard but have no log key: each shard fills all shards."""


def insert_block(server: ClickHouse, block: int) -> None:
    """Insert ten lines of each log, as the view of the Kafka table does."""
    server.command(
        "INSERT INTO records (kind, source, program, host, datastore, vm, thread, head, message,"
        " file, generation, offset, line_bytes, run_id, time_quality, event_at, received,"
        " topic_time)"
        " SELECT 'line', if(is_vm, 'vmware_log', 'syslog'), if(is_vm, '', 'vmkernel'),"
        f" concat('esx', toString(intDiv(number % {LOGS}, 2)), '.sharded.example') AS host,"
        " if(is_vm, 'san', ''), if(is_vm, concat('vm-', host), ''), 'cpu1', 'head',"
        " toString(number), if(is_vm, concat('/vmfs/volumes/san/', host, '/vmware.log'), ''),"
        f" if(is_vm, host, ''), if(is_vm, {block} * 1000 + number, NULL), 10, 'live', 'exact',"
        f" now64(6) - {block}, now64(6), now64(3) FROM (SELECT number, number % 2 AS is_vm"
        f" FROM numbers({10 * LOGS}))"
    )


@pytest.fixture(scope="module")
def parts(servers: Servers) -> list[dict[str, int]]:
    """Insert blocks on both servers; return each server's parts by table."""
    servers.empty()
    clients = [servers.server(host) for host in HOSTS]
    for block in range(BLOCKS):
        for number, each in enumerate(clients):
            insert_block(each, len(HOSTS) * block + number)
    return [
        dict(
            each.rows(
                f"SELECT replaceOne(table, '{schema.SHARD}', ''), count() FROM system.parts"
                f" WHERE active AND database = 'stunwatch' AND endsWith(table, '{schema.SHARD}')"
                " GROUP BY table"
            )
        )
        for each in clients
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("parts")
def test_the_lines_of_a_log_are_on_one_shard_and_a_query_of_the_log_reads_no_other(
    servers: Servers,
) -> None:
    here, there = (
        {
            *servers.server(host).rows(
                f"SELECT DISTINCT {OF_A_LOG} FROM log_lines_stored_shard WHERE {SHARDED}"
            )
        }
        for host in HOSTS
    )
    assert here
    assert there
    assert not here & there
    assert len(here | there) == LOGS
    reader = servers.server(HOSTS[0], "reader")
    # With this setting, ClickHouse raises an error if a query reads all shards.
    pruned = {"force_optimize_skip_unused_shards": "2"}
    for log in (min(here), min(there)):
        names = zip(schema.LOG_KEY, log, strict=True)
        where = " AND ".join(f"{name} = '{value}'" for name, value in names)
        for view in ("log_lines", "log_lines_with(words = '7')"):
            reader.rows(f"SELECT count() FROM {view} WHERE {where}", settings=pruned)
        counted = reader.rows(f"SELECT count() FROM log_lines WHERE {where}", settings=pruned)
        assert counted == [(len(HOSTS) * BLOCKS * 10,)]
        with pytest.raises(QueryError, match="UNABLE_TO_SKIP_UNUSED_SHARDS"):
            reader.rows(f"SELECT 1 FROM log_lines WHERE host = '{log[1]}'", settings=pruned)


@pytest.mark.slow
def test_every_server_adds_a_part_per_flush_to_each_table(parts: list[dict[str, int]]) -> None:
    flushes = len(HOSTS) * BLOCKS
    assert sum(each["log_lines_stored"] for each in parts) == flushes * len(HOSTS)
    for each in parts:
        for table, count in each.items():
            assert count <= flushes * (len(HOSTS) if table in UNION_OF_SHARDS else 1), table
    # Four servers of Kubernetes, two shards: less than a part per second and table of lines.
    users = ElementTree.fromstring(users_of_a_cluster())
    flush_s = int(users.findtext("profiles/default/stream_flush_interval_ms", "")) / 1000
    assert 4 / flush_s < 1


class Recorder:
    """Collects the messages of `store`."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, bytes]] = []

    @property
    def admin(self) -> Recorder:
        return self

    def read(self, messages: Iterable[tuple[str, bytes]]) -> None:
        self.messages += messages

    def command(self, sql: str) -> None:
        """Compute no minutes of latency from stored samples."""


def rows_of(client: ClickHouse, view: str) -> list[tuple[Any, ...]]:
    # Lines that arrived twice are estimated from runs of files, whose number depends on merges.
    columns = "* EXCEPT lines" if view == "coverage" else "*"
    return sorted(client.rows(f"SELECT {columns} FROM {view}"), key=repr)


@pytest.mark.slow
def test_every_view_returns_the_rows_of_a_single_server(
    servers: Servers, server: Server, tmp_path: Path
) -> None:
    write(ScenarioSimulation("array_and_storm", 41, chatter=0.05), tmp_path)
    recorder = Recorder()
    inventories = (each for each in tmp_path.iterdir() if "inventory" in each.name)
    store(cast(Server, recorder), tmp_path, *inventories)
    servers.empty()
    # Both servers receive some messages of each log, and the second half twice.
    halves = (recorder.messages[::2], recorder.messages[1::2])
    for host, half in ((HOSTS[0], halves[0]), (HOSTS[1], halves[1]), (HOSTS[0], halves[1])):
        of_host = replace(servers.settings, clickhouse_host=host)
        Server(of_host, as_user(of_host, "admin"), as_user(of_host, "analyst")).read(half)
        server.read(half)
    spread = servers.server(HOSTS[1], "analyst")
    differing = [
        name
        for name in VIEWS_WITHOUT_A_CLOCK
        if rows_of(server.reader, name) != rows_of(spread, name)
    ]
    assert not differing
    assert server.reader.rows("SELECT count() > 1000 FROM log_lines") == [(1,)]
    assert server.reader.rows("SELECT count() > 10 FROM stuns") == [(1,)]


@pytest.mark.slow
def test_every_view_returns_the_rows_of_all_servers(servers: Servers) -> None:
    servers.empty()
    views = [
        name
        for file in ALONE.values()
        if file.stage in {"views", "queries/dashboards"} and "{" not in "".join(file.statements)
        for name in file.created
    ]
    assert len(views) > 30
    for host in HOSTS:
        reader = servers.server(host, "reader")
        for name in views:
            # Without LIMIT, which may reset connections: that aborts the embedded server.
            reader.rows(f"SELECT * FROM {name}")
        assert reader.rows("SELECT count() FROM log_lines_with(words = 'lost access')") == [(0,)]


def stun(number: int) -> dict[str, object]:
    return {
        "event_id": f"00000000-0000-5000-8000-{number:012}",
        "revision": 1,
        "is_deleted": 0,
        "run_id": "live",
        "host": "esx01",
        "vm": f"app{number:02}",
        "datastore": "san-01",
        "started_at": "2024-05-06T07:08:09.000000Z",
        "ended_at": "2024-05-06T07:08:10.000000Z",
        "duration_us": 1_000_000,
        "measured_by": "unstun",
        "cause": "unknown",
        "severity": "warning",
        "evidence": ["Checkpoint_Unstun: vm stopped for 1000000 us"],
    }


def passing(event: dict[str, object]) -> str:
    """Return a row of the Null table `events`, as its materialized view writes it."""
    return orjson.dumps(
        {"raw": orjson.dumps(event).decode(), "topic": "events.stun", "topic_time": "2024-05-06"}
    ).decode()
