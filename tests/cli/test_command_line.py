"""Tests of the command line as a whole: help, version, completion, tables in pipes."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.table import Table

from stunwatch import cli
from stunwatch.cli import completing
from stunwatch.investigations import investigations
from stunwatch.printable import Terminal
from tests.cli.walked import LEAVES, WALKED
from tests.pipeline import in_this_process


@pytest.mark.parametrize("path", WALKED)
def test_every_command_has_help_with_an_example(path: str) -> None:
    command = WALKED[path]
    assert re.search(r"^    (?:[A-Z_]+=\S+ )*" + f"stunwatch {path}", command.help, re.M)
    assert max(map(len, re.findall("^    .*", command.help, re.M))) <= 78, "wraps at 80 columns"
    first = command.help.splitlines()[0]
    assert first.endswith((".", ":"))
    for parameter in command.params:
        text = getattr(parameter, "help", None)
        hidden = getattr(parameter, "hidden", False)
        assert hidden or text, f"{path} {parameter.name}"
        assert hidden or text[0].isupper() or text.startswith(("table, json", "30m")), text
        assert hidden or text.endswith("."), text


def test_help_fits_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for width in (40, 80, 200):
        monkeypatch.setenv("COLUMNS", str(width))
        done = in_this_process_with(width, "replay", "--help")
        assert max(map(len, done.splitlines())) <= width
    # A wide terminal shows a paragraph of the docstring on one line.
    assert "(JSON, CSV). It recognises the kind of a file by its content." in done


def in_this_process_with(width: int, *words: str) -> str:
    environment = {**os.environ, "COLUMNS": str(width), "TERM": "dumb"}
    done = subprocess.run(
        [sys.executable, "-m", "stunwatch.cli", *words],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_version_prints_the_version_and_the_commit_of_a_checkout(tmp_path: Path) -> None:
    done = in_this_process(["--version"], {})
    assert done.returncode == 0
    assert re.fullmatch(
        r"stunwatch \d+\.\d+\.\d+\S*(?: \(commit [0-9a-f]{7,40}(?:-dirty)?\))?\n", done.stdout
    )


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("stunwatch inc", {"incident"}),
        ("stunwatch incident m", {"mute"}),
        ("stunwatch sql longest_s", {"longest_stuns"}),
        ("stunwatch sql longest_stuns --param m", {"most="}),
        ("stunwatch change add --kind path", {"path_policy"}),
        ("stunwatch simulate --evening slow", {"slow_lun"}),
        ("stunwatch audit --format j", {"json"}),
    ],
)
def test_shell_completion_suggests_commands_and_values(words: str, completed: set[str]) -> None:
    typed = words.split(" ")
    shown = in_this_process(
        [],
        {
            "_STUNWATCH_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(typed) - 1),
        },
    ).stdout
    assert completed == {*shown.split()}


def test_completion_of_ids_is_empty_without_a_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STUNWATCH_HOME", str(tmp_path))
    assert completing.incident_ids("1f") == []
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets/analyst").write_text("secret")
    monkeypatch.setenv("STUNWATCH_CLICKHOUSE_HTTP_PORT", "1")
    assert completing.incident_ids("1f") == []


def test_a_table_in_a_pipe_is_as_wide_as_its_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    shown = io.StringIO()
    table = Table("verdict", "host")
    table.add_row("w " * 200, "esx01")
    Terminal(file=shown).print(table)
    assert len(shown.getvalue().splitlines()) == 5
    monkeypatch.setenv("COLUMNS", "60")
    shown = io.StringIO()
    Terminal(file=shown).print(table)
    assert max(map(len, shown.getvalue().splitlines())) <= 60


def test_an_unknown_investigation_suggests_the_nearest(tmp_path: Path) -> None:
    done = in_this_process(["sql", "longest_stunz"], {"STUNWATCH_HOME": str(tmp_path)})
    assert done.returncode == 2
    assert "Did you mean longest_stuns?" in done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("incidnt", "list"), "There is no command incidnt. Did you mean incident?"),
        (("incident", "lst"), "list"),
        (("sql", "--fromat", "json"), "--format"),
        (("change", "add", "--kind", "firmwear", "--title", "x"), "Did you mean firmware?"),
        (("simulate", "--evening", "slow_lum"), "Did you mean slow_lun?"),
    ],
)
def test_a_mistyped_word_suggests_the_nearest(words: tuple[str, ...], told: str) -> None:
    done = in_this_process([*words], {})
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_old_spellings_of_json_are_accepted_and_hidden() -> None:
    for path in ("status", "watch"):
        [flag] = [each for each in WALKED[path].params if "--json" in each.opts]
        assert flag.hidden


def test_sql_list_shows_all_investigations_and_forms_of_times() -> None:
    done = in_this_process(["sql", "--list"], {})
    assert "yesterday 22:00" in done.stdout
    assert all(name in done.stdout for name in investigations())


def test_a_group_of_commands_lists_its_commands() -> None:
    groups = {path.split()[0] for path in LEAVES if " " in path}
    context: Any = typer.Context(typer.main.get_command(cli.app))
    for name in groups:
        assert WALKED[name].list_commands(context)
