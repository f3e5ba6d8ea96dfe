"""Who reads what, and how far it has been read: one compacted topic, shared by all collectors.

A message's key names a thing that is followed (`lab/san-01/app01`), its value is how far. Things
are kept by shares (`lab/san-01`: all VMs of a datastore), and a share's name says which partition
it is in. The collectors of one kind are a consumer group on the topic: who is assigned a partition
has its shares, and reads in it, from its beginning, how far the one before had come. Kafka does the
rest: it notices who is gone, deals anew, and forgets what was overtaken.

Whoever writes a position has had the records before it acknowledged: after a crash lines come
twice, and none is missing.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)

TOPIC: Final = "collect.positions"

ABSENCE_S: Final = 6
"""A collector that says nothing for so long is gone, and its shares are dealt to the others."""


class Positions:
    """This collector's shares, and the positions in them. For one thread, which calls `poll`."""

    def __init__(self, access: Mapping[str, Any], kind: str) -> None:
        """`access` is how Kafka is reached, in librdkafka's settings; `kind` names those who share
        the work, and what the keys begin with.

        Raises KafkaException where Kafka does not answer.
        """
        self.before_loss: Callable[[], None] = lambda: None
        """Called before shares go to another collector: the last chance to write positions."""
        self._prefix = f"{kind}:"
        self._mine: set[int] = set()
        """Partitions that have been read to their end."""
        self._values: dict[int, dict[str, bytes]] = {}
        self._consumer = Consumer(
            {
                **access,
                "group.id": f"collect-{kind}",
                "partition.assignment.strategy": "cooperative-sticky",
                "session.timeout.ms": ABSENCE_S * 1000,
                "heartbeat.interval.ms": ABSENCE_S * 1000 // 3,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "reconnect.backoff.max.ms": 1000,
                "log_level": 0,
            }
        )
        topic = self._consumer.list_topics(TOPIC, timeout=30).topics[TOPIC]
        if topic.error is not None:
            raise KafkaException(topic.error)
        self._partitions = len(topic.partitions)
        self._consumer.subscribe(
            [TOPIC], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )

    def poll(self, seconds: float) -> dict[str, bytes]:
        """Take part in the group, and return what has been written to its shares since.

        That may be this collector's own. Raises KafkaException for what does not pass.
        """
        written: dict[str, bytes] = {}
        for message in self._consumer.consume(1000, seconds):
            partition = message.partition()
            if (error := message.error()) is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    self._mine.add(partition)
                elif error.fatal():
                    raise KafkaException(error)
                continue
            key = message.key().decode()
            if partition not in self._values or not key.startswith(self._prefix):
                continue
            name = key.removeprefix(self._prefix)
            if value := message.value():
                self._values[partition][name] = written[name] = value
            else:
                self._values[partition].pop(name, None)
        return written

    @property
    def shares(self) -> frozenset[int]:
        """The numbers of the shares that are this collector's now: they change as others come."""
        return frozenset(self._mine)

    @property
    def is_settled(self) -> bool:
        """Whether it has shares, and has read all positions in them."""
        return bool(self._mine) and self._mine == self._values.keys()

    def share_of(self, name: str) -> int:
        """The number of a share, by its name."""
        return zlib.crc32(name.encode()) % self._partitions

    def is_mine(self, name: str) -> bool:
        """Whether a share is this collector's."""
        return self.share_of(name) in self._mine

    def get(self, share: str, key: str) -> bytes | None:
        """The position of a thing, in a share that is this collector's."""
        return self._values.get(self.share_of(share), {}).get(key)

    def all(self) -> dict[str, bytes]:
        """Every position in this collector's shares."""
        return {
            key: value for partition in self._mine for key, value in self._values[partition].items()
        }

    def message(self, share: str, key: str, value: bytes | None) -> dict[str, Any]:
        """A position for `Shipper.send`; None takes it away."""
        return {
            "key": (self._prefix + key).encode(),
            "value": value,
            "partition": self.share_of(share),
        }

    def close(self) -> None:
        """Leave the group: the others take over at once."""
        self._consumer.close()

    def _assigned(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            each.offset = OFFSET_BEGINNING
            self._values[each.partition] = {}
        consumer.incremental_assign(partitions)

    def _revoked(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        self.before_loss()
        self._lost(consumer, partitions)

    def _lost(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            self._mine.discard(each.partition)
            self._values.pop(each.partition, None)
        consumer.incremental_unassign(partitions)
