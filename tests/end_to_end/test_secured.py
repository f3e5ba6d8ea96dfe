"""`up --secure`: the pipeline works, and Kafka and ClickHouse refuse what is not granted."""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from stunwatch.access import ADMIN, PRINCIPALS, Access, kafka_access, password
from stunwatch.local.kafka import wanted_topics
from stunwatch.local.principals import MAKE_CERTIFICATES, rights
from stunwatch.local.trial import free_ports
from stunwatch.settings import ROOT
from tests.end_to_end.test_live import live, vmware_log
from tests.pipeline import STUNWATCH, Pipeline, settings_in

pytestmark = pytest.mark.release

DEMO = ROOT / "stunwatch" / "demo" / "incident"
PATIENCE_S = 30.0
"""How long a refusal may take to arrive; it may not come with the first poll."""

LIMITED = tuple(each for each in PRINCIPALS if each != ADMIN)
RAW = {"esxi.syslog", "esxi.vmware_log", "esxi.esxtop"}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    made = Pipeline(settings_in(tmp_path_factory.mktemp("secured")))
    try:
        made.run("up", "--secure")
        yield made
    finally:
        made.run("down")


def granted(principal: str, operation: str, kind: str = "topic") -> set[str]:
    """Return the topics, or the prefixes of groups, that acls.yaml grants."""
    names = {
        (name, is_prefix)
        for of_kind, name, is_prefix, who, what in rights()
        if (of_kind, who, what) == (kind, principal, operation)
    }
    if kind != "topic":
        return {name for name, _ in names}
    return {
        topic
        for topic in wanted_topics()
        for name, is_prefix in names
        if topic == name or (is_prefix and topic.startswith(name))
    }


def until(met: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not met():
        assert time.monotonic() < deadline, what


# -- Rights in acls.yaml


@pytest.mark.unit
def test_shippers_may_write_but_not_read() -> None:
    assert granted("fluent-bit", "write") == RAW | {"esxi.rejected"}
    assert not granted("fluent-bit", "read")
    assert not granted("replay", "write") & (RAW - {"esxi.esxtop"})


@pytest.mark.unit
def test_only_flink_may_write_events_of_lines() -> None:
    told = {"events.inventory", "events.task", "events.incident"}
    for principal in LIMITED:
        detected = {each for each in granted(principal, "write") if each.startswith("events.")}
        assert principal == "flink" or detected <= told


@pytest.mark.unit
def test_clickhouse_may_write_rejected_messages_only() -> None:
    assert granted("clickhouse", "write") == {"esxi.rejected"}
    assert not granted("alerts", "write") | granted("metrics", "write") | granted("metrics", "read")


# -- The pipeline works


def test_the_incident_of_the_demo_is_found_and_passes_the_audit(secured: Pipeline) -> None:
    secured.run("replay", DEMO)
    assert secured.one("SELECT count() FROM incidents") >= 1
    secured.run("audit")


def test_a_live_line_and_its_stun_arrive(secured: Pipeline) -> None:
    maker = vmware_log("secured01")
    record = live(maker, "Checkpoint_Unstun: vm stopped for 48211 us", datetime.now(UTC))
    write_as(secured, "fluent-bit", "esxi.vmware_log", orjson.dumps(record))
    secured.wait_for("SELECT count() FROM stuns WHERE vm = 'secured01'", 1)


def test_a_host_line_sent_over_tls_arrives(secured: Pipeline, tmp_path: Path) -> None:
    if shutil.which("fluent-bit") is None:
        pytest.skip("there is no fluent-bit on the PATH")
    certificates = secured.settings.certificates
    names = ["UDP", "TCP", "COUNTED", "LINES", "TLS", "TLS_COUNTED"]
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    environment = os.environ | {
        "STUNWATCH_HOME": str(tmp_path),
        **secured.for_fluent_bit,
        "STUNWATCH_TLS_CERTIFICATE": str(certificates / "syslog.crt"),
        "STUNWATCH_TLS_KEY": str(certificates / "syslog.key"),
        **{f"STUNWATCH_SYSLOG_{name}_PORT": str(port) for name, port in ports.items()},
    }
    configuration = ROOT / "ingest" / "fluent-bit.yaml"
    shipper = subprocess.Popen(["fluent-bit", "-c", str(configuration)], env=environment)
    receiver = subprocess.Popen([STUNWATCH, "receive", "--tls"], env=environment)
    try:
        until(lambda: accepts(ports["LINES"]), "Fluent Bit does not listen")
        until(lambda: accepts(ports["TLS_COUNTED"]), "The receiver does not listen")
        context = ssl.create_default_context(cafile=str(certificates / "ca.crt"))
        now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}.000Z"
        for port, host in (("TLS", "esx31"), ("TLS_COUNTED", "esx32")):
            line = f"<166>{now} {host}.lab.example Hostd: info hostd[2099] [Originator@6876] by TLS"
            framed = f"{len(line)} {line}" if port == "TLS_COUNTED" else f"{line}\n"
            address = ("127.0.0.1", ports[port])
            with (
                socket.create_connection(address) as plain,
                context.wrap_socket(plain, server_hostname="localhost") as wrapped,
            ):
                wrapped.sendall(framed.encode())
        arrived = (
            "SELECT count() FROM log_lines WHERE host IN ('esx31.lab.example', 'esx32.lab.example')"
        )
        secured.wait_for(arrived, 2)
    finally:
        for each in (receiver, shipper):
            each.terminate()
            each.wait()


