"""What the command line asks of Kafka: how far topics go, how far readers have come."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TypeVar

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from stunwatch.access import Access
from stunwatch.errors import UserError

Offsets = dict[tuple[str, int], int]
"""(topic, partition) to an offset."""


T = TypeVar("T")


class Kafka:
    """Questions to the broker, by a principal's access (stunwatch/access.py).

    A broker that is away is waited for: it may just be starting again. Every method raises
    UserError when `patience_seconds` are over.
    """

    def __init__(self, access: Access, patience_seconds: float = 180) -> None:
        self._bootstrap = access["bootstrap.servers"]
        self._patience_seconds = patience_seconds
        self._admin = AdminClient(access | {"log_level": 0, "reconnect.backoff.max.ms": 1000})

    def partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        """All partitions of these topics."""
        found = self._patiently(lambda: self._admin.list_topics(timeout=5).topics)
        return [
            TopicPartition(topic, partition)
            for topic in topics
            for partition in found[topic].partitions
        ]

    def ends(self, topics: Iterable[str]) -> Offsets:
        """Of every partition, the offset after its last message."""
        return self._offsets(topics, OffsetSpec.latest())

    def starts(self, topics: Iterable[str]) -> Offsets:
        """Of every partition, the offset of the oldest message that it still holds."""
        return self._offsets(topics, OffsetSpec.earliest())

    def _offsets(self, topics: Iterable[str], which: OffsetSpec) -> Offsets:
        wanted = dict.fromkeys(self.partitions(topics), which)

        def ask() -> Offsets:
            found = self._admin.list_offsets(wanted, request_timeout=5)
            return {
                (each.topic, each.partition): future.result().offset
                for each, future in found.items()
            }

        return self._patiently(ask)

    def committed(self, group: str) -> Offsets:
        """How far a consumer group has come; partitions it never read are absent."""

        def ask() -> Offsets:
            asked = self._admin.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group)], request_timeout=5
            )
            found = asked[group].result().topic_partitions
            return {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}

        return self._patiently(ask)

    def groups(self) -> list[str]:
        """All consumer groups."""

        def ask() -> list[str]:
            found = self._admin.list_consumer_groups(request_timeout=5).result()
            return [each.group_id for each in found.valid]

        return self._patiently(ask)

    def _patiently(self, ask: Callable[[], T]) -> T:
        deadline = time.monotonic() + self._patience_seconds
        while True:
            try:
                return ask()
            except KafkaException as error:
                if time.monotonic() > deadline:
                    raise UserError(
                        f"Kafka does not answer on {self._bootstrap} ({error.args[0].str()});"
                        " `stunwatch status` tells what runs."
                    ) from error
            time.sleep(0.5)
