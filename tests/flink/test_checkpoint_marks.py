"""Before every checkpoint, a mark follows the rows of each key since the last one."""

from __future__ import annotations

import pytest
from pyflink.common import Configuration, Types
from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.java_gateway import get_gateway
from pyflink.table import StreamTableEnvironment

from stunwatch.engine.tracking import MARK
from stunwatch.jobs.detect import environment, job_settings

pytestmark = pytest.mark.integration

ROWS = 600
KEYED = Types.ROW([Types.STRING(), Types.STRING()])


def test_a_mark_follows_the_rows_of_its_key_at_every_checkpoint(java_classes: str) -> None:
    configuration = Configuration()
    configuration.set_string("execution.checkpointing.interval", "100 ms")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    env.add_jars(java_classes)
    tables = StreamTableEnvironment.create(env)
    tables.execute_sql(
        "CREATE TEMPORARY TABLE numbers (number BIGINT) WITH ('connector' = 'datagen',"
        f" 'fields.number.kind' = 'sequence', 'fields.number.start' = '0',"
        f" 'fields.number.end' = '{ROWS - 1}', 'rows-per-second' = '{ROWS // 2}')"
    )
    rows = tables.sql_query(
        "SELECT CAST(number / 200 AS STRING), CAST(number AS STRING) FROM numbers"
    )
    stream = tables.to_append_stream(rows, KEYED)
    marks = get_gateway().jvm.io.github.stunwatch.CheckpointMarks
    found = list(DataStream(marks.of(stream._j_data_stream, "marks")).execute_and_collect())

    unmarked: set[str] = set()
    marked = []
    for key, value in found:
        if value != MARK:
            unmarked.add(key)
        else:
            marked.append(key)
            unmarked.remove(key)  # fails at a mark without rows
    assert [int(value) for _, value in found if value != MARK] == list(range(ROWS))
    # A key without rows gets no further marks.
    assert set(marked) == {"0", "1", "2"}
    assert marked == sorted(marked)
    assert not unmarked


def test_a_cluster_with_unaligned_checkpoints_does_not_change_those_of_the_job() -> None:
    """Unaligned barriers overtake the marks."""
    cluster = {
        "execution.checkpointing.interval": "10 s",
        "execution.checkpointing.unaligned.enabled": "true",
    }
    assert environment(None, cluster).get_checkpoint_config().is_unaligned_checkpoints_enabled()
    job = environment(None, cluster | job_settings("job", 1))
    assert not job.get_checkpoint_config().is_unaligned_checkpoints_enabled()
