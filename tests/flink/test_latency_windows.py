"""Samples become windows in the JVM, and 10 s windows become episodes, alike in both modes."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from operator import itemgetter
from pathlib import Path
from typing import Any

import orjson
import pytest
from pyflink.table import EnvironmentSettings, TableEnvironment

from stunwatch.detectors.catalogue import detector
from stunwatch.jobs.detect import statements
from stunwatch.triage.windows import Windows
from tests.detectors.cases import final_rows, run, short_window_record

pytestmark = pytest.mark.integration

START = datetime(2024, 5, 6, 7, 0, 0)
HOST = "esx01.lab.example"
SAMPLES_TABLE = """
CREATE TEMPORARY TABLE {origin}_samples (
  `owner` STRING, `event_time` STRING, `kind` STRING, `host` STRING, `origin` STRING,
  `object_class` STRING, `device` STRING, `davg_ms` DOUBLE, `kavg_ms` DOUBLE, `gavg_ms` DOUBLE,
  `commands_per_second` DOUBLE, `run_id` STRING,
  `sampled_at` AS CAST(REPLACE(REPLACE(`event_time`, 'T', ' '), 'Z', '') AS TIMESTAMP(3)),
  WATERMARK FOR `sampled_at` AS `sampled_at` - INTERVAL '10' SECOND
) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'json')
"""


def series(
    device: str, step_seconds: int, values: list[float], **more: Any
) -> list[dict[str, Any]]:
    """Return samples of one device, `step_seconds` apart."""
    return [
        {
            "owner": "esx01",
            "event_time": f"{START + timedelta(seconds=number * step_seconds):%Y-%m-%dT%H:%M:%S}Z",
            "kind": "line",
            "host": HOST,
            "object_class": "scsi_device",
            "device": device,
            "davg_ms": value,
            "kavg_ms": 0.01,
            "commands_per_second": 100.0,
            "run_id": "live",
            **more,
        }
        for number, value in enumerate(values)
    ]


SAMPLES = [
    *series("naa.healthy", 5, [3.0] * 120),
    # two minutes at 400 ms, from the thirtieth second on
    *series("naa.slow", 5, [3.0] * 6 + [400.0] * 25 + [3.0] * 89),
    *series("naa.spike", 5, [3.0] * 20 + [90.0] + [3.0] * 99),
    # one command of 500 ms among four
    *series("naa.idle", 5, [1.0] * 20 + [100.8] + [1.0] * 99, commands_per_second=0.8),
    *series("naa.twenty", 20, [5.0] * 3 + [60.0] * 4 + [5.0] * 23),
    *series("naa.kernel", 5, [3.0] * 120, kavg_ms=7.5),
    # vCenter measures naa.slow too, every twenty seconds
    *series("naa.slow", 20, [3.0] * 2 + [300.0] * 6 + [3.0] * 22, origin="vcenter"),
]


def collected(mode: str, tmp_path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the one-minute windows, and the messages of the 10 s windows."""
    rows = sorted(SAMPLES, key=lambda each: each["event_time"])
    path = tmp_path / "samples.json"
    path.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in rows))
    settings = EnvironmentSettings.new_instance()
    made = settings.in_streaming_mode() if mode == "STREAMING" else settings.in_batch_mode()
    tables = TableEnvironment.create(made.build())
    tables.get_config().set("table.local-time-zone", "UTC")
    tables.get_config().set("python.executable", sys.executable)
    tables.get_config().set("parallelism.default", "2")
    for origin in ("esxtop", "vcenter"):
        tables.execute_sql(SAMPLES_TABLE.format(origin=origin, path=path))
    scans = {"esxi.esxtop": {"a": "b"}, "esxi.vcenter": {"a": "b"}}
    for statement in statements("", ("",), {"a": "b"}, scans, "live"):
        words = statement.split()
        # The views of hosts that send lines need a Java function, and lines besides samples.
        if words[2] == "VIEW" and "seen" not in words[3] and words[3] != "candidates":
            tables.execute_sql(statement)
    found = []
    for query in (
        "SELECT `event` FROM window_events",
        "SELECT `message` FROM short_window_records",
    ):
        with tables.execute_sql(query).collect() as results:
            found.append(sorted(row[0] for row in results))
    return [orjson.loads(each) for each in found[0]], found[1]


@pytest.mark.parametrize("mode", ["STREAMING", pytest.param("BATCH", marks=pytest.mark.slow)])
def test_samples_give_windows_and_episodes(mode: str, tmp_path: Path) -> None:
    windows, short_windows = collected(mode, tmp_path)
    assert len({each["event_id"] for each in windows}) == len(windows) == 7 * 10
    [second] = [
        each
        for each in windows
        if each["device"] == "naa.slow"
        and each["origin"] == "esxtop"
        and each["window_start"] == "2024-05-06T07:00:00.000Z"
    ]
    # The ID from before vCenter was a second source.
    assert second["event_id"] == "ea88e56c-dbe9-1857-4f25-118034eb4016"
    assert second["samples"] == 12
    assert second["max_davg_ms"] == 400.0
    assert second["avg_davg_ms"] == pytest.approx((6 * 3 + 6 * 400) / 12)
    assert second["p95_davg_ms"] == 400.0
    assert second["commands"] == 6000.0

    # `triage` computes the same without the JVM.
    in_memory = Windows()
    for each in SAMPLES:
        if "origin" not in each:
            in_memory.add(each["owner"], each)
    own = [orjson.loads(record["message"]) for _, record in in_memory.records("live")]
    told = [each for each in map(orjson.loads, short_windows) if each["origin"] == "esxtop"]
    by_time = itemgetter("device", "metric", "short_window_end")
    assert sorted(own, key=by_time) == sorted(told, key=by_time)

    records = sorted(
        map(short_window_record, short_windows), key=lambda each: each["event_time_us"]
    )
    # Nearly all 10 s windows are dropped in the JVM: Python gets none of the healthy and idle
    # devices.
    devices = {orjson.loads(each["message"])["device"] for each in records}
    assert devices == {"naa.slow", "naa.spike", "naa.twenty", "naa.kernel"}
    rows = {
        (each["device"], each["metric"], each["origin"]): (
            each["kind"],
            each["started_at"][11:19],
            (each["ended_at"] or "")[11:19],
            each["peak_ms"],
            each["samples"],
        )
        for each in final_rows(run(detector("latency"), records))
    }
    assert rows == {
        ("naa.slow", "davg", "esxtop"): ("sustained", "07:00:30", "07:02:30", 400.0, 25),
        ("naa.slow", "davg", "vcenter"): ("sustained", "07:00:40", "07:02:20", 300.0, 6),
        ("naa.spike", "davg", "esxtop"): ("spike", "07:01:40", "07:01:40", 90.0, 1),
        ("naa.twenty", "davg", "esxtop"): ("sustained", "07:01:00", "07:02:00", 60.0, 4),
        ("naa.kernel", "kavg", "esxtop"): ("sustained", "07:00:00", "", 7.5, 120),
    }
