"""Building blocks of scenarios: a site's hosts, VMs and esxtops, and typical events for each."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence

from stunwatch.simulation.esxcli import path_to
from stunwatch.simulation.esxtop import Sampler
from stunwatch.simulation.fleet import MINUTE_US, SECOND_US, Datastore, Host, VirtualMachine
from stunwatch.simulation.hosts import Room
from stunwatch.simulation.log_writers import MS, LogWriters
from stunwatch.simulation.sites import Site
from stunwatch.simulation.truth import Stun, Truth, text
from stunwatch.simulation.virtual_machines import HELPER_STUN_MS, Machine

UNNOTICED_S = (0.03, 0.85)
"""The duration of a stun for a snapshot on healthy storage, in seconds."""

Seconds = tuple[float, float]


class Actor(Machine):
    """A VM whose stuns have a given duration."""

    stuns_s: Seconds = UNNOTICED_S
    is_last_alone: bool = False
    """The stuns between the passes of a consolidation are short anyway."""

    def length(self, median_ms: float, time_us: int) -> int:
        is_short = self.is_last_alone and median_ms == HELPER_STUN_MS
        least, most = (math.log(each) for each in (UNNOTICED_S if is_short else self.stuns_s))
        return int(math.exp(self.rng.uniform(least, most)) * SECOND_US)


class SteadyRoom(Room):
    """A host whose paths are those in its inventory."""

    def __init__(self, site: Site, log_writers: LogWriters, truth: Truth, host: Host) -> None:
        super().__init__(site.fleet, log_writers, truth, host, ())
        self._site = site

    def path(self, datastore: Datastore, target: int = 0) -> str:
        """Return a path by the first adapter (`target` 0) or the second (1)."""
        return path_to(self._site, datastore, target)


class Stage:
    """A site with events. Times are microseconds since 1970."""

    def __init__(self, site: Site, truth: Truth) -> None:
        self.site = site
        self.fleet = site.fleet
        self.truth = truth
        self.log_writers = LogWriters(site.fleet)
        self.rng: random.Random = site.fleet.rng("stage")
        """Random generator for the cause; everything else uses other generators."""
        self.samplers = {
            each.name: Sampler(
                site.fleet, each, [*(of.device for of in each.datastores), each.boot_device]
            )
            for each in site.fleet.hosts
        }
        self._rooms = {
            each.name: SteadyRoom(site, self.log_writers, truth, each) for each in site.fleet.hosts
        }
        self.changed_policies: list[tuple[int, dict[str, str]]] = []
        """(time, path policies by array) of each change of path policies."""
        self._actors: dict[str, Actor] = {}

    def minute(self, number: float) -> int:
        """Return the time this many minutes after the start, to the second."""
        return self.fleet.started_us + round(number * 60) * SECOND_US

    def room(self, host: Host) -> Room:
        """Return the generator of a host's events."""
        return self._rooms[host.name]

    def actor(self, vm: VirtualMachine, stuns_s: Seconds = UNNOTICED_S) -> Actor:
        """Return the generator of a VM's events. From now on, its stuns last `stuns_s`."""
        if vm.name not in self._actors:
            self._actors[vm.name] = Actor(self.fleet, self.log_writers, self.truth, vm, ())
        actor = self._actors[vm.name]
        actor.stuns_s = stuns_s
        return actor

    def stuns_of(
        self, vms: Iterable[VirtualMachine], began_us: int = 0, ended_us: int = 1 << 62
    ) -> list[Stun]:
        """Return the expected stuns of these VMs that ended between two times, in order."""
        names = {(each.datastore.name, each.name) for each in vms}
        began, ended = text(began_us), text(min(ended_us, 32_503_680_000 * SECOND_US))
        found = [
            each
            for each in self.truth.stuns
            if (each.datastore, each.vm) in names and began <= each.ended_at < ended
        ]
        return sorted(found, key=lambda each: each.ended_at)

    # == Events

    def slow(
        self,
        host: Host,
        datastore: Datastore,
        began_us: int,
        ended_us: int,
        level_ms: float,
        metric: str = "davg",
    ) -> int:
        """Make a LUN slow in esxtop for a period; return the first slow sample's time."""
        first_us = self.samplers[host.name].slow(
            datastore.device, began_us, ended_us, metric, level_ms
        )
        return ended_us if first_us is None else first_us

    def log_slow(self, host: Host, datastore: Datastore, began_us: int, ended_us: int) -> None:
        """Write latency messages of the kernel (from ESXi 5 on) and of Storage I/O Control."""
        if host.era.is_yearless:
            return
        rng, room = self.rng, self.room(host)
        at = began_us + rng.randrange(400, 12_000) * MS
        until_us = ended_us + rng.randrange(200, 20_000) * MS
        room.deteriorates(at, until_us, datastore.device, rng.randrange(400_000, 1_900_000))
        if rng.random() < 0.4:
            room.datastore_latency(datastore, [(began_us, ended_us)])

    def fail(
        self,
        host: Host,
        datastore: Datastore,
        began_us: int,
        ended_us: int,
        statuses: Sequence[str],
        sides: Sequence[int] = (0, 1),
    ) -> None:
        """Let commands fail occasionally, all with the same status, such as `H:0x0 D:0x8 P:0x0`."""
        parts = dict(each.split(":") for each in self.rng.choice(statuses).split())
        self.room(host).errors(
            began_us + self.rng.randrange(1_000, 30_000) * MS,
            ended_us,
            datastore,
            (parts["H"], parts["D"], parts["P"]),
            sides,
            pace_s=(12, 70),
            most=50,
        )

    def conflicts(self, host: Host, began_us: int, ended_us: int, number: int) -> None:
        """Write count-downs of ESX 4, one after the other, that all recover."""
        rng, room = self.rng, self.room(host)
        at = began_us
        for _ in range(number):
            at += (ended_us - began_us) // (number + 1)
            steps = rng.randrange(3, 16)
            room.count_down(
                at + rng.randrange(0, 5_000) * MS,
                rng.randrange(4110, 4180),
                first=992,
                step=32,
                last=992 - 32 * steps,
                outcome="recovered",
                pace_s=(0.3, 1.0),
            )

    def backup(
        self,
        vm: VirtualMachine,
        at: int,
        copy_s: Seconds,
        stuns_s: Seconds = UNNOTICED_S,
        rng: random.Random | None = None,
    ) -> int:
        """Create a snapshot, wait for the copy, and remove it; return the end."""
        actor = self.actor(vm, stuns_s)
        drawn = rng or self.rng
        at = actor.create(at) + int(drawn.uniform(*copy_s) * SECOND_US)
        return actor.remove(at)

    def thin_backup(self, vm: VirtualMachine, at: int, copy_s: Seconds, stuns_s: Seconds) -> None:
        """The same on an earlier night, from which little more than the stuns was kept."""
        actor = self.actor(vm, stuns_s)
        at = actor.create_thinly(at) + int(actor.rng.uniform(*copy_s) * SECOND_US)
        actor.remove_thinly(at)

    # == Background

    def usual(self, idle: Sequence[VirtualMachine], slow: Sequence[Datastore] = ()) -> None:
        """Write the background of a scenario: harmless messages, and backups that affect no users.

        `idle`: VMs without other events. `slow`: datastores that must not be reported as healthy.
        """
        for host in self.fleet.hosts:
            self._usual_of_host(host, slow)
        for vm in idle:
            self._usual_of_vm(vm)

    def _usual_of_host(self, host: Host, slow: Sequence[Datastore]) -> None:
        rng, room = self.fleet.rng("usual", "host", host.number), self.room(host)
        self.samplers[host.name].spikes()
        room.polls()
        if host.era.is_yearless:
            return
        if rng.random() < 0.25:
            room.slow_boot_device()
        well = [each for each in host.datastores if each not in slow and not each.is_local]
        if well:
            room.datastore_latency(rng.choice(well), ())

    def _usual_of_vm(self, vm: VirtualMachine) -> None:
        rng, fleet = self.fleet.rng("usual", "VM", vm.number), self.fleet
        others = [
            each
            for each in fleet.hosts
            if each is not vm.host and each.era is vm.host.era and vm.datastore in each.datastores
        ]
        actor = self.actor(vm)
        at = self.minute(rng.uniform(3, 30))
        drawn = rng.random()
        if drawn < 0.45:
            self.backup(vm, at, (60, 400), rng=rng)
        elif drawn < 0.65:
            if others:
                actor.vmotion(at, rng.choice(others))
        elif drawn < 0.7 and not vm.host.era.is_yearless:
            actor.hot_add(at)
        elif drawn < 0.75 and not vm.host.era.is_yearless:
            actor.suspend_resume(at)
        elif drawn < 0.8:
            actor.quoted(at)
        elif drawn < 0.85:
            actor.unexplained(at)

    def boot(self, host: Host) -> None:
        """Boot an ESX host: reservation conflicts are expected for the first ten minutes."""
        host.boot_us = self.fleet.started_us - 2 * MINUTE_US
        rng, room = self.fleet.rng("boot", host.number), self.room(host)
        for _ in range(3):
            at = self.fleet.started_us + rng.randrange(10, 300) * SECOND_US
            steps = rng.randrange(1, 5)
            room.count_down(
                at, rng.randrange(4110, 4180), first=992, step=32, last=992 - 32 * steps,
                outcome="recovered", pace_s=(0.1, 0.4), is_expected=True,
            )  # fmt: skip
