"""Flink keys events that vCenter repeats by the host that they name."""

from __future__ import annotations

import sys

import pytest
from pyflink.table import EnvironmentSettings, TableEnvironment

from stunwatch.engine.owners import BUCKET, bucket_of_owner
from stunwatch.jobs.detect import statements
from stunwatch.jobs.options import filled, quoted
from tests.detectors.cases import owner_of

pytestmark = pytest.mark.slow

TEXTS = [
    "Issue detected on esx07.lab.example in Site A: vmsyslog logger 192.0.2.10:514 lost 17",
    "Error detected on ESX07 in Site A: Lost access to volume 5f0a7c11-26003ea2 (ds's)",
    "Issue detected on 192.0.2.7 in Site A: x",
    "Issue detected on 2001:db8::7 in Site A: x",
    "Alarm 'a' on esx07 by 'Issue detected on esx07 in Site A: x'",
    "Lost access to volume 5f0a7c11-26003ea2 (ds-gold)",
]
HEAD = r" Event [81204] [1-1] [2022-03-04T05:06:07.18797Z] [vim.event.EventEx] [] [LAB\op] [] []"


def test_the_jvm_and_python_compute_the_same_log_key(java_classes: str) -> None:
    messages = [
        *(f"{HEAD} [{text}]" for text in TEXTS),
        *(f"Event 812 : {text}" for text in TEXTS),
        "a line that was detected on esx07 in Site A: x",
    ]
    made = statements("", ("",), {"a": "b"})
    [candidates] = [each for each in made if "VIEW candidates" in each]
    owner = candidates.partition("SELECT")[2].partition(" AS `owner`")[0]
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    tables.get_config().set("python.executable", sys.executable)
    tables.get_config().set("pipeline.jars", java_classes)
    for statement in filled("functions.sql", {}):
        tables.execute_sql(statement)
    rows = ", ".join(
        f"({number}, '{quoted(message)}', 'vcenter01')" for number, message in enumerate(messages)
    )
    query = f"SELECT n, {owner} FROM (VALUES {rows}) AS t(n, `message`, `owner`)"
    with tables.execute_sql(query).collect() as results:
        found = [name for _, name in sorted(tuple(row) for row in results)]
    assert found == [owner_of({"message": message, "owner": "vcenter01"}) for message in messages]
    assert set(found) == {"vcenter01", "esx07", "192.0.2.7", "2001:db8::7"}


def test_the_jvm_and_python_compute_the_same_bucket() -> None:
    names = ["", "esx01", "ds-gold/web01", "Büro/日本", "a'b"]
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    tables.get_config().set("python.executable", sys.executable)
    keys = [(run_id, name) for run_id in ("live", "r1") for name in names]
    rows = ", ".join(f"('{run_id}', '{quoted(name)}')" for run_id, name in keys)
    query = f"SELECT {BUCKET} FROM (VALUES {rows}) AS t(`run_id`, `owner`)"
    with tables.sql_query(query).execute().collect() as found:
        assert [row[0] for row in found] == [bucket_of_owner(name, run_id) for run_id, name in keys]
