"""Next steps of an incident: the rules of next_steps.yaml that apply to it.

The YAML names functions of this file: evidence, conditions, proofs and the texts to fill in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

from stunwatch.incidents.configuration import CLOSING_US, LONE_STUN_US
from stunwatch.incidents.figures import Peak, peak_of
from stunwatch.incidents.grouping import Trouble
from stunwatch.incidents.signals import SNAPSHOTS, Signal
from stunwatch.incidents.topology import Device, Topology
from stunwatch.incidents.wording import counted, listed, milliseconds, seconds
from stunwatch.ingest import yaml_file

_HITACHI, _EQUALLOGIC = "naa.60060e8", "naa.6090a0"
"""Prefixes of their device names: a name contains the number of the vendor."""

_BUSY = ("D:0x8", "D:0x28")
_HEARTBEATS = frozenset({"heartbeat_timeout", "ats_miscompare"})
_LOSSES = {
    "path_dead": "dead paths",
    "apd_start": "all paths down (APD)",
    "apd_timeout": "APD timeout (140 s)",
    "pdl": "permanent device loss (PDL)",
    "lost_access": "lost access to a volume",
    "nfs_lost": "no connection to the NFS server",
}
_WIDE = frozenset({"array", "array_or_fabric", "fabric"})

_MOST_EVIDENCE = 20
"""Most events that a step lists: a storm has thousands."""


@dataclass(frozen=True)
class Case:
    """An incident, as input of the rules."""

    trouble: Trouble
    topology: Topology
    now_us: int
    """Event time, in microseconds since 1970."""
    since: str
    """When it began, as text: `2026-03-02 02:10 UTC`."""
    seen: AbstractSet[str]
    """The hosts that sent logs in the hour before."""

    @cached_property
    def signals(self) -> Sequence[Signal]:
        """Its signals and its evidence."""
        return (*self.trouble.signals, *self.trouble.evidence)

    @cached_property
    def devices(self) -> dict[str, Device]:
        """Its devices that are in the inventory."""
        names = sorted({each.place for each in self.signals})
        return {
            each: self.topology.devices[each] for each in names if each in self.topology.devices
        }

    def of(self, *kinds: str) -> list[Signal]:
        """Its signals of some kinds."""
        if kinds not in self._of_kinds:
            self._of_kinds[kinds] = [each for each in self.signals if each.kind in kinds]
        return self._of_kinds[kinds]

    @cached_property
    def _of_kinds(self) -> dict[tuple[str, ...], list[Signal]]:
        return {}  # many rules ask for the same kinds


Step = dict[str, Any]
"""An item of `next_steps` in schemas/incident.v1."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule of next_steps.yaml; its fields are described there."""

    name: str
    step: str
    because: str
    evidence: str
    scopes: Sequence[str] = ()
    when: Sequence[str] = ()
    proof: Sequence[str] = ()
    precondition: str = "None: read-only"
    risk_level: Literal["none", "low", "high"] = "none"
    risk: str = "None: read-only"
    against: str | None = None
    kb: str | None = None
    is_last_resort: bool = False

    def applies(self, case: Case) -> bool:
        """True if it has evidence, and its scope, conditions and proofs hold."""
        return (
            (not self.scopes or case.trouble.scope in self.scopes)
            and bool(EVIDENCE[self.evidence](case))
            and all(CONDITIONS[name](case) for name in (*self.when, *self.proof))
        )

    def step_for(self, case: Case) -> Step:
        """The step, with the incident's names and numbers filled in."""
        evidence = sorted(
            EVIDENCE[self.evidence](case), key=lambda each: (each.known_us, each.event_id)
        )
        return {
            "step": _filled(self.step, case),
            "because": _filled(self.because, case),
            "kb": self.kb,
            "against": _filled(self.against, case) or None,
            "evidence_ids": sorted(each.event_id for each in evidence[:_MOST_EVIDENCE]),
            "precondition": self.precondition,
            "risk_level": self.risk_level,
            "risk": self.risk,
        }


@cache
def rules() -> tuple[Rule, ...]:
    """All rules, in the order of the file."""
    loaded = yaml_file.read(Path(__file__).with_name("next_steps.yaml"))
    return tuple(Rule(**each) for each in loaded)


def next_steps(case: Case) -> list[Step]:
    """The steps that apply, in the order to take them; at least one."""
    return [each.step_for(case) for each in _applying(case)]


def conflict_holds_until_us(trouble: Trouble) -> int | None:
    """Until when a stuck reservation counts as held; the steps change then. None without one."""
    ends = [each.until_us or each.at_us for each in trouble.signals if each.is_stuck]
    return max(ends) + CLOSING_US if ends else None


