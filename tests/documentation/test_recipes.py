"""Every recipe runs as written, and its output contains what its text mentions."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from stunwatch.cli import change
from stunwatch.cli.demo import FIX, INCIDENT
from stunwatch.simulation.scenarios import ScenarioSimulation, write
from tests.clickhouse_server import Server
from tests.documentation.recipes import PAGE, Recipe, recipes
from tests.documentation.stored_history import store
from tests.pipeline import in_this_process

ASKED = [each for each in recipes() if each.needs_no_pipeline]
Answers = dict[str, list[CompletedProcess[str]]]


@pytest.fixture(scope="module")
def answers(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answers]:
    """The output of the commands of every question, in the order of the page."""
    here, before = tmp_path_factory.mktemp("recipes"), Path.cwd()
    environment = server.settings.environment()
    os.chdir(here)
    try:
        store(server, INCIDENT)
        change.note(server.settings, **FIX)
        for folder in simulated():
            store(server, folder, *folder.glob("inventory"))
        yield {
            each.question: [in_this_process([*words], environment) for words in each.commands]
            for each in ASKED
        }
    finally:
        os.chdir(before)


def simulated() -> Iterator[Path]:
    """Write the folders of the page's `simulate` commands.

    A scenario has only a tenth of the noise, and esxtop of two hosts. This saves 20 s.
    """
    for line in PAGE.read_text().splitlines():
        if line.startswith("$ stunwatch simulate "):
            words = shlex.split(line)[2:]
            given = dict(zip(words[1::2], words[2::2], strict=True))
            out = Path(given["--out"])
            if "--evening" in given:
                write(
                    ScenarioSimulation(given["--evening"], int(given["--seed"]), chatter=0.1), out
                )
                for samples in sorted(out.glob("*/esxtop/*.csv"))[2:]:
                    samples.unlink()
            else:
                made = in_this_process(words, {})
                assert made.returncode == 0, made.stderr
            yield out


@pytest.mark.parametrize("recipe", ASKED, ids=lambda each: each.question)
def test_the_output_of_a_recipe_contains_what_its_text_mentions(
    recipe: Recipe, answers: Answers
) -> None:
    shown = ""
    for words, done in zip(recipe.commands, answers[recipe.question], strict=True):
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        # `sql` prints a header and a row. Other commands report to standard error.
        assert len(done.stdout.splitlines()) > 1 or words[0] != "sql", f"{words}: no rows"
        assert done.stdout + done.stderr, words
        shown += " ".join([*words, done.stdout, done.stderr])
    absent = [each for each in recipe.named if each not in shown]
    assert not absent, f"{absent} is not in:\n{shown}"


def test_there_are_25_recipes_and_every_question_has_one() -> None:
    found = recipes()
    assert len(found) >= 25
    assert len(found) == PAGE.read_text().count("\n### ")
    assert len({each.question for each in found}) == len(found)
