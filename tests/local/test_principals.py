"""The permissions in Kafka and ClickHouse match what the code needs, and no more is allowed."""

from __future__ import annotations

import re
import threading
from xml.etree import ElementTree

import pytest

from stunwatch.clickhouse import ClickHouse, QueryError
from stunwatch.detectors.catalogue import INCIDENTS_TOPIC
from stunwatch.incidents.correlator import INVENTORY_TOPIC
from stunwatch.jobs.detect import LINE_TOPICS, SAMPLE_TOPICS, written_topics
from stunwatch.local import clickhouse
from stunwatch.local.component import http_unhealthy_reason
from stunwatch.local.principals import rights
from stunwatch.schema import SQL, sql_files
from tests.clickhouse_server import Server


def may(principal: str, operation: str) -> set[str]:
    """Return the topics on which a principal has this permission."""
    return {
        name
        for kind, name, _, who, what in rights()
        if (kind, who, what) == ("topic", principal, operation)
    }


def test_flink_may_write_exactly_the_topics_of_its_results() -> None:
    assert may("flink", "write") == {*written_topics()}


def test_flink_may_read_exactly_the_topics_of_its_job() -> None:
    read = {*LINE_TOPICS, *SAMPLE_TOPICS, INVENTORY_TOPIC, INCIDENTS_TOPIC}
    assert may("flink", "read") == read


# -- ClickHouse: infra/clickhouse/users.xml.

VIEWS = {
    name
    for each in sql_files()
    if each.stage in {"views", "queries/dashboards"}
    for name in each.created
}
PARTS = {path.stem for path in (SQL / "views").glob("*.sql") if "-- Internal: " in path.read_text()}
"""Views that only other views query."""

THOUSANDS = "SELECT arrayJoin(range(10000))"
REFUSED = "ACCESS_DENIED|TOO_MANY_ROWS|SETTING_CONSTRAINT_VIOLATION|QUERY_NOT_ALLOWED|READONLY"


def users() -> ElementTree.Element:
    found = ElementTree.parse(clickhouse.CONFIG / "users.xml").getroot()
    return found


def granted(user: str) -> list[str]:
    return [each.text or "" for each in users().findall(f"users/{user}/grants/query")]


def test_every_user_except_the_embedded_servers_has_a_generated_password() -> None:
    found = users().findall("users/*")
    assert {each.tag for each in found} == {"default", *clickhouse.USERS}
    for each in found:
        password = each.find("password")
        assert password is not None
        variable = f"STUNWATCH_CLICKHOUSE_{each.tag.upper()}_PASSWORD"
        assert each.tag == "default" or password.get("from_env") == variable


def test_reader_is_granted_every_view_and_no_table() -> None:
    assert set(granted("reader")) == {f"GRANT SELECT ON stunwatch.{each}" for each in VIEWS - PARTS}


def test_every_view_runs_with_the_permissions_of_transform() -> None:
    for each in sql_files():
        if each.stage in {"views", "queries/dashboards"}:
            for statement in each.statements:
                assert "\nDEFINER = transform SQL SECURITY DEFINER AS\n" in statement, each.name


def test_no_user_is_granted_files_urls_or_user_management() -> None:
    sources = "FILE|URL|S3|HDFS|JDBC|ODBC|MYSQL|POSTGRES|MONGO|REMOTE|AZURE|SQLITE|REDIS"
    for user in clickhouse.USERS:
        for each in granted(user):
            assert not re.search(rf"\b({sources}|ACCESS MANAGEMENT)\b", each), each
            assert "ALL ON *.*" not in each


def test_every_limit_of_reader_and_analyst_is_constrained() -> None:
    profiles = users().find("profiles")
    assert profiles is not None
    limits, constrained = set(), set()
    for name in ("analyst", "reader"):
        for each in profiles.findall(f"{name}/*"):
            if each.tag.startswith("max_") and not each.tag.startswith("max_bytes_before_external"):
                limits.add(each.tag)
        constrained |= {each.tag for each in profiles.findall(f"{name}/constraints/*")}
    # Not a limit: the value 0 keeps ClickHouse from using fewer threads.
    assert limits - constrained == {"max_threads_min_free_memory_per_thread"}


