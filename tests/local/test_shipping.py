"""The producer of replays and collectors drops no record, however long Kafka is away."""

from __future__ import annotations

import random
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from stunwatch.access import ADMIN, kafka_access
from stunwatch.errors import UserError
from stunwatch.shipping import Shipper
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
