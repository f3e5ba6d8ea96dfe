"""Ships records to Kafka so that every one of them is acknowledged, or the reason is known."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import orjson
from confluent_kafka import KafkaError, Message, Producer

from ingest.replay import Message as Made
from stunwatch.access import Access
from stunwatch.errors import UserError

MAX_IN_FLIGHT = 50_000
"""Messages on their way: what memory holds while the broker is slow or away."""

Batch = list[dict[str, Any]]
"""Messages as `{"key": …, "value": …}`, and `"partition"` where the key does not tell it."""

_BY_KEY = -1
"""The partition of messages that name none."""


def by_topic(messages: list[Made]) -> list[tuple[str, Batch]]:
    """Records as Kafka takes them, by topic."""
    topics: dict[str, Batch] = {}
    dumps = orjson.dumps
    for topic, key, record in messages:
        batch = topics.get(topic)
        if batch is None:
            batch = topics[topic] = []
        batch.append({"key": key.encode(), "value": dumps(record)})
    return list(topics.items())


class Shipper:
    """A producer that waits out a broker's absence instead of dropping.

    Idempotent and acknowledged by all replicas: a broker that dies and returns loses and doubles
    nothing. `while_waiting` is called now and then while the broker does not take messages.
    """

    def __init__(self, access: Access, while_waiting: Callable[[], None]) -> None:
        self._while_waiting = while_waiting
        self._failure: KafkaError | None = None
        self._producer = Producer(
            access
            | {
                "enable.idempotence": True,
                "acks": "all",
                "message.timeout.ms": 0,
                "linger.ms": 20,
                "compression.type": "lz4",
                "queue.buffering.max.messages": MAX_IN_FLIGHT * 2,
                "queue.buffering.max.kbytes": 512 * 1024,
                "message.max.bytes": 2_000_000,
                "delivery.report.only.error": True,
                "reconnect.backoff.max.ms": 1000,
                "log_level": 0,
            }
        )

    def send(self, topic: str, batch: Batch) -> None:
        """Queue a batch for a topic; waits while too much is on its way."""
        while len(self._producer) + len(batch) > MAX_IN_FLIGHT:
            self._wait(0.05)
        for partition, messages in _by_partition(batch).items():
            self._producer.produce_batch(topic, messages, partition, on_delivery=self._on_failure)
        self._check(batch)
        self._producer.poll(0)

    def flush(self) -> None:
        """Return when everything sent is acknowledged. Raises UserError for what Kafka refused."""
        while self._producer.flush(0.5):
            self._check([])
            self._while_waiting()
        self._check([])

    def _wait(self, seconds: float) -> None:
        started = time.monotonic()
        self._producer.poll(seconds)
        self._check([])
        if time.monotonic() - started >= seconds:
            self._while_waiting()

    def _on_failure(self, error: KafkaError | None, message: Message) -> None:
        self._failure = error or self._failure

    def _check(self, batch: list[dict[str, Any]]) -> None:
        refused = next((each["_error"] for each in batch if "_error" in each), self._failure)
        if refused is not None:
            raise UserError(f"Kafka refused a record ({refused}); nothing after it was shipped.")


def _by_partition(batch: Batch) -> dict[int, Batch]:
    """`produce_batch` passes over a message's own partition."""
    found: dict[int, Batch] = {}
    for each in batch:
        found.setdefault(each.get("partition", _BY_KEY), []).append(each)
    return found
