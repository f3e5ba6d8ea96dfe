"""Applies `sql/` to ClickHouse. Idempotent, in the order in which a record flows."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from stunwatch.clickhouse import ClickHouse
from stunwatch.errors import UserError
from stunwatch.folders import ROOT

SQL = ROOT / "sql"
GENERATED = "generated"
"""The folder below `SQL` that `make generate` fills. It has the same folders, and each is applied
with the one of the same name."""

ORDER = (
    *("tables", "retention.sql", "queues", "materialized_views", "backfills", "parsing", "views"),
    "queries/dashboards",
)
"""Folders and files in the order of application.

The views of `parsing` read the queues and so start the flow. They come last, so that no table or
view misses a record.
"""

SITE_TIMEZONE = "{site_timezone}"
"""Placeholder of the setting. If the setting changes, the files with it are applied again."""

PIPES = ("queues", "materialized_views", "parsing")
"""Folders whose objects hold no data: they are recreated when their definition changes."""


_PRESENT_PIPES = """
SELECT name
FROM system.tables
WHERE
    database = 'stunwatch'
    AND (
        engine IN ('Kafka', 'Null')
        -- A view that a user has made has another definer.
        OR (engine = 'MaterializedView' AND create_table_query LIKE '%DEFINER = transform%')
    )
ORDER BY
    -- The views that start the flow are the first, then the others, then what they read.
    name NOT IN (
        SELECT arrayJoin(dependencies_table)
        FROM system.tables
        WHERE database = 'stunwatch' AND engine = 'Kafka'
    ),
    engine != 'MaterializedView',
    name
"""


@dataclass(frozen=True)
class SqlFile:
    """One file of `sql/`: its path below the folder, its statements and their fingerprint."""

    name: str
    statements: tuple[str, ...]
    fingerprint: str

    @property
    def stage(self) -> str:
        """The entry of `ORDER` that the file belongs to."""
        name = self.name.removeprefix(f"{GENERATED}/")
        return name.rpartition("/")[0] or name

    @property
    def created(self) -> list[str]:
        """The names of the tables and views that the file creates, in order."""
        words = [statement.split() for statement in self.statements]
        return [
            next(word for word in each[1:] if word.islower())
            for each in words
            if each[0] == "CREATE"
        ]


def statements(text: str) -> tuple[str, ...]:
    """Split a file into statements. A statement ends with a semicolon at the end of a line."""
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
    return tuple(part.strip() for part in (code + "\n").split(";\n") if part.strip())


def sql_files(site_timezone: str = "UTC") -> list[SqlFile]:
    """Return every applied file of `sql/`, in order, with the site's time zone filled in."""
    files = []
    for stage in ORDER:
        for each in _files_of(stage):
            text = each.read_text().replace(SITE_TIMEZONE, site_timezone)
            files.append(
                SqlFile(
                    str(each.relative_to(SQL)),
                    statements(text),
                    hashlib.sha256(text.encode()).hexdigest(),
                )
            )
    return files


def _files_of(stage: str) -> list[Path]:
    """The files of an entry of `ORDER`, written by hand and generated, by name."""
    found: list[Path] = []
    for path in (SQL / stage, SQL / GENERATED / stage):
        found += [path] if path.is_file() else path.glob("*.sql")
    return sorted(found, key=lambda path: path.name)


def apply(
    clickhouse: ClickHouse, cluster: Cluster | None = None, *, site_timezone: str = "UTC"
) -> list[str]:
    """Update the database to the definitions in `sql/`; return the names of the files applied.

    Data is never dropped. Missing tables, missing columns, and missing members of lists of tuples
    are added. If any file in PIPES changed, all objects of PIPES are dropped and recreated; Kafka
    keeps their offsets. With a `cluster`, this updates only the server that `clickhouse` connects
    to. Raises UserError, and changes nothing, if a table cannot be altered to its definition.
    """
    _make_database(clickhouse)
    clickhouse.command(
        "CREATE TABLE IF NOT EXISTS schema_applied"
        " (name String, fingerprint String, applied_at DateTime DEFAULT now())"
        " ENGINE = ReplacingMergeTree(applied_at) ORDER BY name"
    )
    applied = dict(clickhouse.rows("SELECT name, fingerprint FROM schema_applied FINAL"))
    files = sql_files(site_timezone)
    if cluster:
        files = [spread(each, cluster) for each in files]
    changed = {each.name for each in files if applied.get(each.name) != each.fingerprint}
    if not changed:
        return []
    altered = [
        each
        for each in files
        if each.stage == "tables" and each.name in changed and each.name in applied
    ]
    if others := [name for each in altered for name in _of_another_layout(clickhouse, each)]:
        raise UserError(
            f"ClickHouse has tables of a version that this one cannot alter: {', '.join(others)}."
            " Run `stunwatch down`, delete the folder var/clickhouse (on Kubernetes drop the"
            " database stunwatch), and start again: all that Kafka keeps is then read again. Older"
            " rows are lost. See docs/runbooks/upgrade.md."
        )
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
            if each in altered:
                _add_columns(clickhouse, each)
            if cluster:
                _open_shards(clickhouse, each, cluster)
        _note(clickhouse, each.name, each.fingerprint)
    return sorted(changed)