def _applying(case: Case) -> list[Rule]:
    found = [each for each in rules() if each.applies(case)]
    return [each for each in found if not each.is_last_resort] or found


def _filled(text: str | None, case: Case) -> str:
    """The text with its {names} filled in. Braces in log text stay as they are."""
    if text is None:
        return ""
    named = {name: words(case) for name, words in _WORDS.items() if f"{{{name}}}" in text}
    return text.format(**named)


# == Evidence


def _stuck(case: Case) -> list[Signal]:
    return [each for each in case.of("conflict") if each.is_stuck]


def _failed_conflicts(case: Case) -> list[Signal]:
    return [each for each in case.of("conflict") if each.detail == "failed"]


def _losses(case: Case) -> list[Signal]:
    return [each for each in case.of("path") if each.detail in _LOSSES]


def _losses_of_nfs(case: Case) -> list[Signal]:
    return [each for each in _losses(case) if each.is_nfs]


def _losses_of_luns(case: Case) -> list[Signal]:
    return [each for each in _losses(case) if not each.is_nfs]


def _slow(case: Case) -> list[Signal]:
    return case.of("slow", "slow_log")


def _slow_or_lost(case: Case) -> list[Signal]:
    return [*_slow(case), *(each for each in _losses(case) if each.detail != "path_dead")]


def _slow_without_policy(case: Case) -> list[Signal]:
    """NFS volumes and local disks have no path policy."""
    slow = [(each, case.devices.get(each.place, Device())) for each in _slow(case) if _device(each)]
    return [each for each, known in slow if not known.path_policy and not known.is_local]


def _slow_on_one_path(case: Case) -> list[Signal]:
    fixed = {name for name, each in case.devices.items() if "FIXED" in each.path_policy.upper()}
    return [each for each in _slow(case) if each.place in fixed]


def _busy(case: Case) -> list[Signal]:
    return [each for each in case.of("scsi") if set(_BUSY) & set(each.detail.split())]


def _snapshot_stuns(case: Case) -> list[Signal]:
    return [each for each in case.of("stun") if each.detail in SNAPSHOTS]


def _long_snapshot_stuns(case: Case) -> list[Signal]:
    return [each for each in _snapshot_stuns(case) if each.size >= LONE_STUN_US]


def _signs_of_the_array(case: Case) -> list[Signal]:
    signs = [*_busy(case), *_long_snapshot_stuns(case)]
    return [*_slow(case), *signs] if case.trouble.scope in _WIDE else signs


def _memory_stuns(case: Case) -> list[Signal]:
    return [each for each in case.of("stun") if each.detail == "snapshot_create_memory"]


def _removals(case: Case, reason: str) -> list[Signal]:
    return [each for each in case.of("consolidation") if reason in each.reasons]


def _unexplained_removals(case: Case) -> list[Signal]:
    removals = case.of("consolidation")
    return [each for each in removals if each.detail == "failed" and not each.reasons]


EVIDENCE: dict[str, Callable[[Case], list[Signal]]] = {
    "everything": lambda case: list(case.signals),
    "stuck_conflicts": _stuck,
    "failed_conflicts": _failed_conflicts,
    "conflicts": lambda case: case.of("conflict"),
    "losses": _losses_of_luns,
    "losses_of_nfs": _losses_of_nfs,
    "permanent_losses": lambda case: [each for each in case.of("path") if each.detail == "pdl"],
    "heartbeats": lambda case: [each for each in case.of("path") if each.detail in _HEARTBEATS],
    "queues": lambda case: case.of("queue"),
    "errors": lambda case: case.of("scsi"),
    "slow": _slow,
    "slow_or_lost": _slow_or_lost,
    "slow_without_policy": _slow_without_policy,
    "slow_on_one_path": _slow_on_one_path,
    "slow_on_equallogic": lambda case: [
        each for each in _slow(case) if each.place.startswith(_EQUALLOGIC)
    ],
    "signs_of_the_array": _signs_of_the_array,
    "snapshot_stuns": _snapshot_stuns,
    "long_snapshot_stuns": _long_snapshot_stuns,
    "memory_stuns": _memory_stuns,
    "stuns": lambda case: case.of("stun"),
    "removals_that_do_not_converge": lambda case: [
        each for each in case.of("consolidation") if each.detail == "not_converging"
    ],
    "locked_removals": lambda case: _removals(case, "lock"),
    "removals_without_space": lambda case: _removals(case, "space"),
    "cancelled_removals": lambda case: _removals(case, "cancel"),
    "unexplained_removals": _unexplained_removals,
    "unmaps_that_fell_back": lambda case: [
        each for each in case.of("unmap") if each.detail == "fell_back"
    ],
}
"""The signals that prove a step, by the name that the YAML uses."""


