"""The events of each scenario, and the incidents that are expected for them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from stunwatch.simulation.fleet import MINUTE_US, SECOND_US, Datastore, Host, VirtualMachine
from stunwatch.simulation.log_writers import MS
from stunwatch.simulation.sites import (
    CLARIION,
    DAY_US,
    EQUALLOGIC,
    HITACHI,
    NETAPP,
    Site,
)
from stunwatch.simulation.stages import Seconds, Stage
from stunwatch.simulation.truth import Change, Incident, Names, Truth, text

FELT_US = 1_000_000
"""Stuns from this duration on affect users."""

ACCIDENTS = 2
"""If at most this many VMs of a datastore are stunned within minutes, it is not a storm."""

LATENT = ("H:0x0 D:0x8 P:0x0", "H:0x0 D:0x28 P:0x0", "H:0x5 D:0x0 P:0x0")
"""How commands fail on overloaded storage."""
NO_RESET = ["LUN reset", "reset the LUN"]

_STORM_S: Seconds = (1.3, 14.5)
_LONG_S: Seconds = (3.0, 80.0)


def _names(things: Iterable[Host | Datastore | VirtualMachine]) -> list[str]:
    return sorted({each.name for each in things})


def _devices(datastores: Iterable[Datastore]) -> list[str]:
    return sorted(each.device for each in datastores)


def _shuffled(rng: random.Random, eras: Sequence[str]) -> list[str]:
    return rng.sample(eras, len(eras))


def _moment(rng: random.Random, least_us: int, most_us: int) -> int:
    return rng.randrange(least_us // MS, max(least_us // MS + 1, most_us // MS)) * MS


# == Shared by several scenarios


def _stuns_on_slow_storage(
    stage: Stage, vms: Sequence[VirtualMachine], began_us: int, ended_us: int, stuns_s: Seconds
) -> None:
    """Create and remove snapshots on slow storage, which stuns these VMs for long."""
    rng = stage.rng
    for vm in vms:
        actor = stage.actor(vm)
        if vm.host.era.is_iterative or rng.random() < 0.5:
            actor = stage.actor(vm, stuns_s)
            actor.create(_moment(rng, began_us + MINUTE_US, ended_us - 4 * MINUTE_US))
            late_us = ended_us + _moment(rng, 6 * MINUTE_US, 9 * MINUTE_US)
            if late_us < stage.fleet.ended_us - 8 * MINUTE_US:
                stage.actor(vm).remove(late_us)
        else:
            actor.create(began_us - _moment(rng, 3 * MINUTE_US, 8 * MINUTE_US))
            actor = stage.actor(vm, stuns_s)
            actor.remove(_moment(rng, began_us + MINUTE_US // 2, ended_us - 5 * MINUTE_US))


def _felt(stage: Stage, vms: Sequence[VirtualMachine], began_us: int, ended_us: int) -> list[str]:
    """Return the VMs with a stun that affects users."""
    found = stage.stuns_of(vms, began_us, ended_us)
    return sorted({each.vm for each in found if each.duration_us >= FELT_US})


def _others(all_of: Sequence[VirtualMachine], named: Sequence[str]) -> list[str]:
    return sorted({each.name for each in all_of} - set(named))


def _on(site: Site, datastores: Sequence[Datastore]) -> list[VirtualMachine]:
    return [each for each in site.fleet.vms if each.datastore in datastores]


def _slow_for_all(
    stage: Stage,
    hosts: Sequence[Host],
    datastores: Sequence[Datastore],
    began_us: int,
    ended_us: int,
    levels_ms: tuple[float, float],
) -> int:
    """Make LUNs slow for all these hosts; return the time of the first slow sample."""
    rng, firsts = stage.rng, []
    for datastore in datastores:
        level_ms = rng.uniform(*levels_ms)
        for host in hosts:
            first_us = began_us + rng.randrange(0, 6_000) * MS
            last_us = ended_us - rng.randrange(0, 10_000) * MS
            level = level_ms * rng.uniform(0.8, 1.25)
            firsts.append(stage.slow(host, datastore, first_us, last_us, level))
    return min(firsts)


def _first_deteriorated(truth: Truth) -> str:
    """Return the time of the first line in which a kernel reports a slow device."""
    found = [each.started_at for each in truth.latency if each.origin == "vmkernel"]
    return min(found, default="9999")


# == An array, and many backups at once


def array_and_storm(site: Site, truth: Truth, with_cause: bool) -> Stage:
    """Two LUNs of an array are slow for four hosts. Elsewhere, unusual backups stun VMs."""
    return _array_and_backups(site, truth, with_cause, nights=0)


def array_and_nightly_backup(site: Site, truth: Truth, with_cause: bool) -> Stage:
    """The same, but the backups stun the same VMs every night at this hour."""
    return _array_and_backups(site, truth, with_cause, nights=site.rng.randrange(16, 22))


def _array_and_backups(site: Site, truth: Truth, with_cause: bool, nights: int) -> Stage:
    rng = site.rng
    sick = site.array("granite", NETAPP, 2)
    well = site.array("basalt", CLARIION, 5)
    busy = well[0]
    victims = [
        site.host(era, [*sick, busy, well[1]])
        for era in _shuffled(rng, ("esx41", "esxi50", "esxi60", "esxi65"))
    ]
    neighbours = [site.host(era, well[:4]) for era in _shuffled(rng, ("esxi60", "esxi70"))]
    bystanders = [
        site.host(era, well[1:]) for era in _shuffled(rng, ("esxi55", "esxi70", "esxi80"))
    ]
    for host in victims:
        for each in sick:
            site.vms(host, each, 2)
    idle = [vm for host in victims for vm in site.vms(host, well[1], 1)]
    for host in (*neighbours, *bystanders):
        for each in host.datastores[-3:]:
            idle += site.vms(host, each, rng.randrange(1, 3))
    backed_up = [
        vm
        for host in (*victims[:2], *neighbours)
        for vm in site.vms(host, busy, rng.randrange(2, 5))
    ]
    stage = Stage(site, truth)
    stage.usual(idle, [*sick, busy])
    if with_cause:
        began_us = stage.minute(stage.rng.uniform(16, 23))
        ended_us = began_us + _moment(stage.rng, 15 * MINUTE_US, 25 * MINUTE_US)
        _array_is_slow(stage, victims, sick, began_us, ended_us)
        _storm(stage, backed_up, busy, began_us, nights)
    return stage


def _array_is_slow(
    stage: Stage, hosts: list[Host], sick: list[Datastore], began_us: int, ended_us: int
) -> None:
    rng, vms = stage.rng, _on(stage.site, sick)
    first_us = _slow_for_all(stage, hosts, sick, began_us, ended_us, (350, 1500))
    for host in hosts:
        for each in sick:
            stage.log_slow(host, each, began_us, ended_us)
            if rng.random() < 0.7:
                stage.fail(host, each, began_us, ended_us, LATENT)
        if host.era.has_count_down:
            stage.conflicts(host, began_us, ended_us, rng.randrange(4, 9))
        elif rng.random() < 0.5:
            at = began_us + _moment(rng, MINUTE_US, 5 * MINUTE_US)
            stage.room(host).heartbeats(at, at + 40 * SECOND_US, rng.choice(sick))
    chosen = [
        vm
        for each in sick
        for vm in rng.sample([vm for vm in vms if vm.datastore is each], rng.randrange(2, 5))
    ]
    _stuns_on_slow_storage(stage, chosen, began_us, ended_us, _LONG_S)
    felt = _felt(stage, vms, began_us, ended_us)
    stage.truth.incidents.append(
        Incident(
            "an array is slow",
            ["array_or_fabric", "array"],
            hosts=Names(_names(hosts)),
            devices=Names(_devices(sick)),
            datastores=Names(_names(sick)),
            vms=Names(felt, _others(vms, felt)),
            first_line_at=min(text(first_us), _first_deteriorated(stage.truth)),
            cause_started_at=text(began_us),
            cause_ended_at=text(ended_us),
            next_steps=["firmware"],
            no_next_steps=NO_RESET,
        )
    )


def _storm(
    stage: Stage, vms: list[VirtualMachine], busy: Datastore, near_us: int, nights: int
) -> None:
    """Start backups of one datastore within ten minutes. Every snapshot affects users."""
    rng = stage.rng
    began_us = near_us + _moment(rng, -5 * MINUTE_US, 7 * MINUTE_US)
    for vm in vms:
        at = began_us + _moment(rng, 0, 9 * MINUTE_US)
        for night in range(nights, 0, -1):
            before_us = at - night * DAY_US + _moment(rng, -3 * MINUTE_US, 3 * MINUTE_US)
            stage.thin_backup(vm, before_us, (40, 240), _STORM_S)
        if nights:
            # The scenario has its own file of the VM's log.
            stage.log_writers.of_vm(vm).breaks.append(stage.fleet.started_us)
        stage.backup(vm, at, (40, 240), _STORM_S)
    stuns = stage.stuns_of(vms, stage.fleet.started_us)
    firsts = {each.vm: each.ended_at for each in reversed(stuns)}
    hosts = {vm.host.name for vm in vms}
    stage.truth.incidents.append(
        Incident(
            "backups of one datastore stun its VMs",
            ["device"],
            hosts=Names(sorted(hosts)),
            devices=Names([], [busy.device]),
            datastores=Names([busy.name]),
            vms=Names(_names(vms)),
            first_line_at=sorted(firsts.values())[ACCIDENTS],
            cause_started_at=text(began_us),
            cause_ended_at=stuns[-1].ended_at,
            is_note=nights > 0,
            next_steps=[] if nights else ["snapshot|backup"],
            no_next_steps=NO_RESET,
        )
    )


# == One LUN, one host, no problem


def slow_lun(site: Site, truth: Truth, with_cause: bool) -> Stage:
    """One LUN is slow for the hosts that see it; other LUNs of the same array are not."""
    rng = site.rng
    granite = site.array("granite", NETAPP, 4)
    basalt = site.array("basalt", CLARIION, 3)
    sick = granite[rng.randrange(4)]
    seeing = [
        site.host(era, [*granite, basalt[0]])
        for era in _shuffled(rng, ("esxi50", "esxi55", "esxi60", "esxi65", "esxi70"))
    ]
    for era in _shuffled(rng, ("esx41", "esxi60", "esxi70", "esxi80")):
        site.host(era, basalt)
    idle = []
    for host in site.fleet.hosts:
        for each in host.datastores:
            vms = site.vms(host, each, rng.randrange(1, 3))
            idle += [] if each is sick else vms
    stage = Stage(site, truth)
    stage.usual(idle, [sick])
    if with_cause:
        began_us = stage.minute(stage.rng.uniform(14, 24))
        ended_us = began_us + _moment(stage.rng, 15 * MINUTE_US, 25 * MINUTE_US)
        _lun_is_slow(stage, seeing, sick, began_us, ended_us)
    return stage


def _lun_is_slow(
    stage: Stage, hosts: list[Host], sick: Datastore, began_us: int, ended_us: int
) -> None:
    rng, vms = stage.rng, _on(stage.site, [sick])
    first_us = _slow_for_all(stage, hosts, [sick], began_us, ended_us, (180, 900))
    for host in hosts:
        stage.log_slow(host, sick, began_us, ended_us)
        if rng.random() < 0.5:
            stage.fail(host, sick, began_us, ended_us, LATENT)
    chosen = rng.sample(vms, rng.randrange(2, 5))
    _stuns_on_slow_storage(stage, chosen, began_us, ended_us, (2.0, 25.0))
    felt = _felt(stage, vms, began_us, ended_us)
    stage.truth.incidents.append(
        Incident(
            "one LUN is slow",
            ["device"],
            hosts=Names(_names(hosts)),
            devices=Names([sick.device]),
            datastores=Names([sick.name]),
            vms=Names(felt, _others(vms, felt)),
            first_line_at=min(text(first_us), _first_deteriorated(stage.truth)),
            cause_started_at=text(began_us),
            cause_ended_at=text(ended_us),
            no_next_steps=NO_RESET,
        )
    )


def bad_host(site: Site, truth: Truth, with_cause: bool) -> Stage:
    """A host's adapter fails: its LUNs are slow for it, and fast for all other hosts."""
    rng = site.rng
    granite = site.array("granite", NETAPP, 3)
    basalt = site.array("basalt", CLARIION, 3)
    shared = [*granite, *basalt[:2]]
    bad = site.host(rng.choice(("esxi60", "esxi65", "esxi70")), shared)
    for era in _shuffled(rng, ("esxi50", "esxi60", "esxi65", "esxi70")):
        site.host(era, shared)
    for era in _shuffled(rng, ("esx41", "esxi55", "esxi80")):
        site.host(era, basalt)
    idle = []
    for host in site.fleet.hosts:
        for each in host.datastores:
            vms = site.vms(host, each, rng.randrange(1, 3))
            idle += [] if host is bad else vms
    stage = Stage(site, truth)
    stage.usual(idle)
    if with_cause:
        began_us = stage.minute(stage.rng.uniform(14, 24))
        ended_us = began_us + _moment(stage.rng, 15 * MINUTE_US, 25 * MINUTE_US)
        _adapter_dies(stage, bad, began_us, ended_us)
    return stage


