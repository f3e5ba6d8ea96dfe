"""Groups signals that belong together, and finds the smallest scope that explains them.

A pure function of all known signals: their order of arrival does not matter. It goes from small to
large:

1. signals on one piece of storage, or on one host without known storage, without a longer pause
   are one trouble;
2. several pieces of storage that are slow on one host only are a trouble of that host;
3. storage that is slow on several hosts at the same time is a trouble of what they share;
4. a trouble without known storage joins the one it may belong to;
5. the remaining stuns and consolidations are a trouble of their VM.

The time grows linearly with the number of signals: only troubles that share a host or an array are
compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice

from stunwatch.detectors.events import changed
from stunwatch.detectors.reservation_conflict import DEVICE_NAMES
from stunwatch.incidents.configuration import (
    EVIDENCE_US,
    FABRIC_US,
    LONE_STUN_US,
    PAUSE_US,
    RUNNING_US,
    SCSI_ERRORS,
    SCSI_HOSTS,
    STORM_CRITICAL_VMS,
    STORM_US,
    STORM_VMS,
    TOGETHER_US,
)
from stunwatch.incidents.signals import LOSSES, MOVES, Signal
from stunwatch.incidents.topology import Make, Topology

CRITICAL_STUN_US = 5_000_000
"""A Windows cluster evicts a node after a stun of this length."""

SLOW_DEVICES_OF_A_HOST = 3
"""Number of devices slow in the log of one host only that make a trouble of that host."""

DATASTORE, PATH, _HOST, _VM = "datastore ", "path ", "host ", "vm "
"""Prefixes of places that are not devices."""

_SLOW = frozenset({"slow", "slow_log"})


@dataclass
class Trouble:
    """Signals that belong together."""

    places: set[str]
    """Devices; `datastore …` or `path …` if its device is unknown; `host …` for a host without
    known storage; `vm …` for a single VM."""
    signals: list[Signal]
    scope: str = "device"
    is_noted: bool = False
    founding: list[Signal] = field(default_factory=list)
    """The signals that made it an incident, the earliest known first."""
    evidence: list[Signal] = field(default_factory=list)
    """The signals that make no incident by themselves."""
    _boxes: tuple[set[str], set[Make | None]] | None = None

    def boxes(self, topology: Topology) -> tuple[set[str], set[Make | None]]:
        """The arrays of its devices, and their makes, with None for an unknown one."""
        if self._boxes is None:
            devices = [each for each in self.places if is_device(each)]
            arrays = {topology.array_of(each) for each in devices} - {""}
            self._boxes = arrays, {topology.make_of(each) for each in devices}
        return self._boxes

    def take_in(self, signal: Signal) -> None:
        """Add a stun or a consolidation."""
        self.began_us = min(self.began_us, signal.at_us)
        self.last_us = max(self.last_us, _until(signal))
        self.signals.append(signal)

    @cached_property
    def began_us(self) -> int:
        """When the first of its signals began."""
        return min(each.at_us for each in self.signals)

    @cached_property
    def last_us(self) -> int:
        """When the last of its signals ended, if known."""
        return max(map(_until, self.signals))

    @property
    def ended_us(self) -> int | None:
        """When the last signal ended; None while one is open.

        Errors and latency in logs have no end: they count only without measurements.
        """
        holding = [each for each in self.signals if _holds(each)] or self.signals
        ends = [each.until_us for each in holding]
        return None if None in ends else max(each for each in ends if each is not None)

    @cached_property
    def slow_hosts(self) -> set[str]:
        """The hosts on which its storage is slow or lost."""
        return {each.host for each in self.signals if is_slow(each)}

    @cached_property
    def is_slow(self) -> bool:
        """True if its storage is slow or lost on any host."""
        return any(is_slow(each) for each in self.signals)


def troubles(signals: Iterable[Signal], topology: Topology) -> list[Trouble]:
    """The troubles of these signals, with scopes and evidence."""
    placed = [changed(each, place=_place_of(each, topology)) for each in signals]
    everything = sorted(placed, key=lambda each: (each.known_us, each.event_id))
    clusters = list(_clusters(everything))
    _found_by_a_slow_host(clusters)
    found = _hosts_alone([each for each in clusters if each.founding])
    found = _sharing(found, topology)
    found = _adopted(found, topology)
    weak = [each for each in clusters if not each.founding]
    weak = _taken_in(found, weak, topology)
    found += _of_one_vm(weak)
    found += _as_usual(weak, found)
    untold = _Untold(found, everything)
    for each in found:
        each.scope = _scope(each, topology)
        each.evidence = untold.evidence(each)
    return found


def _place_of(signal: Signal, topology: Topology) -> str:
    """The place of a signal: see `Trouble.places`. Empty if unknown."""
    is_the_hosts_own = signal.kind == "queue" or signal.detail == "path_dead"
    if not is_the_hosts_own:
        if signal.device:
            return signal.device
        if signal.datastore:
            name = topology.datastore_name(signal.datastore)
            return topology.device_of(signal.datastore) or f"{DATASTORE}{name}"
        # Failed commands and dead paths belong to the host: another host may use the same name.
        if signal.path and signal.kind not in ("scsi", "path"):
            return f"{PATH}{signal.path}"
    return f"{_HOST}{signal.host}" if signal.host else ""


def _clusters(signals: Sequence[Signal]) -> Iterator[Trouble]:
    """Signals in one place, without a longer pause."""
    by_place: dict[str, list[Signal]] = {}
    for each in signals:
        if _is_trouble(each) and each.place:
            by_place.setdefault(each.place, []).append(each)
    for place, there in by_place.items():
        for cluster in _runs(there, PAUSE_US):
            for part in _without_stragglers(cluster):
                yield Trouble({place}, part, founding=_founding(part))


def _runs(signals: Sequence[Signal], pause_us: int) -> Iterator[list[Signal]]:
    run: list[Signal] = []
    until_us = 0
    for each in sorted(signals, key=lambda each: each.at_us):
        if run and each.at_us > until_us + pause_us:
            yield run
            run, until_us = [], 0
        run.append(each)
        until_us = max(until_us, _until(each))
    yield run


def _without_stragglers(cluster: list[Signal]) -> Iterator[list[Signal]]:
    """Split off weak signals minutes before or after: they do not make an incident longer."""
    core = {each.event_id for each in _founding(cluster)}
    runs = list(_runs(cluster, EVIDENCE_US))
    strong = [
        place
        for place, run in enumerate(runs)
        if _founding(run) or core.intersection(each.event_id for each in run)
    ]
    if not strong:
        yield cluster
        return
    first, last = strong[0], strong[-1] + 1
    before, during, after = (
        list(chain.from_iterable(part)) for part in (runs[:first], runs[first:last], runs[last:])
    )
    for part in (before, after):
        if _founding(part):
            during += part
        elif part:
            yield part
    yield during


def _founding(signals: Sequence[Signal]) -> list[Signal]:
    """The signals that make an incident of a cluster; none if they are too few or too weak."""
    known = sorted(signals, key=lambda each: (each.known_us, each.event_id))
    alone = [each for each in known if _founds_alone(each)]
    logged = [each for each in known if each.kind == "slow_log"]
    failed = [each for each in known if each.kind == "scsi"]
    dead = [each for each in known if each.detail == "path_dead"]
    stuns = [each for each in known if each.kind == "stun" and not each.is_usual]
    candidates = [
        alone[:1],
        _until_several(logged, {each.event_id: each.host for each in logged}, 2),
        _until_several(failed, {each.event_id: each.host for each in failed}, SCSI_HOSTS)
        if sum(each.size for each in failed) >= SCSI_ERRORS
        else [],
        _until_several(dead, {each.event_id: each.event_id for each in dead}, 2),
        _storm(stuns),
    ]
    told = [each for each in candidates if each]
    return min(told, key=lambda each: each[-1].known_us) if told else []


def _founds_alone(signal: Signal) -> bool:
    match signal.kind:
        case "slow" | "queue":
            return True
        case "conflict":
            return signal.is_stuck or signal.detail == "failed"
        case "path":
            return signal.detail in LOSSES
    return False


def _until_several(signals: Sequence[Signal], names: dict[str, str], many: int) -> list[Signal]:
    """The first signals with `many` different names; none if there are fewer."""
    seen: set[str] = set()
    for place, each in enumerate(signals):
        seen.add(names[each.event_id])
        if len(seen) >= many:
            return list(signals[: place + 1])
    return []


def _storm(stuns: Sequence[Signal]) -> list[Signal]:
    """The first stuns of many VMs within minutes; none without a storm."""
    first = 0
    vms: Counter[str] = Counter()
    critical: Counter[str] = Counter()
    for place, each in enumerate(stuns):
        _count(each, vms, critical, 1)
        while stuns[first].known_us < each.known_us - STORM_US:
            _count(stuns[first], vms, critical, -1)
            first += 1
        if len(vms) >= STORM_VMS or len(critical) >= STORM_CRITICAL_VMS:
            return list(stuns[first : place + 1])
    return []


def _count(stun: Signal, vms: Counter[str], critical: Counter[str], step: int) -> None:
    for names in (vms, critical) if stun.size >= CRITICAL_STUN_US else (vms,):
        names[stun.vm] += step
        if not names[stun.vm]:
            del names[stun.vm]


def _found_by_a_slow_host(clusters: Sequence[Trouble]) -> None:
    """Without measurements: several devices at once that are slow in the log of one host only."""
    by_host: dict[str, list[Trouble]] = {}
    for each in clusters:
        if not each.founding and len(each.slow_hosts) == 1:
            [host] = each.slow_hosts
            by_host.setdefault(host, []).append(each)
    for theirs in by_host.values():
        for each in theirs:
            near = (other for other in theirs if _are_together(each, other))
            if len(list(islice(near, SLOW_DEVICES_OF_A_HOST))) == SLOW_DEVICES_OF_A_HOST:
                each.founding = [next(one for one in each.signals if is_slow(one))]


def _hosts_alone(found: Sequence[Trouble]) -> list[Trouble]:
    """Join pieces of storage that are slow on one host only into a trouble of that host."""
    joined = _Joined(found)
    by_host: dict[str, list[Trouble]] = {}
    for each in found:
        hosts = each.slow_hosts or _hosts_beside_storage(each)
        if len(hosts) == 1 and "" not in hosts:
            by_host.setdefault(min(hosts), []).append(each)
    for theirs in by_host.values():
        for each, other in joined.pairs_together(theirs):
            joined.join(each, other)
    return joined.troubles()


def _hosts_beside_storage(trouble: Trouble) -> set[str]:
    """The host of a trouble without known storage; none for another trouble."""
    [place, *others] = trouble.places
    return {place.removeprefix(_HOST)} if not others and place.startswith(_HOST) else set()


def _sharing(found: Sequence[Trouble], topology: Topology) -> list[Trouble]:
    """Join storage that is slow on several hosts at once into a trouble of what they share."""
    joined = _Joined(found)
    for those in _by_what_they_share((each for each in found if each.is_slow), topology).values():
        for each, other in joined.pairs_together(those):
            if _share_a_cause(each, other, topology):
                joined.join(each, other)
    return joined.troubles()


def _by_what_they_share(slow: Iterable[Trouble], topology: Topology) -> dict[str, list[Trouble]]:
    """Slow storage by each of its hosts and of its arrays."""
    shared: dict[str, list[Trouble]] = {}
    for each in slow:
        for name in _shared_names(each.slow_hosts, each.places, topology):
            shared.setdefault(name, []).append(each)
    return shared


def _shared_names(hosts: Iterable[str], devices: Iterable[str], topology: Topology) -> set[str]:
    arrays = {topology.array_of(each) for each in devices if is_device(each)} - {""}
    return {f"{_HOST}{each}" for each in hosts} | {f"array {each}" for each in arrays}


def _share_a_cause(one: Trouble, other: Trouble, topology: Topology) -> bool:
    if not _are_together(one, other):
        return False
    same = _same_array(one, other, topology)
    if same is True:
        return True
    if len(one.slow_hosts | other.slow_hosts) < 2 or not one.slow_hosts & other.slow_hosts:
        return False
    if same is False:
        are_shared = len(one.slow_hosts) > 1 and len(other.slow_hosts) > 1
        return are_shared and abs(one.began_us - other.began_us) <= FABRIC_US
    return True


def _same_array(one: Trouble, other: Trouble, topology: Topology) -> bool | None:
    """True if they have devices of one array; False if all makes are known and differ."""
    (arrays, makes), (other_arrays, other_makes) = one.boxes(topology), other.boxes(topology)
    if not arrays.isdisjoint(other_arrays):
        return True
    if not makes or not other_makes or None in makes or None in other_makes:
        return None
    return False if makes.isdisjoint(other_makes) else None


def _adopted(found: Sequence[Trouble], topology: Topology) -> list[Trouble]:
    """Join troubles without known storage to the slow storage that they may belong to."""
    joined = _Joined(found)
    slow = sorted((each for each in found if each.is_slow), key=lambda each: each.began_us)
    order = {id(each): place for place, each in enumerate(slow)}
    shared = _by_what_they_share(slow, topology)
    for each in found:
        if each.is_slow:
            continue
        candidates = slow
        if hosts := _hosts_of(each):
            names = _shared_names(hosts, each.places, topology)
            near = {id(one): one for name in names for one in shared.get(name, [])}
            candidates = sorted(near.values(), key=lambda one: order[id(one)])
        for other in candidates:
            if _overlap(each, other, EVIDENCE_US) and _may_belong(each, other, topology):
                joined.join(other, each)
                break
    # Hosts with conflicts on the same unnamed device.
    nameless = [
        each
        for each in found
        if not each.is_slow
        and all(place.startswith(_HOST) for place in each.places)
        and any(one.kind == "conflict" for one in each.signals)
    ]
    for each, other in joined.pairs_together(nameless):
        joined.join(each, other)
    return joined.troubles()


def _taken_in(
    found: Sequence[Trouble], weak: Sequence[Trouble], topology: Topology
) -> list[Trouble]:
    """Move weak stuns and consolidations to the trouble of the slow host or array they were on.

    Returns the remaining weak clusters.
    """
    wide = [each for each in found if each.is_slow and len(each.places) > 1]
    left = []
    for cluster in weak:
        kept = []
        for signal in cluster.signals:
            taker = None
            if signal.kind in ("stun", "consolidation") and not signal.is_usual:
                alone = Trouble(cluster.places, [signal])
                near = (each for each in wide if _overlap(each, alone, EVIDENCE_US))
                taker = next((each for each in near if _reaches(each, alone, topology)), None)
            if taker is None:
                kept.append(signal)
            else:
                taker.take_in(signal)
        if kept:
            left.append(Trouble(cluster.places, kept))
    return left


def _reaches(slow: Trouble, trouble: Trouble, topology: Topology) -> bool:
    """True if a trouble of several pieces of storage explains a trouble on another one.

    That of a host explains troubles of that host only, that of an array those on the array.
    """
    if len(slow.places) < 2:
        return False
    if len(slow.slow_hosts) == 1:
        return _hosts_of(trouble) == slow.slow_hosts
    return _same_array(trouble, slow, topology) is True


def _may_belong(trouble: Trouble, slow: Trouble, topology: Topology) -> bool:
    hosts = {each.host for each in trouble.signals} - {""}
    is_near = not hosts or bool(hosts & slow.slow_hosts)
    if all(place.startswith(_HOST) for place in trouble.places):
        return bool(hosts & slow.slow_hosts)
    if any(is_device(place) for place in trouble.places):
        if _reaches(slow, trouble, topology):
            return True
        conflicts = all(each.kind == "conflict" for each in trouble.signals)
        return conflicts and is_near and _same_array(trouble, slow, topology) is True
    # A datastore of unknown device may be on a device of unknown datastores.
    return is_near and any(
        is_device(device) and not topology.datastores_on(device) for device in slow.places
    )


def _of_one_vm(clusters: Sequence[Trouble]) -> list[Trouble]:
    """Long stuns and consolidations without a cause in storage: one trouble per VM."""
    found = []
    for cluster in clusters:
        by_vm: dict[str, list[Signal]] = {}
        for each in cluster.signals:
            if each.vm:
                by_vm.setdefault(each.vm, []).append(each)
        for vm, signals in by_vm.items():
            founding = [
                each
                for each in signals
                if each.kind == "consolidation"
                or (each.kind == "stun" and each.size >= LONE_STUN_US and not each.is_usual)
            ]
            if founding:
                founding.sort(key=lambda each: (each.known_us, each.event_id))
                found.append(
                    Trouble(
                        {*cluster.places, f"{_VM}{vm}"},
                        [each for each in signals if not each.is_usual],
                        founding=founding[:1],
                    )
                )
    return found


def _as_usual(clusters: Sequence[Trouble], found: Sequence[Trouble]) -> list[Trouble]:
    """Storms in their usual pattern: noted, without alert."""
    noted = []
    for each in clusters:
        is_told = any(other.places & each.places and _overlap(other, each, 0) for other in found)
        storm = [] if is_told else _storm([one for one in each.signals if one.kind == "stun"])
        if storm:
            noted.append(Trouble(each.places, each.signals, is_noted=True, founding=storm))
    return noted


def _scope(trouble: Trouble, topology: Topology) -> str:
    if any(place.startswith(_VM) for place in trouble.places):
        return "vm"
    slow = {each.place for each in trouble.signals if is_slow(each)}
    if len(slow) < 2:
        beside_storage = [place for place in trouble.places if place.startswith(_HOST)]
        is_one_hosts = len(beside_storage) == 1 and len(trouble.slow_hosts) < 2
        return "host" if is_one_hosts else "device"
    if len(trouble.slow_hosts) == 1:
        return "host"
    arrays = {topology.array_of(each) for each in slow}
    if "" in arrays or not slow <= topology.devices.keys():
        return "array_or_fabric"
    if len(arrays) > 1:
        return "fabric"
    # Another array that is not slow argues against the fabric.
    return "array" if topology.arrays_known() > 1 else "array_or_fabric"


class _Untold:
    """The signals that belong to no trouble, indexed as possible evidence."""

    def __init__(self, found: Sequence[Trouble], signals: Sequence[Signal]) -> None:
        taken = {each.event_id for other in found for each in other.signals}
        self._order: dict[str, int] = {}
        self._by_place: dict[str, list[Signal]] = {}
        self._holes: dict[str, list[Signal]] = {}
        for place, each in enumerate(signals):
            if each.event_id in taken:
                continue
            self._order[each.event_id] = place
            self._by_place.setdefault(each.place, []).append(each)
            if each.kind == "hole":
                whose = f"{_VM}{each.vm}" if each.vm else f"{_HOST}{each.host}"
                self._holes.setdefault(whose, []).append(each)

    def evidence(self, trouble: Trouble) -> list[Signal]:
        """Signals close in time and place that belong to no other trouble."""
        vms = {each.vm for each in trouble.signals} - {""}
        beside_storage = {f"{_HOST}{each}" for each in _hosts_of(trouble)}
        if trouble.scope == "vm":
            near = self._near(trouble, self._by_place, trouble.places)
            return [each for each in near if each.vm in vms]
        near = self._near(trouble, self._by_place, trouble.places | beside_storage)
        whose = {f"{_VM}{each}" for each in vms} | beside_storage
        both = {each.event_id: each for each in (*near, *self._near(trouble, self._holes, whose))}
        return sorted(both.values(), key=lambda each: self._order[each.event_id])

    def _near(
        self, trouble: Trouble, known: dict[str, list[Signal]], names: set[str]
    ) -> list[Signal]:
        first_us, last_us = trouble.began_us - EVIDENCE_US, trouble.last_us + EVIDENCE_US
        found = [
            each
            for name in names
            for each in known.get(name, [])
            if each.at_us <= last_us and _until(each) >= first_us
        ]
        return sorted(found, key=lambda each: self._order[each.event_id])


class _Joined:
    """Troubles that become one, step by step."""

    def __init__(self, found: Sequence[Trouble]) -> None:
        self._found = found
        self._heads = {id(each): each for each in found}

    def join(self, one: Trouble, other: Trouble) -> None:
        """Make these the same trouble."""
        head, tail = self._head(one), self._head(other)
        if head is not tail:
            self._heads[id(tail)] = head

    def troubles(self) -> list[Trouble]:
        """The joined troubles."""
        parts: dict[int, list[Trouble]] = {}
        for each in self._found:
            parts.setdefault(id(self._head(each)), []).append(each)
        return [_one(each) for each in parts.values()]

    def pairs_together(self, those: Iterable[Trouble]) -> Iterator[tuple[Trouble, Trouble]]:
        """Pairs that began at about the same time, overlap, and are not joined yet."""
        in_order = sorted(those, key=lambda each: each.began_us)
        different = len({id(self._head(each)) for each in in_order})
        for place, each in enumerate(in_order):
            for other in islice(in_order, place + 1, None):
                if different < 2 or other.began_us - each.began_us > TOGETHER_US:
                    break
                if self._head(each) is not self._head(other) and _are_together(each, other):
                    yield each, other
                    different -= self._head(each) is self._head(other)

    def _head(self, trouble: Trouble) -> Trouble:
        while (head := self._heads[id(trouble)]) is not trouble:
            self._heads[id(trouble)] = self._heads[id(head)]
            trouble = head
        return trouble


def _one(parts: Sequence[Trouble]) -> Trouble:
    if len(parts) == 1:
        return parts[0]
    first = min(parts, key=lambda each: (each.founding[-1].known_us, each.founding[0].event_id))
    # Not in the order of the parts: that depends on older signals in their places.
    signals = chain.from_iterable(part.signals for part in parts)
    return Trouble(
        set().union(*(each.places for each in parts)),
        sorted(signals, key=lambda each: (each.known_us, each.event_id)),
        founding=first.founding,
    )


def _are_together(one: Trouble, other: Trouble) -> bool:
    """True if they began at about the same time and overlap."""
    return abs(one.began_us - other.began_us) <= TOGETHER_US and _overlap(one, other, EVIDENCE_US)


def _overlap(one: Trouble, other: Trouble, slack_us: int) -> bool:
    return one.began_us <= other.last_us + slack_us and other.began_us <= one.last_us + slack_us


def _until(signal: Signal) -> int:
    return signal.at_us + RUNNING_US if signal.until_us is None else signal.until_us


def _hosts_of(trouble: Trouble) -> set[str]:
    return {each.host for each in trouble.signals} - {""}


def is_device(place: str) -> bool:
    """True if a place is a device."""
    return place.startswith(DEVICE_NAMES)


def _is_trouble(signal: Signal) -> bool:
    """True if a signal may make an incident, alone or with similar ones."""
    match signal.kind:
        case "stun":
            return signal.detail not in MOVES
        case "path":
            return signal.detail in LOSSES or signal.detail == "path_dead"
        case "unmap" | "hole":
            return False
    return True


def is_slow(signal: Signal) -> bool:
    """True if its storage is slow or lost."""
    return signal.kind in _SLOW or (signal.kind == "path" and signal.detail in LOSSES)


def _holds(signal: Signal) -> bool:
    """True if a signal keeps an incident open as long as it lasts."""
    return signal.kind in ("slow", "queue", "stun", "conflict", "consolidation")
