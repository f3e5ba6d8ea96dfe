"""Log keys do not affect each other in a real job, and no text ends it."""

from __future__ import annotations

import sys

import orjson
import pytest
from pyflink.common import Configuration, Row
from pyflink.datastream import StreamExecutionEnvironment

from stunwatch.engine.owners import MOST_IN_BUCKET, bucket_of_owner
from stunwatch.engine.tracking import to_json
from stunwatch.jobs.detect import KEYED_TYPE, track
from tests.detectors.cases import records_of_lines

pytestmark = pytest.mark.integration

STUN = "2024-05-06T07:08:{:02}.123Z In(05) vcpu-0 - Checkpoint_Unstun: vm stopped for {} us"
TAKEN = "2024-05-06T07:08:00.123Z In(05) vmx - SnapshotVMX_TakeSnapshot start: 'a', deviceState=0"
NO_RECORDS = ("", "null", "[]", "{", '{"kind": "line"}', "\x00", "9" * 9_999, "half of a pair")


def test_interleaved_log_keys_keep_their_state(java_classes: str) -> None:
    configuration = Configuration()
    configuration.set_string("python.executable", sys.executable)
    configuration.set_string("python.execution-mode", "thread")
    configuration.set_string("execution.checkpointing.interval", "100 ms")
    # An error that reached Flink would end the job.
    configuration.set_string("restart-strategy.type", "disable")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    env.add_jars(java_classes)
    owners = [f"ds/vm{number:02}" for number in range(3 * MOST_IN_BUCKET)]
    rows = []
    for line in (TAKEN, STUN.format(1, 48_211)):
        for owner in owners:
            [record] = records_of_lines([line.encode()], "vm")
            rows.append(Row(bucket_of_owner(owner), owner, len(rows), to_json(record)))
        rows += [Row(bucket_of_owner(owners[0]), owners[0], 0, text) for text in NO_RECORDS]
    found = list(track(env.from_collection(rows, KEYED_TYPE)).execute_and_collect())
    causes = {
        key: orjson.loads(text)["cause"] for topic, key, text in found if topic == "events.stun"
    }
    assert causes == dict.fromkeys(owners, "snapshot_create")
