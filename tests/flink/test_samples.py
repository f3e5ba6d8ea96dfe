"""Messages with the samples of one object or of several become rows of SampleWindows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pyflink.table import EnvironmentSettings, TableEnvironment

from stunwatch.jobs.detect import SAMPLE_TYPE, sample_statements

pytestmark = pytest.mark.integration

MESSAGES = Path(__file__).parents[2] / "schemas/samples"
SINGLE, ROW = (
    json.loads((MESSAGES / f"{name}.pass.json").read_text())
    for name in ("esxtop_sample.v1.slow_device", "esxtop_row.v1.two_devices")
)
OF_VCENTER = {**SINGLE, "origin": "vcenter"}
NAA = ROW["devices"]


def of_file(statement: str, path: Path) -> str:
    """Return the statement with a file of messages in place of Kafka."""
    options = "'connector' = 'filesystem', 'format' = 'json', 'json.ignore-parse-errors' = 'true'"
    return re.sub(
        r"WITH \(.*\)", f"WITH ({options}, 'path' = '{path}')", statement, flags=re.DOTALL
    )


LISTS = ("devices", "davg_ms", "kavg_ms", "gavg_ms", "commands_per_second")
COLUMNS = ("event_time", "kind", "host", "origin", "object_class", "run_id")


def measured(tmp_path: Path, messages: list[dict[str, Any]]) -> list[list[Any]]:
    """Return the rows of esxtop_measured: COLUMNS, then LISTS as text."""
    path = tmp_path / "messages.json"
    path.write_text("".join(f"{json.dumps({'owner': 'esx02', **each})}\n" for each in messages))
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    tables.get_config().set("parallelism.default", "1")
    for statement in sample_statements("localhost:1", {}):
        tables.execute_sql(of_file(statement, path))
    assert len(tables.from_path("esxtop_measured").get_schema().get_field_names()) == len(
        SAMPLE_TYPE.get_field_types()
    )
    names = ", ".join((*COLUMNS, *(f"CAST({each} AS STRING)" for each in LISTS)))
    with tables.execute_sql(f"SELECT {names} FROM esxtop_measured").collect() as rows:
        return [[*row] for row in rows]


def test_a_message_of_one_object_and_one_of_several_become_rows_of_lists(tmp_path: Path) -> None:
    head = [ROW["event_time"], "line", "esx02.lab.example", "esxtop", "scsi_device", "live"]
    both = f"[{', '.join(NAA)}]"
    assert measured(tmp_path, [SINGLE, OF_VCENTER, ROW]) == [
        [*head, f"[{NAA[0]}]", "[31.5]", "[0.02]", "[31.52]", "[412.7]"],
        [*head, both, "[31.5, 0.25]", "[0.02, NULL]", "[31.52, 0.25]", "[412.7, 0.0]"],
    ]


def test_lists_that_a_message_lacks_are_unknown(tmp_path: Path) -> None:
    no_measures = {name: each for name, each in ROW.items() if name != "measures"}
    broken = {**ROW, "devices": "naa.1"}
    wrong = {**ROW, "measures": {"davg_ms": ["x", 0.5], "kavg_ms": 5}}
    progress = {"event_time": "x", "kind": "progress", "run_id": "r1"}
    found = measured(tmp_path, [no_measures, broken, wrong, progress])
    both, unknown = f"[{', '.join(NAA)}]", ["[NULL]"] * 5
    assert [row[len(COLUMNS) :] for row in found] == [
        [both, None, None, None, None],
        unknown,
        [both, "[NULL, 0.5]", None, None, None],
        unknown,
    ]
