"""Fifty simulated scenarios through the whole pipeline: exactly the expected incidents."""

from __future__ import annotations

from pathlib import Path

import pytest

from stunwatch.simulation.scenarios import ScenarioSimulation
from tests.end_to_end.test_scenarios import CHATTER, PLAIN, replay
from tests.pipeline import Pipeline
from tests.scenarios.comparison import report

pytestmark = [pytest.mark.release, pytest.mark.timeout(1800)]

SEEDS = range(101, 111)


def test_ten_seeds_give_no_incident_with_a_wrong_scope(pipeline: Pipeline, tmp_path: Path) -> None:
    made = {
        f"{name}-{seed}": ScenarioSimulation(name, seed, chatter=CHATTER)
        for name in PLAIN
        for seed in SEEDS
    }
    judgements = list(replay(pipeline, tmp_path, made).judgements.values())
    assert not [each for each in judgements if each.problems], report(judgements)
