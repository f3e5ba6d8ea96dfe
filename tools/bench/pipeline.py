"""The way of lines through the whole pipeline: replays, and live lines."""

from __future__ import annotations

import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import orjson
from rich.console import Console

from stunwatch import replaying
from stunwatch.access import ADMIN, kafka_access
from stunwatch.clickhouse import as_user
from stunwatch.ingest.records import LineRecords, kafka_key
from stunwatch.ingest.replay import BACKFILL, Options, plan
from stunwatch.local.clickhouse import administrator
from stunwatch.settings import Settings
from stunwatch.shipping import Shipper
from stunwatch.simulation.run import Scale, Simulation, write
from tools.bench.lines import origin_of, vmware_log_lines
from tools.bench.meters import CpuMeter
from tools.bench.storage import line_bytes

KEEPERS = ("kafka", "clickhouse")
"""The components that store every line."""

SMALL_LINES = 10
"""Lines of a small replay."""


def replay_speed(settings: Settings, count: int, console: Console) -> dict[str, float]:
    """Measure lines per second from file to queryable, with all overhead."""
    with tempfile.TemporaryDirectory() as folder:
        # A new name each time, because lines that are stored already would not be stored again.
        place = Path(folder) / "esx01.bench.example/vmfs/volumes" / f"bench{time.time():.0f}"
        files = {}
        for vm, line in vmware_log_lines(count, seed=time.time_ns()):
            if vm not in files:
                (place / vm).mkdir(parents=True)
                files[vm] = (place / vm / "vmware.log").open("w")
            files[vm].write(line + "\n")
        for file in files.values():
            file.close()
        before = kept_bytes(settings)
        meters = {name: CpuMeter(settings, name) for name in KEEPERS}
        with plan([Path(folder)], Options()) as what:
            outcome = replaying.run(settings, what, Options(), console)
        cpu_seconds = {name: meter.stop() for name, meter in meters.items()}
    if outcome.missing:
        raise SystemExit(outcome.summary)
    kept = kept_bytes(settings)
    return {
        **{f"{name}_cpu_us_per_line": cpu_seconds[name] / count * 1e6 for name in KEEPERS},
        **{f"{name}_bytes_per_line": (kept[name] - before[name]) / count for name in KEEPERS},
        "replay_lines": count,
        "replay_seconds": outcome.seconds,
        "replay_lines_per_second": count / outcome.seconds,
    }


def small_replays(settings: Settings, count: int) -> dict[str, float]:
    """Measure the whole command for ten lines, until its stuns are queryable."""
    waited = []
    for number in range(count):
        with tempfile.TemporaryDirectory() as folder:
            vm = f"small{time.time_ns()}"
            place = Path(folder) / "esx01.bench.example/vmfs/volumes/bench" / vm
            place.mkdir(parents=True)
            lines = [line for _, line in vmware_log_lines(SMALL_LINES - 1, number)]
            last = lines[-1].partition("| vcpu-0")[0]
            lines.append(f"{last}| vcpu-0| I120: Checkpoint_Unstun: vm stopped for {number + 1} us")
            (place / "vmware.log").write_text("\n".join(lines) + "\n")
            began = time.monotonic()
            subprocess.run(
                [Path(sys.executable).with_name("stunwatch"), "replay", folder],
                env=os.environ | settings.environment(),
                capture_output=True,
                check=True,
            )
            waited.append(time.monotonic() - began)
        [(stuns,)] = as_user(settings, "admin").rows(
            f"SELECT count() FROM stuns WHERE vm = '{vm}' AND duration_us = {number + 1}"
        )
        if not stuns:
            raise SystemExit(f"The stun of {vm} was not queryable after its replay.")
    waited.sort()
    return {
        "small_replay_p50_seconds": statistics.median(waited),
        "small_replay_p95_seconds": waited[math.ceil(count * 0.95) - 1],
    }


def fleet_speed(settings: Settings, scale: Scale, console: Console) -> dict[str, float]:
    """Measure the replay of a simulated fleet's night, with all its sources, and its stored lines.

    Three nights are replayed. In the first, the JVM compiles what a fleet runs. Lines of other
    measurements are removed first: they are more alike than those of a fleet.
    """
    admin = administrator(settings)
    admin.command("TRUNCATE TABLE log_lines_stored")
    first, _, last = (
        _night(settings, replace(scale, seed=scale.seed + night), console) for night in range(3)
    )
    return {
        "fleet_lines": last.read,
        "fleet_seconds": last.seconds,
        "fleet_lines_per_second": last.read / last.seconds,
        "fleet_first_night_lines_per_second": first.read / first.seconds,
        **line_bytes(admin),
    }


