"""Applies `sql/` to ClickHouse: idempotent, in the order in which a record passes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
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


def apply(clickhouse: ClickHouse, cluster: Cluster | None = None) -> list[str]:
    """Bring the database to what `sql/` says; return the names of the files applied.

    Data is never dropped: tables are created where missing and get the columns they lack. Pipes are
    dropped and made anew if any of their files changed; Kafka remembers how far they had read. Of a
    `cluster` this is done to the one server that `clickhouse` leads to.
    """
    _make_database(clickhouse)
    clickhouse.command(
        "CREATE TABLE IF NOT EXISTS schema_applied"
        " (name String, fingerprint String, applied_at DateTime DEFAULT now())"
        " ENGINE = ReplacingMergeTree(applied_at) ORDER BY name"
    )
    applied = dict(clickhouse.rows("SELECT name, fingerprint FROM schema_applied FINAL"))
    files = sql_files()
    if cluster:
        files = [spread(each, cluster) for each in files]
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
        if each.stage == "tables":
            if each.name in applied:
                _add_columns(clickhouse, each)
            if cluster:
                _open_shards(clickhouse, each, cluster)
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


@dataclass(frozen=True)
class Cluster:
    """Servers that share the rows: every table lies in shards, and a row in one by its identity."""

    name: str
    """As in ClickHouse's configuration, `remote_servers`."""
    is_replicated: bool
    """Whether a shard has more than one server: then each knows itself by the macro `replica`."""
    fills_tables: bool
    """Whether it is this server that runs backfills; one does for all."""


SHARD = "_shard"
"""What the name of a table's shard ends in. The table's own name stands for all shards, so that
readers, intakes, views and questions are the same as of one server."""

REPLICATED = "Replicated"
PLACE = "'/clickhouse/tables/{shard}/{database}/{table}', '{replica}'"
"""Where replicas of a shard find each other in Keeper; the server fills in its macros."""

STORED = re.compile(r"\b(\w+_(?:stored|late))\b")
ENGINE = re.compile(r"^ENGINE = (\w*MergeTree)(?:\((.*)\))?$", re.MULTILINE)


def apply_to_all(cluster: str, server: Callable[[str], ClickHouse], known_by: str) -> list[str]:
    """As `apply`, to every server of a cluster, one after the other.

    Args:
        cluster: Its name, as in ClickHouse's configuration.
        server: The access to one of its servers by its host name.
        known_by: The host that knows the others.
    """
    first = server(known_by)
    _make_database(first)
    hosts = first.rows(
        "SELECT host_name FROM system.clusters WHERE cluster = {cluster:String}"
        " ORDER BY shard_num, replica_num",
        {"cluster": cluster},
    )
    applied: set[str] = set()
    for (host,) in hosts:
        own = server(host)
        _make_database(own)
        macros = own.rows("SELECT count() FROM system.macros WHERE macro = 'replica'")
        # When the last one backfills, all have their shards.
        spread_over = Cluster(cluster, macros == [(1,)], fills_tables=(host,) == hosts[-1])
        applied |= set(apply(own, spread_over))
    return sorted(applied)


def _make_database(clickhouse: ClickHouse) -> None:
    clickhouse.command("CREATE DATABASE IF NOT EXISTS stunwatch", database="default")


def spread(file: SqlFile, cluster: Cluster) -> SqlFile:
    """The file as a server of a cluster needs it; its fingerprint stays."""
    if file.stage == "backfills" and not cluster.fills_tables:
        return replace(file, statements=())
    return replace(file, statements=tuple(_spread(file, each, cluster) for each in file.statements))


def _spread(file: SqlFile, statement: str, cluster: Cluster) -> str:
    if file.stage == "tables":
        statement = STORED.sub(rf"\1{SHARD}", statement, count=1)
        return ENGINE.sub(_replicated, statement) if cluster.is_replicated else statement
    if file.stage == "retention.sql":
        return STORED.sub(rf"\1{SHARD}", statement, count=1)
    if file.stage == "intakes":
        # What follows a table follows its shards: there a row arrives once, with all its columns.
        return re.sub(rf"^FROM {STORED.pattern}", rf"FROM \1{SHARD}", statement, flags=re.MULTILINE)
    return statement


def _replicated(engine: re.Match[str]) -> str:
    arguments = f"{PLACE}, {engine[2]}" if engine[2] else PLACE
    return f"ENGINE = {REPLICATED}{engine[1]}({arguments})"


def _alone(statement: str) -> str:
    """The table without replicas, to be looked at."""
    for word in (f"{PLACE}, ", PLACE, REPLICATED):
        statement = statement.replace(word, "", 1)
    return statement


def _open_shards(clickhouse: ClickHouse, file: SqlFile, cluster: Cluster) -> None:
    """Make what stands for all shards of a file's tables, or give it the columns that it lacks.

    Rows of one identity lie in one shard, or its engine could not make them one. The columns that
    tell which are those of the sorting key when the table was made; they never change.
    """
    for shard in file.created:
        name = shard.removesuffix(SHARD)
        of_shard = f"database = 'stunwatch' AND table = '{shard}'"
        lacking = clickhouse.rows(
            "SELECT name, type, default_kind, default_expression"
            f" FROM system.columns WHERE {of_shard} AND name NOT IN (SELECT name"
            f" FROM system.columns WHERE database = 'stunwatch' AND table = '{name}')"
        )
        if clickhouse.rows(f"EXISTS TABLE {name}") == [(1,)]:
            for column, *definition in lacking:
                clickhouse.command(f"ALTER TABLE {name} ADD COLUMN {column} {' '.join(definition)}")
            continue
        key = [
            column
            for (column,) in clickhouse.rows(
                f"SELECT name FROM system.columns WHERE {of_shard}"
                " AND is_in_sorting_key AND default_kind != 'MATERIALIZED' ORDER BY name"
            )
        ]
        clickhouse.command(
            f"CREATE TABLE {name} AS {shard} ENGINE = Distributed("
            f"'{cluster.name}', 'stunwatch', '{shard}', cityHash64({', '.join(key)}))"
        )


def _add_columns(clickhouse: ClickHouse, file: SqlFile) -> None:
    """Give an existing table the columns that its file has and it lacks.

    They may lengthen its sorting key if they have no default: rows that are there sort as before.
    """
    for statement, name in zip(file.statements, file.created, strict=True):
        wanted = f"{name}_wanted"
        clickhouse.command(f"DROP TABLE IF EXISTS {wanted} SYNC")
        clickhouse.command(_alone(statement.replace(name, wanted, 1)))
        changes = [
            # Another replica may have added it a moment ago.
            f"ADD COLUMN IF NOT EXISTS {column} {definition}"
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
