"""One collector keeps up with 1,200 hosts of 200 devices: 12,000 samples a second on two cores."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stunwatch.access import kafka_access
from stunwatch.ingest.vcenter.collectors.latency import Collector
from stunwatch.ingest.vcenter.latency import COUNTERS, STEP, Entity, Measured, Rounds
from stunwatch.shipping import Shipper
from tests.kafka_and_clickhouse import storing

HOSTS, DEVICES = 1200, 200
NOW = datetime(2024, 5, 6, 8, 0, tzinfo=UTC)
MINUTE_S = 60.0

pytestmark = pytest.mark.release


class Fleet:
    """A vCenter with prepared answers, so that creating them is not measured."""

    content = SimpleNamespace(perfManager=None)

    def __init__(self) -> None:
        times = ",".join(f"20,{NOW - STEP * back:%Y-%m-%dT%H:%M:%SZ}" for back in (2, 1, 0))
        series = "".join(
            f"<value><id><counterId>{counter}</counterId>"
            f"<instance>naa.6000c29f00000000000000000000{device:04x}</instance></id>"
            f"<value>{device % 9},{device % 7},{device % 5}</value></value>"
            for counter in range(len(COUNTERS["HostSystem"]))
            for device in range(DEVICES)
        )
        self._answer = f"<sampleInfoCSV>{times}</sampleInfoCSV>{series}</returnval>"

    def now(self) -> datetime:
        return NOW

    def undecoded(self, _: object) -> Fleet:
        return self

    def QueryPerf(self, specs: list[Any]) -> bytes:
        found = "".join(
            f'<returnval xsi:type="PerfEntityMetricCSV"><entity>{each.entity._moId}</entity>'
            f"{self._answer}"
            for each in specs
        )
        head = '<body xmlns="urn:vim25" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">'
        return f"{head}{found}</body>".encode()


def test_a_minute_of_a_large_fleet_takes_less_than_a_minute(tmp_path: Path) -> None:
    with storing(tmp_path) as stored:
        shipper = Shipper(kafka_access(stored.settings, "collector"), lambda: None)
        moids = [f"host-{each}" for each in range(HOSTS)]
        rounds = Rounds(dict.fromkeys(moids, NOW - timedelta(minutes=1)))
        collector = Collector(Fleet(), shipper.send, rounds)  # type: ignore[arg-type]
        collector.entities = [Entity(each, "HostSystem", f"{each}.lab.example") for each in moids]
        collector._counters = {
            "HostSystem": {
                str(number): Measured(wanted.field, 1.0)
                for number, wanted in enumerate(COUNTERS["HostSystem"])
            }
        }
        collector._looked_at = NOW
        began, began_cpu = time.monotonic(), time.process_time()
        done = collector.round()
        shipper.flush()
        wall_s, cpu_s = time.monotonic() - began, time.process_time() - began_cpu
    print(
        f"{done.samples:,} samples in {wall_s:.1f} s, {cpu_s:.1f} s of CPU:"
        f" {done.samples / wall_s:,.0f} a second"
    )
    assert done.samples == HOSTS * DEVICES * 3
    assert wall_s < MINUTE_S
