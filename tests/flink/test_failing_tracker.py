"""After an error in a tracker a real job keeps running: only that record is rejected."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from pyflink.common import Configuration, Row
from pyflink.datastream import RuntimeContext, StreamExecutionEnvironment

from stunwatch.engine.failures import REJECTED_TOPIC
from stunwatch.engine.tracking import (
    EVENT_TYPE,
    KEYED_TYPE,
    Track,
    keyed_in_the_jvm,
    to_record_row,
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


def test_the_job_continues_and_the_record_is_rejected() -> None:
    configuration = Configuration()
    configuration.set_string("python.executable", sys.executable)
    configuration.set_string("python.execution-mode", "thread")
    # An error that reached Flink would end the job.
    configuration.set_string("restart-strategy.type", "disable")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    fed = []
    for owner in ("ds/vm01", "ds/vm02"):
        lines = [STUN.format(1, 48_211), STUN.format(20, FAILS), STUN.format(40, 51_007)]
        for record in records_of_lines([line.encode() for line in lines], "vm"):
            row = to_record_row({**record, "owner": owner, "kafka_offset": len(fed)})
            fed.append(Row(owner, row))
    keyed = keyed_in_the_jvm(env.from_collection(fed, KEYED_TYPE))
    tracked = keyed.process(track_with_an_error(), EVENT_TYPE)
    found = [tuple(row) for row in tracked.execute_and_collect()]
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
