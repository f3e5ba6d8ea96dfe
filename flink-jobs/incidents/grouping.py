"""Which signals belong together, and the smallest scope that explains them.

A pure function of all signals known: the order in which they came does not matter. It goes from
small to large:

1. what happens on one piece of storage, or on one host beside any storage, without a longer pause,
   is one trouble;
2. storage that one host alone finds slow, several pieces at once, is that host's trouble;
3. slow storage of several hosts at the same time is the trouble of what they share;
4. trouble whose storage nobody can name goes to the one it may belong to;
5. what is left of stuns and consolidations is a trouble of its VM.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from incidents.configuration import (
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
from incidents.places import Places
from incidents.signals import LOSSES, MOVES, Signal

CRITICAL_STUN_US = 5_000_000
"""A Windows cluster evicts a node that stands still so long."""

SLOW_DEVICES_OF_A_HOST = 3
"""So many devices that a host's log calls slow, and no other host's: the host is the trouble."""

_DEVICE_NAMES = ("naa.", "eui.", "t10.", "mpx.", "vml.")
_SLOW = frozenset({"slow", "slow_log"})


@dataclass
class Trouble:
    """Signals that belong together."""

    places: set[str]
    """Devices; `datastore …` where its device is unknown; `host …` for a host beside any storage;
    `vm …` for a VM alone."""
    signals: list[Signal]
    scope: str = "device"
    is_noted: bool = False
    founding: list[Signal] = field(default_factory=list)
    """Those that made it an incident, the first to be known first."""
    evidence: list[Signal] = field(default_factory=list)
    """Those that would make none by themselves."""

    @property
    def began_us(self) -> int:
        """When the first of its signals began."""
        return min(each.at_us for each in self.signals)

    @property
    def ended_us(self) -> int | None:
        """When the last ended; None while one goes on.

        Errors and the host's own complaints tell no end: they count where nothing was measured.
        """
        holding = [each for each in self.signals if _holds(each)] or self.signals
        ends = [each.until_us for each in holding]
        return None if None in ends else max(each for each in ends if each is not None)

    @property
    def slow_hosts(self) -> set[str]:
        """The hosts that find its storage slow or lost."""
        return {each.host for each in self.signals if _is_slow(each)}

    @property
    def is_slow(self) -> bool:
        """Whether some host finds its storage slow or lost."""
        return any(_is_slow(each) for each in self.signals)


def troubles(signals: Iterable[Signal], places: Places) -> list[Trouble]:
    """The troubles that these signals tell, with their scopes and what else is known of them."""
    placed = [replace(each, place=_place_of(each, places)) for each in signals]
    everything = sorted(placed, key=lambda each: (each.known_us, each.event_id))
    clusters = list(_clusters(everything))
    _found_by_a_slow_host(clusters)
    found = _hosts_alone([each for each in clusters if each.founding])
    found = _sharing(found, places)
    found = _adopted(found, places)
    _take_in(found, [each for each in clusters if not each.founding], places)
    found += _of_one_vm([each for each in clusters if not each.founding])
    found += _as_usual([each for each in clusters if not each.founding], found)
    for each in found:
        each.scope = _scope(each, places)
        each.evidence = _evidence(each, found, everything)
    return found


def _place_of(signal: Signal, places: Places) -> str:
    """Where a signal belongs: see `Trouble.places`. Empty where nothing tells."""
    is_the_hosts_own = signal.kind == "queue" or signal.detail == "path_dead"
    if not is_the_hosts_own:
        if signal.device.startswith(_DEVICE_NAMES):
            return signal.device
        if datastore := signal.datastore or signal.device:
            return places.device_of(datastore) or f"datastore {places.datastore_name(datastore)}"
    return f"host {signal.host}" if signal.host else ""


def _clusters(signals: Sequence[Signal]) -> Iterator[Trouble]:
    """What happens in one place, without a longer pause."""
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
    """A stun minutes before or after, alone no trouble, does not make an incident longer."""
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
    """The signals that make an incident of a cluster; none where they are too few or too weak."""
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
    """The first signals of so many different names; none where there are fewer."""
    seen: set[str] = set()
    for place, each in enumerate(signals):
        seen.add(names[each.event_id])
        if len(seen) >= many:
            return list(signals[: place + 1])
    return []


def _storm(stuns: Sequence[Signal]) -> list[Signal]:
    """The first stuns of many VMs within minutes; none where there was no storm."""
    first = 0
    for place, each in enumerate(stuns):
        while stuns[first].known_us < each.known_us - STORM_US:
            first += 1
        window = stuns[first : place + 1]
        vms = {one.vm for one in window}
        critical = {one.vm for one in window if one.size >= CRITICAL_STUN_US}
        if len(vms) >= STORM_VMS or len(critical) >= STORM_CRITICAL_VMS:
            return list(window)
    return []


def _found_by_a_slow_host(clusters: Sequence[Trouble]) -> None:
    """Without measurements: devices that one host's log calls slow, several at once, and no other
    host's."""
    by_host: dict[str, list[Trouble]] = {}
    for each in clusters:
        if not each.founding and len(each.slow_hosts) == 1:
            by_host.setdefault(*each.slow_hosts, []).append(each)
    for theirs in by_host.values():
        for each in theirs:
            near = [other for other in theirs if _are_together(each, other)]
            if len(near) >= SLOW_DEVICES_OF_A_HOST:
                each.founding = [next(one for one in each.signals if _is_slow(one))]


