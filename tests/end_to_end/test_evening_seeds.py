"""Fifty simulated evenings through the whole pipeline: the incidents due, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from stunwatch.simulation.evenings import EveningSimulation
from tests.end_to_end.conftest import Pipeline
from tests.end_to_end.test_evenings import CHATTER, PLAIN, replay
from tests.evenings.comparison import report

pytestmark = [pytest.mark.scale, pytest.mark.timeout(1800)]

SEEDS = range(101, 111)


def test_no_wrong_scope_on_ten_seeds(pipeline: Pipeline, tmp_path: Path) -> None:
    made = {
        f"{name}-{seed}": EveningSimulation(name, seed, chatter=CHATTER)
        for name in PLAIN
        for seed in SEEDS
    }
    judgements = list(replay(pipeline, tmp_path, made).judgements.values())
    assert not [each for each in judgements if each.problems], report(judgements)
