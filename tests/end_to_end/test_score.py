"""A simulated night through the whole pipeline, from files and live."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from stunwatch.simulation.run import Scale
from tests.end_to_end.triaged import assert_same
from tests.pipeline import Pipeline
from tools.score import pipeline as score


@pytest.mark.slow
def test_a_small_simulated_fleet_meets_every_target_of_the_score(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    scale = Scale(hosts=10, vms=60, minutes=240, seed=4711, name="e2e4711")
    about, sections = score.run(pipeline.settings, scale, tmp_path, Console(stderr=True))
    assert about["lines"] > 50_000
    for section in sections:
        missed = [each for each in section.figures if not each.is_met]
        assert not missed, (section.name, missed, section.examples)
    # Compare with `triage`, which reads the night's files without the pipeline.
    incidents = pipeline.reader.named_rows("SELECT * FROM incidents")
    counts = assert_same(pipeline, [tmp_path], [about["run_id"]], incidents)
    assert counts["stuns"]
    assert counts["incidents"]


@pytest.mark.slow
def test_a_live_simulation_reaches_the_running_pipeline(pipeline: Pipeline) -> None:
    seed = "4712"
    words = ["--hosts", "4", "--vms", "16", "--minutes", "120", "--seed", seed]
    before = pipeline.one("SELECT count() FROM stuns WHERE run_id = 'live'")
    pipeline.run("simulate", "--live", *words)
    pipeline.wait_for(
        "SELECT count() > 0 FROM stuns WHERE run_id = 'live'"
        f" AND endsWith(splitByChar('.', host)[1], '-s{seed}')",
        1,
    )
    assert pipeline.one("SELECT count() FROM stuns WHERE run_id = 'live'") > before