@pytest.mark.parametrize(
    ("user", "statement"),
    [
        ("reader", "INSERT INTO changes_stored (title) VALUES ('mine')"),
        ("reader", "INSERT INTO stuns_stored (vm) VALUES ('mine')"),
        ("reader", "SELECT vm FROM stuns_stored"),
        ("reader", "SELECT message FROM log_lines_stored"),
        ("reader", "ALTER TABLE stuns_stored DELETE WHERE 1"),
        ("reader", "ALTER TABLE stuns_stored ADD COLUMN mine String"),
        ("reader", "DROP VIEW stuns"),
        ("reader", "TRUNCATE TABLE log_lines_stored"),
        ("reader", "CREATE TABLE mine (a String) ENGINE = Null"),
        ("reader", "CREATE VIEW mine DEFINER = transform SQL SECURITY DEFINER AS SELECT 1"),
        ("reader", "SELECT * FROM file('/etc/passwd', 'LineAsString')"),
        ("reader", "SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString', 'a String')"),
        ("reader", "SELECT * FROM remote('127.0.0.1', 'stunwatch', 'stuns_stored')"),
        ("reader", "SELECT 1 SETTINGS stream_like_engine_allow_direct_select = 1"),
        ("reader", "SELECT * FROM system.users"),
        ("reader", "SELECT * FROM system.processes"),
        ("reader", "SYSTEM SHUTDOWN"),
        ("reader", "SYSTEM STOP LISTEN HTTP"),
        ("reader", "KILL QUERY WHERE 1"),
        ("reader", f"SELECT 1 FROM ({THOUSANDS}) AS a, ({THOUSANDS}) AS b FORMAT Null"),
        ("reader", "SELECT 1 SETTINGS max_result_rows = 0"),
        ("reader", "SELECT 1 SETTINGS max_memory_usage = 0"),
        ("reader", "SELECT 1 SETTINGS max_execution_time = 0"),
        ("reader", "SELECT 1 SETTINGS max_execution_time = 121"),
        ("reader", "SELECT 1 SETTINGS max_threads = 64"),
        ("reader", "SELECT 1 SETTINGS max_concurrent_queries_for_user = 0"),
        ("reader", "SELECT 1 SETTINGS max_memory_usage_for_user = 0"),
        ("reader", "SELECT 1 SETTINGS readonly = 0"),
        ("analyst", "INSERT INTO stuns_stored (vm) VALUES ('mine')"),
        ("analyst", "ALTER TABLE stuns_stored DELETE WHERE 1"),
        ("analyst", "SELECT 1 SETTINGS stream_like_engine_allow_direct_select = 1"),
        ("analyst", "SELECT 1 SETTINGS max_memory_usage = 0"),
        ("analyst", "SELECT * FROM file('/etc/passwd', 'LineAsString')"),
        ("ingest", "SELECT * FROM stuns"),
        ("ingest", "SELECT * FROM changes_stored"),
        ("ingest", "INSERT INTO stuns_stored (vm) VALUES ('mine')"),
        ("ingest", "INSERT INTO log_lines_stored (message) VALUES ('mine')"),
        ("ingest", "ALTER TABLE changes_stored DELETE WHERE 1"),
        ("ingest", "DROP TABLE changes_stored"),
        ("ingest", "SELECT * FROM file('/etc/passwd', 'LineAsString')"),
        ("transform", "ALTER TABLE stuns_stored DELETE WHERE 1"),
        ("transform", "DROP TABLE stuns_stored"),
        ("transform", "CREATE TABLE mine (a String) ENGINE = MergeTree ORDER BY a"),
        ("transform", "SELECT * FROM file('/etc/passwd', 'LineAsString')"),
        ("transform", "SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString', 'a String')"),
        ("transform", "SELECT * FROM system.users"),
        ("transform", "INSERT INTO FUNCTION file('mine.csv', 'CSV', 'a String') VALUES ('mine')"),
        ("admin", "SELECT * FROM file('/etc/passwd', 'LineAsString')"),
        ("admin", "CREATE USER mallory"),
    ],
)
def test_statements_that_are_not_granted_are_refused(
    server: Server, user: str, statement: str
) -> None:
    with pytest.raises(QueryError, match=REFUSED):
        server.as_(user).command(statement)