def test_status_shows_the_lag_of_readers(secured: Pipeline) -> None:
    def readers() -> set[str]:
        topics = json.loads(secured.run("status", "--json").stdout)["topics"]
        [lines] = [each for each in topics if each["name"] == "esxi.vmware_log"]
        return set(lines["behind"])

    # Flink commits its offsets with its checkpoints.
    until(
        lambda: {"clickhouse-records", "stunwatch-detect-live"} <= readers(), "a reader is missing"
    )


def test_no_password_is_in_a_log_or_in_the_process_list(secured: Pipeline) -> None:
    passwords = {password(secured.settings, each).encode() for each in PRINCIPALS}
    written = [
        each.read_bytes()
        for folder in (secured.settings.logs, secured.settings.run)
        for each in folder.rglob("*")
        if each.is_file()
    ]
    listed = [
        Path(f"/proc/{each.pid}/cmdline").read_bytes()
        for name in ("kafka", "clickhouse", "jobmanager", "taskmanager", "keeper")
        for each in secured.processes(name)
    ]
    assert len(listed) >= 5
    assert not [each for each in passwords if any(each in text for text in written + listed)]


# -- Authentication


def connection_errors(access: Access) -> set[int]:
    """Return the error codes of a client that cannot connect."""
    errors: list[KafkaError] = []
    client = Producer(access | {"error_cb": errors.append, "log_level": 0})
    until(lambda: bool(client.poll(0.1) or errors), "nothing was refused")
    # The error "all brokers down" is also reported, before or after.
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        client.poll(0.1)
    return {each.code() for each in errors}


def test_a_wrong_password_is_refused(secured: Pipeline) -> None:
    access = kafka_access(secured.settings, "flink") | {"sasl.password": "guessed"}
    assert KafkaError._AUTHENTICATION in connection_errors(access)


def test_a_wrong_clickhouse_password_is_refused(secured: Pipeline) -> None:
    access = kafka_access(secured.settings, "clickhouse") | {"sasl.password": "guessed"}
    assert KafkaError._AUTHENTICATION in connection_errors(access)


def test_an_unknown_user_is_refused(secured: Pipeline) -> None:
    access = kafka_access(secured.settings, "flink") | {"sasl.username": "mallory"}
    assert KafkaError._AUTHENTICATION in connection_errors(access)