def _hosts_alone(found: Sequence[Trouble]) -> list[Trouble]:
    """Several pieces of storage that one host alone finds slow become one trouble of that host."""
    joined = _Joined(found)
    for host in sorted({name for each in found for name in _hosts_of(each)}):
        theirs = [
            each
            for each in found
            if each.slow_hosts == {host}
            or (not each.slow_hosts and each.places == {f"host {host}"})
        ]
        for place, each in enumerate(theirs):
            for other in theirs[place + 1 :]:
                if _are_together(each, other):
                    joined.join(each, other)
    return joined.troubles()


def _sharing(found: Sequence[Trouble], places: Places) -> list[Trouble]:
    """Slow storage of several hosts at the same time becomes one trouble of what they share."""
    joined = _Joined(found)
    slow = [each for each in found if each.is_slow]
    for place, each in enumerate(slow):
        for other in slow[place + 1 :]:
            if _share_a_cause(each, other, places):
                joined.join(each, other)
    return joined.troubles()


def _share_a_cause(one: Trouble, other: Trouble, places: Places) -> bool:
    if not _are_together(one, other):
        return False
    same = _same_array(one, other, places)
    if same is True:
        return True
    if len(one.slow_hosts | other.slow_hosts) < 2 or not one.slow_hosts & other.slow_hosts:
        return False
    if same is False:
        are_shared = len(one.slow_hosts) > 1 and len(other.slow_hosts) > 1
        return are_shared and abs(one.began_us - other.began_us) <= FABRIC_US
    return True


def _same_array(one: Trouble, other: Trouble, places: Places) -> bool | None:
    answers = {
        places.is_same_array(device, another)
        for device in one.places
        for another in other.places
        if _is_device(device) and _is_device(another)
    }
    return True if True in answers else False if answers == {False} else None


def _adopted(found: Sequence[Trouble], places: Places) -> list[Trouble]:
    """Trouble beside any known storage goes to the slow storage that it may belong to."""
    joined = _Joined(found)
    slow = sorted((each for each in found if each.is_slow), key=lambda each: each.began_us)
    for each in found:
        if each.is_slow:
            continue
        for other in slow:
            if _overlap(each, other, EVIDENCE_US) and _may_belong(each, other, places):
                joined.join(other, each)
                break
    # Hosts that lose the same unnamed device's reservation.
    nameless = [
        each
        for each in found
        if not each.is_slow
        and all(place.startswith("host ") for place in each.places)
        and any(one.kind == "conflict" for one in each.signals)
    ]
    for place, each in enumerate(nameless):
        for other in nameless[place + 1 :]:
            if _are_together(each, other):
                joined.join(each, other)
    return joined.troubles()


def _take_in(found: Sequence[Trouble], weak: Sequence[Trouble], places: Places) -> None:
    """Stuns and consolidations too few for an incident go to the slow host or array they were on.

    Signals move from the weak clusters to the found troubles.
    """
    slow = [each for each in found if each.is_slow]
    for cluster in weak:
        kept = []
        for signal in cluster.signals:
            alone = Trouble(cluster.places, [signal])
            taker = None
            if signal.kind in ("stun", "consolidation") and not signal.is_usual:
                near = (each for each in slow if _overlap(each, alone, EVIDENCE_US))
                taker = next((each for each in near if _reaches(each, alone, places)), None)
            (taker.signals if taker else kept).append(signal)
        cluster.signals = kept


def _reaches(slow: Trouble, trouble: Trouble, places: Places) -> bool:
    """Whether the fault of several pieces of storage explains trouble on another one.

    A host's reaches what that host alone tells, an array's what lies on the array.
    """
    if len(slow.places) < 2:
        return False
    if len(slow.slow_hosts) == 1:
        return _hosts_of(trouble) == slow.slow_hosts
    return _same_array(trouble, slow, places) is True


def _may_belong(trouble: Trouble, slow: Trouble, places: Places) -> bool:
    hosts = {each.host for each in trouble.signals} - {""}
    is_near = not hosts or bool(hosts & slow.slow_hosts)
    if all(place.startswith("host ") for place in trouble.places):
        return bool(hosts & slow.slow_hosts)
    if any(_is_device(place) for place in trouble.places):
        if _reaches(slow, trouble, places):
            return True
        conflicts = all(each.kind == "conflict" for each in trouble.signals)
        return conflicts and is_near and _same_array(trouble, slow, places) is True
    # A datastore whose device nobody knows may lie on a device whose datastores nobody knows.
    return is_near and any(
        _is_device(device) and not places.datastores_on(device) for device in slow.places
    )


def _of_one_vm(clusters: Sequence[Trouble]) -> list[Trouble]:
    """Long stuns and consolidations that no storage explains: each VM by itself."""
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
                        {*cluster.places, f"vm {vm}"},
                        [each for each in signals if not each.is_usual],
                        founding=founding[:1],
                    )
                )
    return found


