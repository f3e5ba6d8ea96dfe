"""Runs the detectors on a simulated night in this process, and compares the result with the truth.

It uses no Kafka, Flink or ClickHouse: see stunwatch/triage/finding.py.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path

from stunwatch.ingest.replay import Options, plan
from stunwatch.simulation import truth as truths
from stunwatch.simulation.run import Scale, Simulation, write
from stunwatch.triage import finding
from stunwatch.triage.finding import Found
from tools.score.figures import Section
from tools.score.matching import Row
from tools.score.sections import Comparison, lines_section


def run(scale: Scale, out: Path) -> tuple[Row, list[Section]]:
    """Simulate into `out`, detect, compare. Return (about the run, sections)."""
    started = time.monotonic()
    simulation = Simulation(scale)
    write(simulation, out)
    true = truths.load((out / truths.FILE).read_bytes())
    found = find(out)
    about = {
        "seed": scale.seed,
        "fleet": scale.name,
        "hosts": scale.hosts,
        "vms": scale.vms,
        "minutes": scale.minutes,
        "lines": found.lines,
        "samples": true["samples"],
        "share_that_matters": true["mattering_lines"] / true["lines"],
        "seconds": round(time.monotonic() - started, 1),
    }
    lines = lines_section(0, found.rejected)
    for reason, each in found.read.rejected.items():
        lines.mismatch("rejected", line={"reason": reason, **asdict(each)})
    return about, [lines, *Comparison(true, found.rows).sections()]


def find(folder: Path) -> Found:
    """Read every file below a folder, and run the detectors."""
    with plan([folder], Options()) as what:
        return finding.find(what, Options())
