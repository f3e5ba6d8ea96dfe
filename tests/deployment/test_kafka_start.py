"""Kafka's container starts the real Kafka by its script: who comes in, and who does not."""

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
from stunwatch.runtime import checks, fetch, kafka
from stunwatch.settings import ROOT, Settings
from tests.end_to_end.conftest import settings_in

CLASSES = {"kafka-storage.sh": "kafka.tools.StorageTool", "kafka-server-start.sh": "kafka.Kafka"}
"""What the scripts of the image start."""


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
        deadline = time.monotonic() + 60
        while ailment := kafka.ailment(settings):
            assert process.poll() is None, (home / "log").read_text()[-2000:]
            assert time.monotonic() < deadline, ailment
            time.sleep(0.2)
        yield settings
    finally:
        process.kill()
        process.wait()


def make_secrets(settings: Settings) -> None:
    """As infra/make_secrets does, where a container finds them."""
    settings.secrets.mkdir()
    for user in PRINCIPALS:
        (settings.secrets / f"kafka_{user}").write_text(f"only in tests: {user}".replace(" ", "_"))
    words = [ROOT / "infra/tls/make_certificates", settings.certificates, "kafka"]
    subprocess.run(words, check=True, capture_output=True)


def in_place(settings: Settings, text: str) -> str:
    """The script with this machine's folders and ports, and Java instead of the image's scripts."""
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
        ("9092", str(settings.kafka_port)),
        ("9093", str(settings.kafka_controller_port)),
    ):
        assert old in text
        text = text.replace(old, new)
    return text


def topics(settings: Settings, principal: str, **other: str) -> int:
    access = kafka_access(settings, principal) | {"log_level": 0}
    access |= {name.replace("_", "."): value for name, value in other.items()}
    return len(AdminClient(access).list_topics(timeout=5).topics)


def test_everybody_whose_password_is_mounted_comes_in(container: Settings) -> None:
    for principal in PRINCIPALS:
        if principal != "clickhouse":
            topics(container, principal)
    topics(container, "clickhouse", sasl_mechanism="PLAIN")


def test_others_do_not(container: Settings) -> None:
    with pytest.raises(KafkaException):
        topics(container, "flink", sasl_password="guessed")
    with pytest.raises(KafkaException):
        topics(container, "flink", sasl_mechanism="PLAIN")
    with pytest.raises(KafkaException):
        topics(container, "flink", security_protocol="PLAINTEXT")


def test_settings_are_local_modes_and_hold_no_password(container: Settings) -> None:
    written = container.home / "kafka.properties"
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    text = written.read_text()
    assert "only_in_tests" not in text
    assert not re.search(r"\$\{(?!dir:)|\$\$", text)
    # Of what stands twice, Kafka takes the last.
    assert text.rstrip().endswith(f"CLIENTS://kafka:{container.kafka_port}")
