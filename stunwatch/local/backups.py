"""Backup and restore of ClickHouse's tables and of its consumer offsets in Kafka.

A backup is a folder: `clickhouse/`, written by ClickHouse itself, and `backup.json`, which is
written last and marks the backup as complete. The offsets are saved before the tables are copied,
so the tables contain all messages up to these offsets, and perhaps more. After a restore, consumers
continue at these offsets. A message that is read twice becomes one row, because a row's identity is
derived from its content.

Flink's state is not part of a backup: the live job has its own checkpoints, and all its results are
in Kafka and ClickHouse.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from confluent_kafka import KafkaException

from stunwatch import schema
from stunwatch.access import kafka_access
from stunwatch.clickhouse import ClickHouse
from stunwatch.consumers import wait_until_read
from stunwatch.errors import UserError
from stunwatch.kafka import Kafka
from stunwatch.local import checks, clickhouse, kafka
from stunwatch.local.readers import readers, set_offsets
from stunwatch.query_errors import explained
from stunwatch.settings import Settings

MANIFEST = "backup.json"
DATA = "clickhouse"


@dataclass(frozen=True)
class Table:
    """A table at the time of the backup: columns in order, and its CREATE statement."""

    columns: list[str]
    definition: str
    rows: int


@dataclass(frozen=True)
class Backup:
    """The content of `backup.json`. Offsets are by group, then by "topic/partition"."""

    made_at: str
    clickhouse: str
    kafka: str
    bytes: int
    tables: dict[str, Table]
    offsets: dict[str, dict[str, int]]

    @property
    def rows(self) -> int:
        """Number of rows in all tables, including duplicates that are not merged yet."""
        return sum(each.rows for each in self.tables.values())


@dataclass(frozen=True)
class Restored:
    """The result of a restore. `lost` counts messages that Kafka no longer had."""

    backup: Backup
    read_again: int
    lost: int


def back_up(settings: Settings, folder: Path) -> Backup:
    """Write a backup to `folder`, which must not exist or be empty. The pipeline keeps running.

    Raises:
        UserError: the folder is not empty, the disk is too small, or ClickHouse cannot write.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} already exists and is not empty. Name a new folder.")
    admin = clickhouse.administrator(settings)
    size = _number(admin, "SELECT sum(bytes_on_disk) FROM system.parts WHERE active")
    needed_mb = size // checks.MIB + 1 + settings.min_free_mb
    checks.require_disk(folder, needed_mb, "for a back-up")
    broker = Kafka(kafka_access(settings, "metrics"))
    offsets = {
        group: {
            f"{topic}/{partition}": offset
            for (topic, partition), offset in sorted(broker.committed(group).items())
        }
        for group in readers()
    }
    tables = _tables(admin)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    listed = ", ".join(f"TABLE stunwatch.{name}" for name in tables)
    try:
        _run(admin, f"BACKUP {listed} TO {_file(folder)}")
    except UserError:
        # Leave nothing that looks like a backup.
        shutil.rmtree(folder / DATA, ignore_errors=True)
        raise
    made = Backup(
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        clickhouse=str(admin.rows("SELECT version()")[0][0]),
        kafka=_cluster(settings),
        bytes=sum(each.stat().st_size for each in (folder / DATA).rglob("*") if each.is_file()),
        tables=tables,
        offsets=offsets,
    )
    draft = folder / f"{MANIFEST}.partial"
    draft.write_text(json.dumps(asdict(made), indent=2) + "\n")
    draft.rename(folder / MANIFEST)
    return made


def restore(settings: Settings, folder: Path, tell: Callable[[str], None]) -> Restored:
    """Load a backup into the running ClickHouse and read Kafka again from the backup's offsets.

    Existing rows stay; rows in both become one. Returns when all messages that were in Kafka at the
    start have been read. `tell` is called with each step.

    Raises:
        UserError: the backup is incomplete or of a newer version, the disk is too small, or
            ClickHouse or Kafka reports an error.
    """
    backup = read(folder)
    admin = clickhouse.administrator(settings)
    present = _tables(admin)
    _require_known(backup, present)
    free = _number(admin, "SELECT min(unreserved_space) FROM system.disks")
    if free < backup.bytes + settings.min_free_mb * checks.MIB:
        raise UserError(
            f"ClickHouse's disk has {free // checks.MIB:,} MiB free; the backup needs"
            f" {backup.bytes // checks.MIB + settings.min_free_mb:,} MiB. Free some space."
        )
    tell(f"restoring {backup.rows:,} rows of {len(backup.tables)} tables")
    schema.drop_pipes(admin)
    try:
        same = [
            name
            for name, table in backup.tables.items()
            if table.definition == present[name].definition
        ]
        if same:
            listed = ", ".join(f"TABLE stunwatch.{name}" for name in same)
            sql = f"RESTORE {listed} FROM {_file(folder)}"
            _run(admin, sql, allow_non_empty_tables="true")
        for name in backup.tables.keys() - same:
            _restore_as_it_was(admin, folder, name)
        read_again, lost = _rewind(settings, backup, tell)
    finally:
        # Even after a failure: the consumers must continue, and the restore can be repeated.
        clickhouse.apply_sql(settings)
    broker = Kafka(kafka_access(settings, "metrics"))
    for group, topics in readers().items():
        tell(f"reading Kafka again: {', '.join(topics)}")
        wait_until_read(broker, group, broker.ends(topics), lambda: None)
    return Restored(backup, read_again, lost)


