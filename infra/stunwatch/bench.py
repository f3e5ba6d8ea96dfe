"""Speeds of the running pipeline, as ratios within one run: `make bench`.

Measures (a) Kafka → blackhole, the no-op; (b) the live job on the same topic with the same DDL;
(c) a replay from file to queryable; (d) the way of a live line to its row. Prints a table and writes
build/bench.json. `live_ratio` = (b) / (a) in records per CPU-second, start-up taken off, is the
figure to watch.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from ingest.records import LineRecords, Origin, kafka_key
from stunwatch.clickhouse import as_user
from stunwatch.commands.up import up
from stunwatch.runtime.flink import client_environment
from stunwatch.settings import Settings, load_settings
from stunwatch.shipping import Batch, Shipper

BENCH_TOPIC = "bench.records"
MATCHING = 0.01
"""The share of lines that pass the prefilter."""


def vmware_log_lines(count: int, seed: int) -> Iterator[tuple[str, str]]:
    """(VM, line) of 200 VMs in ESXi 6's syntax, ten milliseconds apart; MATCHING of them stuns."""
    dice = random.Random(seed)
    for number in range(count):
        seconds, hundredths = divmod(number, 100)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(1_500_000_000 + seconds))
        head = f"{stamp}.{hundredths:02}0Z| vcpu-0| I120: "
        if dice.random() < MATCHING:
            message = f"Checkpoint_Unstun: vm stopped for {dice.randrange(1_000, 9_000_000)} us"
        else:
            message = (
                f"VSCSI: 2891: handle {dice.randrange(8192, 9000)}(vscsi0:{dice.randrange(4)}):"
                f"Reset request on FSS handle {number} ({dice.randrange(64)} outstanding commands)"
                " from (vmm0:bench) was completed without a retry on any path of the device"
            )
        yield f"bench{dice.randrange(200):03}", head + message


def fill(settings: Settings, count: int) -> None:
    """Make the topic of the first two measurements."""
    admin = AdminClient({"bootstrap.servers": settings.bootstrap})
    for future in admin.create_topics([NewTopic(BENCH_TOPIC, 2)]).values():
        future.result()
    shipper = Shipper(settings.bootstrap, lambda: None)
    makers: dict[str, LineRecords] = {}
    batch: Batch = []
    from datetime import UTC, datetime

    now = datetime.now(UTC)
    for offset, (vm, line) in enumerate(vmware_log_lines(count, seed=1)):
        maker = makers.get(vm)
        if maker is None:
            origin = Origin(
                run_id="live",
                source="vmware_log",
                host="esx01.bench.example",
                vm=vm,
                datastore="bench",
                file=f"/vmfs/volumes/bench/{vm}/vmware.log",
                generation="bench",
            )
            maker = makers[vm] = LineRecords(origin, written_at=now)
        record = maker.make(line.encode(), "2026-01-01T00:00:00.000Z", offset=offset * 200)
        batch.append({"key": kafka_key(record).encode(), "value": orjson.dumps(record)})
        if len(batch) == 5000:
            shipper.send(BENCH_TOPIC, batch)
            batch = []
    shipper.send(BENCH_TOPIC, batch)
    shipper.flush()


def drop_topic(settings: Settings) -> None:
    """Remove the topic of the first two measurements, if it is there."""
    admin = AdminClient({"bootstrap.servers": settings.bootstrap})
    if BENCH_TOPIC in admin.list_topics(timeout=30).topics:
        admin.delete_topics([BENCH_TOPIC])[BENCH_TOPIC].result()
        while BENCH_TOPIC in admin.list_topics(timeout=30).topics:
            time.sleep(0.2)
