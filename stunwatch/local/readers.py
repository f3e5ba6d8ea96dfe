"""ClickHouse's consumer groups: their topics, and where they continue to read."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from stunwatch import schema
from stunwatch.access import kafka_access
from stunwatch.errors import UserError
from stunwatch.kafka import Kafka, Offsets
from stunwatch.local import clickhouse, kafka
from stunwatch.settings import Settings

LEAVING_SECONDS = 180.0
"""Time for a dropped consumer to leave its group. Kafka removes one that was killed, or dropped
while it joined, after one or two sessions.
"""


def readers() -> dict[str, list[str]]:
    """Return ClickHouse's consumer groups (sql/queues/), each with its topics."""
    found = {}
    for file in schema.sql_files():
        if file.stage == "queues":
            text = " ".join(file.statements)
            [group] = re.findall(r"kafka_group_name = '([^']+)'", text)
            [topics] = re.findall(r"kafka_topic_list = '([^']+)'", text)
            found[group] = topics.split(",")
    return found


def read_all_into_new_tables(settings: Settings) -> None:
    """If ClickHouse has no tables yet, let its consumers begin with the oldest messages in Kafka.

    Kafka keeps their offsets when ClickHouse's data is deleted or lost. Without this, rows from
    before these offsets would be missing for ever. In a cluster nothing happens: a new server is
    empty while the others read. Raises UserError.
    """
    if settings.clickhouse_cluster or not schema.is_new(clickhouse.administrator(settings)):
        return
    admin = kafka.administrator(settings)
    broker = Kafka(kafka_access(settings, "metrics"))
    for group, topics in readers().items():
        # On the first start no topic has messages; asking for a group would then take a second.
        if any(broker.ends(topics).values()):
            set_offsets(admin, group, broker.starts(topics), lambda _: None)


def set_offsets(admin: Any, group: str, offsets: Offsets, tell: Callable[[str], None]) -> None:
    """Set a group's offsets; retry until its consumers have left the group. Raises UserError."""
    from confluent_kafka import (  # noqa: PLC0415 (slow to import)
        ConsumerGroupTopicPartitions,
        KafkaException,
        TopicPartition,
    )

    places = [TopicPartition(*place, offset) for place, offset in offsets.items()]
    deadline = time.monotonic() + LEAVING_SECONDS
    while True:
        asked = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, places)])
        try:
            for each in asked[group].result().topic_partitions:
                if each.error:
                    raise KafkaException(each.error)
            return
        except KafkaException as error:
            if time.monotonic() > deadline:
                raise UserError(
                    f"Kafka cannot reset the offsets of {group}: {error.args[0].str()}. Run the"
                    " command again."
                ) from error
        tell(f"waiting until Kafka removes the stopped consumers of {group}")
        time.sleep(0.5)