# == Conditions and proofs


def _why_no_reset(case: Case) -> str:
    """Why a LUN reset must not be advised; empty if everything is proven."""
    return _vmfs_doubt(case, _stuck(case)) or _why_conflict_is_over(case)


def _why_conflict_is_over(case: Case) -> str:
    until_us = conflict_holds_until_us(case.trouble)
    if until_us is None or until_us <= case.now_us:
        return "no log line shows that the conflict still exists"
    for each in _stuck(case):
        later = (other for other in case.of("conflict") if other.place == each.place)
        if any(other.detail == "recovered" and other.known_us > each.known_us for other in later):
            return f"later commands to {each.device or each.path or 'the LUN'} succeeded"
    return ""


def _vmfs_doubt(case: Case, signals: Iterable[Signal]) -> str:
    """Why it is not proven that these are on VMFS devices that no VM uses as an RDM."""
    hosts: dict[str, set[str]] = {}
    for each in signals:
        hosts.setdefault(each.place, set()).add(each.host)
    for device, concerned in sorted(hosts.items()):
        if doubt := case.topology.vmfs_doubt(device, concerned, case.seen):
            return doubt
    return "" if hosts else "no log line names a device"


def _is_snapshot_storm(case: Case) -> bool:
    stuns = _snapshot_stuns(case)
    return len({each.vm for each in stuns}) > 1 and len(stuns) * 2 > len(case.of("stun"))


CONDITIONS: dict[str, Callable[[Case], bool]] = {
    "is_nothing_stuck": lambda case: not _stuck(case),
    "is_reset_proven": lambda case: not _why_no_reset(case),
    "is_reset_unproven": lambda case: bool(_why_no_reset(case)),
    "is_vmfs_without_raw_mapping": lambda case: not _vmfs_doubt(case, _stuck(case)),
    "is_conflict_holding": lambda case: not _why_conflict_is_over(case),
    "is_one_path_without_raw_mapping": lambda case: not _vmfs_doubt(case, _slow_on_one_path(case)),
    "is_lock_logged": lambda case: bool(_removals(case, "lock")),
    "is_hitachi": lambda case: any(each.place.startswith(_HITACHI) for each in case.signals),
    "is_every_conflict_recovered": lambda case: all(
        each.detail == "recovered" for each in case.of("conflict")
    ),
    "is_snapshot_storm": _is_snapshot_storm,
}
"""Conditions and proofs, by the name that the YAML uses."""


# == What is filled in


def _device(signal: Signal) -> bool:
    """True if its place is a device, not a datastore, host or VM."""
    return bool(signal.place) and " " not in signal.place


def _places_of(case: Case, signals: Iterable[Signal]) -> str:
    names = {
        each.place if _device(each) else case.topology.datastore_name(each.datastore) or each.path
        for each in signals
    }
    return listed(names - {""}) or "the storage"


def _hosts_of(signals: Iterable[Signal]) -> str:
    return listed({each.host for each in signals} - {""}) or "the host"


def _vms_of(signals: Iterable[Signal]) -> str:
    return listed({each.vm for each in signals} - {""}) or "the VM"


def _datastores_of(case: Case, signals: Iterable[Signal]) -> str:
    names = {case.topology.datastore_name(each.datastore) for each in signals}
    return listed(names - {""}) or "the datastore"


def _worst(stuns: Sequence[Signal]) -> str:
    return seconds(max(each.size for each in stuns))


def _peak(peak: Peak | None) -> str:
    """Return the peak in the format of the verdict."""
    return milliseconds(peak.ms) if peak else "unknown latency"


def _fixed_devices(case: Case) -> str:
    fixed = {each.place for each in _slow_on_one_path(case)}
    return f"{len(fixed)} of {len({each.place for each in _slow(case)})}"


def _fixed_policy(case: Case) -> str:
    return listed({case.devices[each.place].path_policy for each in _slow_on_one_path(case)})


def _compared_hosts(case: Case) -> str:
    """Return a comparison with other hosts that sent logs."""
    others = case.seen - {each.host for each in case.signals}
    if not others:
        return "no other host sent logs to compare with"
    return "the same storage is not slow or lost on any other host that sent logs"


