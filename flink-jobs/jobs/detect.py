"""Records become events, and live events incidents.

One streaming job reads the lines and samples that hosts send now, the run `live`, and those of
replays, which have a run each. It never ends.

Example:
    python -m jobs.detect --cluster 127.0.0.1:18081 --bootstrap 127.0.0.1:19092
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from pyflink.common import Configuration, Types
from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.java_gateway import get_gateway
from pyflink.table import EnvironmentSettings, StreamTableEnvironment, TableResult
from pyflink.util.java_utils import get_j_env_configuration

from stunwatch.detectors.catalogue import (
    INCIDENTS_TOPIC,
    LONGEST_SEARCHED,
    WINDOWS_TOPIC,
    detector,
    detector_topics,
    literals,
)
from stunwatch.detectors.host_events import OWNER_PATTERN
from stunwatch.engine.failures import REJECTED_TOPIC
from stunwatch.engine.owners import BUCKET
from stunwatch.jobs.correlate import correlate
from stunwatch.jobs.options import FEW_AT_ONCE, filled, in_sql, kafka_options, quoted

JOB = "stunwatch-detect-live"
"""The job's name, by which the job supervisor finds it, and its consumer group in Kafka."""

LINE_TOPICS = ("esxi.syslog", "esxi.vmware_log", "esxi.backfill")
SAMPLE_TOPICS = ("esxi.esxtop", "esxi.vcenter")
"""Topics of samples, live and of replays. The origin of a topic's samples is in its name."""

KEYED_TYPE = Types.ROW([Types.STRING(), Types.STRING(), Types.LONG(), Types.STRING()])
"""The bucket of the log key, and the log key, offset and record of `candidates`. Python receives
the record as one string faster than a column for each field."""

_TEXTS = Types.OBJECT_ARRAY(Types.STRING())
_NUMBERS = Types.OBJECT_ARRAY(Types.DOUBLE())
SAMPLE_TYPE = Types.ROW([*[Types.STRING()] * 6, _TEXTS, *[_NUMBERS] * 4, Types.STRING()])
"""A row of the views `…_measured` in samples.sql."""

LATE_TOPIC = "esxi.late"
"""Samples that arrived too late for their window."""


def scan_options() -> dict[str, str]:
    """Return the scan options of a job that starts without a checkpoint: from the beginning."""
    return {
        "scan.startup.mode": "earliest-offset",
        "properties.group.id": JOB,
        # Kafka answers at once if there are records. The default of 500 ms only costs CPU if not.
        "properties.fetch.max.wait.ms": "2000",
        **FEW_AT_ONCE,
    }


def create_tables(
    tables: StreamTableEnvironment,
    bootstrap: str,
    topics: tuple[str, ...],
    scan: dict[str, str],
    samples_scan: dict[str, str],
    sought: tuple[str, ...] | None = None,
) -> None:
    """Create the tables and views of functions.sql, samples.sql, windows.sql and detect.sql.

    If `sought` is None, the prefilter passes lines with the detectors' literals.
    """
    for statement in (*filled("functions.sql", {}), *sample_statements(bootstrap, samples_scan)):
        tables.execute_sql(statement)
    measured = tables.sql_query(
        " UNION ALL ".join(f"SELECT * FROM {_origin(topic)}_measured" for topic in SAMPLE_TOPICS)
    )
    tables.create_temporary_view("sampled", windows(tables.to_append_stream(measured, SAMPLE_TYPE)))
    for statement in (*filled("windows.sql", {}), *statements(bootstrap, topics, scan, sought)):
        tables.execute_sql(statement)


def sample_statements(bootstrap: str, scan: dict[str, str]) -> list[str]:
    """Return the statements of samples.sql for every topic of samples."""
    return [
        statement
        for topic in SAMPLE_TOPICS
        for statement in filled(
            "samples.sql",
            {
                "kafka_options": in_sql(kafka_options(bootstrap)),
                "origin": _origin(topic),
                "samples_topic": topic,
                "samples_scan_options": in_sql(scan),
            },
        )
    ]


def statements(
    bootstrap: str,
    topics: tuple[str, ...],
    scan: dict[str, str],
    sought: tuple[str, ...] | None = None,
) -> list[str]:
    """Return the statements of detect.sql."""
    given: dict[str, Any] = {
        "kafka_options": in_sql(kafka_options(bootstrap)),
        "topics": ";".join(topics),
        "written_topics": ";".join(written_topics()),
        "scan_options": in_sql(scan),
        "literals": quoted("\n".join(literals() if sought is None else sought)),
        "longest_searched": LONGEST_SEARCHED,
        "copy_owner": quoted(OWNER_PATTERN),
    }
    return filled("detect.sql", given)


def windows(samples: DataStream, most_kept: int = 0) -> DataStream:
    """Aggregate rows of SAMPLE_TYPE in the JVM; windows.sql names the result.

    `most_kept` limits the objects whose windows a JVM keeps; 0: as many as its heap allows.
    """
    jvm = get_gateway().jvm
    limits = jvm.java.util.HashMap()
    for name, limit in detector("latency").thresholds.items():
        limits.put(name, float(limit))
    return DataStream(
        jvm.io.github.stunwatch.SampleWindows.of(samples._j_data_stream, limits, most_kept)
    )


