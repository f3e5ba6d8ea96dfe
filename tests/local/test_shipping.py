"""The producer of replays and collectors drops no record, however long Kafka is away."""

from __future__ import annotations

import random
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient, NewTopic
from hypothesis import given
from hypothesis import strategies as st

from stunwatch.access import ADMIN, kafka_access
from stunwatch.errors import UserError
from stunwatch.shipping import Batch, Shipper
from tests.kafka_and_clickhouse import Storing


def test_a_record_waits_for_kafka_without_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    made: dict[str, Any] = {}
    monkeypatch.setattr(confluent_kafka, "Producer", made.update)
    Shipper({"bootstrap.servers": "127.0.0.1:9"}, while_waiting=lambda: None)
    assert made["bootstrap.servers"] == "127.0.0.1:9"
    assert made["message.timeout.ms"] == 0  # 0 is no limit; the default drops after 5 minutes
    assert made["enable.idempotence"] is True
    assert made["acks"] == "all"
    assert "retries" not in made  # the default is without a limit


class SmallProducer:
    """A producer with room for few bytes. As in librdkafka, the rest of a batch does not fit if one
    of its messages does not. Messages are acknowledged at the next poll."""

    def __init__(self, room_bytes: int) -> None:
        self._room_bytes = room_bytes
        self._queued: list[bytes] = []
        self.acknowledged: list[bytes] = []

    def __len__(self) -> int:
        return len(self._queued)

    def produce_batch(self, _topic: str, batch: Batch, _partition: int, **_: object) -> int:
        for number, each in enumerate(batch):
            if sum(map(len, self._queued)) + len(each["value"]) > self._room_bytes:
                for refused in batch[number:]:
                    refused["_error"] = KafkaError(KafkaError._QUEUE_FULL)
                return number
            self._queued.append(each["value"])
        return len(batch)

    def poll(self, _seconds: float) -> None:
        self.acknowledged += self._queued
        self._queued = []

    def flush(self, seconds: float) -> int:
        self.poll(seconds)
        return 0


@given(st.lists(st.lists(st.integers(1, 100), max_size=20), max_size=8))
def test_long_records_wait_for_room_and_keep_their_order(batches: list[list[int]]) -> None:
    producer = SmallProducer(room_bytes=100)
    sent = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(confluent_kafka, "Producer", lambda _: producer)
        shipper = Shipper({}, while_waiting=lambda: None)
        for batch in batches:
            values = [bytes([number]) * length for number, length in enumerate(batch)]
            shipper.send("esxi.syslog", [{"key": b"esx01", "value": each} for each in values])
            sent += values
        shipper.flush()
    assert producer.acknowledged == sent


def test_a_record_that_the_broker_refuses_is_an_error_at_the_flush(stored: Storing) -> None:
    access = kafka_access(stored.settings, ADMIN)
    topic = NewTopic("of-the-shipper", 1, 1, config={"max.message.bytes": "1000"})
    client = AdminClient(access)
    [created] = client.create_topics([topic]).values()
    created.result()
    shipper = Shipper(access, while_waiting=lambda: None)
    shipper.send(topic.topic, [{"key": b"esx01", "value": b"small"}])
    shipper.flush()
    shipper.send(topic.topic, [{"key": b"esx01", "value": random.Random(1).randbytes(5000)}])
    with pytest.raises(UserError, match="Kafka refused a record"):
        shipper.flush()
