"""Compute incidents from live events: the last part of the job in jobs/detect.py.

It reads the job's own events as they arrive, `events.inventory`, and from `events.incident` what it
wrote after its last checkpoint, before a crash. The incidents of a replay are computed from all
events around its time, outside Flink (stunwatch/incidents_of_history.py).
"""

from __future__ import annotations

import time

from pyflink.common import Types
from pyflink.datastream import DataStream
from pyflink.java_gateway import get_gateway
from pyflink.table import StreamTableEnvironment
from pyflink.util.java_utils import get_j_env_configuration

from stunwatch.detectors.catalogue import INCIDENTS_TOPIC
from stunwatch.incidents.correlator import INVENTORY_TOPIC, SEEN_TOPIC
from stunwatch.incidents.signals import TOPICS
from stunwatch.jobs.options import filled, in_sql, kafka_options

FED_TYPE = Types.ROW([Types.STRING(), Types.STRING(), Types.STRING()])
"""Topic, the event as JSON, and when Kafka's message was written; null for events of the job."""


def correlate(tables: StreamTableEnvironment, bootstrap: str, scan: dict[str, str]) -> DataStream:
    """Return the incidents of the view `tracked`, as rows of `events`."""
    given = {
        "kafka_options": in_sql(kafka_options(bootstrap)),
        "topics": f"{INVENTORY_TOPIC};{INCIDENTS_TOPIC}",
        "scan_options": in_sql(scan),
    }
    for statement in filled("correlate.sql", given):
        tables.execute_sql(statement)
    topics = ", ".join(f"'{each}'" for each in (*TOPICS, SEEN_TOPIC))
    fed = tables.sql_query(
        f"""
        SELECT `topic`, `event`, CAST(NULL AS STRING) AS `written_at` FROM tracked
        WHERE `topic` IN ({topics})
        UNION ALL
        SELECT * FROM inventory_and_incidents
        """
    )
    return incidents(tables.to_append_stream(fed, FED_TYPE))


def incidents(fed: DataStream) -> DataStream:
    """Return the incidents of rows of FED_TYPE."""
    environment = fed._j_data_stream.getExecutionEnvironment()
    configuration = get_j_env_configuration(environment)
    correlating = get_gateway().jvm.io.github.stunwatch.Correlating
    now_us = time.time_ns() // 1000
    return DataStream(correlating.of(fed._j_data_stream, configuration, now_us))
