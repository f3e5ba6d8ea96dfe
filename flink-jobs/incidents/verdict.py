"""The verdict of an incident: one sentence with the figures of its row, and its confidence."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime

from stunwatch.incidents.configuration import LONE_STUN_US
from stunwatch.incidents.figures import Figures, Peak
from stunwatch.incidents.grouping import DATASTORE, PATH, Trouble, is_device, is_slow
from stunwatch.incidents.signals import SNAPSHOTS, Signal
from stunwatch.incidents.topology import Topology
from stunwatch.incidents.wording import cause, counted, listed, milliseconds, part, seconds

_LOSSES = {
    "apd_start": "APD",
    "apd_timeout": "APD timeout",
    "ats_miscompare": "ATS miscompare",
    "heartbeat_timeout": "heartbeat timeout",
    "lost_access": "lost access",
    "nfs_lost": "NFS server lost",
    "path_dead": "dead path",
    "pdl": "PDL",
}
"""Kinds of path events (schemas/path_event.v1) that belong to an incident."""

_SOURCES = {
    "esxtop": "esxtop",
    "vmkernel": "vmkernel",
    "vcenter": "vCenter",
    "storage_rm": "storageRM",
}
"""Sources of latency (schemas/latency_episode.v1)."""


def since(trouble: Trouble) -> str:
    """Return when it began, as text: `2026-03-02 02:10 UTC`."""
    return f"{datetime.fromtimestamp(trouble.began_us / 1e6, UTC):%Y-%m-%d %H:%M} UTC"


def sentence(trouble: Trouble, topology: Topology, figures: Figures) -> str:
    """The verdict. The part before its first colon or semicolon is the incident's title.

    Its numbers and names are those of `figures`: 2 of 3 LUNs means that the row has 3 devices.
    """
    parts = [f"Since {since(trouble)}, {_what(trouble, topology, figures)}"]
    if where := _where(trouble, figures):
        parts[0] += f": {where}"
    parts += _beside(trouble, figures)
    parts.append(_other_hosts(figures))
    return "; ".join(parts) + "."


def _what(trouble: Trouble, topology: Topology, figures: Figures) -> str:
    kinds = {each.kind for each in trouble.signals}
    if trouble.scope == "vm":
        return _vm(trouble, topology, figures)
    told = next(words for kind, words in _WHAT.items() if kind in kinds)
    return told(trouble, topology, figures)


def _latency(trouble: Trouble, _: Topology, figures: Figures) -> str:
    slow = _of(trouble, "slow", "slow_log")
    return f"{_peak(figures.peak)} on {_storage(slow, figures)} from {_hosts(slow, figures)}"


def _queues(trouble: Trouble, _: Topology, figures: Figures) -> str:
    return f"{_peak(figures.peak)} on {_hosts(_of(trouble, 'queue'), figures)}"


def _errors(trouble: Trouble, _: Topology, figures: Figures) -> str:
    count = counted(figures.failed_command_count, "failed command")
    return f"{count} on {_storage(_all(trouble, 'scsi'), figures)}"


def _peak(peak: Peak | None) -> str:
    if peak is None:
        return "high latency"
    source = f"{_SOURCES.get(peak.source, peak.source)} " if peak.source else ""
    return f"{source}{peak.metric.upper()} up to {milliseconds(peak.ms)}"


def _storm(trouble: Trouble, topology: Topology, figures: Figures) -> str:
    stuns = _all(trouble, "stun")
    on = _names(stuns, topology) or "a datastore"
    return (
        f"{counted(figures.stun_count, 'stun')} of {_stunned(stuns, figures)} on {on}"
        f"{'' if trouble.is_noted else ' outside the usual pattern'},"
        f" {cause({each.detail for each in stuns})}, worst {seconds(figures.worst_stun_us)}"
    )


def _losses(trouble: Trouble, topology: Topology, figures: Figures) -> str:
    lost = _of(trouble, "path")
    on = _names(lost, topology) or "storage"
    return f"{_kinds(lost)} on {on} from {_hosts(lost, figures)}"


def _conflicts(trouble: Trouble, topology: Topology, figures: Figures) -> str:
    conflicts = _all(trouble, "conflict")
    on = _names(conflicts, topology) or "an unnamed LUN"
    return f"{_outcome(conflicts)} on {on} from {_hosts(conflicts, figures)}{_stuck(conflicts)}"


def _outcome(conflicts: Sequence[Signal]) -> str:
    """How the conflicts ended: `2 of 3 reservation conflicts failed`."""
    total = counted(len(conflicts), "reservation conflict")
    for outcome, words in (("failed", "failed"), ("open", "still open")):
        some = sum(each.detail == outcome for each in conflicts)
        if some:
            return f"{total} {words}" if some == len(conflicts) else f"{some:,} of {total} {words}"
    return f"{total} cleared"


def _stuck(conflicts: Sequence[Signal]) -> str:
    return ", a reservation is stuck" if any(each.is_stuck for each in conflicts) else ""


def _vm(trouble: Trouble, topology: Topology, figures: Figures) -> str:
    signal = trouble.founding[0]
    place = topology.datastore_name(signal.datastore)
    name = f"{signal.vm} on {place}" if place else signal.vm
    if signal.kind == "consolidation":
        how = "does not converge" if signal.detail == "not_converging" else "failed"
        return f"the consolidation of {name} {how}"
    worst_us = figures.worst_stun_us
    told = cause({each.detail for each in _all(trouble, "stun") if each.size >= worst_us})
    return f"{name} stunned {seconds(worst_us)}{'' if told.startswith('during') else ','} {told}"


_WHAT: dict[str, Callable[[Trouble, Topology, Figures], str]] = {
    "slow": _latency,
    "slow_log": _latency,
    "stun": _storm,
    "path": _losses,
    "conflict": _conflicts,
    "queue": _queues,
    "scsi": _errors,
    "consolidation": _vm,
}
"""What happened, by the first of these kinds that an incident has."""


def _where(trouble: Trouble, figures: Figures) -> str:
    """Return the extent of the incident; empty if nothing is known."""
    match trouble.scope:
        case "array":
            return f"{_several(figures)} affected, suspect the array"
        case "fabric":
            return "LUNs of several arrays affected, suspect the fabric"
        case "array_or_fabric":
            bad = [each for each in trouble.signals if is_slow(each)]
            is_nfs = bool(bad) and all(each.is_nfs for each in bad)
            whom = "the NFS server or the network" if is_nfs else "the array or the fabric"
            return f"{_several(figures)} affected, suspect {whom}"
        case "host":
            return _one_host(trouble, figures)
        case "vm":
            return "only this VM affected"
    return _one_device(trouble, figures)


def _one_host(trouble: Trouble, figures: Figures) -> str:
    only = "only this host affected"
    if len(figures.hosts) > 1:
        only = f"storage slow or lost on {listed(trouble.slow_hosts) or 'one host'} only"
    is_conflict = all(each.kind == "conflict" for each in trouble.signals)
    return only if is_conflict else f"{only}, suspect its adapter, cable or port"


def _one_device(trouble: Trouble, figures: Figures) -> str:
    if trouble.is_noted:
        return "matches the usual pattern, no alert"
    if trouble.is_slow:
        return _only_storage(trouble, figures)
    if stuns := _of(trouble, "stun"):
        snapshots = sum(each.detail in SNAPSHOTS for each in stuns)
        is_one = len(figures.datastores) == 1 and snapshots * 2 > len(stuns)
        return f"{'many snapshots on one datastore, ' if is_one else ''}no slow LUN measured"
    luns = len(figures.devices) or len(figures.paths)
    if luns > 1:
        return f"{luns:,} LUNs affected"
    return "one LUN affected" if luns else ""


def _only_storage(trouble: Trouble, figures: Figures) -> str:
    """Return the part of the sentence that says that only this storage is slow or lost."""
    if len(figures.devices) + len(figures.paths) == 1:
        return "only this LUN affected"
    if not figures.devices and not figures.paths and len(figures.datastores) == 1:
        return "only this datastore affected"
    bad = [each for each in trouble.signals if is_slow(each)]
    how = "slow" if _of(trouble, "slow", "slow_log") else "lost"
    return f"only {_storage(bad, figures)} is {how}"


def _several(figures: Figures) -> str:
    """Return what several of are affected, such as `several LUNs and hosts`."""
    things = []
    if len(figures.devices) > 1:
        things.append("LUNs")
    elif len(figures.datastores) > 1:
        things.append("datastores")
    if len(figures.hosts) > 1:
        things.append("hosts")
    return f"several {' and '.join(things)}" if things else "storage"


def _beside(trouble: Trouble, figures: Figures) -> Iterator[str]:
    """Yield the other signals of slow storage, each as a part of the sentence."""
    is_slow = bool(_of(trouble, "slow", "slow_log"))
    stuns, conflicts = _all(trouble, "stun"), _all(trouble, "conflict")
    losses = _all(trouble, "path")
    if stuns and is_slow:
        usual = sum(each.is_usual for each in stuns)
        total = counted(figures.stun_count, "stun")
        note = f", {usual:,} of {total} in the usual pattern" if usual else ""
        worst = seconds(figures.worst_stun_us)
        yield f"{_stunned(stuns, figures)} stunned, worst {worst}{note}"
    if conflicts and is_slow:
        yield _outcome(conflicts) + _stuck(conflicts)
    if losses and is_slow:
        yield f"also {_kinds(losses)}"
    if _all(trouble, "unmap"):
        yield "an UNMAP run at that time"


def _other_hosts(figures: Figures) -> str:
    affected, total = len(figures.hosts), figures.reporting_hosts
    if not total:
        return "no host sent logs"
    if not affected:
        return f"{counted(total, 'host')} sent logs, the host of the VM is unknown"
    if total == affected:
        return f"only {'these hosts' if affected > 1 else 'this host'} sent logs"
    return f"{counted(total, 'host')} sent logs, {total - affected:,} unaffected"


def missing(trouble: Trouble, topology: Topology, seen: AbstractSet[str]) -> list[str]:
    """The data that would make the verdict surer, a sentence each."""
    found = []
    unplaced = {
        each.partition(" ")[2] for each in trouble.places if each.startswith((DATASTORE, PATH))
    }
    if unplaced:
        found.append(f"No inventory shows the LUN of {listed(unplaced)}.")
    devices = {each for each in trouble.places if each not in topology.devices}
    unknown = [each for each in devices if each.startswith(("naa.", "eui.", "t10."))]
    if unknown:
        found.append(f"No inventory of {listed(unknown)}.")
    if not any(each.kind in ("slow", "queue") for each in trouble.signals):
        found.append(
            "No latency measured by esxtop or vCenter: only the vmkernel log shows it."
            if _of(trouble, "slow_log")
            else "No high latency measured on the affected storage."
        )
    if len(seen) + len(_affected(trouble) - seen) < 2:
        found.append("No other host sent logs for comparison.")
    gaps = {each.vm or each.host for each in trouble.evidence if each.kind == "hole"}
    if gaps:
        found.append(f"Log gaps of {listed(gaps)}: lines were throttled or lost.")
    return found


def confidence(trouble: Trouble, missing_sentences: Sequence[str]) -> str:
    """`high`, `medium` or `low`: the kinds of evidence for the scope, less what is missing."""
    kinds = {each.kind for each in (*trouble.signals, *trouble.evidence)} - {"hole"}
    doubts = len(missing_sentences)
    if doubts == 0 and len(kinds) > 1:
        return "high"
    return "medium" if doubts <= 1 else "low"


def severity(trouble: Trouble) -> str:
    """`notice`, `warning` or `critical`."""
    if trouble.is_noted:
        return "notice"
    is_wide = trouble.scope in ("array", "fabric", "array_or_fabric")
    is_lost = any(
        each.is_stuck
        or each.detail in ("failed", "pdl", "apd_timeout")
        or (each.kind == "stun" and each.size >= LONE_STUN_US)
        for each in trouble.signals
    )
    return "critical" if is_wide or is_lost else "warning"


def _affected(trouble: Trouble) -> set[str]:
    """The hosts with signals of it."""
    return {each.host for each in (*trouble.signals, *trouble.evidence)} - {""}


def _of(trouble: Trouble, *kinds: str) -> list[Signal]:
    return [each for each in trouble.signals if each.kind in kinds]


def _all(trouble: Trouble, *kinds: str) -> list[Signal]:
    """Its signals and evidence of some kinds: the figures count both."""
    return [each for each in (*trouble.signals, *trouble.evidence) if each.kind in kinds]


def _hosts(signals: Sequence[Signal], figures: Figures) -> str:
    return part({each.host for each in signals} - {""}, figures.hosts, "host")


def _stunned(stuns: Sequence[Signal], figures: Figures) -> str:
    return part({each.vm for each in stuns} - {""}, figures.vms, "VM")


def _storage(signals: Sequence[Signal], figures: Figures) -> str:
    """The LUNs of the signals, and the paths and datastores whose LUN is unknown."""
    on = {each.place for each in signals}
    found = [
        part(names, all_names, noun)
        for names, all_names, noun in (
            ({each for each in on if is_device(each)}, figures.devices, "LUN"),
            (_after(PATH, on), figures.paths, "path"),
            (_after(DATASTORE, on), figures.datastores, "datastore"),
        )
        if names
    ]
    return " and ".join(found) or "unknown storage"


def _after(beginning: str, names: Collection[str]) -> set[str]:
    return {each.removeprefix(beginning) for each in names if each.startswith(beginning)}


def _names(signals: Sequence[Signal], topology: Topology) -> str:
    """The first names of storage that the lines of the signals have; empty if none has one."""
    return listed(
        {
            each.device or topology.datastore_name(each.datastore) or each.path
            for each in signals
            if each.device or each.datastore or each.path
        }
    )


def _kinds(losses: Sequence[Signal]) -> str:
    return listed({_LOSSES.get(each.detail, each.detail.replace("_", " ")) for each in losses})
