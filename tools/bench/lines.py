"""What the bench sends: lines of VMs, and records of simulated nights among others."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from stunwatch.detectors.catalogue import literals
from stunwatch.ingest.records import Origin
from stunwatch.ingest.replay import BACKFILL, Options, Reading, plan
from stunwatch.simulation.run import Scale, Simulation, write

MATCHING = 0.01
"""The usual share of lines that pass the prefilter."""

NIGHTS = 3
"""So many different nights are simulated. Further nights are the same, days later."""


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


def matching_records(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield records of simulated nights that a detector reads, in order, `count` of them."""
    nights = [_matching_of_a_night(seed + number) for number in range(NIGHTS)]
    left = count
    for days in range(count):
        for record in nights[days % NIGHTS][:left]:
            day = date.fromisoformat(record["event_time"][:10]) + timedelta(days)
            yield {**record, "event_time": f"{day}{record['event_time'][10:]}"}
            left -= 1
        if not left:
            return


@cache
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


def records(count: int, seed: int, matching: float = MATCHING) -> Iterator[dict[str, Any]]:
    """Yield the records of nights; a detector reads the share `matching` of them."""
    rng = random.Random(seed)
    every = round(1 / matching)
    read = matching_records(-(-count // every), seed)
    event_time = ""
    for number in range(count):
        if number % every == 0:
            record = next(read)
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
