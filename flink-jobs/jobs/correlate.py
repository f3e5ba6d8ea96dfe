"""Compute incidents from live events: the last part of the job in jobs/detect.py.

It reads the job's own events as they arrive, `events.inventory`, and from `events.incident` what it
wrote after its last checkpoint, before a crash. The incidents of a replay are computed from all
events around its time, outside Flink (stunwatch/incidents_of_history.py).
"""

from __future__ import annotations

import time

from pyflink.datastream import DataStream
from pyflink.table import StreamTableEnvironment

from stunwatch.detectors.catalogue import INCIDENTS_TOPIC
from stunwatch.engine.correlating import (
    EVENT_TYPE,
    FED_TYPE,
    FLEET,
    FLEET_TYPE,
    CorrelateLive,
    keyed_in_the_jvm,
)
from stunwatch.engine.owners import LIVE
from stunwatch.incidents.correlator import INVENTORY_TOPIC, SEEN_TOPIC
from stunwatch.incidents.signals import TOPICS
from stunwatch.jobs.options import filled, in_sql, kafka_options


def correlate(tables: StreamTableEnvironment, bootstrap: str, scan: dict[str, str]) -> DataStream:
    """Return the incidents of the view `tracked`, as rows of `events`."""
    given = {
        "kafka_options": in_sql(kafka_options(bootstrap)),
        "topics": f"{INVENTORY_TOPIC};{INCIDENTS_TOPIC}",
        "scan_options": in_sql(scan),
    }
    for statement in filled("correlate.sql", given):
        tables.execute_sql(statement)
    topics = ", ".join(f"'{each}'" for each in TOPICS)
    fed = tables.sql_query(
        f"""
        SELECT '{FLEET}', ROW(`topic`, `event`, `written_at`)
        FROM (
            SELECT `topic`, `event`, CAST(NULL AS STRING) AS `written_at` FROM tracked
            WHERE
                `topic` = '{SEEN_TOPIC}'
                OR (`topic` IN ({topics}) AND JSON_VALUE(`event`, '$.run_id') = '{LIVE}')
            UNION ALL
            SELECT * FROM inventory_and_incidents
        )
        """
    )
    return incidents(tables.to_append_stream(fed, FLEET_TYPE))


def incidents(fed: DataStream) -> DataStream:
    """Return the incidents of rows of FLEET_TYPE."""
    keyed = keyed_in_the_jvm(fed, FED_TYPE)
    operator = CorrelateLive(submitted_us=time.time_ns() // 1000)
    return keyed.process(operator, EVENT_TYPE).uid("correlate").set_parallelism(1)