def _adapter_dies(stage: Stage, host: Host, began_us: int, ended_us: int) -> None:
    rng, room = stage.rng, stage.room(host)
    queued, *slow = rng.sample(host.datastores, len(host.datastores))
    firsts = [stage.slow(host, queued, began_us, ended_us, rng.uniform(15, 60), "kavg")]
    for each in slow:
        level_ms = rng.uniform(180, 900)
        firsts.append(stage.slow(host, each, began_us, ended_us, level_ms))
        stage.log_slow(host, each, began_us, ended_us)
    dead_us = began_us + rng.randrange(2_000, 20_000) * MS
    for each in host.datastores:
        back_us = ended_us - rng.randrange(500, 4_000) * MS
        room.path_dies(room.path(each, 0), dead_us, back_us)
        dead_us += rng.randrange(5, 400) * MS
        stage.fail(
            host, each, began_us, ended_us, ("H:0x1 D:0x0 P:0x0", "H:0xb D:0x0 P:0x0"), sides=(0,)
        )
    at = began_us + 2 * MINUTE_US
    room.heartbeats(at, at + 30 * SECOND_US, rng.choice(slow))
    chosen = rng.sample(host.vms, min(len(host.vms), rng.randrange(3, 5)))
    _stuns_on_slow_storage(stage, chosen, began_us, ended_us, (2.0, 25.0))
    felt = _felt(stage, host.vms, began_us, ended_us)
    stage.truth.incidents.append(
        Incident(
            "one host's adapter dies",
            ["host"],
            hosts=Names([host.name]),
            devices=Names(_devices(slow), [queued.device]),
            datastores=Names([], _names(host.datastores)),
            vms=Names(felt, _others(host.vms, felt)),
            first_line_at=min(text(min(firsts)), _first_deteriorated(stage.truth)),
            cause_started_at=text(began_us),
            cause_ended_at=text(ended_us),
            next_steps=["adapter|HBA|cable"],
            no_next_steps=NO_RESET,
        )
    )


