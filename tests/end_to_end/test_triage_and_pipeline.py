"""`triage`, without Kafka, Flink and ClickHouse, gives the same events and incidents."""

from __future__ import annotations

import re

from stunwatch.cli.demo import INCIDENT
from tests.end_to_end.conftest import Replayed
from tests.end_to_end.triaged import assert_same
from tests.pipeline import Pipeline


def test_triage_finds_the_same_rows_as_the_pipeline(replayed: Replayed, pipeline: Pipeline) -> None:
    # The second replay wrote the same rows again with its own run ID.
    runs = re.findall(r"run (\d{4}-[\w-]+)\)", replayed.said + replayed.said_again)
    assert len(runs) == 2
    counts = assert_same(pipeline, replayed.paths, runs, replayed.incidents)
    assert replayed.paths[0] == INCIDENT
    assert all(counts[view] for view in ("stuns", "reservation_conflicts", "incidents")), counts
    assert counts["latency_episodes"], counts
