"""From a seed to a folder of logs with their truth."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from stunwatch.simulation import hosts, truth, virtual_machines, writing
from stunwatch.simulation.esxtop import NightSampler
from stunwatch.simulation.fleet import Fleet, make_fleet
from stunwatch.simulation.journals import Journals
from stunwatch.simulation.truth import Truth
from stunwatch.simulation.writing import LogFile


@dataclass(frozen=True, slots=True)
class Scale:
    """How large, how long, and which one."""

    hosts: int = 24
    vms: int = 150
    minutes: int = 720
    seed: int = 1
    name: str = ""
    """Of the fleet; `s` and the seed where none is given."""


def evening_of(seed: int) -> datetime:
    """When a seed's night begins: eight in the evening of a day in 2021 or 2022."""
    return datetime(2021, 1, 4, 20, tzinfo=UTC) + timedelta(days=seed % 600)


class Logs(Protocol):
    """What a simulation made: iterate `files` once, then `truth` is whole."""

    fleet: Fleet
    truth: Truth

    def files(self) -> Iterator[LogFile]:
        """Every file, made when it is asked for."""
        ...


class Simulation:
    """A fleet and all that happened to it; iterate `files` once, then `truth` is whole."""

    def __init__(
        self,
        scale: Scale,
        started_at: datetime | None = None,
        progress: Callable[[], None] = lambda: None,
    ) -> None:
        """`started_at` is aware; without it, the seed's evening. `progress` is called per VM."""
        started = started_at or evening_of(scale.seed)
        self.fleet: Fleet = make_fleet(
            seed=scale.seed,
            name=scale.name or f"s{scale.seed}",
            hosts=scale.hosts,
            vms=scale.vms,
            started_us=int(started.timestamp()) * 1_000_000,
            minutes=scale.minutes,
        )
        fleet = self.fleet
        self.truth = Truth(
            scale.seed,
            fleet.name,
            truth.text(fleet.started_us),
            truth.text(fleet.ended_us),
            [host.name for host in fleet.hosts],
            len(fleet.vms),
        )
        journals = Journals(fleet)
        troubles = hosts.troubles_of(fleet)
        virtual_machines.tell(fleet, journals, self.truth, troubles, progress)
        hosts.tell(fleet, journals, self.truth, troubles)
        self._journals = journals
        self._samplers = [
            NightSampler(fleet, host, troubles) for host in fleet.hosts if host.esxtop_step_s
        ]

    def files(self) -> Iterator[LogFile]:
        """Every file, made when it is asked for."""
        yield from writing.files(self.fleet, self._journals, self.truth)
        yield from writing.samples(self._samplers, self.truth)


def write(
    simulation: Logs, out: Path, progress: Callable[[], None] = lambda: None
) -> tuple[int, int]:
    """Write logs and truth.json into a folder; returns (files, bytes)."""
    count = size = 0
    for file in simulation.files():
        writing.write(out, file)
        count += 1
        size += (out / file.path).stat().st_size
        progress()
    (out / truth.FILE).write_bytes(simulation.truth.json())
    return count, size