@pytest.mark.parametrize("principal", ["flink", "replay"])
def test_a_plain_text_password_is_refused(secured: Pipeline, principal: str) -> None:
    access = kafka_access(secured.settings, principal) | {"sasl.mechanism": "PLAIN"}
    assert KafkaError._AUTHENTICATION in connection_errors(access)


@pytest.mark.parametrize("protocol", ["plaintext", "ssl", "sasl_plaintext"])
def test_a_client_without_tls_or_password_is_refused(secured: Pipeline, protocol: str) -> None:
    access = kafka_access(secured.settings, ADMIN) | {"security.protocol": protocol}
    with pytest.raises(KafkaException):
        AdminClient(access | {"log_level": 0}).list_topics(timeout=3)


def test_a_client_rejects_a_broker_of_another_ca(secured: Pipeline, tmp_path: Path) -> None:
    subprocess.run([MAKE_CERTIFICATES, tmp_path], check=True, capture_output=True)
    own = {"ssl.ca.location": str(tmp_path / "ca.crt")}
    assert KafkaError._SSL in connection_errors(kafka_access(secured.settings, "flink") | own)


def test_the_controller_refuses_connections_without_tls(secured: Pipeline) -> None:
    address = ("127.0.0.1", secured.settings.kafka_controller_port)
    with socket.create_connection(address, timeout=10) as plain:
        # ApiVersions, the first request of a client without TLS.
        plain.sendall(bytes.fromhex("0000000e 0012 0000 00000001 0004 74657374"))
        try:
            said = plain.recv(1 << 10)
        except ConnectionResetError:
            said = b""
    # At most a TLS alert.
    assert said[:1] in (b"", b"\x15")


# -- Authorisation in Kafka


def write_as(secured: Pipeline, principal: str, topic: str, value: bytes) -> None:
    client = Producer(kafka_access(secured.settings, principal) | {"log_level": 0})
    client.produce(topic, value, key=b"refused")
    assert client.flush(PATIENCE_S) == 0


@pytest.mark.parametrize("principal", LIMITED)
def test_nobody_writes_to_a_topic_that_is_not_granted(secured: Pipeline, principal: str) -> None:
    refused = wanted_topics().keys() - granted(principal, "write")
    codes: dict[str, int] = {}

    def on_delivery(error: KafkaError | None, message: Any) -> None:
        codes[message.topic()] = error.code() if error else KafkaError.NO_ERROR

    access = kafka_access(secured.settings, principal)
    client = Producer(access | {"message.timeout.ms": 20_000, "log_level": 0})
    for topic in refused:
        client.produce(topic, b"{}", on_delivery=on_delivery)
    client.flush(PATIENCE_S)
    assert codes == dict.fromkeys(refused, KafkaError.TOPIC_AUTHORIZATION_FAILED)


@pytest.mark.parametrize("principal", LIMITED)
def test_reading_a_topic_without_a_grant_is_refused(secured: Pipeline, principal: str) -> None:
    refused = wanted_topics().keys() - granted(principal, "read")
    # Assigned manually: no group membership is needed.
    options = {"group.id": "nobody", "enable.auto.commit": False, "log_level": 0}
    client = Consumer(kafka_access(secured.settings, principal) | options)
    codes: dict[str, int] = {}

    def take(topic: str, error: KafkaError | None) -> None:
        codes[topic] = error.code() if error else KafkaError.NO_ERROR

    def all_told() -> bool:
        message = client.poll(0.2)
        # The library requests the group anyway, and that is refused too, without a topic.
        if message is not None and message.topic() is not None:
            take(message.topic(), message.error())
        return codes.keys() >= refused

    try:
        # Some topics are invisible to the principal; for others the messages are refused.
        for topic in refused:
            error = client.list_topics(topic, timeout=PATIENCE_S).topics[topic].error
            if error is not None:
                take(topic, error)
        client.assign([TopicPartition(topic, 0, 0) for topic in refused - codes.keys()])
        until(all_told, f"{sorted(refused - codes.keys())} are not refused")
    finally:
        client.close()
    assert codes == dict.fromkeys(refused, KafkaError.TOPIC_AUTHORIZATION_FAILED)


