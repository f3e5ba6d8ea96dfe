"""Runs a simulation: from a seed to a folder of logs and truth.json."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from stunwatch.simulation import hosts, truth, virtual_machines, writing
from stunwatch.simulation.esxtop import NightSampler
from stunwatch.simulation.fleet import Fleet, make_fleet
from stunwatch.simulation.log_writers import LogWriters
from stunwatch.simulation.truth import Truth
from stunwatch.simulation.writing import LogFile


@dataclass(frozen=True, slots=True)
class Scale:
    """The size, the duration and the seed of a simulation."""

    hosts: int = 24
    vms: int = 150
    minutes: int = 720
    seed: int = 1
    name: str = ""
    """Name of the fleet; by default `s` and the seed."""


def night_of(seed: int) -> datetime:
    """Return the start of a seed's night: 20:00 on a day in 2021 or 2022."""
    return datetime(2021, 1, 4, 20, tzinfo=UTC) + timedelta(days=seed % 600)


class Logs(Protocol):
    """The output of a simulation. Iterate `files` once; after that, `truth` is complete."""

    fleet: Fleet
    truth: Truth

    def files(self) -> Iterator[LogFile]:
        """Yield every file, created on demand."""
        ...


class Simulation:
    """A fleet and its events. Iterate `files` once; after that, `truth` is complete."""

    def __init__(
        self,
        scale: Scale,
        started_at: datetime | None = None,
        progress: Callable[[], None] = lambda: None,
        chatter: float = 1.0,
    ) -> None:
        """`started_at` has a time zone; default: `night_of`. `progress` is called per VM.

        `chatter` is the amount of noise; 1.0 is as much as real hosts write.
        """
        started = started_at or night_of(scale.seed)
        self.fleet: Fleet = make_fleet(
            seed=scale.seed,
            name=scale.name or f"s{scale.seed}",
            hosts=scale.hosts,
            vms=scale.vms,
            started_us=int(started.timestamp()) * 1_000_000,
            minutes=scale.minutes,
        )
        fleet = self.fleet
        fleet.chatter = chatter
        self.truth = Truth(
            scale.seed,
            fleet.name,
            truth.text(fleet.started_us),
            truth.text(fleet.ended_us),
            [host.name for host in fleet.hosts],
            [host.name for host in fleet.hosts if host.has_coarse_stamps],
            len(fleet.vms),
        )
        log_writers = LogWriters(fleet)
        troubles = hosts.troubles_of(fleet)
        virtual_machines.tell(fleet, log_writers, self.truth, troubles, progress)
        hosts.tell(fleet, log_writers, self.truth, troubles)
        self._log_writers = log_writers
        self._samplers = [
            NightSampler(fleet, host, troubles) for host in fleet.hosts if host.esxtop_step_s
        ]

    def files(self) -> Iterator[LogFile]:
        """Yield every file, created on demand."""
        yield from writing.files(self.fleet, self._log_writers, self.truth)
        yield from writing.samples(self._samplers, self.truth)


def write(
    simulation: Logs, out: Path, progress: Callable[[], None] = lambda: None
) -> tuple[int, int]:
    """Write logs and truth.json to a folder; return (files, bytes)."""
    count = size = 0
    for file in simulation.files():
        writing.write(out, file)
        count += 1
        size += (out / file.path).stat().st_size
        progress()
    (out / truth.FILE).write_bytes(simulation.truth.json())
    return count, size
