"""Compute incidents from live events: the last part of the job in jobs/detect.py.

It reads the job's own events as they arrive, and `events.inventory`. The incidents of a replay are
computed from all events around its time, outside Flink (stunwatch/incidents_of_history.py).
"""

from __future__ import annotations

from pathlib import Path
from string import Template

from pyflink.datastream import DataStream
from pyflink.table import StreamTableEnvironment

from stunwatch.engine.correlating import (
    EVENT_TYPE,
    FLEET,
    FLEET_TYPE,
    CorrelateLive,
    keyed_in_the_jvm,
)
from stunwatch.engine.owners import LIVE
from stunwatch.incidents.correlator import INVENTORY_TOPIC, SEEN_TOPIC
from stunwatch.incidents.signals import TOPICS
from stunwatch.jobs.options import in_sql, kafka_options


def correlate(
    tables: StreamTableEnvironment, bootstrap: str, inventory_scan: dict[str, str]
) -> DataStream:
    """Return the incidents of the view `tracked`, as rows of `events`."""
    text = Path(__file__).with_name("correlate.sql").read_text()
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
    filled = Template(code).substitute(
        kafka_options=in_sql(kafka_options(bootstrap)),
        topic=INVENTORY_TOPIC,
        scan_options=in_sql(inventory_scan),
    )
    tables.execute_sql(filled.strip().removesuffix(";"))
    topics = ", ".join(f"'{each}'" for each in TOPICS)
    fed = tables.sql_query(
        f"""
        SELECT '{FLEET}', ROW(`topic`, `owner`, `event`)
        FROM (
            SELECT `topic`, `owner`, `event` FROM tracked
            WHERE
                `topic` = '{SEEN_TOPIC}'
                OR (`topic` IN ({topics}) AND JSON_VALUE(`event`, '$.run_id') = '{LIVE}')
            UNION ALL
            SELECT `topic`, `owner`, `event` FROM inventory
        )
        """
    )
    return incidents(tables.to_append_stream(fed, FLEET_TYPE))


def incidents(fed: DataStream) -> DataStream:
    """Return the incidents of rows of FLEET_TYPE."""
    keyed = keyed_in_the_jvm(fed, EVENT_TYPE)
    return keyed.process(CorrelateLive(), EVENT_TYPE).uid("correlate").set_parallelism(1)