def quiet_night(site: Site, truth: Truth, with_cause: bool) -> Stage:
    """Unnoticeable backups, vMotions, spikes, a booting host, rejected polls."""
    rng = site.rng
    granite = site.array("granite", NETAPP, 4)
    basalt = site.array("basalt", CLARIION, 4)
    old = [site.host("esx41", basalt[:2]) for _ in range(2)]
    for era in ("esxi50", "esxi55", "esxi60", "esxi60", "esxi70", "esxi70", "esxi80"):
        site.host(era, rng.choice((granite, [*granite[:2], *basalt[2:]])))
    for host in site.fleet.hosts:
        for each in host.datastores:
            site.vms(host, each, rng.randrange(1, 3))
    stage = Stage(site, truth)
    stage.boot(old[0])
    stage.usual(site.fleet.vms)
    return stage


# == The cases of the seeds (sources)


def pool_full(site: Site, truth: Truth, with_cause: bool) -> Stage:
    """An array's pool is nearly full. Space, firmware and build are changed, which helps."""
    rng = site.rng
    pool = site.array("eql", EQUALLOGIC, 3)
    granite = site.array("granite", NETAPP, 3)
    hosts = [site.host("esxi50", pool) for _ in range(4)]
    for host in hosts:
        site.local_disk(host)
    for era in ("esx41", "esxi65", "esxi70", "esxi80"):
        site.host(era, granite)
    on_pool = [vm for host in hosts for each in pool for vm in site.vms(host, each, 1)]
    idle = [vm for host in hosts for vm in site.vms(host, site.locals[host.name], 3)]
    for host in site.fleet.hosts[4:]:
        for each in granite:
            idle += site.vms(host, each, rng.randrange(1, 3))
    stage = Stage(site, truth)
    stage.usual(idle, pool)
    began_us, changed_us = stage.minute(7), stage.minute(60)
    removed, later = on_pool[:7], on_pool[7:]
    for number, vm in enumerate(removed):
        # Backups continue, with or without the cause.
        at = began_us + (changed_us - began_us - 12 * MINUTE_US) * number // len(removed)
        stage.actor(vm).create(began_us - _moment(stage.rng, MINUTE_US, 5 * MINUTE_US))
        actor = stage.actor(vm, (176.0, 237.0) if with_cause else (0.3, 0.85))
        actor.is_last_alone = True
        actor.remove(at + _moment(stage.rng, MINUTE_US, 3 * MINUTE_US))
    for number, vm in enumerate(later):
        is_busy = with_cause and number == len(later) - 1
        stage.actor(vm).create(changed_us + _moment(stage.rng, 3 * MINUTE_US, 8 * MINUTE_US))
        actor = stage.actor(vm, (4.1, 4.3) if is_busy else (0.3, 0.85))
        actor.is_last_alone = True
        actor.remove(changed_us + _moment(stage.rng, 12 * MINUTE_US, 20 * MINUTE_US))
    if with_cause:
        _pool_is_full(stage, hosts, pool, began_us, changed_us)
        _expected_stun(stage, later[-1])
    return stage


