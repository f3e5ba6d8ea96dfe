"""Compute incidents from events: the last part of the job in jobs/detect.py.

Live mode reads the job's own events as they arrive, and `events.inventory`. History mode reads all
events around the time of its replay, from all sources, because an incident may involve the whole
fleet.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from string import Template

from pyflink.common import WatermarkStrategy
from pyflink.datastream import DataStream
from pyflink.table import StreamTableEnvironment

from stunwatch.detectors.catalogue import INCIDENTS_TOPIC
from stunwatch.detectors.events import timestamp
from stunwatch.engine.correlating import (
    FLEET,
    FLEET_TYPE,
    CorrelateHistory,
    CorrelateLive,
    KnownTime,
)
from stunwatch.engine.history import FED_TOPICS
from stunwatch.engine.tracking import EVENT_TYPE, keyed_in_the_jvm
from stunwatch.incidents.configuration import HOUR_US, KEEP_US, RUNNING_US
from stunwatch.incidents.correlator import INVENTORY_TOPIC, SEEN_TOPIC
from stunwatch.incidents.signals import TOPICS
from stunwatch.jobs.options import in_sql, kafka_options

USUAL_HOURS_US = 28 * 24 * HOUR_US
"""Stuns of the last four weeks form the seasonal baseline."""


@dataclass(frozen=True)
class About:
    """A replay: its ID, and its first and last event time, µs since 1970."""

    run_id: str
    first_us: int
    last_us: int


def correlate_live(
    tables: StreamTableEnvironment, bootstrap: str, inventory_scan: dict[str, str]
) -> DataStream:
    """Return the incidents of the view `tracked`, as rows of `events`."""
    tables.execute_sql(_shipped_events(bootstrap, (INVENTORY_TOPIC,), inventory_scan))
    fed = tables.sql_query(
        f"""
        SELECT '{FLEET}', ROW(`topic`, `owner`, `event`)
        FROM (
            SELECT `topic`, `owner`, `event` FROM tracked
            WHERE `topic` IN ({_listed((*TOPICS, SEEN_TOPIC))})
            UNION ALL
            SELECT `topic`, `owner`, `event` FROM shipped_events
        )
        """
    )
    return live_incidents(tables.to_append_stream(fed, FLEET_TYPE))


def live_incidents(fed: DataStream) -> DataStream:
    """Return the incidents of rows of FLEET_TYPE."""
    return keyed_in_the_jvm(fed, EVENT_TYPE).process(CorrelateLive(), EVENT_TYPE).set_parallelism(1)


def correlate_history(tables: StreamTableEnvironment, bootstrap: str, about: About) -> DataStream:
    """Return the incidents of the view `tracked` and of all events around it."""
    # The topics may already contain this replay's events when the job starts. Duplicates change
    # nothing.
    scan = {"scan.startup.mode": "earliest-offset", "scan.bounded.mode": "latest-offset"}
    tables.execute_sql(
        _shipped_events(bootstrap, (*TOPICS, INVENTORY_TOPIC, INCIDENTS_TOPIC), scan)
    )
    stuns_since, since, until = (
        timestamp(max(0, each))
        for each in (
            about.first_us - USUAL_HOURS_US,
            about.first_us - RUNNING_US,
            about.last_us + KEEP_US,
        )
    )
    fed = tables.sql_query(
        f"""
        SELECT `topic`, `owner`, `event` FROM tracked
        WHERE `topic` IN ({_listed(FED_TOPICS)})
        UNION ALL
        SELECT `topic`, `owner`, `event` FROM (
            SELECT
                *,
                COALESCE(
                    JSON_VALUE(`event`, '$.started_at'), JSON_VALUE(`event`, '$.opened_at')
                ) AS `started_at`
            FROM shipped_events
        )
        WHERE
            `topic` = '{INVENTORY_TOPIC}'
            OR (
                `started_at` <= '{until}'
                AND `started_at` >= CASE `topic`
                    WHEN 'events.stun' THEN '{stuns_since}' ELSE '{since}'
                END
            )
        """
    )
    return history_incidents(tables.to_data_stream(fed), about)


def history_incidents(fed: DataStream, about: About) -> DataStream:
    """Return the incidents of rows of EVENT_TYPE."""
    by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(KnownTime())
    return (
        fed.assign_timestamps_and_watermarks(by_time)
        .key_by(lambda row: FLEET)
        .process(CorrelateHistory(about.run_id, about.first_us, about.last_us), EVENT_TYPE)
        .set_parallelism(1)
    )


def _shipped_events(bootstrap: str, topics: tuple[str, ...], scan: dict[str, str]) -> str:
    text = Path(__file__).with_name("correlate.sql").read_text()
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
    filled = Template(code).substitute(
        kafka_options=in_sql(kafka_options(bootstrap)),
        topics=";".join(topics),
        scan_options=in_sql(scan),
    )
    return filled.strip().removesuffix(";")


def _listed(topics: tuple[str, ...]) -> str:
    return ", ".join(f"'{each}'" for each in topics)