def _as_usual(clusters: Sequence[Trouble], found: Sequence[Trouble]) -> list[Trouble]:
    """Storms that come every week at this hour: to be noted, not to be told."""
    noted = []
    for each in clusters:
        is_told = any(other.places & each.places and _overlap(other, each, 0) for other in found)
        storm = [] if is_told else _storm([one for one in each.signals if one.kind == "stun"])
        if storm:
            noted.append(Trouble(each.places, each.signals, is_noted=True, founding=storm))
    return noted


def _scope(trouble: Trouble, places: Places) -> str:
    if any(place.startswith("vm ") for place in trouble.places):
        return "vm"
    slow = {each.place for each in trouble.signals if _is_slow(each)}
    if len(slow) < 2:
        beside_storage = [place for place in trouble.places if place.startswith("host ")]
        is_one_hosts = len(beside_storage) == 1 and len(trouble.slow_hosts) < 2
        return "host" if is_one_hosts else "device"
    if len(trouble.slow_hosts) == 1:
        return "host"
    arrays = {places.array_of(each) for each in slow}
    if "" in arrays or not slow <= places.devices.keys():
        return "array_or_fabric"
    if len(arrays) > 1:
        return "fabric"
    # Another array beside it that is not slow speaks against the fabric.
    return "array" if places.arrays_known() > 1 else "array_or_fabric"


def _evidence(
    trouble: Trouble, found: Sequence[Trouble], signals: Sequence[Signal]
) -> list[Signal]:
    """What lies near in time and place and belongs to no trouble of its own."""
    taken = {each.event_id for other in found for each in other.signals}
    first_us, last_us = trouble.began_us - EVIDENCE_US, _last(trouble) + EVIDENCE_US
    near = [
        each
        for each in signals
        if each.at_us <= last_us and _until(each) >= first_us and each.event_id not in taken
    ]
    vms = {each.vm for each in trouble.signals} - {""}
    if trouble.scope == "vm":
        return [each for each in near if each.vm in vms and each.place in trouble.places]
    beside_storage = {f"host {each}" for each in _hosts_of(trouble)}
    return [
        each
        for each in near
        if each.place in trouble.places
        or each.place in beside_storage
        or (
            each.kind == "hole"
            and (each.vm in vms if each.vm else f"host {each.host}" in beside_storage)
        )
    ]


class _Joined:
    """Troubles that become one, step by step."""

    def __init__(self, found: Sequence[Trouble]) -> None:
        self._found = found
        self._heads = {id(each): each for each in found}

    def join(self, one: Trouble, other: Trouble) -> None:
        """From now on these are the same."""
        head, tail = self._head(one), self._head(other)
        if head is not tail:
            self._heads[id(tail)] = head

    def troubles(self) -> list[Trouble]:
        """What has become of them."""
        parts: dict[int, list[Trouble]] = {}
        for each in self._found:
            parts.setdefault(id(self._head(each)), []).append(each)
        return [_one(each) for each in parts.values()]

    def _head(self, trouble: Trouble) -> Trouble:
        while (head := self._heads[id(trouble)]) is not trouble:
            trouble = head
        return trouble


def _one(parts: Sequence[Trouble]) -> Trouble:
    if len(parts) == 1:
        return parts[0]
    first = min(parts, key=lambda each: (each.founding[-1].known_us, each.founding[0].event_id))
    return Trouble(
        set().union(*(each.places for each in parts)),
        [each for part in parts for each in part.signals],
        founding=first.founding,
    )


def _are_together(one: Trouble, other: Trouble) -> bool:
    """Whether they began at about the same time and overlap."""
    return abs(one.began_us - other.began_us) <= TOGETHER_US and _overlap(one, other, EVIDENCE_US)


def _overlap(one: Trouble, other: Trouble, slack_us: int) -> bool:
    return one.began_us <= _last(other) + slack_us and other.began_us <= _last(one) + slack_us


def _last(trouble: Trouble) -> int:
    return max(map(_until, trouble.signals))


def _until(signal: Signal) -> int:
    return signal.at_us + RUNNING_US if signal.until_us is None else signal.until_us


def _hosts_of(trouble: Trouble) -> set[str]:
    return {each.host for each in trouble.signals} - {""}


def _is_device(place: str) -> bool:
    return place.startswith(_DEVICE_NAMES)


def _is_trouble(signal: Signal) -> bool:
    """Whether a signal may make an incident, alone or with others like it."""
    match signal.kind:
        case "stun":
            return signal.detail not in MOVES
        case "path":
            return signal.detail in LOSSES or signal.detail == "path_dead"
        case "unmap" | "hole":
            return False
    return True


def _is_slow(signal: Signal) -> bool:
    return signal.kind in _SLOW or (signal.kind == "path" and signal.detail in LOSSES)


def _holds(signal: Signal) -> bool:
    """Whether a signal keeps an incident open as long as it lasts."""
    return signal.kind in ("slow", "queue", "stun", "conflict", "consolidation")
