"""The script of Kafka's container starts the real Kafka, which accepts only its users."""

from __future__ import annotations

import re
import stat
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from rich.console import Console

from stunwatch.access import PRINCIPALS, kafka_access
from stunwatch.local import checks, fetch, kafka
from stunwatch.settings import ROOT, Settings
from tests.pipeline import settings_in

pytestmark = pytest.mark.slow

CLASSES = {"kafka-storage.sh": "kafka.tools.StorageTool", "kafka-server-start.sh": "kafka.Kafka"}
"""Script of the image → Java class that it starts."""


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    home = tmp_path_factory.mktemp("kafka")
    settings = replace(settings_in(home), secure=True)
    fetch.ensure(settings, Console(stderr=True))
    make_secrets(settings)
    start = home / "start"
    start.write_text(in_place(settings, (ROOT / "infra/kafka/start").read_text()))
    with (home / "log").open("w") as log:
        process = subprocess.Popen(["bash", start], stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 300
        while unhealthy_reason := kafka.unhealthy_reason(settings):
            assert process.poll() is None, (home / "log").read_text()[-2000:]
            assert time.monotonic() < deadline, unhealthy_reason
            time.sleep(0.2)
        yield settings
    finally:
        process.kill()
        process.wait()


def make_secrets(settings: Settings) -> None:
    """Create secrets like infra/make_secrets, in the folders of a container."""
    settings.secrets.mkdir()
    for user in PRINCIPALS:
        (settings.secrets / f"kafka_{user}").write_text(f"only in tests: {user}".replace(" ", "_"))
    words = [ROOT / "infra/tls/make_certificates", settings.certificates, "kafka"]
    subprocess.run(words, check=True, capture_output=True)


def in_place(settings: Settings, text: str) -> str:
    """Return the script with this machine's folders and ports, and Java in place of the scripts."""
    tools = settings.home / "tools"
    tools.mkdir()
    java = [checks.java(), "-Xmx256m", "-cp", f"'{kafka.jars(settings)}/*'"]
    for name, main in CLASSES.items():
        script = tools / name
        script.write_text(f'#!/bin/sh\nexec {" ".join(java)} {main} "$@"\n')
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
    for old, new in (
        ("HOME_FOLDER=/var/lib/stunwatch", f"HOME_FOLDER={settings.home}"),
        ("DATA=/var/lib/kafka/data", f"DATA={settings.home / 'data'}"),
        ("KAFKA=/opt/kafka/bin", f"KAFKA={tools}"),
        ("SETTINGS=/tmp/kafka.properties", f"SETTINGS={settings.home / 'kafka.properties'}"),
        ("/opt/stunwatch/kafka/", f"{kafka.CONFIG}/"),
        # After the first connection, clients use the address that Kafka advertises.
        ("CLIENTS://kafka:", "CLIENTS://127.0.0.1:"),
        ("9092", str(settings.kafka_port)),
        ("9093", str(settings.kafka_controller_port)),
    ):
        assert old in text
        text = text.replace(old, new)
    return text


def topics(settings: Settings, principal: str, timeout_s: float = 60, **other: str) -> int:
    """Return the number of topics. A refused client gets no error, only the timeout."""
    access = kafka_access(settings, principal) | {"log_level": 0}
    access |= {name.replace("_", "."): value for name, value in other.items()}
    return len(AdminClient(access).list_topics(timeout=timeout_s).topics)


def test_every_user_with_a_mounted_password_can_log_in(container: Settings) -> None:
    for principal in PRINCIPALS:
        if principal != "clickhouse":
            topics(container, principal)
    topics(container, "clickhouse", sasl_mechanism="PLAIN")


def test_a_wrong_password_mechanism_or_protocol_is_refused(container: Settings) -> None:
    with pytest.raises(KafkaException):
        topics(container, "flink", 5, sasl_password="guessed")
    with pytest.raises(KafkaException):
        topics(container, "flink", 5, sasl_mechanism="PLAIN")
    with pytest.raises(KafkaException):
        topics(container, "flink", 5, security_protocol="PLAINTEXT")


def test_settings_are_those_of_local_mode_and_contain_no_password(container: Settings) -> None:
    written = container.home / "kafka.properties"
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    text = written.read_text()
    assert "only_in_tests" not in text
    assert not re.search(r"\$\{(?!dir:)|\$\$", text)
    # If a name occurs twice, Kafka uses the last value.
    assert text.rstrip().endswith(f"CLIENTS://127.0.0.1:{container.kafka_port}")
