"""The live job, or nothing at all, over a topic from its beginning to its end: for `make bench`.

python -m jobs.bench noop --topic bench.records --bootstrap … --cluster …
"""

from __future__ import annotations

import argparse
import os
import sys

from pyflink.table import EnvironmentSettings, StreamTableEnvironment

from stunwatch.detectors.catalogue import literals
from stunwatch.engine.tracking import RECORD_FIELDS
from stunwatch.jobs.detect import create_tables, detect, environment, job_settings
from stunwatch.jobs.options import FEW_AT_ONCE, in_sql, kafka_options


def main() -> None:
    """Run one bounded job in STREAMING mode and wait for its end. All sources are bounded."""
    parser = argparse.ArgumentParser(prog="python -m jobs.bench", description=__doc__)
    parser.add_argument("what", choices=["noop", "live"])
    parser.add_argument("--topic", required=True)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--cluster", required=True)
    parser.add_argument(
        "--more-literals", type=int, default=0, help="so many more than the detectors ask for"
    )
    options = parser.parse_args()
    env = environment(options.cluster, job_settings(f"stunwatch-bench-{options.what}", 2))
    mode = EnvironmentSettings.new_instance().in_streaming_mode().build()
    tables = StreamTableEnvironment.create(env, environment_settings=mode)
    scan = {
        "scan.startup.mode": "earliest-offset",
        "scan.bounded.mode": "latest-offset",
        **FEW_AT_ONCE,
    }
    # No samples: only the cost of lines is measured.
    nothing = {**scan, "scan.startup.mode": "latest-offset"}
    more = tuple(f"literal {number} that is in no line" for number in range(options.more_literals))
    sought = (*literals(), *more)
    create_tables(tables, options.bootstrap, (options.topic,), scan, nothing, sought)
    if options.what == "live":
        result = detect(tables, options.bootstrap, scan)
    else:
        # All fields of every record: Flink's own JSON format, without the prefilter.
        plain = {
            "connector": "kafka",
            **kafka_options(options.bootstrap),
            "topic": options.topic,
            "key.format": "raw",
            "key.fields": "owner",
            "value.format": "json",
            "value.json.ignore-parse-errors": "true",
            "value.fields-include": "EXCEPT_KEY",
            **scan,
        }
        columns = (
            f"`{name}` {'BIGINT' if name == 'offset' else 'STRING'}"
            for name in RECORD_FIELDS
            if name != "kafka_offset"
        )
        tables.execute_sql(
            f"CREATE TEMPORARY TABLE all_records ({', '.join(columns)},"
            " `kafka_offset` BIGINT METADATA FROM 'offset' VIRTUAL)"
            f" WITH ({in_sql(plain)})"
        )
        result = tables.execute_sql(
            "CREATE TABLE nothing WITH ('connector' = 'blackhole') AS SELECT * FROM all_records"
        )
    result.wait()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)
