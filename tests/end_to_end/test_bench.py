"""What `make bench` measures ends: a live job over topics that do."""

from __future__ import annotations

import pytest

from stunwatch.bench import BENCH_TOPIC, drop_topics, fill, flink_cpu_seconds
from tests.end_to_end.conftest import Pipeline

# The lines that it measures with are stored nowhere.
pytestmark = [pytest.mark.scale, pytest.mark.made_up, pytest.mark.timeout(240)]


@pytest.mark.parametrize("job", ["noop", "live"])
def test_a_bounded_job_ends(pipeline: Pipeline, job: str) -> None:
    fill(pipeline.settings, 20_000)
    try:
        assert flink_cpu_seconds(pipeline.settings, job, BENCH_TOPIC) > 0
    finally:
        drop_topics(pipeline.settings)
