"""Records become events, and events incidents.

Live and history are one job in two modes: live runs in STREAMING mode over the raw topics and never
ends; history runs in BATCH mode over the offsets that one replay wrote, its lines to
`esxi.backfill` and its samples to `esxi.esxtop`.

Examples:
    python -m jobs.detect live --cluster 127.0.0.1:18081 --bootstrap 127.0.0.1:19092
    echo '{"first_us": 1332519771876000, "last_us": 1332519775876000, "offsets":
        {"esxi.backfill": {"0": [0, 1200]}, "esxi.esxtop": {"0": [7, 7]}}}' | \\
        python -m jobs.detect history --run-id 2026-11-21-0001 \\
        --cluster 127.0.0.1:18081 --bootstrap 127.0.0.1:19092
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from string import Template
from typing import Any

import orjson
from pyflink.common import Configuration, WatermarkStrategy
from pyflink.datastream import DataStream, KeyedStream, StreamExecutionEnvironment
from pyflink.java_gateway import get_gateway
from pyflink.table import EnvironmentSettings, StreamTableEnvironment, TableResult

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
from stunwatch.engine.tracking import (
    EVENT_TYPE,
    HISTORY_FACTS,
    KEYED_TYPE,
    LIVE_FACTS,
    RECORD_FIELDS,
    EventTime,
    TrackHistory,
    TrackLive,
    bucket_of,
    keyed_in_the_jvm,
)
from stunwatch.jobs.correlate import About, correlate_history, correlate_live
from stunwatch.jobs.options import in_sql, kafka_options, quoted

LIVE_JOB = "stunwatch-detect-live"
"""The live job's name, by which the job supervisor finds it."""

HISTORY_JOB = "stunwatch-detect-history"
LIVE_TOPICS = ("esxi.syslog", "esxi.vmware_log")
HISTORY_TOPICS = ("esxi.backfill",)
REPLAYED_SAMPLES = "esxi.esxtop"
LATENESS = {"esxi.esxtop": "'10' SECOND", "esxi.vcenter": "'3' MINUTE"}
"""By topic of samples: how much later than others a sample may arrive without being late (SQL).
vCenter is polled once a minute for all hosts, one batch after the other."""

UNITED = ("window_events", "short_window_records", "seen_samples")
"""The views of samples.sql that other files read: the UNION of all origins."""

LATE_TOPIC = "esxi.late"
"""Samples that arrived too late for their window."""

ALL_INVENTORY = {"scan.startup.mode": "earliest-offset"}
"""Live mode reads inventory from the beginning, and then continuously."""

HISTORY_RESTARTS = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "30",
    "restart-strategy.fixed-delay.delay": "2s",
}
"""Live mode waits indefinitely for a missing TaskManager or Kafka; a replay fails with an error."""

Offsets = dict[int, tuple[int, int]]
"""By partition: the first offset, and the one after the last."""


def live_scan() -> dict[str, str]:
    """Return the scan options of live mode without a checkpoint: from Kafka's oldest message."""
    return {"scan.startup.mode": "earliest-offset", "properties.group.id": LIVE_JOB}


def history_scan(offsets: Offsets) -> dict[str, str]:
    """Return the scan options for the part of the topic that one replay wrote."""

    def specific(which: int) -> str:
        return ";".join(f"partition:{each},offset:{span[which]}" for each, span in offsets.items())

    return {
        "scan.startup.mode": "specific-offsets",
        "scan.startup.specific-offsets": specific(0),
        "scan.bounded.mode": "specific-offsets",
        "scan.bounded.specific-offsets": specific(1),
    }


