"""The jobs of `make bench` end: a live job over bounded topics."""

from __future__ import annotations

import pytest

from tests.pipeline import Pipeline
from tools.bench.flink import BENCH_TOPIC, cpu_seconds, drop_topics, fill

# The lines of the benchmark are not stored.
pytestmark = [pytest.mark.release, pytest.mark.made_up, pytest.mark.timeout(240)]


@pytest.mark.parametrize("job", ["noop", "live", "consumer"])
def test_a_bounded_job_ends(pipeline: Pipeline, job: str) -> None:
    fill(pipeline.settings, 20_000)
    try:
        assert cpu_seconds(pipeline.settings, job, BENCH_TOPIC) > 0
    finally:
        drop_topics(pipeline.settings)
