"""A plain Python consumer with the same trackers, to compare Flink with: reads a topic to its end.

It prints its CPU-seconds. Its state is written to a file every ten seconds, as Flink does.
"""

from __future__ import annotations

import pickle
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import orjson
from ahocorasick_rs import AhoCorasick
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from stunwatch.access import ADMIN, kafka_access
from stunwatch.detectors.catalogue import literals
from stunwatch.engine.owner import FACTS, Owner, Written, epoch_microseconds
from stunwatch.kafka import Kafka
from stunwatch.settings import load_settings

AT_ONCE = 5_000
WRITTEN_EVERY_S = 10.0
MOST_UNSENT = 50_000


class Trackers:
    """The trackers of all log keys, and the producer of their events."""

    def __init__(self, access: dict[str, Any]) -> None:
        self._owners: dict[str, Owner] = {}
        self._changed: set[str] = set()
        self._producer = Producer({**access, "linger.ms": 20})

    def feed(self, owner: str, record: dict[str, Any]) -> None:
        """Pass a record to the trackers of its log key and send what follows."""
        record["event_time_us"] = epoch_microseconds(record["event_time"])
        for written in self._owners.setdefault(owner, Owner()).feed(record, []):
            self._send(owner, written)
        self._changed.add(owner)

    def _send(self, owner: str, written: Written) -> None:
        topic, event = written
        if topic == FACTS:
            self.feed(event["owner"], event)
            return
        self._producer.produce(topic, orjson.dumps(event), owner.encode())
        self._producer.poll(0 if len(self._producer) < MOST_UNSENT else 1)

    def write(self, folder: Path) -> None:
        """Write the state that has changed."""
        changed = {name: self._owners[name] for name in self._changed}
        (folder / "state").write_bytes(pickle.dumps(changed, pickle.HIGHEST_PROTOCOL))
        self._changed.clear()

    def flush(self) -> None:
        """Wait until all events are in Kafka."""
        self._producer.flush()


def main(topic: str) -> None:
    """Read the topic and print the CPU-seconds that it took."""
    settings = load_settings()
    access = kafka_access(settings, ADMIN)
    ends = {partition: end for (_, partition), end in Kafka(access).ends([topic]).items()}
    consumer = Consumer({**access, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in ends])
    sought, trackers = AhoCorasick(list(literals())), Trackers(access)
    left = sum(ends.values())
    written_at = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        while left:
            for message in consumer.consume(AT_ONCE, timeout=10):
                left -= 1
                record = orjson.loads(message.value())
                if sought.find_matches_as_indexes(record["message"]):
                    record["kafka_offset"] = message.offset()
                    trackers.feed(message.key().decode(), record)
            if time.monotonic() - written_at > WRITTEN_EVERY_S:
                trackers.write(Path(folder))
                written_at = time.monotonic()
        trackers.write(Path(folder))
        trackers.flush()
    consumer.close()
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(used.ru_utime + used.ru_stime)


if __name__ == "__main__":
    main(sys.argv[1])
