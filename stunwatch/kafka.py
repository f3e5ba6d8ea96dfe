"""Reads topic offsets and the offsets of consumer groups from Kafka."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from stunwatch.access import Access
from stunwatch.errors import UserError

if TYPE_CHECKING:  # part of an extra: `--help` works without it
    from confluent_kafka import Consumer, TopicPartition
    from confluent_kafka.admin import OffsetSpec

Offsets = dict[tuple[str, int], int]
"""Offsets by (topic, partition)."""


TIMEOUT_S = 5.0
"""How long one request may take before it is sent again."""

T = TypeVar("T")


class Kafka:
    """Read-only queries to the broker, with a principal's settings (stunwatch/access.py).

    If the broker does not answer, the methods retry, because it may be restarting. Every method
    raises UserError after `patience_seconds`.
    """

    def __init__(self, access: Access, patience_seconds: float = 180) -> None:
        from confluent_kafka.admin import AdminClient  # noqa: PLC0415 (in an extra)

        self._bootstrap = access["bootstrap.servers"]
        self._patience_seconds = patience_seconds
        self._settings = access | {"log_level": 0, "reconnect.backoff.max.ms": 1000}
        self._admin = AdminClient(self._settings)
        self._members: dict[str, Consumer] = {}

    def partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        """Return all partitions of these topics."""
        return self._patiently(lambda: self._partitions(topics))

    def ends(self, topics: Iterable[str]) -> Offsets:
        """Return, per partition, the offset after its last message."""
        from confluent_kafka.admin import OffsetSpec  # noqa: PLC0415 (in an extra)

        return self._offsets(topics, OffsetSpec.latest())

    def starts(self, topics: Iterable[str]) -> Offsets:
        """Return, per partition, the offset of the oldest message that is still stored."""
        from confluent_kafka.admin import OffsetSpec  # noqa: PLC0415 (in an extra)

        return self._offsets(topics, OffsetSpec.earliest())

    def _partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        from confluent_kafka import TopicPartition  # noqa: PLC0415 (in an extra)

        found = self._admin.list_topics(timeout=TIMEOUT_S).topics
        return [
            TopicPartition(topic, partition)
            for topic in topics
            for partition in found[topic].partitions
        ]

    def _offsets(self, topics: Iterable[str], which: OffsetSpec) -> Offsets:
        topics = list(topics)

        def ask() -> Offsets:
            # List the topics at every attempt. A broker that shuts down answers that its partitions
            # have no leader. librdkafka keeps that answer until it lists topics again, and does not
            # ask for the partitions' offsets.
            wanted = dict.fromkeys(self._partitions(topics), which)
            found = self._admin.list_offsets(wanted, request_timeout=TIMEOUT_S)
            return {
                (each.topic, each.partition): future.result().offset
                for each, future in found.items()
            }

        return self._patiently(ask)

    def committed(self, group: str, places: Iterable[tuple[str, int]] | None = None) -> Offsets:
        """Return a consumer group's committed offsets; partitions without a commit are absent.

        `places` are the partitions to look at, as (topic, partition): all of the broker by default.
        """
        from confluent_kafka import TopicPartition  # noqa: PLC0415 (in an extra)

        if places is None:
            topics = self._patiently(lambda: self._admin.list_topics(timeout=TIMEOUT_S).topics)
            wanted = self.partitions(topics)
        else:
            wanted = [TopicPartition(*place) for place in places]
        member = self._member(group)

        def ask() -> Offsets:
            found = member.committed(wanted, timeout=TIMEOUT_S)
            return {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}

        return self._patiently(ask)

    def _member(self, group: str) -> Consumer:
        """Return a consumer with the group's name, which never joins the group.

        AdminClient.list_consumer_group_offsets is not used: if the broker restarts while it waits
        for the group's coordinator, librdkafka 2.16 can end the process (an assertion in
        rd_kafka_enq_once_del_source_return, which only requests to a coordinator reach).
        """
        from confluent_kafka import Consumer  # noqa: PLC0415 (in an extra)

        if group not in self._members:
            settings = self._settings | {"group.id": group, "enable.auto.commit": False}
            self._members[group] = Consumer(settings)
        return self._members[group]

    def groups(self) -> list[str]:
        """Return all consumer groups."""

        def ask() -> list[str]:
            found = self._admin.list_consumer_groups(request_timeout=TIMEOUT_S).result()
            return [each.group_id for each in found.valid]

        return self._patiently(ask)

    def _patiently(self, ask: Callable[[], T]) -> T:
        from confluent_kafka import KafkaException  # noqa: PLC0415 (in an extra)

        deadline = time.monotonic() + self._patience_seconds
        while True:
            try:
                return ask()
            except KafkaException as error:
                if time.monotonic() > deadline:
                    raise UserError(
                        f"Cannot reach Kafka on {self._bootstrap}: {error.args[0].str()}."
                        " `stunwatch status` shows what runs; `stunwatch up` starts it."
                    ) from error
            time.sleep(0.5)
