"""Log keys do not affect each other in a real job: neither their errors nor their state."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from pyflink.common import Configuration, Row
from pyflink.datastream import RuntimeContext, StreamExecutionEnvironment

from stunwatch.engine.failures import REJECTED_TOPIC
from stunwatch.engine.owners import MOST_IN_BUCKET
from stunwatch.engine.tracking import (
    EVENT_TYPE,
    KEYED_TYPE,
    Track,
    keyed_in_the_jvm,
    to_json,
)
from tests.detectors.cases import records_of_lines

pytestmark = pytest.mark.integration

STUN = "2024-05-06T07:08:{:02}.123Z In(05) vcpu-0 - Checkpoint_Unstun: vm stopped for {} us"
FAILS = 66_666


def track_with_an_error() -> Track:
    """Return a function whose tracker fails at stuns of one duration, in the worker's process."""

    class Tracking(Track):
        def open(self, runtime_context: RuntimeContext) -> None:
            from stunwatch.detectors.stuns.tracker import Tracker  # noqa: PLC0415

            feed = Tracker.feed

            def failing(tracker: Tracker, record: Any) -> Iterator[Any]:
                if f" {FAILS} us" in record["message"]:
                    raise RecursionError
                return iter(list(feed(tracker, record)))

            Tracker.feed = failing  # type: ignore[method-assign]
            super().open(runtime_context)

    return Tracking()


def tracked(fed: list[tuple[str, str]], track: Track) -> list[tuple[str, ...]]:
    """Return the rows of a job for lines of log keys; each log key has its own bucket."""
    configuration = Configuration()
    configuration.set_string("python.executable", sys.executable)
    configuration.set_string("python.execution-mode", "thread")
    # An error that reached Flink would end the job.
    configuration.set_string("restart-strategy.type", "disable")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    rows = []
    for number, (owner, line) in enumerate(fed):
        [record] = records_of_lines([line.encode()], "vm")
        rows.append(Row(owner, to_json({**record, "owner": owner, "kafka_offset": number})))
    keyed = keyed_in_the_jvm(env.from_collection(rows, KEYED_TYPE))
    return [tuple(row) for row in keyed.process(track, EVENT_TYPE).execute_and_collect()]


def test_interleaved_log_keys_keep_their_state() -> None:
    owners = [f"ds/vm{number:02}" for number in range(3 * MOST_IN_BUCKET)]
    start = (
        "2024-05-06T07:08:00.123Z In(05) vmx - SnapshotVMX_TakeSnapshot start: 'a', deviceState=0"
    )
    lines = [(owner, line) for line in (start, STUN.format(1, 48_211)) for owner in owners]
    found = tracked(lines, Track())
    causes = {
        key: orjson.loads(text)["cause"] for topic, key, text in found if topic == "events.stun"
    }
    assert causes == dict.fromkeys(owners, "snapshot_create")


def test_the_job_continues_and_the_record_is_rejected() -> None:
    lines = [STUN.format(1, 48_211), STUN.format(20, FAILS), STUN.format(40, 51_007)]
    fed = [(owner, line) for owner in ("ds/vm01", "ds/vm02") for line in lines]
    found = tracked(fed, track_with_an_error())
    for owner in ("ds/vm01", "ds/vm02"):
        [rejected] = [
            orjson.loads(text)
            for topic, key, text in found
            if (topic, key) == (REJECTED_TOPIC, owner)
        ]
        assert rejected["reason"] == "detector stuns failed: RecursionError"
        assert rejected["line"] == STUN.format(20, FAILS)
        stuns = {
            orjson.loads(text)["duration_us"]
            for topic, key, text in found
            if (topic, key) == ("events.stun", owner)
        }
        assert stuns == {48_211, 51_007}