def _storage_of_several(case: Case) -> str:
    luns = {each.place for each in _slow_or_lost(case) if _device(each)}
    return "several LUNs" if len(luns) > 1 else "several datastores"


def _pool_reason(case: Case) -> str:
    if _busy(case):
        return "the array answered BUSY or TASK SET FULL; its pool may be full"
    if case.trouble.scope in _WIDE:
        return f"{_storage_of_several(case)} slowed at once; the pool may be nearly full"
    worst = _worst(_long_snapshot_stuns(case))
    return f"a snapshot stunned a VM for {worst}; the pool may be nearly full"


def _firmware_reason(case: Case) -> str:
    if case.trouble.scope in _WIDE:
        return f"{_storage_of_several(case)} slow or lost for several hosts: suspect firmware"
    return "high load alone rarely has this effect"


def _arrays(case: Case) -> str:
    """How many arrays the affected LUNs are on; the array of some may be unknown."""
    found = {case.topology.array_of(each.place) for each in _slow_or_lost(case)}
    known = len(found - {""})
    if known > 1:
        return f"{known} arrays" if "" not in found else f"at least {known} arrays"
    return "one array" if known and "" not in found else "one or more arrays"


def _against_fabric(case: Case) -> str:
    return "All slow LUNs belong to one array" if _arrays(case) == "one array" else ""


def _against_spreading(case: Case) -> str:
    if _slow(case):
        return "The storage is slow too: the snapshots may not be the cause"
    return ""


def _against_queues(case: Case) -> str:
    return "DAVG was high too: slow storage fills the queues" if _slow(case) else ""


_WORDS: dict[str, Callable[[Case], str]] = {
    "since": lambda case: case.since,
    "compared_hosts": _compared_hosts,
    "hosts": lambda case: _hosts_of(_slow_or_lost(case) or case.signals),
    "stuck_devices": lambda case: (
        listed({each.device or each.path for each in _stuck(case)} - {""}) or "the LUN"
    ),
    "stuck_hosts": lambda case: _hosts_of(_stuck(case)),
    "why_no_reset": _why_no_reset,
    "conflicts": lambda case: counted(len(case.of("conflict")), "reservation conflict"),
    "failed_conflicts": lambda case: counted(len(_failed_conflicts(case)), "conflict"),
    "losses": lambda case: listed({_LOSSES[each.detail] for each in _losses_of_luns(case)}),
    "losses_of_nfs": lambda case: listed({_LOSSES[each.detail] for each in _losses_of_nfs(case)}),
    "hosts_of_losses": lambda case: _hosts_of(_losses_of_luns(case)),
    "hosts_of_losses_of_nfs": lambda case: _hosts_of(_losses_of_nfs(case)),
    "heartbeat_places": lambda case: _places_of(case, EVIDENCE["heartbeats"](case)),
    "hosts_of_queues": lambda case: _hosts_of(case.of("queue")),
    "against_queues": _against_queues,
    "failed_commands": lambda case: counted(
        sum(int(each.size) for each in case.of("scsi")), "failed command"
    ),
    "slow_places": lambda case: _places_of(case, _slow(case)),
    "peak": lambda case: _peak(peak_of(case.signals)),
    "fixed_devices": _fixed_devices,
    "fixed_policy": _fixed_policy,
    "pool_reason": _pool_reason,
    "firmware_reason": _firmware_reason,
    "arrays": _arrays,
    "against_fabric": _against_fabric,
    "snapshot_datastores": lambda case: _datastores_of(case, _snapshot_stuns(case)),
    "snapshot_stuns": lambda case: (
        f"{len(_snapshot_stuns(case)):,} of {counted(len(case.of('stun')), 'stun')}"
    ),
    "against_spreading": _against_spreading,
    "memory_stuns": lambda case: (
        f"{len(_memory_stuns(case)):,} of {counted(len(case.of('stun')), 'stun')}"
    ),
    "consolidating_vms": lambda case: _vms_of(EVIDENCE["removals_that_do_not_converge"](case)),
    "locked_vms": lambda case: _vms_of(_removals(case, "lock")),
    "full_datastores": lambda case: _datastores_of(case, _removals(case, "space")),
    "failed_vms": lambda case: _vms_of(_unexplained_removals(case)),
    "vms_long_stunned": lambda case: _vms_of(_long_snapshot_stuns(case)),
    "longest_snapshot_stun": lambda case: _worst(_long_snapshot_stuns(case)),
    "stuns": lambda case: counted(len(case.of("stun")), "stun"),
    "stunned_vms": lambda case: _vms_of(case.of("stun")),
    "worst_stun": lambda case: _worst(case.of("stun")),
}