def statements(
    bootstrap: str,
    topics: tuple[str, ...],
    scan: dict[str, str],
    samples_scans: Mapping[str, dict[str, str]],
    run_id: str | None,
    sought: tuple[str, ...] | None = None,
) -> list[str]:
    """Return the statements of samples.sql for every topic of `samples_scans`, and of detect.sql.

    `run_id` None is live mode and accepts every record, including late ones. If `sought` is None,
    the prefilter passes lines with the detectors' literals.
    """
    is_live = run_id is None
    given: dict[str, Any] = {
        **detector("latency").thresholds,
        "kafka_options": in_sql(kafka_options(bootstrap)),
        "topics": ";".join(topics),
        "written_topics": ";".join(written_topics()),
        "scan_options": in_sql(scan),
        "literals": quoted("\n".join(literals() if sought is None else sought)),
        "longest_searched": LONGEST_SEARCHED,
        "copy_owner": quoted(OWNER_PATTERN),
        "run_condition": "TRUE" if run_id is None else f"`run_id` = '{quoted(run_id)}'",
        # Replays write their samples to the same topic.
        "samples_condition": f"`run_id` = '{quoted(run_id or 'live')}'",
    }
    of_samples = ("samples.sql", "late_samples.sql") if is_live else ("samples.sql",)
    united = (*UNITED, "late_samples") if is_live else UNITED
    origins = {topic.removeprefix("esxi."): topic for topic in samples_scans}
    return [
        *_filled("functions.sql", given),
        *(
            statement
            for name in of_samples
            for origin, topic in origins.items()
            for statement in _filled(
                name,
                {
                    **given,
                    "origin": origin,
                    "samples_topic": topic,
                    "samples_scan_options": in_sql(samples_scans[topic]),
                    "lateness": LATENESS[topic],
                },
            )
        ),
        *(_united(name, origins) for name in united),
        *_filled("detect.sql", given),
    ]


def _filled(name: str, given: Mapping[str, Any]) -> list[str]:
    """Return the statements of a file next to this one, with its placeholders replaced."""
    text = Path(__file__).with_name(name).read_text()
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
    filled = Template(code).substitute(given)
    return [part.strip() for part in (filled + "\n").split(";\n") if part.strip()]


def _united(name: str, origins: Iterable[str]) -> str:
    """Return the DDL of a view that unites the views of this name of all origins."""
    rows = " UNION ALL ".join(f"SELECT * FROM {origin}_{name}" for origin in origins)
    return f"CREATE TEMPORARY VIEW {name} AS {rows}"


def track_live(candidates: DataStream) -> DataStream:
    """Convert rows of (bucket, candidate) to rows of `events`, in order of arrival."""
    tracked = keyed_in_the_jvm(candidates).process(TrackLive(), EVENT_TYPE)
    migrations = keyed_in_the_jvm(tracked.get_side_output(LIVE_FACTS))
    return tracked.union(migrations.process(TrackLive(), EVENT_TYPE))


def track_history(candidates: DataStream) -> DataStream:
    """Convert rows of `candidates` to rows of `events`, sorted by time."""
    tracked = _sorted_by_time(candidates).process(TrackHistory(), EVENT_TYPE)
    migrations = _sorted_by_time(tracked.get_side_output(HISTORY_FACTS))
    return tracked.union(migrations.process(TrackHistory(), EVENT_TYPE))


def _sorted_by_time(records: DataStream) -> KeyedStream:
    by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(EventTime())
    return records.assign_timestamps_and_watermarks(by_time).key_by(bucket_of)


def detect(
    tables: StreamTableEnvironment,
    bootstrap: str,
    about: About | None,
    inventory_scan: dict[str, str] = ALL_INVENTORY,
) -> TableResult:
    """Start the job on the tables of `statements`, for a replay or, if `about` is None, live."""
    is_live = about is None
    tables.create_temporary_view("tracked", track(tables, is_live))
    incidents = (
        correlate_live(tables, bootstrap, inventory_scan)
        if about is None
        else correlate_history(tables, bootstrap, about)
    )
    tables.create_temporary_view("correlated", incidents)
    return insert_events(tables, is_live)


def track(tables: StreamTableEnvironment, is_live: bool) -> DataStream:
    """Convert the view `candidates` to rows of `events`."""
    if not is_live:
        return track_history(tables.to_data_stream(tables.from_path("candidates")))
    fields = ", ".join(f"`{name}`" for name in RECORD_FIELDS)
    keyed = tables.sql_query(f"SELECT {BUCKET}, ROW({fields}) FROM candidates")
    return track_live(tables.to_append_stream(keyed, KEYED_TYPE))