def _origin(topic: str) -> str:
    return topic.removeprefix("esxi.")


def track(candidates: DataStream) -> DataStream:
    """Convert rows of KEYED_TYPE to rows of `events`."""
    environment = candidates._j_data_stream.getExecutionEnvironment()
    tracking = get_gateway().jvm.io.github.stunwatch.Tracking
    return DataStream(tracking.of(candidates._j_data_stream, get_j_env_configuration(environment)))


def detect(tables: StreamTableEnvironment, bootstrap: str, scan: dict[str, str]) -> TableResult:
    """Start the job on the tables of `statements`."""
    keyed = tables.sql_query(
        f"SELECT {BUCKET}, `owner`, `kafka_offset`, `record` FROM candidates"
        " WHERE `owner` IS NOT NULL"
    )
    tables.create_temporary_view("tracked", track(tables.to_append_stream(keyed, KEYED_TYPE)))
    tables.create_temporary_view("correlated", correlate(tables, bootstrap, scan))
    return insert_events(tables)


def insert_events(tables: StreamTableEnvironment) -> TableResult:
    """Start the job: write every event and every late sample to its topic.

    Incidents have a statement of their own. Their operator runs once, and a sink shared with
    operators that run in parallel would write the revisions of an incident out of order.
    """
    names = ", ".join(f"'{topic}'" for topic in written_topics())
    inserts = tables.create_statement_set()
    inserts.add_insert_sql(
        f"""
        INSERT INTO events
        SELECT `topic`, `owner`, `event` FROM tracked WHERE `topic` IN ({names})
        UNION ALL
        SELECT '{WINDOWS_TOPIC}', `owner`, `event` FROM window_events
        UNION ALL
        SELECT '{LATE_TOPIC}', `owner`, `event` FROM late_samples
        """
    )
    inserts.add_insert_sql("INSERT INTO events SELECT `topic`, `owner`, `event` FROM correlated")
    return inserts.execute()


def written_topics() -> list[str]:
    """Return the topics to which the job writes."""
    return sorted({*detector_topics(), WINDOWS_TOPIC, INCIDENTS_TOPIC, REJECTED_TOPIC, LATE_TOPIC})


def job_settings(name: str, parallelism: int) -> dict[str, str]:
    """Return Flink's configuration of a job."""
    return {
        "execution.runtime-mode": "STREAMING",
        "pipeline.name": name,
        "pipeline.object-reuse": "true",
        "parallelism.default": str(parallelism),
        "python.executable": sys.executable,
        "python.client.executable": sys.executable,
        # Python runs inside the TaskManager's JVM. Processes of its own would start 15 s later,
        # answer later, and listen on ports that anyone can reach.
        "python.execution-mode": "thread",
        # Timestamps without a zone are UTC.
        "table.local-time-zone": "UTC",
    }


def environment(cluster: str | None, settings: dict[str, str]) -> StreamExecutionEnvironment:
    """Connect to a running cluster (`host:port`) or to that of `flink run` or of a test."""
    # Checkpoints and the restart strategy come from the client: from FLINK_CONF_DIR.
    shipped = get_gateway().jvm.org.apache.flink.configuration.GlobalConfiguration
    configuration = Configuration(j_configuration=shipped.loadConfiguration())
    for key, value in settings.items():
        configuration.set_string(key, value)
    if cluster is None:
        return StreamExecutionEnvironment.get_execution_environment(configuration)
    host, port = cluster.rsplit(":", 1)
    jvm = get_gateway().jvm
    flink = jvm.org.apache.flink.streaming.api.environment
    return StreamExecutionEnvironment(
        flink.RemoteStreamEnvironment(
            host, int(port), configuration._j_configuration, get_gateway().new_array(jvm.String, 0)
        )
    )


def main(arguments: list[str] | None = None) -> None:
    """Submit the job."""
    parser = argparse.ArgumentParser(
        prog="python -m jobs.detect",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--bootstrap", required=True, help="Kafka, host:port")
    parser.add_argument("--cluster", help="Flink's REST, host:port; without it, `flink run`'s own")
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--from-checkpoint", help="resume from this checkpoint")
    options = parser.parse_args(arguments)

    settings = job_settings(JOB, options.parallelism)
    if options.from_checkpoint:
        settings["execution.state-recovery.path"] = options.from_checkpoint
    env = environment(options.cluster, settings)
    mode = EnvironmentSettings.new_instance().in_streaming_mode().build()
    tables = StreamTableEnvironment.create(env, environment_settings=mode)
    scan = scan_options()
    create_tables(tables, options.bootstrap, LINE_TOPICS, scan, scan)
    job = detect(tables, options.bootstrap, scan).get_job_client()
    if job is not None:
        print(job.get_job_id(), flush=True)


if __name__ == "__main__":
    main()
    # Exit at once: the JVM of the gateway ends with its parent, but its threads would block the
    # exit.
    sys.stdout.flush()
    os._exit(0)