def _pool_is_full(
    stage: Stage, hosts: list[Host], pool: list[Datastore], began_us: int, ended_us: int
) -> None:
    vms = _on(stage.site, pool)
    first_us = _slow_for_all(stage, hosts, pool, began_us, ended_us, (70, 220))
    for host in hosts:
        for each in pool:
            stage.log_slow(host, each, began_us, ended_us)
            stage.fail(host, each, began_us, ended_us, ("H:0x0 D:0x8 P:0x0",))
    felt = _felt(stage, vms, began_us, ended_us)
    stage.truth.incidents.append(
        Incident(
            "an array's pool is full",
            ["array_or_fabric", "array"],
            hosts=Names(_names(hosts)),
            devices=Names(_devices(pool)),
            datastores=Names(_names(pool)),
            vms=Names(felt, _others(vms, felt)),
            first_line_at=min(text(first_us), _first_deteriorated(stage.truth)),
            cause_started_at=text(began_us),
            cause_ended_at=text(ended_us),
            next_steps=["pool", "firmware"],
            no_next_steps=NO_RESET,
        )
    )
    at = text(ended_us)
    stage.truth.changes += [
        Change("capacity", at, "space freed in the pool"),
        Change("firmware", at, "array firmware updated"),
        Change("esxi_build", at, "hosts patched"),
    ]


