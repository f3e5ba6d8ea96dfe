"""What to do about an incident: next_steps.yaml, as far as it applies.

A condition is a function of this file with the name that the YAML uses; so is what it fills in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from incidents.configuration import LONE_STUN_US
from incidents.grouping import Trouble
from incidents.places import Device, Places
from incidents.signals import Signal

_HITACHI, _EQUALLOGIC = "naa.60060e8", "naa.6090a0"
"""How the names of their devices begin: the company's number is part of a name."""

_BUSY = ("D:0x8", "D:0x28")
_SNAPSHOTS = frozenset({"snapshot_create", "snapshot_create_memory", "snapshot_remove"})


@dataclass(frozen=True)
class Case:
    """An incident as the conditions see it."""

    trouble: Trouble
    places: Places
    is_over: bool
    since: str
    """When it began, for people."""

    @property
    def signals(self) -> Sequence[Signal]:
        """All that belongs to it, evidence included."""
        return (*self.trouble.signals, *self.trouble.evidence)

    @property
    def devices(self) -> dict[str, Device]:
        """What inventory says of its devices."""
        names = sorted({each.place for each in self.signals})
        return {each: self.places.devices[each] for each in names if each in self.places.devices}

    def of(self, kind: str) -> list[Signal]:
        """Its signals of a kind."""
        return [each for each in self.signals if each.kind == kind]


Step = dict[str, str | None]
"""step, because, kb and against of schemas/incident.v1."""


def next_steps(case: Case) -> list[Step]:
    """The steps that apply, the first to be done first."""
    return [
        {
            "step": _filled(rule["step"], case),
            "because": _filled(rule["because"], case),
            "kb": rule["kb"],
            "against": _filled(rule["against"], case) or None,
        }
        for rule in _rules()
        if case.trouble.scope in rule.get("scopes", [case.trouble.scope])
        and all(_CONDITIONS[name](case) for name in rule.get("when", []))
    ]


@cache
def _rules() -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = yaml.safe_load(
        Path(__file__).with_name("next_steps.yaml").read_text()
    )
    return rules


def _filled(text: str | None, case: Case) -> str:
    """The text with its {names} filled in; log text is filled in once and not read again."""
    if text is None:
        return ""
    named = {name: words(case) for name, words in _WORDS.items() if f"{{{name}}}" in text}
    return text.format(**named)


def _stuck(case: Case) -> list[Signal]:
    return [each for each in case.of("conflict") if each.is_stuck]


def _is_reset_safe(case: Case) -> bool:
    return not _why_no_reset(case)


def _why_no_reset(case: Case) -> str:
    """Why a LUN reset must not be advised; empty where inventory proves that it may be."""
    for each in _stuck(case):
        device = case.places.devices.get(each.place)
        if device is None or not device.datastores:
            return f"inventory does not tell what lies on {each.device}"
        if device.has_raw_mapping or device.is_perennially_reserved:
            return f"{each.device} is mapped raw by a VM"
        if not case.places.extents_listed_at:
            return "inventory does not list all extents"
    return ""


def _slow_devices(case: Case) -> list[Device]:
    slow = {each.place for each in case.signals if each.kind in ("slow", "slow_log")}
    return [known for name, known in case.devices.items() if name in slow]


def _fixed(case: Case) -> list[Device]:
    return [each for each in _slow_devices(case) if "FIXED" in each.path_policy.upper()]


def _is_slow(case: Case) -> bool:
    return bool(case.of("slow") or case.of("slow_log"))


def _is_busy(case: Case) -> bool:
    return any(any(busy in each.detail.split() for busy in _BUSY) for each in case.of("scsi"))


def _snapshot_stuns(case: Case) -> list[Signal]:
    return [each for each in case.of("stun") if each.detail in _SNAPSHOTS]


def _is_snapshot_storm(case: Case) -> bool:
    stuns = _snapshot_stuns(case)
    return len(stuns) * 2 > len(case.of("stun")) > 0


