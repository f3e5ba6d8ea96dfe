"""Back-up and restore: ClickHouse's tables, and how far its readers of Kafka had come.

A back-up is a folder: `clickhouse/`, written by ClickHouse itself, and `backup.json`, which comes
last and tells that the rest is whole. The readers' offsets are noted before the tables are copied,
so the tables hold all that was read by then, and perhaps more. After a restore the readers go on
from those offsets: what is read twice is one row, because a row's identity is in its content.

What only Flink knows is not in it: the live job has its checkpoints, and everything that it told is
in Kafka and ClickHouse.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

from stunwatch import schema
from stunwatch.access import kafka_access
from stunwatch.clickhouse import ClickHouse
from stunwatch.errors import UserError
from stunwatch.history import wait_until_read
from stunwatch.kafka import Kafka, Offsets
from stunwatch.runtime import checks, clickhouse, kafka
from stunwatch.settings import Settings

MANIFEST = "backup.json"
DATA = "clickhouse"

LEAVING_SECONDS = 180.0
"""A reader that was dropped has left its group by then; one that was killed, or dropped while it
joined, is missed by Kafka after one or two of its sessions of 45 s."""


@dataclass(frozen=True)
class Table:
    """A table as it was: `columns` in order, `definition` as ClickHouse tells it."""

    columns: list[str]
    definition: str
    rows: int


@dataclass(frozen=True)
class Backup:
    """What `backup.json` holds. Offsets are by group, then by "topic/partition"."""

    made_at: str
    clickhouse: str
    kafka: str
    bytes: int
    tables: dict[str, Table]
    offsets: dict[str, dict[str, int]]

    @property
    def rows(self) -> int:
        """All rows of all tables; what will be merged into one counts as often as it is there."""
        return sum(each.rows for each in self.tables.values())


@dataclass(frozen=True)
class Restored:
    """What a restore did. `lost` messages Kafka did not keep long enough to be read again."""

    backup: Backup
    read_again: int
    lost: int


def back_up(settings: Settings, folder: Path) -> Backup:
    """Write a back-up into `folder`, which must not exist or be empty. The pipeline goes on.

    Raises:
        UserError: the folder holds something, the disk is too small, or ClickHouse cannot write.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} is there already: a back-up wants a new folder.")
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
        # Nothing that looks like a back-up stays.
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
    """Bring a back-up's rows into the running ClickHouse and read Kafka from where it ended.

    Rows that are there stay: what both hold is one row. Returns when everything that Kafka held at
    the beginning has been read; `tell` is called with what is being done.

    Raises:
        UserError: the folder is no whole back-up, it is of a newer version, the disk is too small,
            or ClickHouse or Kafka refuse.
    """
    backup = read(folder)
    admin = clickhouse.administrator(settings)
    present = _tables(admin)
    _require_known(backup, present)
    free = _number(admin, "SELECT min(unreserved_space) FROM system.disks")
    if free < backup.bytes + settings.min_free_mb * checks.MIB:
        raise UserError(
            f"ClickHouse has {free // checks.MIB} MiB left, the back-up needs"
            f" {backup.bytes // checks.MIB + settings.min_free_mb}: free some space."
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
        # Whatever failed: lines go on being read, and a restore can be run again.
        schema.apply(admin)
    broker = Kafka(kafka_access(settings, "metrics"))
    for group, topics in readers().items():
        tell(f"reading Kafka again: {', '.join(topics)}")
        wait_until_read(broker, group, broker.ends(topics), lambda: None)
    return Restored(backup, read_again, lost)


def read(folder: Path) -> Backup:
    """Read what a back-up says of itself. Raises UserError where it is none, or not whole."""
    try:
        text = json.loads((folder / MANIFEST).read_text())
        tables = {name: Table(**each) for name, each in text.pop("tables").items()}
        return Backup(**text, tables=tables)
    except FileNotFoundError:
        raise UserError(f"{folder} holds no whole back-up: there is no {MANIFEST} in it.") from None
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise UserError(f"{folder / MANIFEST} cannot be understood ({error}).") from error


def readers() -> dict[str, list[str]]:
    """The consumer groups of ClickHouse's readers (sql/readers/), each with its topics."""
    found = {}
    for file in schema.sql_files():
        if file.stage == "readers" and not file.name.endswith("_writer.sql"):
            text = " ".join(file.statements)
            [group] = re.findall(r"kafka_group_name = '([^']+)'", text)
            [topics] = re.findall(r"kafka_topic_list = '([^']+)'", text)
            found[group] = topics.split(",")
    return found


def _tables(admin: ClickHouse) -> dict[str, Table]:
    """Every table that keeps rows, but the one that `schema` keeps of itself."""
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
                f"The back-up is of a newer version: it holds {name}, which this one does not know."
                " Restore it with that version."
            )
        if newer := [each for each in table.columns if each not in present[name].columns]:
            raise UserError(
                f"The back-up is of a newer version: its {name} has {', '.join(newer)}, which this"
                " one does not know. Restore it with that version."
            )