def _night(settings: Settings, scale: Scale, console: Console) -> replaying.Outcome:
    with tempfile.TemporaryDirectory() as folder:
        write(Simulation(scale), Path(folder))
        with plan([Path(folder)], Options()) as what:
            outcome = replaying.run(settings, what, Options(), console)
    if outcome.missing:
        raise SystemExit(outcome.summary)
    return outcome


def stuns_by_sql(settings: Settings) -> dict[str, float]:
    """Measure ClickHouse alone: the stuns of all stored lines, by a regular expression."""
    reader = as_user(settings, "admin", timeout_s=600)
    [(lines,)] = reader.rows("SELECT count() FROM log_lines_stored")
    meter = CpuMeter(settings, "clickhouse")
    reader.rows(
        "SELECT vm, count(), max(toUInt64OrZero(extract(message, 'vm stopped for (\\\\d+) us')))"
        " FROM log_lines_stored WHERE message LIKE '%Checkpoint_Unstun: vm stopped%' GROUP BY vm"
    )
    return {"stuns_by_sql_cpu_us_per_line": meter.stop() / lines * 1e6}


def kept_bytes(settings: Settings) -> dict[str, float]:
    """Return the bytes on disk of the replayed lines: in Kafka, and in ClickHouse with indexes."""
    topic = (settings.home / "kafka").rglob(f"{BACKFILL}-*/*.log")
    [(rows,)] = as_user(settings, "admin").rows(
        "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND table = 'log_lines_stored'"
    )
    return {"kafka": sum(path.stat().st_size for path in topic), "clickhouse": rows}


def live_latency(settings: Settings, count: int, pause_s: float) -> dict[str, float]:
    """Measure the seconds from producing a line until its row and its stun are queryable.

    The pauses between lines vary, so that they have no fixed phase to ClickHouse's polls.
    """
    # The user `reader` may run only twenty queries per second.
    reader = as_user(settings, "admin")
    vm = f"latency{time.time_ns()}"
    maker = LineRecords(origin_of(vm), written_at=datetime.now(UTC))
    shipper = Shipper(kafka_access(settings, ADMIN), lambda: None)
    sent: dict[int, float] = {}
    written: dict[int, str] = {}
    seen: dict[str, dict[int, float]] = {"log_lines": {}, "stuns": {}}
    is_sent = threading.Event()
    questions = {
        "log_lines": "SELECT offset FROM log_lines_stored WHERE source = 'vmware_log'"
        " AND program = 'vmx' AND host = 'esx01.bench.example'"
        f" AND vm = '{vm}' AND event_time >= {{since}}",
        "stuns": "SELECT duration_us FROM stuns_stored"
        f" WHERE datastore = 'bench' AND vm = '{vm}' AND ended_at >= {{since}}",
    }

    def look() -> None:
        deadline = time.monotonic() + 60 + count * (1 + pause_s)
        while time.monotonic() < deadline:
            for name, question in questions.items():
                # Each query competes with the pipeline for the same cores, so it reads only the
                # newest lines, and none is sent while no line is missing.
                missing = [each for number, each in [*written.items()] if number not in seen[name]]
                if not missing:
                    continue
                rows = reader.rows(
                    question.format(since=f"parseDateTime64BestEffort('{min(missing)}', 6, 'UTC')")
                )
                now = time.monotonic()
                for (number,) in rows:
                    seen[name].setdefault(number, now)
            if is_sent.is_set() and all(len(each) == len(sent) for each in seen.values()):
                return
            time.sleep(0.05)

    watcher = threading.Thread(target=look)
    watcher.start()
    for number in range(1, count + 1):
        now = datetime.now(UTC)
        at = f"{now:%Y-%m-%dT%H:%M:%S}.{now.microsecond // 1000:03}Z"
        # A line's number is both its offset in the file and the length of its stun.
        line = f"{at}| vcpu-0| I120: Checkpoint_Unstun: vm stopped for {number} us"
        record = maker.make(line.encode(), at, number, len(line))
        sent[number] = time.monotonic()
        written[number] = at
        shipper.send(
            "esxi.vmware_log",
            [{"key": kafka_key(record).encode(), "value": orjson.dumps(record)}],
        )
        time.sleep(random.uniform(0.5, 1.5) * pause_s)
    shipper.flush()
    is_sent.set()
    watcher.join()
    figures: dict[str, float] = {}
    for name, times in seen.items():
        if len(times) != count:
            raise SystemExit(f"{count - len(times)} live lines did not reach {name} in time.")
        waited = sorted(at - sent[number] for number, at in times.items())
        figures[f"{name}_p50_seconds"] = waited[len(waited) // 2]
        figures[f"{name}_p99_seconds"] = waited[int(len(waited) * 0.99) - 1]
    return figures
