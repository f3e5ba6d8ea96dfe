"""Runs a simulated night through a pipeline, and compares its views with the truth."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console

from stunwatch import replaying
from stunwatch.clickhouse import ClickHouse, as_user
from stunwatch.ingest.replay import Options, plan
from stunwatch.settings import Settings
from stunwatch.simulation import truth as truths
from stunwatch.simulation.run import Scale, Simulation, write
from tools.score.figures import Section
from tools.score.matching import Row
from tools.score.sections import Comparison, lines_section

_HOST = "endsWith(splitByChar('.', host)[1], {label:String})"

_QUERIES = {
    "stuns": "SELECT host, vm, datastore, ended_at, duration_us, measured_by, cause, cause_detail,"
    " op_id, migration_id, evidence FROM stuns",
    "snapshot_operations": "SELECT host, vm, datastore, kind, name, started_at, ended_at, outcome,"
    " iterations, helper_sizes, is_converging, pages, lazy_io_ms, op_id, evidence"
    " FROM snapshot_operations",
    "reservation_conflicts": "SELECT host, world_id, first_remaining, last_remaining, steps,"
    " started_at, ended_at, outcome, device, path, datastore, dialect, is_stuck, is_expected,"
    " evidence"
    " FROM reservation_conflicts",
    "latency_episodes": "SELECT host, device, metric, origin, kind, started_at, ended_at, peak_ms,"
    " samples, evidence FROM latency_episodes",
    "unmap_runs": "SELECT host, volume, block_count, iterations, blocks_total, started_at,"
    " ended_at, fell_back, outcome, evidence FROM unmap_runs",
    "scsi_errors": "SELECT host, device, path, opcode, host_status, device_status, plugin_status,"
    " sense, is_expected, started_at, ended_at, count, evidence FROM scsi_errors",
    "path_events": "SELECT host, path, device, datastore, kind, started_at, ended_at, evidence"
    " FROM path_events",
    "incidents": "SELECT hosts, devices, vms, scope, verdict, next_steps, evidence FROM incidents",
}


def rows_of(clickhouse: ClickHouse, view: str, fleet: str) -> list[Row]:
    """Return the rows of a view that belong to a fleet, by its hosts' names."""
    condition = f"arrayExists(host -> {_HOST}, hosts)" if view == "incidents" else _HOST
    query = f"{_QUERIES[view]} WHERE {condition}"
    return clickhouse.named_rows(query, {"label": f"-{fleet}"})


def found_in(clickhouse: ClickHouse, fleet: str) -> dict[str, list[Row]]:
    """Return the rows of all views that belong to a fleet."""
    return {view: rows_of(clickhouse, view, fleet) for view in _QUERIES}


def run(settings: Settings, scale: Scale, out: Path, console: Console) -> tuple[Row, list[Section]]:
    """Simulate into `out`, replay, compare. Return (about the run, sections)."""
    started = time.monotonic()
    simulation = Simulation(scale)
    write(simulation, out)
    true = truths.load((out / truths.FILE).read_bytes())
    simulated_s = time.monotonic() - started
    with plan([out], Options()) as what:
        outcome = replaying.run(settings, what, Options(), console)
    console.print(outcome.summary, highlight=False)
    found = found_in(as_user(settings, "analyst"), scale.name)
    about = {
        "seed": scale.seed,
        "fleet": scale.name,
        "run_id": outcome.run_id,
        "hosts": scale.hosts,
        "vms": scale.vms,
        "minutes": scale.minutes,
        "lines": outcome.read,
        "samples": true["samples"],
        "share_that_matters": true["mattering_lines"] / true["lines"],
        "simulated_seconds": round(simulated_s, 1),
        "replay_seconds": round(outcome.seconds, 1),
        "lines_per_second": round(outcome.read / max(outcome.seconds, 0.001)),
    }
    lines = lines_section(sum(outcome.missing.values()), outcome.rejected)
    return about, [lines, *Comparison(true, found).sections()]
