"""Sends records to Kafka. Every record is acknowledged, or an error is raised."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stunwatch.access import Access
from stunwatch.errors import UserError
from stunwatch.ingest.records import to_json
from stunwatch.ingest.replay import Message as Made

if TYPE_CHECKING:  # part of an extra: `--help` works without it
    from confluent_kafka import KafkaError, Message

MAX_IN_FLIGHT = 50_000
"""Maximum number of unacknowledged messages. It bounds memory while the broker is slow."""

MAX_IN_FLIGHT_KIB = 128 * 1024
"""Their maximum size. Long lines reach it first: the longest have 64 KiB."""

LIVE_LINGER_MS = 20
"""How long a live message may wait for others of its partition, to be sent with them."""

HISTORY_LINGER_MS = 200
"""The same for replayed lines. Larger batches cost Kafka a fifth less CPU time."""

Batch = list[dict[str, Any]]
"""Messages as `{"key": …, "value": …}`, and `"partition"` if the key does not determine it."""

_BY_KEY = -1
"""librdkafka's value for "select the partition by key"."""


def by_topic(messages: list[Made]) -> list[tuple[str, Batch]]:
    """Convert messages to batches for Kafka, by topic."""
    topics: dict[str, Batch] = {}
    for topic, key, record in messages:
        batch = topics.get(topic)
        if batch is None:
            batch = topics[topic] = []
        batch.append({"key": key.encode(), "value": to_json(record)})
    return list(topics.items())


class Shipper:
    """A producer that waits while the broker is unreachable, and drops nothing.

    It is idempotent and waits for the acknowledgement of all replicas. If a broker dies and
    returns, no message is lost or stored twice. `while_waiting` is called from time to time while
    the broker does not accept messages. `flush` sends at once, whatever `linger_ms` is.
    """

    def __init__(
        self,
        access: Access,
        while_waiting: Callable[[], None],
        linger_ms: int = LIVE_LINGER_MS,
    ) -> None:
        from confluent_kafka import Producer  # noqa: PLC0415 (in an extra)

        self._while_waiting = while_waiting
        self._failure: KafkaError | None = None
        self._producer = Producer(
            access
            | {
                "enable.idempotence": True,
                "acks": "all",
                "message.timeout.ms": 0,
                "linger.ms": linger_ms,
                "compression.type": "lz4",
                "queue.buffering.max.messages": MAX_IN_FLIGHT * 2,
                "queue.buffering.max.kbytes": MAX_IN_FLIGHT_KIB,
                "message.max.bytes": 2_000_000,
                "delivery.report.only.error": True,
                "reconnect.backoff.max.ms": 1000,
                "log_level": 0,
            }
        )

    def send(self, topic: str, batch: Batch) -> None:
        """Queue a batch for a topic; wait while too much is unacknowledged."""
        while len(self._producer) + len(batch) > MAX_IN_FLIGHT:
            self._wait(0.05)
        for partition, messages in _by_partition(batch).items():
            left = self._queue(topic, messages, partition)
            while left:
                self._wait(0.05)
                left = self._queue(topic, left, partition)
        self._check()
        self._producer.poll(0)

    def flush(self) -> None:
        """Wait until all messages are acknowledged. Raises UserError if Kafka rejected one."""
        while self._producer.flush(0.5):
            self._check()
            self._while_waiting()
        self._check()

    def _queue(self, topic: str, messages: Batch, partition: int) -> Batch:
        """Queue messages and return those that do not fit yet: the last ones, in order."""
        queued = self._producer.produce_batch(
            topic, messages, partition, on_delivery=self._on_failure
        )
        if queued == len(messages):
            return []
        refused = [each for each in messages if "_error" in each]
        for each in refused:
            error = each.pop("_error")
            if error.name() != "_QUEUE_FULL":
                self._failure = error
        return refused

    def _wait(self, seconds: float) -> None:
        started = time.monotonic()
        self._producer.poll(seconds)
        self._check()
        if time.monotonic() - started >= seconds:
            self._while_waiting()

    def _on_failure(self, error: KafkaError | None, message: Message) -> None:
        self._failure = error or self._failure

    def _check(self) -> None:
        if self._failure is not None:
            raise UserError(f"Kafka refused a record: {self._failure}. Nothing after it was sent.")


def _by_partition(batch: Batch) -> dict[int, Batch]:
    """Group messages by partition, because `produce_batch` ignores a message's own partition."""
    found: dict[int, Batch] = {}
    for each in batch:
        found.setdefault(each.get("partition", _BY_KEY), []).append(each)
    return found