def insert_events(tables: StreamTableEnvironment, is_live: bool) -> TableResult:
    """Start the job: write every event and, in live mode, every late sample to its topic.

    Incidents have a statement of their own. Their operator runs once, and a sink shared with
    operators that run in parallel would write the revisions of an incident out of order.
    """
    names = ", ".join(f"'{topic}'" for topic in written_topics())
    rows = [
        f"SELECT `topic`, `owner`, `event` FROM tracked WHERE `topic` IN ({names})",
        f"SELECT '{WINDOWS_TOPIC}', `owner`, `event` FROM window_events",
    ]
    if is_live:
        rows.append(f"SELECT '{LATE_TOPIC}', `owner`, `event` FROM late_samples")
    inserts = tables.create_statement_set()
    inserts.add_insert_sql(f"INSERT INTO events {' UNION ALL '.join(rows)}")
    inserts.add_insert_sql("INSERT INTO events SELECT `topic`, `owner`, `event` FROM correlated")
    return inserts.execute()


def written_topics() -> list[str]:
    """Return the topics to which the job writes."""
    return sorted({*detector_topics(), WINDOWS_TOPIC, INCIDENTS_TOPIC, REJECTED_TOPIC, LATE_TOPIC})


def job_settings(name: str, is_live: bool, parallelism: int) -> dict[str, str]:
    """Return Flink's configuration of a job."""
    return {
        "execution.runtime-mode": "STREAMING" if is_live else "BATCH",
        "pipeline.name": name,
        "pipeline.object-reuse": "true",
        "parallelism.default": str(parallelism),
        "python.executable": sys.executable,
        "python.client.executable": sys.executable,
        **({} if is_live else HISTORY_RESTARTS),
        # How long a record may wait in a bundle before Python receives it.
        "python.fn-execution.bundle.time": "100",
        # Timestamps without a zone are UTC.
        "table.local-time-zone": "UTC",
        # An idle partition must not hold back the watermark.
        "table.exec.source.idle-timeout": "10s",
        # State of a device that is no longer measured expires.
        "table.exec.state.ttl": "1h",
        # Log keys whose state Python caches. Others cost a round trip to the JVM.
        "python.state.cache-size": "10000",
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
    """Submit the job; history waits until it has finished."""
    parser = argparse.ArgumentParser(
        prog="python -m jobs.detect",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("mode", choices=["live", "history"])
    parser.add_argument("--bootstrap", required=True, help="Kafka, host:port")
    parser.add_argument("--cluster", help="Flink's REST, host:port; without it, `flink run`'s own")
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--from-checkpoint", help="live: resume from this checkpoint")
    parser.add_argument("--python-path", help="where workers find this code before any other")
    parser.add_argument("--run-id", help="history: the replay's id; its offsets come on stdin")
    options = parser.parse_args(arguments)
    is_live = options.mode == "live"

    name = LIVE_JOB if is_live else f"{HISTORY_JOB} {options.run_id}"
    settings = job_settings(name, is_live, options.parallelism)
    if options.from_checkpoint:
        settings["execution.state-recovery.path"] = options.from_checkpoint
    if options.python_path:
        settings["python.pythonpath"] = options.python_path
    env = environment(options.cluster, settings)
    mode = EnvironmentSettings.new_instance()
    tables = StreamTableEnvironment.create(
        env,
        environment_settings=(
            mode.in_streaming_mode() if is_live else mode.in_batch_mode()
        ).build(),
    )
    # The JVM is started by now: a replay starts this program early and sends the offsets when it
    # has shipped its last line.
    about = None
    if is_live:
        scan = live_scan()
        samples_scans = dict.fromkeys(LATENESS, scan)
    else:
        said = orjson.loads(sys.stdin.read())
        about = About(options.run_id, said["first_us"], said["last_us"])
        spans = said["offsets"]
        scan, samples_scan = (
            history_scan({int(each): (first, end) for each, (first, end) in spans[topic].items()})
            for topic in (*HISTORY_TOPICS, REPLAYED_SAMPLES)
        )
        samples_scans = {REPLAYED_SAMPLES: samples_scan}
    topics = LIVE_TOPICS if is_live else HISTORY_TOPICS
    for statement in statements(options.bootstrap, topics, scan, samples_scans, options.run_id):
        tables.execute_sql(statement)
    result = detect(tables, options.bootstrap, about)
    job = result.get_job_client()
    if job is not None:
        print(job.get_job_id(), flush=True)
    if not is_live:
        result.wait()


if __name__ == "__main__":
    main()
    # Exit at once: the JVM of the gateway ends with its parent, but its threads would block the
    # exit.
    sys.stdout.flush()
    os._exit(0)
