"""The commands of README and docs, run in the order of the pages on one pipeline."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from stunwatch.cli.demo import INCIDENT
from tests.documentation.recipes import NEED_NO_PIPELINE
from tests.documentation.recipes import PAGE as RECIPES
from tests.documentation.written import READ, ROOT, Written, outputs, written
from tests.pipeline import STUNWATCH, Pipeline

THEIR_OWN = {"security.md": "test_secured.py", "production.md": "tests/deployment"}
"""Pages whose commands need another kind of pipeline, and their tests."""

PAGES = [
    ROOT / "README.md",
    *sorted(each for each in READ if each.parent == ROOT / "docs" and each.name not in THEIR_OWN),
]

ELSEWHERE = {
    "make test": "these are the tests",
    "make lint": "continuous integration runs it",
    "stunwatch sql SELECT measured_lines": "the column that the reader adds: docs/add-a-column.md",
    "stunwatch collect": "asks a vCenter: tests/vcenter",
    "stunwatch doctor --host": "asks a vCenter: tests/vcenter",
    "stunwatch up --collect": "asks a vCenter: tests/vcenter",
    "stunwatch dashboards": "asks Superset: tests/dashboards",
    "stunwatch watch": "goes on until it is left: test_watch.py",
    "stunwatch simulate": "a night of a fleet: tests/simulation",
    "stunwatch backup": "docs/runbooks: test_runbooks.py",
    "stunwatch restore": "docs/runbooks: test_runbooks.py",
    "stunwatch upgrade": "docs/runbooks: test_runbooks.py",
    "stunwatch receive": "goes on until it is stopped: test_your_own_host.py",
    "fluent-bit": "test_your_own_host.py",
}
"""Commands that start like this are not run here, and the reason."""

NAMES_AN_INCIDENT = "1f0a3a51"
"""Placeholder in pages for the ID of a reader's incident."""

LETS_FALL_SHORT = {"doctor": 1}
"""Commands that may exit with this code: this machine may lack parts."""


def is_run_here(each: Written) -> bool:
    command = " ".join(each.words)
    if each.page == RECIPES:
        # test_recipes.py has separate data for the recipes. An incident has the same ID in both.
        is_asked_there = each.words[1] in NEED_NO_PIPELINE - {"incident", "report"}
        return not is_asked_there and "./logs" not in command
    return not any(re.match(rf"{re.escape(start)}\b", command) for start in ELSEWHERE)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_command_of_the_pages_without_a_host_gives_the_shown_output(
    pipelines: Callable[..., Pipeline], tmp_path: Path
) -> None:
    pipeline = pipelines()
    here = tmp_path / "here"
    here.mkdir()
    # The file names that pages use for the reader's own files.
    case = ROOT / "tests/inventory/cases/esxi55_everything_of_a_host/input.txt"
    shutil.copy(case, here / "esx01.txt")
    with tarfile.open(here / "esx-esx01-2024-05-06.tgz", "w:gz") as bundle:
        bundle.add(INCIDENT, "esx-esx01-2024-05-06")
    ran = set()
    for page in PAGES:
        shown = outputs(page)
        for each in written(page):
            command = each.line.removeprefix("$ ")
            if each.kind == "quoted" or command in ran or not is_run_here(each):
                continue
            ran.add(command)
            done = run(pipeline, each, here)
            may = {0, LETS_FALL_SHORT.get(each.words[1], 0)}
            # A page's example may name a VM that this pipeline does not have.
            is_unknown = "No log, event or inventory has the" in done.stderr
            assert is_unknown or done.returncode in may, f"{each}\n{done.stdout}{done.stderr}"
            for line in shown.get(command, []):
                assert is_told(line, done.stdout + done.stderr), f"{each}: {line}"
    assert {"make demo", "make up", ".venv/bin/stunwatch status"} <= ran


def run(pipeline: Pipeline, each: Written, here: Path) -> subprocess.CompletedProcess[str]:
    """Run a command: ours in a folder with a reader's files, `make` in the project's."""
    words = list(each.words)
    if NAMES_AN_INCIDENT in words:
        worst = "SELECT toString(incident_id) FROM incidents ORDER BY worst_stun_us DESC LIMIT 1"
        words[words.index(NAMES_AN_INCIDENT)] = pipeline.one(worst)
    if words[0] == "stunwatch":
        words[0] = str(STUNWATCH)
    return subprocess.run(
        words,
        cwd=ROOT if words[0] == "make" else here,
        env=pipeline.environment | dict(each.environment) | {"COLUMNS": "200"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


# Parts that vary by machine and day: durations, and omissions on the page.
_OPEN = re.compile(r"\d[\d.,]* (?:s|lines/s)\b|…")


def is_told(line: str, said: str) -> bool:
    """True if the output contains a line of the page.

    The page's line about Superset is of a start with dashboards.
    """
    if line.startswith("✓ superset"):
        return True
    parts = (part.split() for part in _OPEN.split(line))
    wanted = ".*".join(r"\s+".join(map(re.escape, words)) for words in parts)
    return re.search(wanted, said, re.DOTALL) is not None


def test_commands_that_are_skipped_here_are_still_in_the_pages() -> None:
    commands = [" ".join(each.words) for page in READ for each in written(page)]
    for start in ELSEWHERE:
        assert any(each.startswith(start) for each in commands), start
    assert os.access(STUNWATCH, os.X_OK)
