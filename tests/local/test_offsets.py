"""Offsets are read from a broker that stalls or restarts: the process must get its answer."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from stunwatch import kafka
from stunwatch.local.kafka import COMPONENT
from tests.kafka_and_clickhouse import Storing

STALLS = 8

# In a process of its own: an error inside librdkafka ends the process, not only the test.
READ_OFFSETS = """
import sys
from stunwatch import kafka

kafka.TIMEOUT_S = 1.0
broker = kafka.Kafka({"bootstrap.servers": sys.argv[1]})
print("ready", flush=True)
while True:
    broker.committed("clickhouse-records", [("esxi.backfill", 0)])
"""


class AdminOfARestartingBroker:
    """Finds no leader of the partition in its first two lists of topics.

    Like librdkafka's client, it asks for offsets only the leader in its newest list.
    """

    def __init__(self, settings: Any) -> None:
        self.lists = 0

    def list_topics(self, timeout: float) -> Any:
        self.lists += 1
        topic = SimpleNamespace(partitions={0: None})
        return SimpleNamespace(topics={"esxi.backfill": topic})

    def list_offsets(
        self, wanted: Any, request_timeout: float
    ) -> dict[TopicPartition, Future[Any]]:
        found: Future[Any] = Future()
        if self.lists > 2:
            found.set_result(SimpleNamespace(offset=7))
        else:
            found.set_exception(KafkaException(KafkaError(KafkaError._NOENT)))
        return dict.fromkeys(wanted, found)


def test_offsets_are_read_from_a_broker_that_had_no_leaders_when_first_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("confluent_kafka.admin.AdminClient", AdminOfARestartingBroker)
    monkeypatch.setattr(kafka.time, "sleep", lambda _: None)
    broker = kafka.Kafka({"bootstrap.servers": ""}, patience_seconds=1)
    assert broker.ends(["esxi.backfill"]) == {("esxi.backfill", 0): 7}


@pytest.mark.slow
def test_offsets_are_read_while_the_broker_restarts(stored: Storing) -> None:
    def restart() -> None:
        # A broker that shuts down still answers, but without leaders.
        stored.shut_down(COMPONENT)
        stored.start(COMPONENT)

    broker = kafka.Kafka({"bootstrap.servers": stored.settings.bootstrap}, patience_seconds=60)
    with ThreadPoolExecutor(1) as beside:
        restarted = beside.submit(restart)
        while not restarted.done():
            broker.ends(["esxi.backfill"])
    restarted.result()
    assert broker.ends(["esxi.backfill"])


@pytest.mark.slow
def test_offsets_are_read_although_the_broker_stalls(stored: Storing) -> None:
    command = [sys.executable, "-c", READ_OFFSETS, stored.settings.bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as reading:
        assert reading.stdout and reading.stderr
        try:
            assert reading.stdout.readline() == b"ready\n"
            for stall in range(STALLS):
                # The answers arrive at different times after the request has timed out.
                with stored.stalled_broker():
                    time.sleep(1 + stall / 6)
                time.sleep(1)
            assert reading.poll() is None, reading.stderr.read().decode()
        finally:
            reading.kill()