def read(folder: Path) -> Backup:
    """Read the manifest of a backup. Raises UserError if it is missing or incomplete."""
    try:
        text = json.loads((folder / MANIFEST).read_text())
        tables = {name: Table(**each) for name, each in text.pop("tables").items()}
        return Backup(**text, tables=tables)
    except FileNotFoundError:
        raise UserError(
            f"{folder} is not a complete backup: it has no {MANIFEST}. Name another folder."
        ) from None
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise UserError(
            f"Cannot read {folder / MANIFEST}: {error}. Name another backup."
        ) from error


def _tables(admin: ClickHouse) -> dict[str, Table]:
    """Return every table that stores rows, except `schema_applied`."""
    columns: dict[str, list[str]] = {}
    for table, column in admin.rows(
        "SELECT table, name FROM system.columns WHERE database = 'stunwatch'"
        " ORDER BY table, position"
    ):
        columns.setdefault(table, []).append(column)
    return {
        name: Table(columns[name], definition, rows)
        for name, definition, rows in admin.rows(
            "SELECT name, create_table_query, total_rows FROM system.tables"
            " WHERE database = 'stunwatch' AND engine LIKE '%MergeTree'"
            " AND name != 'schema_applied' ORDER BY name"
        )
    }


def _require_known(backup: Backup, present: dict[str, Table]) -> None:
    for name, table in backup.tables.items():
        if name not in present:
            raise UserError(
                f"The backup is from a newer version: this version has no table {name}. Restore it"
                " with the newer version."
            )
        if newer := [each for each in table.columns if each not in present[name].columns]:
            raise UserError(
                f"The backup is from a newer version: this version's table {name} has no column"
                f" {', '.join(newer)}. Restore it with the newer version."
            )


def _restore_as_it_was(admin: ClickHouse, folder: Path, name: str) -> None:
    """Load a table of an older version into a table of its own, then copy its rows."""
    beside = f"{name}_restored"
    admin.command(f"DROP TABLE IF EXISTS {beside} SYNC")
    sql = f"RESTORE TABLE stunwatch.{name} AS stunwatch.{beside} FROM {_file(folder)}"
    _run(admin, sql)
    kept = admin.rows(
        "SELECT name FROM system.columns WHERE database = 'stunwatch' AND table = {table:String}"
        " AND default_kind NOT IN ('MATERIALIZED', 'ALIAS') ORDER BY position",
        {"table": beside},
    )
    columns = ", ".join(column for (column,) in kept)
    admin.command(f"INSERT INTO {name} ({columns}) SELECT {columns} FROM {beside}")
    admin.command(f"DROP TABLE {beside} SYNC")


def _rewind(settings: Settings, backup: Backup, tell: Callable[[str], None]) -> tuple[int, int]:
    """Set the consumers to the backup's offsets; return (messages to read again, lost messages).

    If this is not the Kafka cluster of the backup, the offsets do not apply, and all messages are
    read.
    """
    admin = kafka.administrator(settings)
    is_same = backup.kafka == _cluster(settings)
    again = lost = 0
    broker = Kafka(kafka_access(settings, "metrics"))
    for group, topics in readers().items():
        ends = broker.ends(topics)
        wanted = {}
        for place, start in broker.starts(topics).items():
            topic, partition = place
            noted = backup.offsets.get(group, {}).get(f"{topic}/{partition}", 0)
            noted = noted if is_same and noted <= ends[place] else 0
            # Offsets start at 0: messages after the backup that Kafka no longer has are lost.
            lost += max(0, start - noted) if is_same else 0
            wanted[place] = max(start, noted)
            again += ends[place] - wanted[place]
        set_offsets(admin, group, wanted, tell)
    return again, lost


def _cluster(settings: Settings) -> str:
    """Return the id of the Kafka cluster."""
    # The name keeps the client alive: without a reference it is deleted before the answer.
    admin = kafka.administrator(settings)
    try:
        return str(admin.describe_cluster(request_timeout=10).result().cluster_id)
    except KafkaException as error:
        raise UserError(
            f"Cannot reach Kafka on {settings.bootstrap}: {error.args[0].str()}."
            " `stunwatch status` shows what runs."
        ) from error


def _run(admin: ClickHouse, sql: str, **settings: str) -> None:
    """Run a BACKUP or RESTORE and wait for its end, without a time limit."""
    told = ", ".join(f"{name} = {value}" for name, value in {"async": "true", **settings}.items())
    [(job, _)] = admin.rows(f"{sql} SETTINGS {told}")
    while True:
        [(status, error)] = admin.rows(
            "SELECT status, error FROM system.backups WHERE id = {id:String}", {"id": job}
        )
        if status in {"BACKUP_CREATED", "RESTORED"}:
            return
        if status in {"BACKUP_FAILED", "RESTORE_FAILED", "BACKUP_CANCELLED", "RESTORE_CANCELLED"}:
            raise UserError(f"ClickHouse did not finish. {explained(error.splitlines()[0])}")
        time.sleep(0.2)


def _file(folder: Path) -> str:
    escaped = str(folder.resolve() / DATA).replace("\\", "\\\\").replace("'", "\\'")
    return f"File('{escaped}')"


def _number(admin: ClickHouse, sql: str) -> int:
    return int(admin.rows(sql)[0][0])
