"""What the command line asks of Kafka: how far topics go, how far readers have come."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

Offsets = dict[tuple[str, int], int]
"""(topic, partition) to an offset."""


class Kafka:
    """Questions to the broker at `bootstrap` (host:port)."""

    def __init__(self, bootstrap: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        """All partitions of these topics."""
        found = self._admin.list_topics(timeout=30).topics
        return [
            TopicPartition(topic, partition)
            for topic in topics
            for partition in found[topic].partitions
        ]

    def ends(self, topics: Iterable[str]) -> Offsets:
        """Of every partition, the offset after its last message."""
        wanted = {each: OffsetSpec.latest() for each in self.partitions(topics)}
        found = self._admin.list_offsets(wanted, request_timeout=30)
        return {
            (each.topic, each.partition): future.result().offset for each, future in found.items()
        }

    def committed(self, group: str) -> Offsets:
        """How far a consumer group has come; partitions it never read are absent."""
        asked = self._admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group)], request_timeout=30
        )
        found = asked[group].result().topic_partitions
        return {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}
