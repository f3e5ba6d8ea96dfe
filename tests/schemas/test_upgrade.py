"""After an upgrade, old rows are unchanged and tables have the new columns."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from stunwatch import schema
from stunwatch.errors import UserError
from tests.clickhouse_server import Server, running, without_kafka

KEYED = ("latency_samples_stored", "latency_baselines_stored", "latency_hours_stored")
NEW_MEMBERS = (
    ", evidence_ids Array(UUID), precondition Nullable(String), risk_level Nullable(String),"
    " risk Nullable(String)"
)
STUN = next((Path(__file__).parents[2] / "schemas/samples").glob("stun.v1.*.pass.json"))
SAMPLE = (
    "INSERT INTO latency_samples_stored (sampled_at, given_received_at, host, object_class, device,"
    " davg_ms, offset{columns}) VALUES ('2024-05-06 07:08:00', now64(6), 'esx01',"
    " '{object_class}', 'naa.1', {davg_ms}, {offset}{values})"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("upgrade")) as made:
        # They contain the new column. `stunwatch up` recreates them when it applies a change.
        for view in ("latency_baselines_mv", "latency_hours_mv"):
            made.admin.command(f"DROP VIEW {view} SYNC")
        yield made


def tables_alone(folder: Path) -> Path:
    """Copy the tables and the retention of `sql/`, and nothing else."""
    shutil.copytree(schema.SQL, folder)
    for stage in {*schema.ORDER} - {"tables", "retention.sql"}:
        shutil.rmtree(folder / stage)
        (folder / stage).mkdir()
    shutil.rmtree(folder / schema.GENERATED)
    return folder


def without_origin(text: str) -> str:
    return re.sub(r",?\n +origin LowCardinality\(String\)(?: DEFAULT 'esxtop')?(?=,?\n)", "", text)


def test_the_sorting_key_is_extended_and_rows_are_kept(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tables_alone(tmp_path / "sql")
    monkeypatch.setattr(schema, "SQL", folder)
    for name in KEYED:
        path = folder / "tables" / f"{name}.sql"
        new = path.read_text()
        path.write_text(re.sub(r", origin\)(?=;|\nSETTINGS)", ")", without_origin(new)))
        server.admin.command(f"DROP TABLE {name} SYNC")
        (old,) = schema.statements(path.read_text())
        assert "origin" not in old
    schema.apply(server.admin)
    old_row = SAMPLE.format(columns="", values="", object_class="scsi_device", davg_ms=3, offset=7)
    server.admin.command(old_row)

    shutil.copytree(
        Path(schema.__file__).parents[1] / "sql/tables", folder / "tables", dirs_exist_ok=True
    )
    assert schema.apply(server.admin) == sorted(f"tables/{name}.sql" for name in KEYED)
    assert schema.apply(server.admin) == []

    given = {"object_class": "scsi_device", "davg_ms": 4, "columns": ", origin"}
    server.admin.command(SAMPLE.format(**given, values=", ''", offset=7))
    server.admin.command(SAMPLE.format(**given, values=", 'vcenter'", offset=7))
    server.admin.command(
        SAMPLE.format(**{**given, "object_class": "datastore"}, values=", ''", offset=7)
    )
    server.admin.command("OPTIMIZE TABLE latency_samples_stored FINAL")
    assert server.reader.rows(
        "SELECT object_class, origin, davg_ms FROM latency_samples ORDER BY ALL"
    ) == [
        ("datastore", "storage_rm", 4),
        ("scsi_device", "esxtop", 3),
        ("scsi_device", "vcenter", 4),
    ]


def test_next_steps_of_older_versions_are_kept_and_get_the_new_members(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tables_alone(tmp_path / "sql")
    monkeypatch.setattr(schema, "SQL", folder)
    path = folder / "tables/incidents_stored.sql"
    new = path.read_text()
    path.write_text(new.replace(NEW_MEMBERS, ""))
    assert path.read_text() != new
    server.admin.command("DROP TABLE incidents_stored SYNC")
    schema.apply(server.admin)
    insert = (
        "INSERT INTO incidents_stored (event_id, revision, next_steps) VALUES (generateUUIDv4(),"
    )
    server.admin.command(f"{insert} 1, [('look', 'it is slow', NULL, 'a doubt')])")

    path.write_text(new)
    assert schema.apply(server.admin) == ["tables/incidents_stored.sql"]
    assert schema.apply(server.admin) == []
    member = "('look', 'it is slow', NULL, 'a doubt', [generateUUIDv4()], 'first', 'low', 'harm')"
    server.admin.command(f"{insert} 2, [{member}])")
    assert server.reader.rows(
        "SELECT next_steps[1].step, next_steps[1].against, length(next_steps[1].evidence_ids),"
        " next_steps[1].precondition, next_steps[1].risk_level, next_steps[1].risk"
        " FROM incidents ORDER BY 5 NULLS FIRST"
    ) == [("look", "a doubt", 0, None, None, None), ("look", "a doubt", 1, "first", "low", "harm")]


LAYOUTS = {
    "partitions": ("PARTITION BY toMonday(received_on)", "PARTITION BY toYYYYMM(received_on)"),
    "order": ("offset, line_hash)", "line_hash, offset)"),
    "column truncated": ("truncated Bool", "truncated UInt8"),
    "column received_at": (
        "received_at DateTime64(6, 'UTC') ALIAS",
        "received_at DateTime64(6, 'UTC') DEFAULT",
    ),
}


@pytest.mark.parametrize("reason", LAYOUTS)
def test_a_table_that_cannot_be_altered_is_named_and_nothing_changes(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    folder = tables_alone(tmp_path / "sql")
    monkeypatch.setattr(schema, "SQL", folder)
    path = folder / "tables/log_lines_stored.sql"
    new = path.read_text()
    path.write_text(new.replace(*LAYOUTS[reason]))
    assert path.read_text() != new
    server.admin.command("DROP TABLE log_lines_stored SYNC")
    schema.apply(server.admin)
    server.admin.command("INSERT INTO log_lines_stored (message) VALUES ('a line')")

    path.write_text(new)
    for _ in range(2):
        with pytest.raises(UserError, match=rf"log_lines_stored \(.*{reason}.*\).*stunwatch down"):
            schema.apply(server.admin)
    assert server.admin.rows("SELECT message FROM log_lines_stored") == [("a line",)]
    assert not {each for each in server.names() if each.endswith("_wanted")}

    server.admin.command("DROP TABLE log_lines_stored SYNC")
    assert schema.apply(server.admin) == ["tables/log_lines_stored.sql"]


def test_a_renamed_materialized_view_stores_an_event_once(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [each for each in schema.sql_files() if each.stage in {"queues", "parsing"}]
    folder = tables_alone(tmp_path / "sql")
    monkeypatch.setattr(schema, "SQL", folder)
    for each in files:
        path = folder / each.name.removeprefix(f"{schema.GENERATED}/")
        path.write_text("".join(f"{without_kafka(one)};\n" for one in each.statements))
    now = (
        Path(schema.__file__).parents[1] / "sql/generated/materialized_views/stuns_mv.sql"
    ).read_text()
    before = folder / "materialized_views/pauses_mv.sql"
    before.write_text(now.replace("stuns_mv", "pauses_mv"))
    server.admin.command(
        "CREATE MATERIALIZED VIEW of_a_user ENGINE = MergeTree ORDER BY raw"
        " AS SELECT raw FROM events"
    )
    schema.apply(server.admin)

    before.unlink()
    (folder / "materialized_views/stuns_mv.sql").write_text(now)
    assert "materialized_views/stuns_mv.sql" in schema.apply(server.admin)
    server.read([("events.stun", STUN.read_bytes())])
    assert server.admin.rows("SELECT count() FROM stuns_stored") == [(1,)]
    assert server.admin.rows("SELECT count() FROM of_a_user") == [(1,)]
    server.admin.command("DROP VIEW of_a_user SYNC")
