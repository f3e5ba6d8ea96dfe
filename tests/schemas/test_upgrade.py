"""What was stored before samples told who measured them is theirs who did, and stays one row."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from stunwatch import schema
from tests.investigations.server import Server, running

KEYED = ("latency_samples_stored", "latency_baselines_stored", "latency_hours_stored")
SAMPLE = (
    "INSERT INTO latency_samples_stored (sampled_at, received_at, host, object_class, device,"
    " davg_ms, offset{columns}) VALUES ('2024-05-06 07:08:00', now64(6), 'esx01',"
    " '{object_class}', 'naa.1', {davg_ms}, {offset}{values})"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("upgrade")) as made:
        # They name the new column; `stunwatch up` makes them anew around a change.
        for view in ("latency_baselines_intake", "latency_hours_intake"):
            made.admin.command(f"DROP VIEW {view} SYNC")
        yield made


def tables_alone(folder: Path) -> Path:
    """A copy of `sql/` without what reads Kafka."""
    shutil.copytree(schema.SQL, folder)
    for stage in {*schema.ORDER} - {"tables", "retention.sql"}:
        shutil.rmtree(folder / stage)
        (folder / stage).mkdir()
    return folder


def without_origin(text: str) -> str:
    return re.sub(r",?\n +origin LowCardinality\(String\)(?: DEFAULT 'esxtop')?(?=,?\n)", "", text)


def test_the_sorting_key_is_lengthened_and_rows_are_kept(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tables_alone(tmp_path / "sql")
    monkeypatch.setattr(schema, "SQL", folder)
    for name in KEYED:
        path = folder / "tables" / f"{name}.sql"
        new = path.read_text()
        path.write_text(without_origin(new).replace(", origin);", ");"))
        server.admin.command(f"DROP TABLE {name} SYNC")
        (old,) = schema.statements(path.read_text())
        assert "origin" not in old
    schema.apply(server.admin)
    old_row = SAMPLE.format(columns="", values="", object_class="scsi_device", davg_ms=3, offset=7)
    server.admin.command(old_row)

    shutil.copytree(
        Path(schema.__file__).parents[2] / "sql/tables", folder / "tables", dirs_exist_ok=True
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