def _is_array_suspected(case: Case) -> bool:
    if case.trouble.scope not in ("vm", "device"):
        return _is_slow(case)
    return _is_busy(case) or any(each.size >= LONE_STUN_US for each in _snapshot_stuns(case))


def _pool_reason(case: Case) -> str:
    if _is_busy(case):
        return "it answers that it is busy, as arrays do whose pool runs full"
    if case.trouble.scope not in ("vm", "device"):
        return "several of its devices are slow at once, and a pool that runs full makes them so"
    worst_s = max(each.size for each in _snapshot_stuns(case)) / 1e6
    return f"a snapshot took {worst_s:.0f} s, as where a pool runs full"


def _against_fabric(case: Case) -> str:
    slow = {each.place for each in case.signals if each.kind in ("slow", "slow_log")}
    arrays = {case.places.array_of(each) for each in slow} - {""}
    return "All slow devices belong to one array" if len(arrays) == 1 else ""


def _against_spreading(case: Case) -> str:
    if _is_slow(case):
        return "The storage is slow as well: the snapshots may suffer from it, not cause it"
    return ""


_CONDITIONS: dict[str, Callable[[Case], bool]] = {
    "is_stuck": lambda case: bool(_stuck(case)),
    "is_still_stuck": lambda case: not case.is_over,
    "is_reset_safe": _is_reset_safe,
    "is_no_reset_advised": lambda case: not _is_reset_safe(case),
    "is_slow": _is_slow,
    "is_array_suspected": _is_array_suspected,
    "has_fixed_policy": lambda case: bool(_fixed(case)),
    "has_unknown_policy": lambda case: not any(each.path_policy for each in _slow_devices(case)),
    "has_conflicts": lambda case: bool(case.of("conflict")),
    "has_recovered_only": lambda case: all(
        each.detail != "failed" and not each.is_stuck for each in case.of("conflict")
    ),
    "is_hitachi": lambda case: any(each.place.startswith(_HITACHI) for each in case.signals),
    "is_equallogic": lambda case: any(each.place.startswith(_EQUALLOGIC) for each in case.signals),
    "is_snapshot_storm": _is_snapshot_storm,
    "is_not_converging": lambda case: any(
        each.detail == "not_converging" for each in case.of("consolidation")
    ),
    "has_failed_consolidation": lambda case: any(
        each.detail == "failed" for each in case.of("consolidation")
    ),
    "has_memory_snapshots": lambda case: any(
        each.detail == "snapshot_create_memory" for each in case.of("stun")
    ),
    "has_unmap_fallback": lambda case: any(each.detail == "fell_back" for each in case.of("unmap")),
    "has_permanent_loss": lambda case: any(each.detail == "pdl" for each in case.of("path")),
}

_WORDS: dict[str, Callable[[Case], str]] = {
    "stuck_device": lambda case: _stuck(case)[0].device or "the LUN",
    "stuck_hosts": lambda case: ", ".join(sorted({each.host for each in _stuck(case)})),
    "why_no_reset": _why_no_reset,
    "fixed_devices": lambda case: f"{len(_fixed(case))} of {len(_slow_devices(case))}",
    "fixed_policy": lambda case: _fixed(case)[0].path_policy,
    "pool_reason": _pool_reason,
    "since": lambda case: case.since,
    "conflict_count": lambda case: str(len(case.of("conflict"))),
    "array_count": lambda case: str(
        len({case.places.array_of(each.place) for each in case.of("slow")} - {""}) or "several"
    ),
    "against_fabric": _against_fabric,
    "hosts": lambda case: ", ".join(sorted(case.trouble.slow_hosts)) or "this host",
    "datastores": lambda case: (
        ", ".join(
            sorted(
                {case.places.datastore_name(each.datastore) for each in _snapshot_stuns(case)}
                - {""}
            )
        )
        or "the datastore"
    ),
    "snapshot_stuns": lambda case: f"{len(_snapshot_stuns(case))} of {len(case.of('stun'))}",
    "against_spreading": _against_spreading,
    "memory_stuns": lambda case: str(
        sum(each.detail == "snapshot_create_memory" for each in case.of("stun"))
    ),
}
