"""Conventions of the repository that a test can check."""

from __future__ import annotations

import ast
import re
import socket
import subprocess
from collections import Counter
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from stunwatch import cli
from stunwatch.local import job_code
from stunwatch.local.kafka import wanted_topics
from stunwatch.schema import GENERATED, ORDER, SQL, sql_files

ROOT = Path(__file__).parents[1]
SOURCES = ("flink-jobs", "infra", "ingest", "stunwatch", "tools")
PAGES = [
    *(path for path in ROOT.glob("*.md")),
    *(
        path
        for folder in ("docs", *SOURCES, "schemas", "sql")
        for path in (ROOT / folder).rglob("*.md")
    ),
]
# [text](path) and `folder/file`
LINK = re.compile(
    r"\]\((?!https?://|#)([^)\s]+)\)|`((?:docs|flink-jobs|infra|ingest|schemas|sql|stunwatch|tests|tools)/[\w./-]+)`"
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_contains_a_long_line_twice(page: Path) -> None:
    """A merge of two changes of a page can leave both versions in it. data.md is generated."""
    lines = Counter(each for each in page.read_text().splitlines() if len(each) > 60)
    twice = [each for each, times in lines.items() if times > 1]
    assert page.name == "data.md" or twice == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_path_in_a_page_exists(page: Path) -> None:
    for linked, quoted in LINK.findall(page.read_text()):
        # tests/documentation checks anchors.
        place = page.parent / linked.partition("#")[0] if linked else ROOT / quoted
        assert place.exists(), f"{page.name} names {linked or quoted}"


def test_the_readme_has_at_most_150_lines() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_has_help_with_an_example_and_is_on_its_page(command: str) -> None:
    shown = CliRunner().invoke(cli.app, [command, "--help"])
    assert shown.exit_code == 0
    assert f"stunwatch {command}" in shown.output
    assert re.search(rf"(stunwatch|make) {command}\b", (ROOT / "docs/commands.md").read_text())


@pytest.mark.parametrize(
    "words",
    [["java", "-version"], ["stunwatch", "up"], ["python", "-m", "stunwatch.local.launch"]],
)
def test_a_unit_test_starts_no_component(words: list[str]) -> None:
    with pytest.raises(Exception, match="starts "):
        subprocess.Popen(words)


def test_a_unit_test_connects_to_no_other_machine() -> None:
    with socket.socket() as attempt, pytest.raises(Exception, match="connects to"):
        attempt.connect(("192.0.2.1", 9))


def test_every_sql_folder_is_applied_or_queried() -> None:
    others = ("investigations", "report", "watch", "audit", "metrics")
    asked = {f"queries/{each}" for each in others}
    names = {
        str(path.relative_to(SQL)).removeprefix(f"{GENERATED}/") for path in SQL.rglob("*.sql")
    }
    known = {name.rpartition("/")[0] or name for name in names}
    assert known == {*ORDER} | asked


def test_every_table_begins_with_a_comment_on_what_one_row_is() -> None:
    folders = ("tables", "views", "queries/dashboards")
    for path in [each for folder in folders for each in (SQL / folder).glob("*.sql")]:
        text = path.read_text()
        assert text.startswith("-- One row is ") or "log_lines_with" in path.name, path.name


def test_every_topic_used_by_sql_and_detectors_is_created() -> None:
    topics = set(wanted_topics())
    named: set[str] = set()
    for file in sql_files():
        for listed in re.findall(r"kafka_topic_list = '([^']+)'", " ".join(file.statements)):
            named |= set(listed.split(","))
    for path in (ROOT / "flink-jobs/detectors").glob("*/detector.yaml"):
        named.add(yaml.safe_load(path.read_text())["topic"])
    assert named <= topics


def test_no_tracked_file_contains_a_home_folder_or_is_large() -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    for name in filter(None, tracked):
        path = ROOT / name
        if path.is_symlink():  # to a folder of the checkout
            continue
        assert path.stat().st_size < 1 << 20, name
        if path.suffix in {".md", ".py", ".yaml", ".yml", ".toml", ".sql", ".lua", ".xml", ""}:
            text = path.read_text(errors="replace")
            assert not re.search(r"(?<![\w.-])/(?:root|home/\w+)/", text), name


def imported(path: Path) -> set[str]:
    """Return the modules that a file imports, at any level of nesting."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
    return found


def importing(folders: tuple[str, ...], forbidden: tuple[str, ...]) -> list[str]:
    """Return imports of a forbidden package in these folders, except in the command line."""
    return [
        f"{path.relative_to(ROOT)} imports {each}"
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not path.is_relative_to(ROOT / "stunwatch/cli")
        for each in imported(path)
        if f"{each}.".startswith(forbidden)
    ]


def test_only_the_command_line_imports_the_command_line() -> None:
    assert importing(("flink-jobs", "ingest", "stunwatch", "tools"), ("stunwatch.cli.",)) == []


def test_the_package_does_not_import_tools() -> None:
    assert importing(("flink-jobs", "ingest", "stunwatch"), ("tools.",)) == []


def test_no_module_is_imported_past_its_package() -> None:
    """`import ingest` works in a checkout only: in a wheel there is `stunwatch.ingest`."""
    folders = ("flink-jobs", "ingest", "stunwatch", "tools", "tests")
    bare = ("ingest.", "detectors.", "engine.", "incidents.", "jobs.")
    assert [
        f"{path.relative_to(ROOT)} imports {each}"
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
        for each in imported(path)
        if f"{each}.".startswith(bare)
    ] == []


JOB = {f"stunwatch.{each}" for each in job_code.PACKAGES}


def test_the_job_imports_only_packages_in_its_copy() -> None:
    for path in (ROOT / "flink-jobs").rglob("*.py"):
        ours = {each for each in imported(path) if each.startswith("stunwatch.")}
        assert {".".join(each.split(".")[:2]) for each in ours} <= JOB, path


def printing(path: Path) -> list[str]:
    """Return calls that print without `Terminal` or `echo`, each with its line number."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        is_console = called in {"Console", "rich.print", "Text.from_markup", "Live.print"}
        is_plain = called in {"print", "typer.echo", "typer.secho", "click.echo"}
        is_stream = called in {"sys.stdout.write", "sys.stderr.write"}
        if is_console or is_plain or is_stream:
            found.append(f"{path.name}:{node.lineno} {called}")
    return found


def test_commands_print_only_through_printable_py() -> None:
    """`Terminal` prints every string as data, and echo() removes control characters."""
    package = ROOT / "stunwatch"
    modules = [each for each in package.rglob("*.py") if each.name != "printable.py"]
    assert [call for each in sorted(modules) for call in printing(each)] == []


CHANGES_BY_RUN = {"uuid1", "uuid4", "now", "time", "time_ns", "random", "randint", "token_hex"}


def test_parameters_of_tests_are_the_same_in_every_run() -> None:
    """pytest-xdist stops unless all workers collect the same tests."""
    calls = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for path in (ROOT / "tests").rglob("test_*.py")
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef)
        for decorator in function.decorator_list
        for call in ast.walk(decorator)
        if isinstance(call, ast.Call)
        and getattr(call.func, "attr", getattr(call.func, "id", None)) in CHANGES_BY_RUN
    ]
    assert calls == []


def test_no_two_test_files_have_the_same_name() -> None:
    """The folders are not packages: pytest would not collect the second file."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, times in names.items() if times > 1] == []
