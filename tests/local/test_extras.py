"""What the commands can do without the extra `pipeline`."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions

import pytest

from stunwatch import cli, extras
from stunwatch.settings import ROOT

WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
from stunwatch.cli import main
main()
"""
BLOCKED = {*extras.PIPELINE, "chdb", "superset", "jsonschema", "numpy", "pandas", "uv"}


def without_the_extra(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT.format(blocked=BLOCKED), *words],
        capture_output=True,
        text=True,
        check=False,
    )


def test_help_lists_the_commands_without_the_extra() -> None:
    done = without_the_extra("--help")
    assert done.returncode == 0, done.stderr
    # It imports the module of every command to show its first sentence.
    for command in cli.COMMANDS:
        assert re.search(rf"│ {command}\s", done.stdout), command


@pytest.mark.parametrize("words", [["logs", "kafka"], ["replay", "--help"], ["watch", "--help"]])
def test_a_command_that_needs_no_extra_does_not_import_it(words: list[str]) -> None:
    done = without_the_extra(*words)
    assert "Traceback" not in done.stderr
    assert "which is not installed" not in done.stderr


def test_a_command_that_needs_the_extra_reports_how_to_install_it() -> None:
    done = without_the_extra("doctor", "--host", "esx01.lab.example")
    assert done.returncode == 2
    [said] = done.stderr.splitlines()
    assert said.startswith("stunwatch: This command needs pyvmomi, which is not installed")
    assert "pipx install --force '.[pipeline]'" in said


def test_a_missing_module_outside_the_extra_is_a_bug() -> None:
    assert extras.remedy(ModuleNotFoundError("No module named 'ours'", name="ours")) is None
    assert extras.remedy(ModuleNotFoundError("without a name")) is None


def test_the_modules_of_the_extra_match_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = {re.split(r"[=<>]", each)[0] for each in project["optional-dependencies"]["pipeline"]}
    assert {*extras.PIPELINE.values()} == listed - {"uv"}
    installed = packages_distributions()
    for module, distribution in extras.PIPELINE.items():
        assert distribution in {each.replace("_", "-") for each in installed[module]}
