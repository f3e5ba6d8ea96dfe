"""`stunwatch simulate`: a fleet's night of logs, with the truth beside them."""

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
from stunwatch.errors import UserError
from stunwatch.kafka import Kafka
from stunwatch.settings import load_settings
from stunwatch.simulation import evenings
from stunwatch.simulation.evenings import EVENINGS, EveningSimulation
from stunwatch.simulation.live import PRINCIPAL, feed
from stunwatch.simulation.run import Logs, Scale, Simulation, write


def simulate(
    hosts: Annotated[int, typer.Option(min=1, max=400, help="ESX hosts, of every era.")] = 24,
    vms: Annotated[int, typer.Option(min=1, max=20_000, help="Virtual machines.")] = 150,
    minutes: Annotated[int, typer.Option(min=60, max=10_080, help="How long a time.")] = 720,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same bytes.")] = 1,
    out: Annotated[
        Path | None, typer.Option(help="An empty folder for the logs and truth.json.")
    ] = None,
    evening: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="A small fleet in one of these: "
            + "; ".join(f"{name}: {each.what}" for name, each in EVENINGS.items())
            + ". --hosts, --vms and --minutes are its own.",
        ),
    ] = None,
    without_cause: Annotated[
        bool, typer.Option("--without-cause", help="With --evening: nothing goes wrong in it.")
    ] = False,
    live: Annotated[bool, typer.Option("--live", help="Feed the running pipeline.")] = False,
    speed: Annotated[
        float, typer.Option(min=0, help="With --live: times faster than it happened; 0: at once.")
    ] = 0,
) -> None:
    """Write the logs of a fleet that never was, and what should be found in them.

    Backups, an array that fails, vMotions, reservation conflicts, slow LUNs, and the noise around
    them. The folder has the layout of `replay`. With --live the lines go to the running pipeline
    instead, with times that end now (or begin now, at --speed 1).

    With --evening one thing goes wrong, or two, or none: the incidents that should come of it are
    in truth.json, and what esxcli says of the hosts' storage in the folder `inventory`.

    Examples:

        stunwatch simulate --seed 7 --out ./night && stunwatch replay ./night

        stunwatch simulate --evening slow_lun --seed 7 --out ./evening
        stunwatch replay ./evening && stunwatch inventory load ./evening/inventory

        stunwatch simulate --live --hosts 8 --vms 20 --minutes 60 --speed 10
    """
    scale = Scale(hosts, vms, minutes, seed)
    console = Console(stderr=True)
    if without_cause and not evening:
        raise UserError("--without-cause belongs to --evening NAME.")
    if evening and evening not in EVENINGS:
        raise UserError(f"There is no evening {evening}; these are: {', '.join(EVENINGS)}.")

    def made(started_at: datetime | None) -> EveningSimulation | Simulation:
        if evening:
            return EveningSimulation(
                evening, seed, with_cause=not without_cause, started_at=started_at
            )
        return Simulation(scale, started_at)

    if live:
        _feed(made, EVENINGS[evening].minutes if evening else minutes, speed, console)
        return
    if out is None:
        raise UserError("Say where to: --out FOLDER, or --live for the running pipeline.")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} is there already and not an empty folder.")
    simulation = made(None)
    with _progress(console, "writing", None) as show:
        count, size = write(simulation, out, lambda: show(1))
        if isinstance(simulation, EveningSimulation):
            evenings.write_inventory(simulation, out)
    truth = simulation.truth
    console.print(
        f"{truth.lines:,} lines and {truth.samples:,} samples in {count:,} files"
        f" ({size / 1e6:.0f} MB); {truth.mattering_lines / truth.lines:.2%} of the lines matter:"
        f" {len(truth.stuns):,} stuns, {len(truth.snapshot_operations):,} snapshot operations,"
        f" {len(truth.reservation_conflicts):,} conflicts. The truth is in {out / 'truth.json'}",
        highlight=False,
        soft_wrap=True,
    )


def _feed(made: Callable[[datetime], Logs], minutes: int, speed: float, console: Console) -> None:
    settings = load_settings()
    # Who forgot `up` should not wait.
    Kafka(kafka_access(settings, PRINCIPAL), patience_seconds=5).ends(["esxi.syslog"])
    pace = speed or None
    # At the end of shipping it is now, in the simulation too.
    behind = timedelta(minutes=minutes) * (1 - 1 / pace if pace else 1)
    simulation = made(datetime.now(UTC) - behind)
    with _progress(console, "shipping", None) as show:
        counts = feed(simulation, settings, pace, progress=show)
    told = ", ".join(f"{count:,} to {topic}" for topic, count in sorted(counts.items()))
    console.print(f"shipped {told}", highlight=False)


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
