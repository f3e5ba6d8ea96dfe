"""The producer of replays and collectors drops no record, however long Kafka is away."""

from __future__ import annotations

from typing import Any

import confluent_kafka
import pytest

from stunwatch.shipping import Shipper


def test_a_record_waits_for_kafka_without_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    made: dict[str, Any] = {}
    monkeypatch.setattr(confluent_kafka, "Producer", made.update)
    Shipper({"bootstrap.servers": "127.0.0.1:9"}, while_waiting=lambda: None)
    assert made["bootstrap.servers"] == "127.0.0.1:9"
    assert made["message.timeout.ms"] == 0  # 0 is no limit; the default drops after 5 minutes
    assert made["enable.idempotence"] is True
    assert made["acks"] == "all"
    assert "retries" not in made  # the default is without a limit