def _restore_as_it_was(admin: ClickHouse, folder: Path, name: str) -> None:
    """Of an older version: restored beside the present table, then copied into it."""
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
    """Set the readers back to the back-up's offsets; return (messages to read again, lost ones).

    In another Kafka than the back-up's its offsets mean nothing: there all of it is read.
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
            # A partition begins at 0: what it no longer holds and was not backed up is lost.
            lost += max(0, start - noted) if is_same else 0
            wanted[place] = max(start, noted)
            again += ends[place] - wanted[place]
        _set_offsets(admin, group, wanted, tell)
    return again, lost


def _set_offsets(admin: Any, group: str, offsets: Offsets, tell: Callable[[str], None]) -> None:
    """Say how far a group has come; its readers may take a moment to leave it."""
    places = [TopicPartition(*place, offset) for place, offset in offsets.items()]
    deadline = time.monotonic() + LEAVING_SECONDS
    while True:
        asked = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, places)])
        try:
            for each in asked[group].result().topic_partitions:
                if each.error:
                    raise KafkaException(each.error)
            return
        except KafkaException as error:
            if time.monotonic() > deadline:
                raise UserError(
                    f"Kafka does not set {group} back ({error.args[0].str()}):"
                    " the rows are restored; run the restore again."
                ) from error
        tell(f"waiting until Kafka misses the readers of {group} that are gone")
        time.sleep(0.5)


def _cluster(settings: Settings) -> str:
    """Which Kafka this is."""
    # By a name: a client that nobody holds is gone before it is answered.
    admin = kafka.administrator(settings)
    try:
        return str(admin.describe_cluster(request_timeout=10).result().cluster_id)
    except KafkaException as error:
        raise UserError(
            f"Kafka does not answer on {settings.bootstrap} ({error.args[0].str()})."
        ) from error


def _run(admin: ClickHouse, sql: str, **settings: str) -> None:
    """Run a BACKUP or RESTORE to its end, however long it takes."""
    told = ", ".join(f"{name} = {value}" for name, value in {"async": "true", **settings}.items())
    [(job, _)] = admin.rows(f"{sql} SETTINGS {told}")
    while True:
        [(status, error)] = admin.rows(
            "SELECT status, error FROM system.backups WHERE id = {id:String}", {"id": job}
        )
        if status in {"BACKUP_CREATED", "RESTORED"}:
            return
        if status in {"BACKUP_FAILED", "RESTORE_FAILED", "BACKUP_CANCELLED", "RESTORE_CANCELLED"}:
            raise UserError(f"ClickHouse did not finish: {error.splitlines()[0]}")
        time.sleep(0.2)


def _file(folder: Path) -> str:
    escaped = str(folder.resolve() / DATA).replace("\\", "\\\\").replace("'", "\\'")
    return f"File('{escaped}')"


def _number(admin: ClickHouse, sql: str) -> int:
    return int(admin.rows(sql)[0][0])
