"""Applies `sql/` to ClickHouse: idempotent, in the order in which a record passes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from stunwatch.clickhouse import ClickHouse

SQL = Path(__file__).parents[2] / "sql"

ORDER = (
    *("tables", "retention.sql", "readers", "intakes", "backfills", "pumps", "views"),
    "dashboards",
)
"""Pumps start the flow, so they come after everything that must not miss a record."""

PIPES = ("readers", "intakes", "pumps")
"""What holds no data and is therefore made anew when its text changes."""


@dataclass(frozen=True)
class SqlFile:
    """One file of `sql/`: its name below the folder, its statements and their fingerprint."""

    name: str
    statements: tuple[str, ...]
    fingerprint: str

    @property
    def stage(self) -> str:
        return self.name.split("/")[0]

    @property
    def created(self) -> list[str]:
        """The names of the tables and views that the file makes, in order."""
        words = [statement.split() for statement in self.statements]
        return [
            next(word for word in each[1:] if word.islower())
            for each in words
            if each[0] == "CREATE"
        ]


def statements(text: str) -> tuple[str, ...]:
    """The statements of a file. A statement ends with a semicolon at the end of a line."""
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
    return tuple(part.strip() for part in (code + "\n").split(";\n") if part.strip())


def sql_files() -> list[SqlFile]:
    """Every file of `sql/` that is applied, in order."""
    files = []
    for stage in ORDER:
        path = SQL / stage
        for each in sorted(path.glob("*.sql")) if path.is_dir() else [path]:
            text = each.read_text()
            files.append(
                SqlFile(
                    str(each.relative_to(SQL)),
                    statements(text),
                    hashlib.sha256(text.encode()).hexdigest(),
                )
            )
    return files


def apply(clickhouse: ClickHouse) -> list[str]:
    """Bring the database to what `sql/` says; return the names of the files applied.

    Data is never dropped: tables are created where missing and get the columns they lack. Pipes are
    dropped and made anew if any of their files changed; Kafka remembers how far they had read.
    """
    clickhouse.command("CREATE DATABASE IF NOT EXISTS stunwatch", database="default")
    clickhouse.command(
        "CREATE TABLE IF NOT EXISTS schema_applied"
        " (name String, fingerprint String, applied_at DateTime DEFAULT now())"
        " ENGINE = ReplacingMergeTree(applied_at) ORDER BY name"
    )
    applied = dict(clickhouse.rows("SELECT name, fingerprint FROM schema_applied FINAL"))
    files = sql_files()
    changed = {each.name for each in files if applied.get(each.name) != each.fingerprint}
    if not changed:
        return []
    pipes = [each for each in files if each.stage in PIPES]
    if any(each.name in changed for each in pipes):
        changed |= {each.name for each in pipes}
        drop_pipes(clickhouse)
    for each in files:
        if each.name not in changed:
            continue
        for statement in each.statements:
            clickhouse.command(statement)
        if each.stage == "tables" and each.name in applied:
            _add_columns(clickhouse, each)
        _note(clickhouse, each.name, each.fingerprint)
    return sorted(changed)


def drop_pipes(clickhouse: ClickHouse) -> None:
    """Stop the flow from Kafka into the tables, until `apply` makes it anew."""
    for each in reversed([each for each in sql_files() if each.stage in PIPES]):
        for name in reversed(each.created):
            clickhouse.command(f"DROP TABLE IF EXISTS {name} SYNC")
        _note(clickhouse, each.name, "")


def _note(clickhouse: ClickHouse, name: str, fingerprint: str) -> None:
    clickhouse.command(
        f"INSERT INTO schema_applied (name, fingerprint) VALUES ('{name}', '{fingerprint}')"
    )


def _add_columns(clickhouse: ClickHouse, file: SqlFile) -> None:
    """Give an existing table the columns that its file has and it lacks.

    They may lengthen its sorting key if they have no default: rows that are there sort as before.
    """
    for statement, name in zip(file.statements, file.created, strict=True):
        wanted = f"{name}_wanted"
        clickhouse.command(f"DROP TABLE IF EXISTS {wanted} SYNC")
        clickhouse.command(statement.replace(name, wanted, 1))
        changes = [
            f"ADD COLUMN {column} {definition}"
            for column, definition in clickhouse.rows(
                "SELECT name, concat(type, ' ', default_kind, ' ', default_expression,"
                " if(compression_codec = '', '', concat(' ', compression_codec)))"
                f" FROM system.columns WHERE database = 'stunwatch' AND table = '{wanted}'"
                " AND name NOT IN (SELECT name FROM system.columns"
                f" WHERE database = 'stunwatch' AND table = '{name}') ORDER BY position"
            )
        ]
        keys = dict(
            clickhouse.rows(
                "SELECT name, sorting_key FROM system.tables WHERE database = 'stunwatch'"
            )
        )
        if keys[name] != keys[wanted]:
            changes.append(f"MODIFY ORDER BY ({keys[wanted]})")
        if changes:
            clickhouse.command(f"ALTER TABLE {name} {', '.join(changes)}")
        clickhouse.command(f"DROP TABLE {wanted} SYNC")
