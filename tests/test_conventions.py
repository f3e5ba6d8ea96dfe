"""What a machine can check of the house rules."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from stunwatch import cli
from stunwatch.schema import ORDER, SQL

ROOT = Path(__file__).parents[1]
PAGES = [
    *(path for path in ROOT.glob("*.md")),
    *(
        path
        for folder in ("docs", "ingest", "schemas", "flink-jobs", "sql", "infra")
        for path in (ROOT / folder).rglob("*.md")
    ),
]
# [text](path) and `folder/file`
LINK = re.compile(
    r"\]\((?!https?://|#)([^)\s]+)\)|`((?:ingest|flink-jobs|sql|schemas|infra|docs|tests)/[\w./-]+)`"
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_path_that_a_page_names_exists(page: Path) -> None:
    for linked, quoted in LINK.findall(page.read_text()):
        # Anchors are tests/documentation's.
        place = page.parent / linked.partition("#")[0] if linked else ROOT / quoted
        assert place.exists(), f"{page.name} names {linked or quoted}"


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_has_help_with_an_example_and_stands_in_the_readme(command: str) -> None:
    shown = CliRunner().invoke(cli.app, [command, "--help"])
    assert shown.exit_code == 0
    assert f"stunwatch {command}" in shown.output
    assert re.search(rf"(stunwatch|make) {command}\b", (ROOT / "README.md").read_text())


def test_every_sql_file_is_applied_or_asked() -> None:
    known = {*(each.split(".")[0] for each in ORDER), "investigations", "audit", "metrics"}
    known |= {"report", "watch"}
    assert {path.name.split(".")[0] for path in SQL.iterdir() if path.suffix != ".md"} == known


def test_every_table_says_what_one_row_is() -> None:
    folders = ("tables", "views", "dashboards")
    for path in [each for folder in folders for each in (SQL / folder).glob("*.sql")]:
        text = path.read_text()
        assert text.startswith("-- One row is ") or "log_lines_with" in path.name, path.name


def test_every_topic_that_sql_and_detectors_name_is_created() -> None:
    topics = set(yaml.safe_load((ROOT / "infra/kafka/topics.yaml").read_text())["topics"])
    named: set[str] = set()
    for path in (SQL / "readers").glob("*.sql"):
        for listed in re.findall(r"kafka_topic_list = '([^']+)'", path.read_text()):
            named |= set(listed.split(","))
    for path in (ROOT / "flink-jobs/detectors").glob("*/detector.yaml"):
        named.add(yaml.safe_load(path.read_text())["topic"])
    assert named <= topics


def test_no_path_of_one_machine_and_no_large_file_is_tracked() -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    for name in filter(None, tracked):
        path = ROOT / name
        assert path.stat().st_size < 1 << 20, name
        if path.suffix in {".md", ".py", ".yaml", ".yml", ".toml", ".sql", ".lua", ".xml", ""}:
            text = path.read_text(errors="replace")
            assert not re.search(r"(?<![\w.-])/(?:root|home/\w+)/", text), name
