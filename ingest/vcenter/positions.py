"""Read positions and the division of work between collectors, in one compacted Kafka topic.

A message's key names a source that is read (`lab/san-01/app01`); its value is how far it has been
read. Sources are grouped in shares (`lab/san-01`: all VMs of a datastore), and a share's name
determines its partition. The collectors of one kind form a consumer group on the topic. A collector
owns the shares in its assigned partitions and reads each partition from the beginning to learn the
positions. Kafka detects failed collectors, reassigns their partitions, and compacts old positions.

A position is written only after Kafka has acknowledged the records before it. So after a crash,
lines may be sent twice, but none is missing.
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
"""Session timeout: after this time without a heartbeat, a collector's shares are reassigned."""


class Positions:
    """This collector's shares and their positions. Use it from the one thread that calls `poll`."""

    def __init__(self, access: Mapping[str, Any], kind: str) -> None:
        """Join the group.

        `access` contains librdkafka settings for the connection. `kind` identifies the group of
        collectors that share the work; it is also the prefix of the keys.

        Raises KafkaException if Kafka does not answer.
        """
        self.before_loss: Callable[[], None] = lambda: None
        """Called before shares are revoked: the last chance to write positions."""
        self._prefix = f"{kind}:"
        self._mine: set[int] = set()
        """Assigned partitions that have been read to their end."""
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
        """Take part in the group, and return new positions in this collector's shares.

        They include positions that this collector wrote. Raises KafkaException for fatal errors.
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
        """Return the numbers of this collector's shares. They change when collectors join."""
        return frozenset(self._mine)

    @property
    def is_settled(self) -> bool:
        """Return True if this collector has shares and has read all positions in them."""
        return bool(self._mine) and self._mine == self._values.keys()

    @property
    def is_whole(self) -> bool:
        """Return True if this collector has all shares, and so has read every position."""
        return len(self._mine) == self._partitions

    def share_of(self, name: str) -> int:
        """Return the number of a share, by its name."""
        return zlib.crc32(name.encode()) % self._partitions

    def is_mine(self, name: str) -> bool:
        """Return True if this collector has the share."""
        return self.share_of(name) in self._mine

    def get(self, share: str, key: str) -> bytes | None:
        """Return the position of a source in one of this collector's shares."""
        return self._values.get(self.share_of(share), {}).get(key)

    def all(self) -> dict[str, bytes]:
        """Return every position in this collector's shares."""
        return {
            key: value for partition in self._mine for key, value in self._values[partition].items()
        }

    def message(self, share: str, key: str, value: bytes | None) -> dict[str, Any]:
        """Return a position as a message for `Shipper.send`; None deletes the position."""
        return {
            "key": (self._prefix + key).encode(),
            "value": value,
            "partition": self.share_of(share),
        }

    def close(self) -> None:
        """Leave the group, so that the other collectors take over at once."""
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