@pytest.mark.parametrize("principal", LIMITED)
def test_the_consumer_group_of_another_principal_is_refused(
    secured: Pipeline, principal: str
) -> None:
    of_others = "stunwatch-alerts" if principal == "clickhouse" else "clickhouse-records"
    client = AdminClient(kafka_access(secured.settings, principal) | {"log_level": 0})
    place = ConsumerGroupTopicPartitions(of_others, [TopicPartition("esxi.syslog", 0, 0)])
    # With this right, a client could make its readers start again or skip lines.
    [asked] = client.alter_consumer_group_offsets([place]).values()
    try:
        [told] = asked.result(timeout=PATIENCE_S).topic_partitions
        error = told.error
    except KafkaException as refused:
        error = refused.args[0]
    assert error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED


@pytest.mark.parametrize("principal", LIMITED)
def test_only_admin_may_create_topics_and_grants(secured: Pipeline, principal: str) -> None:
    client = AdminClient(kafka_access(secured.settings, principal) | {"log_level": 0})
    refusals = {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        # A principal that may not see a topic gets this error.
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
    asked: list[Any] = [
        *client.create_topics([NewTopic("of.mallory", 1, 1)]).values(),
        *client.delete_topics(["esxi.syslog"]).values(),
        *client.create_acls([everything_for(principal)]).values(),
    ]
    for each in asked:
        with pytest.raises(KafkaException) as refused:
            each.result(timeout=PATIENCE_S)
        assert refused.value.args[0].code() in refusals
    assert "esxi.syslog" in topics_of(secured)
    assert "of.mallory" not in topics_of(secured)


def everything_for(principal: str) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC,
        "*",
        ResourcePatternType.LITERAL,
        f"User:{principal}",
        "*",
        AclOperation.ALL,
        AclPermissionType.ALLOW,
    )


def topics_of(secured: Pipeline) -> set[str]:
    client = AdminClient(kafka_access(secured.settings, ADMIN) | {"log_level": 0})
    return set(client.list_topics(timeout=PATIENCE_S).topics)


def test_a_grant_that_is_not_in_the_list_is_revoked(secured: Pipeline) -> None:
    admin = AdminClient(kafka_access(secured.settings, ADMIN) | {"log_level": 0})
    for each in admin.create_acls([everything_for("alerts")]).values():
        each.result(timeout=PATIENCE_S)
    secured.run("up", "--secure")
    test_nobody_writes_to_a_topic_that_is_not_granted(secured, "alerts")


# -- Authorisation in ClickHouse is tested in tests/local/test_principals.py.


def test_the_command_line_writes_as_the_user_ingest(secured: Pipeline) -> None:
    secured.run("change", "add", "--kind", "firmware", "--title", "by ingest")
    assert secured.one("SELECT count() FROM changes WHERE title = 'by ingest'") == 1


# -- Last, because the pipeline is restarted: back to `up` without security


def test_up_without_secure_goes_back_and_changed_passwords_apply(secured: Pipeline) -> None:
    secured.run("up")
    address = {"bootstrap.servers": secured.settings.bootstrap}
    assert "esxi.syslog" in AdminClient(address).list_topics(timeout=PATIENCE_S).topics
    for each in ("admin", "flink"):
        (secured.settings.secrets / f"kafka_{each}").unlink()
    secured.run("up", "--secure")
    maker = vmware_log("secured02")
    record = live(maker, "Checkpoint_Unstun: vm stopped for 48211 us", datetime.now(UTC))
    write_as(secured, "fluent-bit", "esxi.vmware_log", orjson.dumps(record))
    secured.wait_for("SELECT count() FROM stuns WHERE vm = 'secured02'", 1)


def accepts(port: int) -> bool:
    with socket.socket() as attempt:
        return attempt.connect_ex(("127.0.0.1", port)) == 0
