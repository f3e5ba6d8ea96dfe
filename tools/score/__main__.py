"""Simulate a fleet's night, detect, compare with what the simulator knows.

Prints every figure with its limit, examples of what differs, and the confusion of causes; writes
build/score.json. Exit code 1: a limit is missed.

The night goes through a pipeline of its own, which is removed at the end. With --in-memory the same
trackers run in this process instead: nothing is started, and nothing of Kafka, Flink and ClickHouse
is proven.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import orjson

from stunwatch.local.trial import trial_pipeline
from stunwatch.printable import Terminal
from stunwatch.settings import load_settings
from stunwatch.simulation.run import Scale
from tools.score import in_memory, pipeline
from tools.score.report import report, show


def main() -> None:
    """Run, print the table, and write build/score.json. Exit with 1 if a limit is missed."""
    parser = argparse.ArgumentParser(prog="make score", description=__doc__)
    usual = Scale()
    parser.add_argument("--seed", type=int, default=usual.seed)
    parser.add_argument("--hosts", type=int, default=usual.hosts)
    parser.add_argument("--vms", type=int, default=usual.vms)
    parser.add_argument("--minutes", type=int, default=usual.minutes)
    parser.add_argument("--keep", type=Path, help="an empty folder in which the logs stay")
    parser.add_argument("--in-memory", action="store_true", help="without the pipeline")
    options = parser.parse_args()
    settings = load_settings()
    console = Terminal(stderr=True)
    name = f"s{options.seed}r{int(time.time()) % 100_000_000:x}"
    scale = Scale(options.hosts, options.vms, options.minutes, options.seed, name)
    with tempfile.TemporaryDirectory(prefix="stunwatch-score-") as folder:
        out = options.keep or Path(folder)
        if options.in_memory:
            about, sections = in_memory.run(scale, out)
        else:
            with trial_pipeline(settings, console) as own:
                about, sections = pipeline.run(own, scale, out, console)
    show(sections, Terminal())
    settings.build.mkdir(exist_ok=True)
    (settings.build / "score.json").write_bytes(
        orjson.dumps(report(about, sections), option=orjson.OPT_INDENT_2) + b"\n"
    )
    missed = [f"{each.name}: {f.name}" for each in sections for f in each.figures if not f.is_met]
    if missed:
        console.print(f"Missed: {'; '.join(missed)}", style="red", highlight=False, soft_wrap=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
