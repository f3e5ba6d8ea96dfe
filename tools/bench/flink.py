"""Records per CPU-second: the live job, a no-op job, and a plain Python consumer."""

from __future__ import annotations

import itertools
import os
import statistics
import subprocess
import sys
import time
from typing import Any

import orjson
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console

from stunwatch.access import ADMIN, kafka_access
from stunwatch.ingest.records import kafka_key
from stunwatch.local.flink import client_environment
from stunwatch.settings import Settings
from stunwatch.shipping import Shipper
from tools.bench.lines import MATCHING, records
from tools.bench.meters import CpuMeter

BENCH_TOPIC = "bench.records"
START_TOPIC = "bench.start"
STARTING_SHARE = 0.2
"""The share of the records with which a job starts. Their cost is subtracted: the rest is the
steady state. The JVM compiles for minutes, so the time of its compilers is not counted."""
BATCH = 5_000
"""Records that are sent to Kafka at once."""
BENCH_TOPICS = (BENCH_TOPIC, START_TOPIC)

JOBS = ("noop", "live", "live+100", "consumer")
"""What is measured, in turn. `live+100` has a hundred more literals than the detectors need."""

STORMS = {0.1: 0.3, 1.0: 0.03}
"""Shares of lines that a detector reads, and how many records they are measured with, as a share of
the usual number."""


def fill(settings: Settings, count: int, matching: float = MATCHING) -> None:
    """Create the topics of the measurements. Both begin with the same records."""
    drop_topics(settings)
    admin = AdminClient(kafka_access(settings, ADMIN))
    for future in admin.create_topics([NewTopic(each, 2) for each in BENCH_TOPICS]).values():
        future.result()
    shipper = Shipper(kafka_access(settings, ADMIN), lambda: None)
    made = records(count, 1, matching)
    sent = 0
    while batch := [_message(each) for each in itertools.islice(made, BATCH)]:
        if sent < starting(count):
            shipper.send(START_TOPIC, batch)
        shipper.send(BENCH_TOPIC, batch)
        sent += len(batch)
    shipper.flush()


def _message(record: dict[str, Any]) -> dict[str, Any]:
    key = record.pop("owner", None) or kafka_key(record)
    return {"key": key.encode(), "value": orjson.dumps(record)}


def starting(count: int) -> int:
    """Return how many of the records start a job: whole batches."""
    return round(count * STARTING_SHARE / BATCH) * BATCH


def drop_topics(settings: Settings) -> None:
    """Delete the topics of the measurements, if they exist."""
    admin = AdminClient(kafka_access(settings, ADMIN))
    there = [each for each in BENCH_TOPICS if each in admin.list_topics(timeout=30).topics]
    if there:
        for future in admin.delete_topics(there).values():
            future.result()
        while set(there) & set(admin.list_topics(timeout=30).topics):
            time.sleep(0.2)


def flink_cpu_seconds(settings: Settings, what: str, topic: str) -> float:
    """Return the CPU-seconds of the TaskManager for one bounded job, without compiling."""
    job, _, more_literals = what.partition("+")
    meter = CpuMeter(settings, "taskmanager")
    subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "stunwatch.jobs.bench",
                job,
                "--more-literals",
                more_literals or "0",
            ),
            *("--bootstrap", settings.bootstrap, "--cluster", settings.flink_rest),
            *("--topic", topic),
        ],
        env=client_environment(settings),
        stdout=subprocess.DEVNULL,
        stderr=(settings.logs / "bench.log").open("ab"),
        check=True,
    )
    return meter.stop() - meter.compiling_s


def cpu_seconds(settings: Settings, what: str, topic: str) -> float:
    """Return the CPU-seconds of a job or of the consumer for all records of a topic."""
    if what != "consumer":
        return flink_cpu_seconds(settings, what, topic)
    done = subprocess.run(
        [sys.executable, "-m", "tools.bench.consumer", topic],
        env=os.environ | settings.environment(),
        capture_output=True,
        check=True,
    )
    return float(done.stdout)


def live_against_others(
    settings: Settings, count: int, rounds: int, console: Console
) -> dict[str, float]:
    """Measure records per CPU-second in the steady state, the median of several rounds."""
    fill(settings, count)
    found: dict[str, list[float]] = {each: [] for each in JOBS}
    for _ in range(rounds):
        for what in JOBS:
            found[what].append(_records_per_second(settings, what, count, console))
    ratios = [live / noop for live, noop in zip(found["live"], found["noop"], strict=True)]
    figures = {
        **{
            f"{_named(each)}_records_per_cpu_second": statistics.median(found[each])
            for each in JOBS
        },
        "live_ratio": statistics.median(ratios),
        "live_ratio_least": min(ratios),
        "live_ratio_most": max(ratios),
        "live_ratio_with_100_more_literals": statistics.median(
            more / noop for more, noop in zip(found["live+100"], found["noop"], strict=True)
        ),
        "live_ratio_to_consumer": statistics.median(
            live / plain for live, plain in zip(found["live"], found["consumer"], strict=True)
        ),
    }
    for matching, share in STORMS.items():
        in_storm = round(count * share)
        fill(settings, in_storm, matching)
        name = f"live_records_per_cpu_second_at_{matching * 100:.0f}_percent"
        figures[name] = _records_per_second(settings, "live", in_storm, console)
    drop_topics(settings)
    return figures


def _records_per_second(settings: Settings, what: str, count: int, console: Console) -> float:
    start_s, all_s = (cpu_seconds(settings, what, topic) for topic in (START_TOPIC, BENCH_TOPIC))
    console.print(f"  {what:8} {count:,} records: start {start_s:6.2f} s, all {all_s:6.2f} s")
    return (count - starting(count)) / (all_s - start_s)


def _named(job: str) -> str:
    return "live_with_100_more_literals" if job == "live+100" else job
