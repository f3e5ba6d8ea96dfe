"""`stunwatch simulate`: writes the logs of a simulated fleet, and the events that they contain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from stunwatch.access import kafka_access
from stunwatch.demo.scenario import made_up_names
from stunwatch.errors import UserError, did_you_mean
from stunwatch.kafka import Kafka
from stunwatch.local.trial import require_no_other_logs
from stunwatch.printable import Terminal
from stunwatch.settings import load_settings
from stunwatch.simulation import scenarios
from stunwatch.simulation.live import PRINCIPAL, feed
from stunwatch.simulation.run import Logs, Scale, Simulation, write
from stunwatch.simulation.scenarios import SCENARIOS, ScenarioSimulation


def simulate(
    hosts: Annotated[
        int, typer.Option(min=1, max=400, help="ESX and ESXi hosts, of all versions.")
    ] = 24,
    vms: Annotated[int, typer.Option(min=1, max=20_000, help="Virtual machines.")] = 150,
    minutes: Annotated[
        int, typer.Option(min=60, max=10_080, help="Length of the simulated time in minutes.")
    ] = 720,
    seed: Annotated[int, typer.Option(min=0, help="The same seed writes the same logs.")] = 1,
    out: Annotated[
        Path | None, typer.Option(help="The folder for the logs and truth.json; empty or new.")
    ] = None,
    evening: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            autocompletion=lambda incomplete: [
                (name, each.what) for name, each in SCENARIOS.items() if name.startswith(incomplete)
            ],
            help="Simulate one scenario on a small fleet; --hosts, --vms and --minutes are ignored."
            " Scenarios: "
            + ". ".join(f"{name}: {each.what}" for name, each in SCENARIOS.items())
            + ".",
        ),
    ] = None,
    without_cause: Annotated[
        bool,
        typer.Option("--without-cause", help="With --evening: the same fleet without the fault."),
    ] = False,
    live: Annotated[
        bool, typer.Option("--live", help="Send the lines to the running pipeline.")
    ] = False,
    speed: Annotated[
        float,
        typer.Option(
            min=0, help="With --live: how many times faster than real time; 0: all at once."
        ),
    ] = 0,
) -> None:
    """Write simulated fleet logs, and the events that stunwatch should find in them.

    The logs contain backups, a failing array, vMotions, reservation conflicts, slow LUNs, and
    ordinary lines. `replay` reads the folder. With --live the lines go to the running pipeline
    instead; their times end now, or begin now with --speed 1. It refuses if that pipeline has logs
    of other hosts.

    With --evening the fleet has one fault, two, or none. The expected incidents are in truth.json;
    the folder `inventory` holds the output of esxcli.

    Examples:

        stunwatch simulate --seed 7 --out ./night && stunwatch replay ./night

        stunwatch simulate --evening slow_lun --seed 7 --out ./evening
        stunwatch replay ./evening
        stunwatch inventory load ./evening/inventory

        stunwatch simulate --live --hosts 8 --vms 20 --minutes 60 --speed 10
    """
    scale = Scale(hosts, vms, minutes, seed)
    console = Terminal(stderr=True)
    if without_cause and not evening:
        raise UserError("--without-cause needs a scenario. Add --evening NAME.")
    if evening and evening not in SCENARIOS:
        raise UserError(
            f"There is no scenario {evening}.{did_you_mean(evening, SCENARIOS)} Scenarios:"
            f" {', '.join(SCENARIOS)}."
        )

    def made(started_at: datetime | None) -> ScenarioSimulation | Simulation:
        if evening:
            return ScenarioSimulation(
                evening, seed, with_cause=not without_cause, started_at=started_at
            )
        return Simulation(scale, started_at)

    if live:
        _feed(made, SCENARIOS[evening].minutes if evening else minutes, speed, console)
        return
    if out is None:
        raise UserError("No destination given. Add --out FOLDER, or --live.")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} already exists and is not an empty folder. Use another folder.")
    simulation = made(None)
    with _progress(console, "writing", None) as show:
        count, size = write(simulation, out, lambda: show(1))
        if isinstance(simulation, ScenarioSimulation):
            scenarios.write_inventory(simulation, out)
    truth = simulation.truth
    console.print(
        f"{truth.lines:,} lines and {truth.samples:,} samples in {count:,} files"
        f" ({size / 1e6:.0f} MB); {truth.mattering_lines / truth.lines:.2%} of lines are relevant:"
        f" {len(truth.stuns):,} stuns, {len(truth.snapshot_operations):,} snapshot operations,"
        f" {len(truth.reservation_conflicts):,} conflicts. Expected events: {out / 'truth.json'}",
        highlight=False,
        soft_wrap=True,
    )


def _feed(made: Callable[[datetime], Logs], minutes: int, speed: float, console: Console) -> None:
    settings = load_settings()
    # Fail early if the pipeline is not running.
    Kafka(kafka_access(settings, PRINCIPAL), patience_seconds=5).ends(["esxi.syslog"])
    require_no_other_logs(settings, made_up_names(), "stunwatch simulate --live")
    pace = speed or None
    # Start the simulated time such that it reaches the current time when all lines are sent.
    behind = timedelta(minutes=minutes) * (1 - 1 / pace if pace else 1)
    simulation = made(datetime.now(UTC) - behind)
    with _progress(console, "sending", None) as show:
        counts = feed(simulation, settings, pace, progress=show)
    shipped = ", ".join(f"{count:,} to {topic}" for topic, count in sorted(counts.items()))
    console.print(f"sent {shipped}", highlight=False)


@contextmanager
def _progress(console: Console, name: str, total: int | None) -> Iterator[Callable[[int], None]]:
    columns = (
        TextColumn("{task.description:10}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(name, total=total)
        yield lambda count: progress.advance(task, count)