def is_new(clickhouse: ClickHouse) -> bool:
    """Return whether nothing was ever applied to the database. Create it if it is missing."""
    _make_database(clickhouse)
    return clickhouse.rows("EXISTS TABLE schema_applied") == [(0,)]


def store_limits(clickhouse: ClickHouse, limits: Mapping[str, int]) -> None:
    """Store the limits of the settings for the views, by name; see sql/tables/limits_stored.sql."""
    known = dict(clickhouse.rows("SELECT name, value FROM limits_stored FINAL"))
    for name, value in limits.items():
        if known.get(name) != value:
            clickhouse.command(
                f"INSERT INTO limits_stored (name, value) VALUES ('{name}', {value})"
            )


def drop_pipes(clickhouse: ClickHouse) -> None:
    """Stop the flow from Kafka into the tables, until `apply` recreates it.

    All pipes of the database are dropped, those of older versions too: a materialized view that has
    another name now would store each event a second time.
    """
    for (name,) in clickhouse.rows(_PRESENT_PIPES):
        clickhouse.command(f"DROP TABLE IF EXISTS {name} SYNC")
    for each in sql_files():
        if each.stage in PIPES:
            _note(clickhouse, each.name, "")


def _note(clickhouse: ClickHouse, name: str, fingerprint: str) -> None:
    clickhouse.command(
        f"INSERT INTO schema_applied (name, fingerprint) VALUES ('{name}', '{fingerprint}')"
    )


@dataclass(frozen=True)
class Cluster:
    """Servers that share the rows. Tables have shards; a row's identity selects its shard."""

    name: str
    """As in ClickHouse's configuration, `remote_servers`."""
    is_replicated: bool
    """Whether a shard has more than one server. The macro `replica` then identifies each server."""
    fills_tables: bool
    """Whether this server runs backfills. Exactly one does, for all servers."""


SHARD = "_shard"
"""Suffix of the name of a table's shard.

The table's own name refers to all shards, so that queues, views and queries are the same as on a
single server.
"""

REPLICATED = "Replicated"
PLACE = "'/clickhouse/tables/{shard}/{database}/{table}', '{replica}'"
"""Path in ClickHouse Keeper that the replicas of a shard share, with the server's macros."""

LOG_KEY = ("source", "host", "datastore", "vm")
"""Columns that identify a log, in the order of the sharding key."""

STORED = re.compile(r"\b(\w+_(?:stored|late))\b")
ENGINE = re.compile(r"^ENGINE = (\w*MergeTree)(?:\((.*)\))?$", re.MULTILINE)


def apply_to_all(
    cluster: str,
    server: Callable[[str], ClickHouse],
    known_by: str,
    *,
    site_timezone: str = "UTC",
) -> list[str]:
    """Run `apply` on every server of a cluster, one after the other.

    Args:
        cluster: Its name, as in ClickHouse's configuration.
        server: Returns a client for a server by its host name.
        known_by: The host whose configuration lists the others.
        site_timezone: An IANA name.
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
        # The last server runs the backfills: by then all servers have their shards.
        spread_over = Cluster(cluster, macros == [(1,)], fills_tables=(host,) == hosts[-1])
        applied |= set(apply(own, spread_over, site_timezone=site_timezone))
    return sorted(applied)


def _make_database(clickhouse: ClickHouse) -> None:
    clickhouse.command("CREATE DATABASE IF NOT EXISTS stunwatch", database="default")


def spread(file: SqlFile, cluster: Cluster) -> SqlFile:
    """Return the file as a server of a cluster needs it; its fingerprint stays the same."""
    if file.stage == "backfills" and not cluster.fills_tables:
        return replace(file, statements=())
    return replace(file, statements=tuple(_spread(file, each, cluster) for each in file.statements))


def _spread(file: SqlFile, statement: str, cluster: Cluster) -> str:
    if file.stage == "tables":
        statement = STORED.sub(rf"\1{SHARD}", statement, count=1)
        return ENGINE.sub(_replicated, statement) if cluster.is_replicated else statement
    if file.stage == "retention.sql":
        return STORED.sub(rf"\1{SHARD}", statement, count=1)
    if file.stage == "materialized_views":
        # Materialized views read the shard of their table: there a row arrives once, with all
        # columns.
        return re.sub(rf"^FROM {STORED.pattern}", rf"FROM \1{SHARD}", statement, flags=re.MULTILINE)
    return statement


def _replicated(engine: re.Match[str]) -> str:
    arguments = f"{PLACE}, {engine[2]}" if engine[2] else PLACE
    return f"ENGINE = {REPLICATED}{engine[1]}({arguments})"


def _alone(statement: str) -> str:
    """Return the statement that creates the table without replicas, for a comparison of columns."""
    for word in (f"{PLACE}, ", PLACE, REPLICATED):
        statement = statement.replace(word, "", 1)
    return statement


def _open_shards(clickhouse: ClickHouse, file: SqlFile, cluster: Cluster) -> None:
    """Create the Distributed tables of a file, or add the columns that they lack.

    Rows with the same identity must be in the same shard, or the engine could not merge them. So
    the shard is selected by columns of the sorting key at the table's creation: by those of the log
    key if there are any, so that the rows of a log are together, else by the file. Events, which
    are few, are spread by their whole identity. This choice never changes (docs/decisions/0029).
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
            for change in _longer_tuples(clickhouse, name, shard):
                clickhouse.command(f"ALTER TABLE {name} {change}")
            continue
        key = [
            column
            for (column,) in clickhouse.rows(
                f"SELECT name FROM system.columns WHERE {of_shard}"
                " AND is_in_sorting_key AND default_kind != 'MATERIALIZED' ORDER BY name"
            )
        ]
        of_log = [column for column in LOG_KEY if column in key and "event_id" not in key]
        of_file = [column for column in key if column == "generation"]
        by = of_log or of_file or key
        clickhouse.command(
            f"CREATE TABLE {name} AS {shard} ENGINE = Distributed("
            f"'{cluster.name}', 'stunwatch', '{shard}', cityHash64({', '.join(by)}))"
        )


