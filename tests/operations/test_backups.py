"""Backups: rejected ones, and one of an older version.

tests/end_to_end/test_runbooks.py runs the commands of docs/runbooks.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from stunwatch.errors import UserError
from stunwatch.local import backups
from stunwatch.local.backups import DATA, MANIFEST, back_up, restore
from tests.clickhouse_server import Server

CHANGE = (
    "INSERT INTO changes_stored (change_id, changed_at, kind, title, is_deleted)"
    " VALUES (generateUUIDv4(), now(), 'array', '{title}', 0)"
)


@pytest.fixture(autouse=True)
def without_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace all access to Kafka; the end-to-end test covers it."""
    monkeypatch.setattr(backups, "readers", dict)
    monkeypatch.setattr(backups, "_cluster", lambda _: "made")
    monkeypatch.setattr(backups.schema, "drop_pipes", lambda _: None)
    monkeypatch.setattr(backups.schema, "apply", lambda *_, **__: [])


def say_nothing(_: str) -> None:
    """Ignore progress messages."""


def titles(server: Server) -> list[str]:
    return [title for (title,) in server.reader.rows("SELECT title FROM changes ORDER BY title")]


def test_a_restore_adds_rows_and_removes_none(server: Server, tmp_path: Path) -> None:
    server.admin.command(CHANGE.format(title="backed up"))
    made = back_up(server.settings, tmp_path / "backup")
    assert made.rows == 1
    server.empty()
    server.admin.command(CHANGE.format(title="since then"))
    told: list[str] = []
    for _ in range(2):
        restore(server.settings, tmp_path / "backup", told.append)
        assert titles(server) == ["backed up", "since then"]
    assert re.match("restoring 1 rows of [0-9]+ tables", told[0])
    server.empty()


def test_a_backup_of_an_older_version_gets_the_new_columns(server: Server, tmp_path: Path) -> None:
    server.admin.command(CHANGE.format(title="old"))
    back_up(server.settings, tmp_path / "backup")
    server.empty()
    server.admin.command("ALTER TABLE changes_stored ADD COLUMN ticket String DEFAULT 'none'")
    try:
        restore(server.settings, tmp_path / "backup", say_nothing)
        assert server.admin.rows("SELECT title, ticket FROM changes_stored") == [("old", "none")]
        assert server.admin.rows("EXISTS TABLE changes_stored_restored") == [(0,)]

        back_up(server.settings, tmp_path / "newer")
    finally:
        server.admin.command("ALTER TABLE changes_stored DROP COLUMN ticket")
    with pytest.raises(UserError, match=r"newer version: .*changes_stored has no column ticket"):
        restore(server.settings, tmp_path / "newer", say_nothing)
    server.empty()


def test_a_folder_that_is_not_empty_is_left_unchanged(server: Server, tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(UserError, match="already exists and is not empty"):
        back_up(server.settings, tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]


def test_an_incomplete_backup_is_rejected(server: Server, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a complete backup"):
        restore(server.settings, tmp_path, say_nothing)
    (tmp_path / MANIFEST).write_text("{}")
    with pytest.raises(UserError, match=r"Cannot read .*backup\.json"):
        restore(server.settings, tmp_path, say_nothing)


def test_too_little_disk_is_reported_before_anything_is_written(
    server: Server, tmp_path: Path
) -> None:
    small = replace(server.settings, min_free_mb=1 << 30)
    with pytest.raises(UserError, match="MiB free"):
        back_up(small, tmp_path / "backup")
    assert not (tmp_path / "backup").exists()
    back_up(server.settings, tmp_path / "backup")
    with pytest.raises(UserError, match=r"ClickHouse.s disk has [\d,]+ MiB free"):
        restore(small, tmp_path / "backup", say_nothing)


def test_a_restore_that_clickhouse_cannot_finish_is_an_error(
    server: Server, tmp_path: Path
) -> None:
    back_up(server.settings, tmp_path / "backup")
    manifest = tmp_path / "backup" / MANIFEST
    text = json.loads(manifest.read_text())
    for each in (tmp_path / "backup" / DATA).rglob("*"):
        if each.name == ".backup":
            each.unlink()
    manifest.write_text(json.dumps(text))
    with pytest.raises(UserError, match="BACKUP_NOT_FOUND"):
        restore(server.settings, tmp_path / "backup", say_nothing)
