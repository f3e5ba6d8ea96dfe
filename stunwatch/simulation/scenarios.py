"""Scenarios that test how events are correlated into incidents.

Each has a small fleet, lasts about an hour, and contains one or two problems or none. It writes the
logs, the esxcli outputs of the hosts, and the expected incidents in truth.json. Names are unique
per scenario and seed, so that any number of them can be replayed together.
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
# Days between two seeds: more than the previous nights of any scenario. After the last day, it
# starts again at the first, on days that no seed had.
_DAYS_APART, _DAYS = 23, 1409

Tell = Callable[[Site, Truth, bool], Stage]
"""Adds a site's hosts and what happens there, with or without the cause of the problem."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario."""

    what: str
    word: str
    """Part of the names of everything in it."""
    begins: tuple[int, int]
    """Hour and minute, UTC; different for each scenario."""
    minutes: int
    tell: Tell


SCENARIOS = {
    "array_and_storm": Scenario(
        "an array is slow, and on other storage backups stun VMs at an unusual hour",
        "storm", (14, 5), 75, scripts.array_and_storm,
    ),
    "array_and_nightly_backup": Scenario(
        "an array is slow, and on other storage backups stun VMs as every night",
        "nightly", (22, 5), 75, scripts.array_and_nightly_backup,
    ),
    "slow_lun": Scenario(
        "one LUN is slow for all its hosts", "lun", (17, 10), 70, scripts.slow_lun
    ),
    "bad_host": Scenario(
        "the adapter of one host fails", "hba", (19, 20), 70, scripts.bad_host
    ),
    "quiet_night": Scenario(
        "a normal night without an incident", "quiet", (1, 15), 75, scripts.quiet_night
    ),
    "pool_full": Scenario(
        "an array runs out of pool space, and snapshot removals on it take minutes",
        "pool", (3, 0), 90, scripts.pool_full,
    ),
    "fixed_path_policy": Scenario(
        "all LUNs of an array use one path and are slow, until the path policy is changed",
        "fixed", (10, 0), 80, scripts.fixed_path_policy,
    ),
}  # fmt: skip


class ScenarioSimulation:
    """One scenario with one seed. Iterate `files` once; after that, `truth` is complete."""

    def __init__(
        self,
        name: str,
        seed: int,
        *,
        with_cause: bool = True,
        started_at: datetime | None = None,
        chatter: float = 1.0,
    ) -> None:
        """`started_at` has a time zone. Without it, the scenario's own time, on a day of the seed.

        `chatter` is the amount of noise; 1.0 is as much as real hosts write.
        """
        if name not in SCENARIOS:
            raise UserError(f"There is no scenario {name}. Scenarios: {', '.join(SCENARIOS)}.")
        scenario = SCENARIOS[name]
        started = started_at or _start(name, seed)
        site = Site.of(
            zlib.crc32(f"{name}/{seed}".encode()),
            f"{scenario.word}{seed}{'' if with_cause else 'x'}",
            int(started.timestamp()) * SECOND_US,
            scenario.minutes,
        )
        site.fleet.chatter = chatter
        self.fleet: Fleet = site.fleet
        self.truth = Truth(
            seed, site.fleet.name, text(site.fleet.started_us), text(site.fleet.ended_us),
            evening=name,
        )  # fmt: skip
        self._stage = scenario.tell(site, self.truth, with_cause)
        self.truth.hosts = [host.name for host in site.fleet.hosts]
        self.truth.coarse_hosts = [host.name for host in site.fleet.hosts if host.has_coarse_stamps]
        self.truth.vms = len(site.fleet.vms)

    def files(self) -> Iterator[LogFile]:
        """Yield every log, created on demand."""
        yield from writing.files(self.fleet, self._stage.log_writers, self.truth)
        yield from writing.samples(list(self._stage.samplers.values()), self.truth)

    def inventories(self) -> Iterator[LogFile]:
        """Yield esxcli outputs: of every host an hour before, and again after a change."""
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


def write(scenario: ScenarioSimulation, out: Path) -> None:
    """Write logs, inventory and truth.json to a folder."""
    run.write(scenario, out)
    write_inventory(scenario, out)


def write_inventory(scenario: ScenarioSimulation, out: Path) -> None:
    """Write the folder `inventory`, and a second one if something was changed."""
    for file in scenario.inventories():
        writing.write(out, file)


def _start(name: str, seed: int) -> datetime:
    """Return the start: a different day for every seed and scenario."""
    day = (seed * _DAYS_APART + list(SCENARIOS).index(name)) % _DAYS
    hour, minute = SCENARIOS[name].begins
    return _FIRST_DAY + timedelta(days=day, hours=hour, minutes=minute)
