"""What evenings are told with: a site's hosts, VMs and esxtops, and whole scenes for each."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence

from stunwatch.simulation.esxcli import path_to
from stunwatch.simulation.esxtop import Sampler
from stunwatch.simulation.fleet import MINUTE_US, SECOND_US, Datastore, Host, VirtualMachine
from stunwatch.simulation.hosts import Room
from stunwatch.simulation.journals import MS, Journals
from stunwatch.simulation.sites import Site
from stunwatch.simulation.truth import Stun, Truth, text
from stunwatch.simulation.virtual_machines import HELPER_STUN_MS, Machine

UNNOTICED_S = (0.03, 0.85)
"""How long a VM stands still for a snapshot on storage that is well."""

Seconds = tuple[float, float]


class Actor(Machine):
    """A VM whose stuns last as long as the scene wants."""

    stuns_s: Seconds = UNNOTICED_S
    is_last_alone: bool = False
    """The stuns between the passes of a consolidation are short all the same."""

    def length(self, median_ms: float, time_us: int) -> int:
        is_short = self.is_last_alone and median_ms == HELPER_STUN_MS
        least, most = (math.log(each) for each in (UNNOTICED_S if is_short else self.stuns_s))
        return int(math.exp(self.dice.uniform(least, most)) * SECOND_US)


class SteadyRoom(Room):
    """A host whose paths are those of its inventory."""

    def __init__(self, site: Site, journals: Journals, truth: Truth, host: Host) -> None:
        super().__init__(site.fleet, journals, truth, host, ())
        self._site = site

    def path(self, datastore: Datastore, target: int = 0) -> str:
        """`target` 0: by the first adapter, 1: by the other."""
        return path_to(self._site, datastore, target)


class Stage:
    """A site on which something happens. Times are microseconds since 1970."""

    def __init__(self, site: Site, truth: Truth) -> None:
        self.site = site
        self.fleet = site.fleet
        self.truth = truth
        self.journals = Journals(site.fleet)
        self.dice: random.Random = site.fleet.dice("stage")
        """Of the cause: what happens without it is drawn elsewhere."""
        self.samplers = {
            each.name: Sampler(
                site.fleet, each, [*(of.device for of in each.datastores), each.boot_device]
            )
            for each in site.fleet.hosts
        }
        self._rooms = {
            each.name: SteadyRoom(site, self.journals, truth, each) for each in site.fleet.hosts
        }
        self.changed_policies: list[tuple[int, dict[str, str]]] = []
        """When path policies were changed, and to which, by array."""
        self._actors: dict[str, Actor] = {}

    def minute(self, number: float) -> int:
        """The time so many minutes after the beginning, to the second."""
        return self.fleet.started_us + round(number * 60) * SECOND_US

    def room(self, host: Host) -> Room:
        """Where it is told what happens to a host."""
        return self._rooms[host.name]

    def actor(self, vm: VirtualMachine, stuns_s: Seconds = UNNOTICED_S) -> Actor:
        """Who tells what happens to a VM; from now on its stuns last so long."""
        if vm.name not in self._actors:
            self._actors[vm.name] = Actor(self.fleet, self.journals, self.truth, vm, ())
        actor = self._actors[vm.name]
        actor.stuns_s = stuns_s
        return actor

    def stuns_of(
        self, vms: Iterable[VirtualMachine], began_us: int = 0, ended_us: int = 1 << 62
    ) -> list[Stun]:
        """Those of the truth that ended between two times, in their order."""
        names = {(each.datastore.name, each.name) for each in vms}
        began, ended = text(began_us), text(min(ended_us, 32_503_680_000 * SECOND_US))
        found = [
            each
            for each in self.truth.stuns
            if (each.datastore, each.vm) in names and began <= each.ended_at < ended
        ]
        return sorted(found, key=lambda each: each.ended_at)

    # == Scenes

    def slow(
        self,
        host: Host,
        datastore: Datastore,
        began_us: int,
        ended_us: int,
        level_ms: float,
        metric: str = "davg",
    ) -> int:
        """esxtop sees a LUN slow from one time to another; returns the first slow sample's time."""
        first_us = self.samplers[host.name].slow(
            datastore.device, began_us, ended_us, metric, level_ms
        )
        return ended_us if first_us is None else first_us

    def log_slow(self, host: Host, datastore: Datastore, began_us: int, ended_us: int) -> None:
        """The kernel tells it, from ESXi 5 on; and Storage I/O Control."""
        if host.era.is_yearless:
            return
        dice, room = self.dice, self.room(host)
        at = began_us + dice.randrange(400, 12_000) * MS
        until_us = ended_us + dice.randrange(200, 20_000) * MS
        room.deteriorates(at, until_us, datastore.device, dice.randrange(400_000, 1_900_000))
        if dice.random() < 0.4:
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
        """Commands fail now and then, all in one way: `H:0x0 D:0x8 P:0x0`."""
        parts = dict(each.split(":") for each in self.dice.choice(statuses).split())
        self.room(host).errors(
            began_us + self.dice.randrange(1_000, 30_000) * MS,
            ended_us,
            datastore,
            (parts["H"], parts["D"], parts["P"]),
            sides,
            pace_s=(12, 70),
            most=50,
        )

    def conflicts(self, host: Host, began_us: int, ended_us: int, number: int) -> None:
        """ESX 4 counts down again and again, and gets through."""
        dice, room = self.dice, self.room(host)
        at = began_us
        for _ in range(number):
            at += (ended_us - began_us) // (number + 1)
            steps = dice.randrange(3, 16)
            room.count_down(
                at + dice.randrange(0, 5_000) * MS,
                dice.randrange(4110, 4180),
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
        dice: random.Random | None = None,
    ) -> int:
        """A snapshot, the time that the copy takes, and its removal; returns the end."""
        actor = self.actor(vm, stuns_s)
        drawn = dice or self.dice
        at = actor.create(at) + int(drawn.uniform(*copy_s) * SECOND_US)
        return actor.remove(at)

    def thin_backup(self, vm: VirtualMachine, at: int, copy_s: Seconds, stuns_s: Seconds) -> None:
        """The same of an earlier night, of which hardly more than the stuns was kept."""
        actor = self.actor(vm, stuns_s)
        at = actor.create_thinly(at) + int(actor.dice.uniform(*copy_s) * SECOND_US)
        actor.remove_thinly(at)

    # == What is always there

    def usual(self, idle: Sequence[VirtualMachine], slow: Sequence[Datastore] = ()) -> None:
        """An evening's background: what must stay quiet, and backups that nobody feels.

        `idle`: the VMs that nothing else happens to; `slow`: no datastore of these is told to be
        well.
        """
        for host in self.fleet.hosts:
            self._usual_of_host(host, slow)
        for vm in idle:
            self._usual_of_vm(vm)

    def _usual_of_host(self, host: Host, slow: Sequence[Datastore]) -> None:
        dice, room = self.fleet.dice("usual", "host", host.number), self.room(host)
        self.samplers[host.name].spikes()
        room.polls()
        if host.era.is_yearless:
            return
        if dice.random() < 0.25:
            room.slow_boot_device()
        well = [each for each in host.datastores if each not in slow and not each.is_local]
        if well:
            room.datastore_latency(dice.choice(well), ())

    def _usual_of_vm(self, vm: VirtualMachine) -> None:
        dice, fleet = self.fleet.dice("usual", "VM", vm.number), self.fleet
        others = [
            each
            for each in fleet.hosts
            if each is not vm.host and each.era is vm.host.era and vm.datastore in each.datastores
        ]
        actor = self.actor(vm)
        at = self.minute(dice.uniform(3, 30))
        drawn = dice.random()
        if drawn < 0.45:
            self.backup(vm, at, (60, 400), dice=dice)
        elif drawn < 0.65:
            if others:
                actor.vmotion(at, dice.choice(others))
        elif drawn < 0.7 and not vm.host.era.is_yearless:
            actor.hot_add(at)
        elif drawn < 0.75 and not vm.host.era.is_yearless:
            actor.suspend_resume(at)
        elif drawn < 0.8:
            actor.quoted(at)
        elif drawn < 0.85:
            actor.unexplained(at)

    def boot(self, host: Host) -> None:
        """An ESX host that has just started meets reservations: expected, for ten minutes."""
        host.boot_us = self.fleet.started_us - 2 * MINUTE_US
        dice, room = self.fleet.dice("boot", host.number), self.room(host)
        for _ in range(3):
            at = self.fleet.started_us + dice.randrange(10, 300) * SECOND_US
            steps = dice.randrange(1, 5)
            room.count_down(
                at, dice.randrange(4110, 4180), first=992, step=32, last=992 - 32 * steps,
                outcome="recovered", pace_s=(0.1, 0.4), is_expected=True,
            )  # fmt: skip
