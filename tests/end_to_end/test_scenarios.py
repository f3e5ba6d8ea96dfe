"""Simulated scenarios through the whole pipeline: the detectors' rows, and the incidents."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from stunwatch.simulation import truth as truths
from stunwatch.simulation.scenarios import SCENARIOS, ScenarioSimulation, write
from tests.pipeline import Pipeline
from tests.scenarios.comparison import Judgement, judge, report, rows_of
from tools.score.pipeline import found_in
from tools.score.sections import Comparison

pytestmark = pytest.mark.slow

SEED = 41
STORIES = ("pool_full", "fixed_path_policy")
PLAIN = [each for each in SCENARIOS if each not in STORIES]
# The share of unrelated lines: they are tested elsewhere and take their time.
CHATTER = 0.2


@dataclass
class Replayed:
    """Scenarios that were replayed together."""

    truths: dict[str, dict[str, Any]]
    """By the scenario's name; for a story without its cause with the prefix `without`."""
    judgements: dict[str, Judgement]


def replay(pipeline: Pipeline, folder: Path, scenarios: dict[str, ScenarioSimulation]) -> Replayed:
    """Replay all scenarios at once, with the inventory of their hosts."""
    folders = [folder / name for name in scenarios]
    for out, scenario in zip(folders, scenarios.values(), strict=True):
        write(scenario, out)
    pipeline.run("inventory", "load", *(each / "inventory" for each in folders))
    pipeline.run("replay", *folders)
    known = {each.name: truths.load((each / truths.FILE).read_bytes()) for each in folders}
    rows = rows_of(pipeline.reader)
    return Replayed(known, {name: judge(true, rows) for name, true in known.items()})


@pytest.fixture(scope="module")
def scenarios(pipeline: Pipeline, tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    made = {name: ScenarioSimulation(name, SEED, chatter=CHATTER) for name in SCENARIOS}
    made |= {
        f"without {name}": ScenarioSimulation(name, SEED, with_cause=False, chatter=CHATTER)
        for name in STORIES
    }
    return replay(pipeline, tmp_path_factory.mktemp("scenarios"), made)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_detectors_find_the_events_of_a_scenario(
    name: str, pipeline: Pipeline, scenarios: Replayed
) -> None:
    true = scenarios.truths[name]
    found = found_in(pipeline.reader, true["name"])
    for section in Comparison(true, found).sections():
        missed = [each for each in section.figures if not each.is_met]
        assert not missed, (section.name, missed, section.examples)


@pytest.mark.parametrize("name", PLAIN)
def test_a_scenario_gives_exactly_its_incidents(name: str, scenarios: Replayed) -> None:
    judgement = scenarios.judgements[name]
    assert not judgement.problems, report([judgement])


@pytest.mark.parametrize("name", STORIES)
def test_a_story_gives_its_expected_verdict(name: str, scenarios: Replayed) -> None:
    judgement = scenarios.judgements[name]
    assert not judgement.problems, report([judgement])


@pytest.mark.parametrize("name", STORIES)
def test_a_story_without_its_cause_gives_no_verdict(name: str, scenarios: Replayed) -> None:
    judgement = scenarios.judgements[f"without {name}"]
    assert not judgement.problems, report([judgement])


def test_the_change_that_ends_a_story_is_measured_but_not_judged_after_a_day(
    pipeline: Pipeline, scenarios: Replayed
) -> None:
    true = scenarios.truths["fixed_path_policy"]
    [change], [incident] = true["changes"], true["incidents"]
    lun = incident["devices"]["least"][0]
    words = ("--kind", change["kind"], "--at", change["changed_at"], "--device", lun)
    pipeline.run("change", "add", *words, "--title", change["title"])
    at = change["changed_at"].removesuffix("Z")
    asked = [f"--param={name}={value}" for name, value in (("at", at), ("device", lun))]
    done = pipeline.run("sql", "before_and_after_change", *asked, "--format", "JSONEachRow")
    rows = [orjson.loads(line) for line in done.stdout.splitlines()]
    measured = {row["measure"]: row for row in rows}
    for measure in ("davg_p50_ms", "davg_p99_ms"):
        assert measured[measure]["value_after"] < measured[measure]["value_before"] / 2
        # Days are compared, and there is only one on either side.
        assert measured[measure]["verdict"] == "not tested"