def _longer_tuples(clickhouse: ClickHouse, table: str, wanted: str) -> list[str]:
    """Return changes that append to lists of tuples in `table` the members that only `wanted` has.

    Existing rows get the members' defaults.
    """
    return [
        f"MODIFY COLUMN {column} {definition}"
        for column, definition in clickhouse.rows(
            "SELECT theirs.name, theirs.type FROM system.columns AS theirs"
            " INNER JOIN system.columns AS ours ON theirs.name = ours.name"
            f" WHERE theirs.database = 'stunwatch' AND theirs.table = '{wanted}'"
            f" AND ours.database = 'stunwatch' AND ours.table = '{table}'"
            " AND startsWith(ours.type, 'Array(Tuple(')"
            " AND startsWith("
            "theirs.type, concat(substring(ours.type, 1, length(ours.type) - length('))')), ','))"
            " ORDER BY theirs.position"
        )
    ]


@contextmanager
def _wanted_table(clickhouse: ClickHouse, statement: str, name: str) -> Iterator[str]:
    """Create an empty table as the statement defines it, for a comparison; drop it at the end."""
    wanted = f"{name}_wanted"
    clickhouse.command(f"DROP TABLE IF EXISTS {wanted} SYNC")
    clickhouse.command(_alone(statement.replace(name, wanted, 1)))
    yield wanted
    clickhouse.command(f"DROP TABLE {wanted} SYNC")


def _of_another_layout(clickhouse: ClickHouse, file: SqlFile) -> Iterator[str]:
    """Yield the existing tables of a file that no ALTER can change to its definition, with why."""
    for statement, name in zip(file.statements, file.created, strict=True):
        with _wanted_table(clickhouse, statement, name) as wanted:
            both = (
                f"ours.database = 'stunwatch' AND ours.table = '{name}'"
                f" AND theirs.database = 'stunwatch' AND theirs.table = '{wanted}'"
            )
            differences = [
                reason
                for (reason,) in clickhouse.rows(
                    "SELECT multiIf(ours.partition_key != theirs.partition_key, 'partitions',"
                    " NOT startsWith(theirs.sorting_key, ours.sorting_key), 'order', '') AS reason"
                    " FROM system.tables AS ours CROSS JOIN system.tables AS theirs"
                    f" WHERE {both.replace('.table', '.name')} AND reason != ''"
                    " UNION ALL"
                    " SELECT concat('column ', ours.name)"
                    " FROM system.columns AS ours INNER JOIN system.columns AS theirs"
                    " ON ours.name = theirs.name"
                    f" WHERE {both} AND ("
                    "(ours.type != theirs.type AND NOT startsWith(ours.type, 'Array(Tuple('))"
                    " OR (ours.default_kind != theirs.default_kind"
                    " AND (ours.default_kind, theirs.default_kind) NOT IN"
                    " (('', 'DEFAULT'), ('DEFAULT', ''))))"
                )
            ]
        if differences:
            yield f"{name} ({', '.join(sorted(differences))})"


def _add_columns(clickhouse: ClickHouse, file: SqlFile) -> None:
    """Add to an existing table the columns, and members of tuples, that only its file has.

    New columns may extend the sorting key if they have no default: the order of existing rows does
    not change.
    """
    for statement, name in zip(file.statements, file.created, strict=True):
        with _wanted_table(clickhouse, statement, name) as wanted:
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
            changes += _longer_tuples(clickhouse, name, wanted)
            keys = dict(
                clickhouse.rows(
                    "SELECT name, sorting_key FROM system.tables WHERE database = 'stunwatch'"
                )
            )
            if keys[name] != keys[wanted]:
                changes.append(f"MODIFY ORDER BY ({keys[wanted]})")
            if changes:
                clickhouse.command(f"ALTER TABLE {name} {', '.join(changes)}")
