"""`sql/` is applied to a database with data: unchanged, again, and after changes."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stunwatch import schema
from stunwatch.clickhouse import as_user
from tests.end_to_end.test_live import live, vmware_log
from tests.pipeline import Pipeline


def test_an_unchanged_schema_is_not_applied_again(pipeline: Pipeline) -> None:
    assert schema.apply(as_user(pipeline.settings, "admin")) == []


@pytest.mark.slow
def test_a_new_column_is_added_to_a_table_that_keeps_its_rows(
    pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = as_user(pipeline.settings, "admin")
    pipeline.ship("esxi.vmware_log", live(vmware_log("kept01"), "PowerOn", datetime.now(UTC)))
    pipeline.wait_for("SELECT count() FROM log_lines WHERE vm = 'kept01'", 1)
    before = pipeline.one("SELECT count() FROM log_lines")

    changed = tmp_path / "sql"
    shutil.copytree(schema.SQL, changed)
    table = changed / "tables/log_lines_stored.sql"
    table.write_text(
        table.read_text().replace(
            "    truncated Bool,\n",
            "    truncated Bool,\n    shard UInt8 DEFAULT 7 CODEC(ZSTD(1)),\n",
        )
    )
    with monkeypatch.context() as patch:
        patch.setattr(schema, "SQL", changed)
        assert schema.apply(admin) == ["tables/log_lines_stored.sql"]
    assert pipeline.rows("SELECT DISTINCT shard FROM log_lines_stored") == [(7,)]
    assert pipeline.one("SELECT count() FROM log_lines") == before

    # Back to the definitions of the repository; the queues are recreated and continue at their
    # offsets.
    reader = changed / "queues/records_queue.sql"
    reader.write_text(reader.read_text() + "\n-- changed\n")
    with monkeypatch.context() as patch:
        patch.setattr(schema, "SQL", changed)
        assert "parsing/records_mv.sql" in schema.apply(admin)
    assert schema.apply(admin)
    pipeline.ship("esxi.vmware_log", live(vmware_log("kept02"), "PowerOn", datetime.now(UTC)))
    pipeline.wait_for("SELECT count() FROM log_lines WHERE vm = 'kept02'", 1, seconds=90)
