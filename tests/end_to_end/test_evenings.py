"""Simulated evenings through the whole pipeline: the detectors' rows, and the incidents."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
from rich.console import Console

from stunwatch import score
from stunwatch.simulation import truth as truths
from stunwatch.simulation.evenings import EVENINGS, EveningSimulation, write
from tests.end_to_end.conftest import Pipeline
from tests.evenings.comparison import Judgement, judge, report, rows_of

pytestmark = pytest.mark.slow

SEED = 41
STORIES = ("pool_full", "fixed_path_policy")
PLAIN = [each for each in EVENINGS if each not in STORIES]
# Of what real hosts write: the noise is judged elsewhere, and these lines take their time.
CHATTER = 0.2


@dataclass
class Replayed:
    """Evenings that went through the pipeline together."""

    truths: dict[str, dict[str, Any]]
    """By the evening's name; a story without its cause has `without` before it."""
    judgements: dict[str, Judgement]


def replay(pipeline: Pipeline, folder: Path, evenings: dict[str, EveningSimulation]) -> Replayed:
    """All of them in one go, with what is known of their hosts' storage."""
    folders = [folder / name for name in evenings]
    for out, evening in zip(folders, evenings.values(), strict=True):
        write(evening, out)
    pipeline.run("inventory", "load", *(each / "inventory" for each in folders))
    pipeline.run("replay", *folders)
    known = {each.name: truths.load((each / truths.FILE).read_bytes()) for each in folders}
    rows = rows_of(pipeline.reader)
    return Replayed(known, {name: judge(true, rows) for name, true in known.items()})


@pytest.fixture(scope="module")
def evenings(pipeline: Pipeline, tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    made = {name: EveningSimulation(name, SEED, chatter=CHATTER) for name in EVENINGS}
    made |= {
        f"without {name}": EveningSimulation(name, SEED, with_cause=False, chatter=CHATTER)
        for name in STORIES
    }
    return replay(pipeline, tmp_path_factory.mktemp("evenings"), made)


@pytest.mark.parametrize("name", EVENINGS)
def test_the_detectors_tell_what_happened(
    name: str, pipeline: Pipeline, evenings: Replayed
) -> None:
    true = evenings.truths[name]
    found = score.found_in(pipeline.reader, true["name"], Console(stderr=True))
    for section in score.compare(true, found):
        missed = [each for each in section.figures if not each.is_met]
        assert not missed, (section.name, missed, section.examples)


@pytest.mark.parametrize("name", PLAIN)
def test_an_evening_gives_its_incidents_and_no_others(name: str, evenings: Replayed) -> None:
    judgement = evenings.judgements[name]
    assert not judgement.problems, report([judgement])


@pytest.mark.parametrize("name", STORIES)
def test_a_story_ends_in_its_verdict(name: str, evenings: Replayed) -> None:
    judgement = evenings.judgements[name]
    assert not judgement.problems, report([judgement])


@pytest.mark.parametrize("name", STORIES)
def test_without_its_cause_a_story_has_no_verdict(name: str, evenings: Replayed) -> None:
    judgement = evenings.judgements[f"without {name}"]
    assert not judgement.problems, report([judgement])


def test_the_change_that_ends_a_story_is_judged(pipeline: Pipeline, evenings: Replayed) -> None:
    true = evenings.truths["fixed_path_policy"]
    [change], [incident] = true["changes"], true["incidents"]
    lun = incident["devices"]["least"][0]
    words = ("--kind", change["kind"], "--at", change["changed_at"], "--device", lun)
    pipeline.run("change", "add", *words, "--title", change["title"])
    at = change["changed_at"].removesuffix("Z")
    asked = [f"--param={name}={value}" for name, value in (("at", at), ("device", lun))]
    done = pipeline.run("sql", "before_and_after_change", *asked, "--format", "JSONEachRow")
    rows = [orjson.loads(line) for line in done.stdout.splitlines()]
    verdicts = {row["measure"]: row["verdict"] for row in rows}
    assert verdicts["davg_p50_ms"] == "better"
    assert verdicts["davg_p99_ms"] == "better"