def _expected_stun(stage: Stage, vm: VirtualMachine) -> None:
    """Expect a note: four seconds with active I/O and changed-block tracking are normal."""
    worst = max(stage.stuns_of([vm]), key=lambda each: each.duration_us)
    stage.truth.incidents.append(
        Incident(
            "a stun that is to be expected",
            ["vm"],
            hosts=Names([], [vm.host.name]),
            devices=Names([], [vm.datastore.device]),
            datastores=Names([], [vm.datastore.name]),
            vms=Names([vm.name]),
            first_line_at=worst.ended_at,
            cause_started_at=worst.ended_at,
            cause_ended_at=worst.ended_at,
            is_optional=True,
        )
    )


def fixed_path_policy(site: Site, truth: Truth, with_cause: bool) -> Stage:
    """All hosts use one storage processor; a change to Round Robin resolves it in minutes."""
    rng = site.rng
    usp = site.array("usp", HITACHI, 5)
    granite = site.array("granite", NETAPP, 2)
    hosts = [site.host("esx41", usp) for _ in range(6)]
    for era in ("esxi50", "esxi70", "esxi80"):
        site.host(era, granite)
    on_usp = [vm for host in hosts for each in usp for vm in site.vms(host, each, 1)]
    idle = []
    for host in site.fleet.hosts[6:]:
        for each in granite:
            idle += site.vms(host, each, rng.randrange(2, 4))
    stage = Stage(site, truth)
    stage.usual(idle, usp)
    if with_cause:
        site.policies[usp[0].array.name] = "VMW_PSP_FIXED"
        began_us, changed_us = stage.minute(4), stage.minute(45)
        well_us = changed_us + _moment(stage.rng, 5 * MINUTE_US, 10 * MINUTE_US)
        _one_processor(stage, hosts, usp, on_usp, began_us, well_us)
        truth.changes.append(Change("path_policy", text(changed_us), "Round Robin"))
        stage.changed_policies.append(
            (changed_us + 3 * MINUTE_US, {usp[0].array.name: "VMW_PSP_RR"})
        )
    return stage


def _one_processor(
    stage: Stage,
    hosts: list[Host],
    usp: list[Datastore],
    vms: list[VirtualMachine],
    began_us: int,
    ended_us: int,
) -> None:
    rng = stage.rng
    first_us = _slow_for_all(stage, hosts, usp, began_us, ended_us, (1250, 2500))
    for host in hosts:
        stage.conflicts(host, began_us, ended_us, rng.randrange(8, 15))
    _stuns_on_slow_storage(stage, rng.sample(vms, 5), began_us, ended_us, (3.0, 40.0))
    felt = _felt(stage, vms, began_us, ended_us)
    stage.truth.incidents.append(
        Incident(
            "one storage processor carries everything",
            ["array_or_fabric", "array", "fabric"],
            hosts=Names(_names(hosts)),
            devices=Names(_devices(usp)),
            datastores=Names(sorted({each.datastore.name for each in vms if each.name in felt}),
                             _names(usp)),
            vms=Names(felt, _others(vms, felt)),
            first_line_at=text(first_us),
            cause_started_at=text(began_us),
            cause_ended_at=text(ended_us),
            next_steps=["VMW_PSP_RR|round robin", "host mode|microcode|firmware"],
            no_next_steps=NO_RESET,
        )
    )  # fmt: skip
