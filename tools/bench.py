"""Speeds of a pipeline of its own, as ratios within one run: `make bench`.

Measures (a) Kafka → blackhole, the no-op; (b) the live job on the same topic with the same columns;
(c) a replay from file to queryable, and what its lines cost Kafka and ClickHouse; (d) the way of a
live line to its row. Prints a table and writes build/bench.json.

The figure to watch is `live_ratio` = (b) / (a) in records per CPU-second in the steady state. Each
job runs over the first fifth of the records and over all; the difference is the steady state.
"""

from __future__ import annotations

import argparse
import itertools
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from stunwatch import replaying
from stunwatch.access import ADMIN, kafka_access
from stunwatch.clickhouse import as_user
from stunwatch.detectors.catalogue import literals
from stunwatch.ingest.records import LineRecords, Origin, kafka_key
from stunwatch.ingest.replay import BACKFILL, Options, Reading, plan
from stunwatch.local.flink import client_environment
from stunwatch.local.processes import processes
from stunwatch.local.trial import trial_pipeline
from stunwatch.printable import Terminal
from stunwatch.settings import Settings, load_settings
from stunwatch.shipping import Shipper
from stunwatch.simulation.run import Scale, Simulation, write

BENCH_TOPIC = "bench.records"
START_TOPIC = "bench.start"
STARTING_SHARE = 0.2
"""The share of the records with which a job starts and its code is compiled. Their cost is
subtracted: the rest is the steady state."""
BATCH = 5_000
"""Records that are sent to Kafka at once."""
BENCH_TOPICS = (BENCH_TOPIC, START_TOPIC)

MATCHING = 0.01
"""The share of lines that pass the prefilter."""

JOBS = ("noop", "live", "live+100")
"""The measured jobs, in turn. The last has a hundred more literals than the detectors need."""

KEEPERS = ("kafka", "clickhouse")
"""The components that store every line."""


def vmware_log_lines(count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield (VM, line) of 200 VMs in ESXi 6's format, 10 ms apart; the share MATCHING are stuns."""
    rng = random.Random(seed)
    for number in range(count):
        head = f"{stamp(number)}| vcpu-0| I120: "
        if rng.random() < MATCHING:
            message = f"Checkpoint_Unstun: vm stopped for {rng.randrange(1_000, 9_000_000)} us"
        else:
            message = noise(rng, number)
        yield f"bench{rng.randrange(200):03}", head + message


def stamp(number: int) -> str:
    """Return the time of a line, ten milliseconds after the previous one."""
    seconds, hundredths = divmod(number, 100)
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(1_500_000_000 + seconds))
    return f"{at}.{hundredths:02}0Z"


def noise(rng: random.Random, number: int) -> str:
    """Return a message that no detector reads."""
    return (
        f"VSCSI: 2891: handle {rng.randrange(8192, 9000)}(vscsi0:{rng.randrange(4)}):"
        f"Reset request on FSS handle {number} ({rng.randrange(64)} outstanding commands)"
        " from (vmm0:bench) was completed without a retry on any path of the device"
    )


def matching_records(count: int, seed: int) -> list[dict[str, Any]]:
    """Return records of simulated nights that a detector reads, in order, at least `count`."""
    found: list[dict[str, Any]] = []
    while len(found) < count:
        found += _matching_of_a_night(seed)
        seed += 1
    return found


def _matching_of_a_night(seed: int) -> list[dict[str, Any]]:
    sought = literals()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        write(Simulation(Scale(seed=seed)), Path(folder))
        with plan([Path(folder)], Options()) as what:
            for file in what.files:
                found += [
                    {**record, "owner": key, "run_id": "live"}
                    for batch in Reading(file, "live")
                    for topic, key, record in batch
                    if topic == BACKFILL
                    and record["kind"] == "line"
                    and any(literal in record["message"] for literal in sought)
                ]
    return sorted(found, key=lambda each: each["event_time"])


