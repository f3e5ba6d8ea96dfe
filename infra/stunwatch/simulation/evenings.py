"""Evenings by which the correlation of events into incidents is judged.

A small fleet, an hour or so, and one thing that goes wrong, or two, or none. Each evening writes
the logs, what esxcli says of the hosts' storage, and in truth.json the incidents that should come
out. Names belong to one evening and seed alone: any number of them can be replayed at once.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from stunwatch.errors import UserError
from stunwatch.simulation import run, scripts, writing
from stunwatch.simulation.esxcli import inventory
from stunwatch.simulation.fleet import MINUTE_US, SECOND_US, Fleet
from stunwatch.simulation.sites import Site
from stunwatch.simulation.stages import Stage
from stunwatch.simulation.truth import Truth, text
from stunwatch.simulation.writing import LogFile

_FIRST_DAY = datetime(2021, 1, 4, tzinfo=UTC)
# Two seeds are so many days apart, further than an evening's earlier nights reach; then again from
# the first day, on days that no seed had.
_DAYS_APART, _DAYS = 23, 1409

Tell = Callable[[Site, Truth, bool], Stage]
"""Puts a site's hosts together and tells what happens there, with the cause or without."""


@dataclass(frozen=True, slots=True)
class Evening:
    """One of the evenings."""

    what: str
    word: str
    """In the names of everything that belongs to it."""
    begins: tuple[int, int]
    """Hour and minute, UTC: of each evening another."""
    minutes: int
    tell: Tell


EVENINGS = {
    "array_and_storm": Evening(
        "an array is slow, and elsewhere backups stun VMs at an hour that is not theirs",
        "storm", (14, 5), 75, scripts.array_and_storm,
    ),
    "array_and_nightly_backup": Evening(
        "an array is slow, and elsewhere backups stun VMs as every night",
        "nightly", (22, 5), 75, scripts.array_and_nightly_backup,
    ),
    "slow_lun": Evening(
        "one LUN is slow for every host that sees it", "lun", (17, 10), 70, scripts.slow_lun
    ),
    "bad_host": Evening(
        "one host's adapter dies", "hba", (19, 20), 70, scripts.bad_host
    ),
    "quiet_night": Evening(
        "nothing that anybody should hear of", "quiet", (1, 15), 75, scripts.quiet_night
    ),
    "pool_full": Evening(
        "an array runs out of pool space: removing snapshots takes minutes, but on local disks",
        "pool", (3, 0), 90, scripts.pool_full,
    ),
    "fixed_path_policy": Evening(
        "all LUNs of an array are slow by one path, until the path policy is changed",
        "fixed", (10, 0), 80, scripts.fixed_path_policy,
    ),
}  # fmt: skip


class EveningSimulation:
    """One evening of one seed; iterate `files` once, then `truth` is whole."""

    def __init__(
        self,
        name: str,
        seed: int,
        *,
        with_cause: bool = True,
        started_at: datetime | None = None,
        chatter: float = 1.0,
    ) -> None:
        """`started_at` is aware; without it the evening's own time of a day that is the seed's.

        `chatter` is how much noise there is, in parts of what real hosts write.
        """
        if name not in EVENINGS:
            raise UserError(f"There is no evening {name}; these are: {', '.join(EVENINGS)}.")
        evening = EVENINGS[name]
        started = started_at or _start(name, seed)
        site = Site.of(
            zlib.crc32(f"{name}/{seed}".encode()),
            f"{evening.word}{seed}{'' if with_cause else 'x'}",
            int(started.timestamp()) * SECOND_US,
            evening.minutes,
        )
        site.fleet.chatter = chatter
        self.fleet: Fleet = site.fleet
        self.truth = Truth(
            seed, site.fleet.name, text(site.fleet.started_us), text(site.fleet.ended_us),
            evening=name,
        )  # fmt: skip
        self._stage = evening.tell(site, self.truth, with_cause)
        self.truth.hosts = [host.name for host in site.fleet.hosts]
        self.truth.vms = len(site.fleet.vms)

    def files(self) -> Iterator[LogFile]:
        """Every log, made when it is asked for."""
        yield from writing.files(self.fleet, self._stage.journals, self.truth)
        yield from writing.samples(list(self._stage.samplers.values()), self.truth)

    def inventories(self) -> Iterator[LogFile]:
        """What esxcli said: of every host an hour before, and again after a change."""
        site, folder = self._stage.site, Path("inventory")
        before_us = self.fleet.started_us - 60 * MINUTE_US
        for host in self.fleet.hosts:
            yield LogFile(folder / f"{host.label}.txt", [(before_us, inventory(site, host))])
        for changed_us, policies in self._stage.changed_policies:
            for host in self.fleet.hosts:
                told = inventory(site, host, policies)
                yield LogFile(
                    Path("inventory_after_change") / f"{host.label}.txt", [(changed_us, told)]
                )


def write(evening: EveningSimulation, out: Path) -> None:
    """Write logs, inventory and truth.json into a folder."""
    run.write(evening, out)
    write_inventory(evening, out)


def write_inventory(evening: EveningSimulation, out: Path) -> None:
    """Write the folder `inventory`, and another one where something was changed."""
    for file in evening.inventories():
        writing.write(out, file)


def _start(name: str, seed: int) -> datetime:
    """Another day for every seed and evening."""
    day = (seed * _DAYS_APART + list(EVENINGS).index(name)) % _DAYS
    hour, minute = EVENINGS[name].begins
    return _FIRST_DAY + timedelta(days=day, hours=hour, minutes=minute)
