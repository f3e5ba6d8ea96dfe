"""The demo's own Fluent Bit ships the same records as Python, and ends with the demo.

It ships to a mock broker of librdkafka on loopback.
"""

from __future__ import annotations

import json
import shutil
import time
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from stunwatch.demo.scenario import load
from stunwatch.demo.shippers import LiveRecords, shipper
from stunwatch.ingest.records import kafka_key
from tests.pipeline import settings_in

PATIENCE_S = 30.0
TOPICS = ("esxi.syslog", "esxi.vmware_log", "esxi.rejected")
UNEQUAL = {"received_at", "file"}
"""Fields that differ: times of arrival, and a path in the demo's own folder."""

pytestmark = pytest.mark.skipif(
    shutil.which("fluent-bit") is None, reason="There is no fluent-bit on the PATH."
)


def comparable(topic: str, key: str, record: dict[str, Any]) -> str:
    kept = {
        name: float(value) if isinstance(value, int) else value
        for name, value in record.items()
        if name not in UNEQUAL
    }
    return json.dumps([topic, key, kept], sort_keys=True)


def running_in(folder: Path) -> list[str]:
    """Return the command lines of processes that were started with this folder."""
    found = []
    for each in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if any(str(folder) in value for value in each.environ().values()):
                found.append(" ".join(each.cmdline()))
    return [each for each in found if "fluent-bit" in each]


def test_fluent_bit_ships_the_same_records_as_python_and_ends(tmp_path: Path) -> None:
    broker = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 0})
    [address] = broker.list_topics(timeout=PATIENCE_S).brokers.values()
    settings = replace(settings_in(tmp_path), kafka_port=address.port)
    settings.make_folders()
    made = LiveRecords(load().datastore)
    expected = []
    with shipper(settings, load()) as ships:
        assert ships.name.startswith("Fluent Bit (")
        assert running_in(settings.run)
        for line in load().lines:
            now = datetime.now(UTC)
            text = line.written(now)
            ships.send(line, text)
            record = made.make(line, text, now)
            expected.append(comparable(f"esxi.{record['source']}", kafka_key(record), record))
        consumer = Consumer(
            {"bootstrap.servers": settings.bootstrap, "group.id": "demo", "log_level": 0}
        )
        places = [
            TopicPartition(topic, partition, 0)
            for topic in TOPICS
            # A mock broker creates a topic when a producer requests it.
            for partition in broker.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
        ]
        consumer.assign(places)
        received = []
        deadline = time.monotonic() + PATIENCE_S
        while len(received) < len(expected) and time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is not None and not message.error():
                record = json.loads(message.value())
                received.append(comparable(message.topic(), message.key().decode(), record))
        consumer.close()
    assert sorted(received) == sorted(expected)
    assert not running_in(settings.run)
    assert not list(settings.run.iterdir())


def test_ctrl_c_ends_fluent_bit(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    settings.make_folders()
    with pytest.raises(KeyboardInterrupt), shipper(settings, load()):
        assert running_in(settings.run)
        raise KeyboardInterrupt
    assert not running_in(settings.run)
    assert not list(settings.run.iterdir())