@pytest.mark.parametrize(
    "statement", ["SELECT 1", "SYSTEM STOP LISTEN HTTP", "SYSTEM STOP LISTEN TCP", "SET a = 1"]
)
def test_no_client_gets_a_session_of_the_embedded_servers_user(
    server: Server, statement: str
) -> None:
    nobody = ClickHouse("127.0.0.1", server.settings.clickhouse_http_port, "default", "")
    with pytest.raises(QueryError, match="USER_SESSION_LIMIT_EXCEEDED"):
        nobody.command(statement)
    server.reader.rows("SELECT 1")


@pytest.mark.parametrize(
    ("user", "password"), [("reader", "guessed"), ("reader", ""), ("mallory", "guessed")]
)
def test_clickhouse_refuses_wrong_passwords_and_unknown_users(
    server: Server, user: str, password: str
) -> None:
    unknown = ClickHouse("127.0.0.1", server.settings.clickhouse_http_port, user, password)
    with pytest.raises(QueryError, match="AUTHENTICATION_FAILED"):
        unknown.command("SELECT 1")


PARAMETERISED = {
    "change_effects_of",
    "changes_near",
    "heard_at",
    "inventory_at",
    "log_lines_with",
    "open_snapshots_at",
}


@pytest.mark.parametrize("view", sorted(VIEWS - PARTS - PARAMETERISED))
def test_reader_can_query_every_view(server: Server, view: str) -> None:
    server.as_("reader").rows(f"SELECT * FROM {view} LIMIT 1")


def test_reader_can_search_words(server: Server) -> None:
    server.as_("reader").rows("SELECT * FROM log_lines_with(words = 'lost access')")


def test_a_condition_on_a_view_uses_the_sorting_key(server: Server) -> None:
    # ClickHouse does not read an empty table at all.
    server.admin.command("INSERT INTO stuns_stored (datastore, vm) VALUES ('ds1', 'vm01')")
    plan = server.as_("reader").rows(
        "EXPLAIN indexes = 1 SELECT vm FROM stuns WHERE datastore = 'ds1' AND vm = 'vm01'"
    )
    said = " ".join(str(line) for (line,) in plan)
    assert re.search(r"FINAL: 1.*PrimaryKey.*datastore in .'ds1", said), said


def test_the_time_limit_of_reader_is_enforced(server: Server) -> None:
    with pytest.raises(QueryError, match="TIMEOUT_EXCEEDED"):
        server.as_("reader").command(
            "SELECT sum(sipHash64(number)) FROM numbers(1e11) SETTINGS max_execution_time = 1"
        )


def test_one_user_cannot_occupy_all_query_slots(server: Server) -> None:
    refused = []

    def ask() -> None:
        try:
            server.as_("reader").command("SELECT sleep(2) FORMAT Null")
        except QueryError as error:
            refused.append(str(error))

    asking = [threading.Thread(target=ask) for _ in range(24)]
    for each in asking:
        each.start()
    for each in asking:
        each.join()
    assert refused
    assert all("TOO_MANY_SIMULTANEOUS_QUERIES" in each for each in refused)
    server.reader.rows("SELECT 1")


def test_a_health_check_causes_no_error_in_clickhouses_log(server: Server) -> None:
    def errors() -> int:
        [(found,)] = server.admin.rows(
            "SELECT sum(value) FROM system.errors WHERE name = 'ABORTED'"
        )
        return int(found)

    before = errors()
    for _ in range(20):
        assert (
            http_unhealthy_reason("127.0.0.1", server.settings.clickhouse_http_port, "/ping")
            is None
        )
    assert errors() == before
