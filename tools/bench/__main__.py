"""Speeds of a pipeline of its own, as ratios within one run: `make bench`.

Measures (a) a live line's way to its row and its stun, at ten lines a second and with pauses;
(b) replays from file to queryable: ten lines, a million, a simulated fleet, what their lines cost
Kafka and ClickHouse, and what the fleet's lines take on disk, by column; (c) the idle pipeline;
(d) Flink: the live job, a no-op job and a plain Python consumer on the same topic, and storms.
Prints the figures of each part when it ends, and writes all to build/bench.json.

The figure to watch is `live_ratio`: the live job in records per CPU-second, as a share of a job
that only parses JSON. Each job runs over the first fifth of the records and over all; the
difference is the steady state. The time of the JVM's compilers is not counted.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import replace
from typing import Any

import orjson
from rich.table import Table

from stunwatch.local.trial import trial_pipeline
from stunwatch.printable import Terminal
from stunwatch.settings import load_settings
from stunwatch.simulation.run import Scale
from tools.bench.flink import live_against_others
from tools.bench.meters import idle
from tools.bench.pipeline import (
    fleet_speed,
    live_latency,
    replay_speed,
    small_replays,
    stuns_by_sql,
)

FLEET = Scale(seed=7, hosts=20, vms=200, minutes=810)
"""The simulated fleet: a night of about a million lines."""

BUSY_S = 0.1
"""Mean pause between two live lines. ClickHouse stores one block after the other."""

RARE_S = 1.5
"""Mean pause between two rare live lines. The pipeline is idle when one arrives."""


def main() -> None:
    """Run the measurements, print their figures, and write build/bench.json."""
    parser = argparse.ArgumentParser(
        prog="make bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=12_000_000, help="for (d)")
    parser.add_argument("--rounds", type=int, default=3, help="for (d)")
    parser.add_argument("--lines", type=int, default=1_000_000, help="of the large replay in (b)")
    parser.add_argument("--small", type=int, default=10, help="replays of ten lines in (b)")
    parser.add_argument("--minutes", type=int, default=FLEET.minutes, help="of the fleet's night")
    parser.add_argument(
        "--live",
        type=int,
        default=200,
        help="lines of (a), ten a second; and a fifth of them with pauses",
    )
    parser.add_argument("--idle", type=float, default=60, help="seconds of (c), after as many")
    options = parser.parse_args()
    settings = load_settings()
    settings.build.mkdir(exist_ok=True)
    console = Terminal(stderr=True, highlight=False)
    figures: dict[str, Any] = {}

    def add(found: dict[str, Any]) -> None:
        """Print figures as soon as they are known, and write all of them to build/bench.json."""
        table = Table(box=None, show_header=False)
        for name, value in found.items():
            table.add_row(name, f"{value:,.2f}" if value < 100 else f"{value:,.0f}")
        Terminal().print(table)
        figures.update(found)
        content = orjson.dumps(figures, option=orjson.OPT_INDENT_2) + b"\n"
        (settings.build / "bench.json").write_bytes(content)

    with trial_pipeline(settings, console) as own:
        console.print("(a) a live line's way to its row")
        # Each is measured twice, and the second time counts: new consumers wait until Kafka has
        # removed the previous ones from the group, and the JVMs first compile what they run.
        live_latency(own, options.live, BUSY_S)
        add(live_latency(own, options.live, BUSY_S))
        rare = live_latency(own, math.ceil(options.live / 5), RARE_S)
        add({f"rare_{name}": seconds for name, seconds in rare.items()})
        console.print("(b) replays, from file to queryable")
        small_replays(own, options.small)
        add(small_replays(own, options.small))
        add(replay_speed(own, options.lines, console))
        add(stuns_by_sql(own))
        add(fleet_speed(own, replace(FLEET, minutes=options.minutes), console))
        console.print("(c) the idle pipeline")
        time.sleep(options.idle)
        add(idle(own, options.idle))
        console.print("(d) Flink: CPU-seconds")
        add(live_against_others(own, options.records, options.rounds, console))


if __name__ == "__main__":
    main()