def records(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the records of a night; a detector reads the share MATCHING of them."""
    rng = random.Random(seed)
    every = round(1 / MATCHING)
    matching = matching_records(count // every + 1, seed)
    for number in range(count):
        if number % every == 0:
            record = matching[number // every]
            event_time = record["event_time"]
            yield record
            continue
        yield {
            "event_time": event_time,
            "received_at": event_time,
            "kind": "line",
            "source": "vmware_log",
            "host": "esx01.bench.example",
            "vm": f"bench{rng.randrange(200):03}",
            "datastore": "bench",
            "thread": "vcpu-0",
            "head": f"{event_time}| vcpu-0| I120: ",
            "message": noise(rng, number),
            "file": "vmware.log",
            "generation": "0000000000000000",
            "offset": number * 200,
            "line_bytes": 200,
            "run_id": "live",
            "time_quality": "exact",
        }


def fill(settings: Settings, count: int) -> None:
    """Create the topics of the first two measurements. Both begin with the same records."""
    drop_topics(settings)
    admin = AdminClient(kafka_access(settings, ADMIN))
    for future in admin.create_topics([NewTopic(each, 2) for each in BENCH_TOPICS]).values():
        future.result()
    shipper = Shipper(kafka_access(settings, ADMIN), lambda: None)
    made = records(count, seed=1)
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


def origin_of(vm: str) -> Origin:
    """Return a VM's log on the datastore `bench`."""
    return Origin(
        run_id="live",
        source="vmware_log",
        host="esx01.bench.example",
        vm=vm,
        datastore="bench",
        file=f"/vmfs/volumes/bench/{vm}/vmware.log",
        generation="0000000000000000",
    )


def drop_topics(settings: Settings) -> None:
    """Delete the topics of the first two measurements, if they exist."""
    admin = AdminClient(kafka_access(settings, ADMIN))
    there = [each for each in BENCH_TOPICS if each in admin.list_topics(timeout=30).topics]
    if there:
        for future in admin.delete_topics(there).values():
            future.result()
        while set(there) & set(admin.list_topics(timeout=30).topics):
            time.sleep(0.2)


class CpuMeter:
    """Measures the CPU-seconds of a component's processes, including those that end meanwhile."""

    def __init__(self, settings: Settings, component: str) -> None:
        self._settings = settings
        self._component = component
        self._first: dict[int, float] = {}
        self._last: dict[int, float] = {}
        self._is_done = threading.Event()
        self._look()
        self._first = dict(self._last)
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> float:
        """Return the CPU-seconds since the meter was created."""
        self._look()
        self._is_done.set()
        self._thread.join()
        return sum(used - self._first.get(pid, 0.0) for pid, used in self._last.items())

    def _watch(self) -> None:
        while not self._is_done.wait(0.25):
            self._look()

    def _look(self) -> None:
        for each in processes(self._settings):
            if each.component == self._component:
                # A process that has ended keeps what was seen of it last.
                self._last[each.pid] = max(each.cpu_seconds, self._last.get(each.pid, 0.0))


def flink_cpu_seconds(settings: Settings, what: str, topic: str) -> float:
    """Return the CPU-seconds of the TaskManager for one bounded job."""
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
    return meter.stop()


def live_against_noop(
    settings: Settings, count: int, rounds: int, console: Console
) -> dict[str, float]:
    """Measure (a) and (b): records per CPU-second, the median of several rounds."""
    fill(settings, count)
    found: dict[str, list[float]] = {each: [] for each in JOBS}
    for _ in range(rounds):
        for what in JOBS:
            start_s, all_s = (
                flink_cpu_seconds(settings, what, topic) for topic in (START_TOPIC, BENCH_TOPIC)
            )
            found[what].append((count - starting(count)) / (all_s - start_s))
            console.print(f"  {what:8} start {start_s:6.2f} s, all {all_s:6.2f} s")
    drop_topics(settings)
    noop, live, more = (found[each] for each in JOBS)
    ratios = [each / noop[number] for number, each in enumerate(live)]
    return {
        "noop_records_per_cpu_second": statistics.median(noop),
        "live_records_per_cpu_second": statistics.median(live),
        "live_ratio": statistics.median(ratios),
        "live_ratio_least": min(ratios),
        "live_ratio_most": max(ratios),
        "live_ratio_with_100_more_literals": statistics.median(
            each / noop[number] for number, each in enumerate(more)
        ),
    }


def replay_speed(settings: Settings, count: int, console: Console) -> dict[str, float]:
    """Measure (c): lines per second from file to queryable, with all overhead."""
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


def kept_bytes(settings: Settings) -> dict[str, float]:
    """Return the bytes on disk of the replayed lines: in Kafka, and in ClickHouse with indexes."""
    topic = (settings.home / "kafka").rglob(f"{BACKFILL}-*/*.log")
    [(rows,)] = as_user(settings, "admin").rows(
        "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND table = 'log_lines_stored'"
    )
    return {"kafka": sum(path.stat().st_size for path in topic), "clickhouse": rows}


def live_latency(settings: Settings, count: int) -> dict[str, float]:
    """Measure (d): seconds from producing a line until its row and its stun are queryable."""
    # The user `reader` may run only twenty queries per second.
    reader = as_user(settings, "admin")
    vm = f"latency{time.time_ns()}"
    maker = LineRecords(origin_of(vm), written_at=datetime.now(UTC))
    shipper = Shipper(kafka_access(settings, ADMIN), lambda: None)
    sent: dict[int, float] = {}
    seen: dict[str, dict[int, float]] = {"log_lines": {}, "stuns": {}}
    is_sent = threading.Event()

    def look() -> None:
        questions = {
            "log_lines": "SELECT offset FROM log_lines_stored WHERE source = 'vmware_log'"
            f" AND program = 'vmx' AND host = 'esx01.bench.example' AND vm = '{vm}'",
            "stuns": "SELECT duration_us FROM stuns_stored"
            f" WHERE datastore = 'bench' AND vm = '{vm}'",
        }
        deadline = time.monotonic() + 60 + count
        while time.monotonic() < deadline:
            for name, question in questions.items():
                rows = reader.rows(question)
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
        shipper.send(
            "esxi.vmware_log",
            [{"key": kafka_key(record).encode(), "value": orjson.dumps(record)}],
        )
        time.sleep(0.1)
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


def main() -> None:
    """Run the measurements, print the table, and write build/bench.json."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--records", type=int, default=12_000_000, help="for (a) and (b)")
    parser.add_argument("--rounds", type=int, default=3, help="for (a) and (b)")
    parser.add_argument("--lines", type=int, default=1_000_000, help="for (c)")
    parser.add_argument("--live", type=int, default=200, help="for (d), ten a second")
    options = parser.parse_args()
    settings = load_settings()
    console = Terminal(stderr=True, highlight=False)
    with trial_pipeline(settings, console) as own:
        console.print("(d) a live line's way to its row")
        # New consumers wait until Kafka has removed the previous ones from the group.
        live_latency(own, 1)
        figures: dict[str, Any] = live_latency(own, options.live)
        console.print("(c) replay, from file to queryable")
        figures |= replay_speed(own, options.lines, console)
        console.print("(a) no-op and (b) the live job: CPU-seconds")
        figures |= live_against_noop(own, options.records, options.rounds, console)
    table = Table("figure", "value")
    for name, value in figures.items():
        table.add_row(name, f"{value:,.2f}" if value < 100 else f"{value:,.0f}")
    Terminal().print(table)
    settings.build.mkdir(exist_ok=True)
    (settings.build / "bench.json").write_bytes(
        orjson.dumps(figures, option=orjson.OPT_INDENT_2) + b"\n"
    )


if __name__ == "__main__":
    main()
