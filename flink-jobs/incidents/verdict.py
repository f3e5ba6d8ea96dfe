"""What an incident is called: one plain sentence with its numbers, and how sure it is."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime

from incidents.configuration import LONE_STUN_US
from incidents.grouping import Trouble
from incidents.places import Places
from incidents.signals import Signal

_NAMED = 3
"""So many names stand in a sentence; more of them are counted."""


def since(trouble: Trouble) -> str:
    """When it began, for people: `02:10 UTC`."""
    return f"{datetime.fromtimestamp(trouble.began_us / 1e6, UTC):%H:%M} UTC"


def sentence(trouble: Trouble, places: Places, heard: Collection[str]) -> str:
    """The verdict. What stands before its first colon or semicolon serves as a title."""
    parts = [f"Since {since(trouble)}, {_what(trouble, places)}: {_where(trouble)}"]
    parts += _beside(trouble)
    parts.append(_heard(trouble, heard))
    return "; ".join(parts) + "."


def _what(trouble: Trouble, places: Places) -> str:
    if trouble.scope == "vm":
        return _vm(trouble, places)
    if _of(trouble, "slow", "slow_log"):
        return _latency(trouble)
    if _of(trouble, "stun"):
        return _storm(trouble, places)
    if _of(trouble, "path"):
        return _losses(trouble, places)
    return _conflicts(trouble) if _of(trouble, "conflict") else _errors(trouble)


def _latency(trouble: Trouble) -> str:
    slow = _of(trouble, "slow", "slow_log")
    peak_ms = max(each.size for each in slow)
    measure = "DAVG" if _of(trouble, "slow") else "latency by the host's own log"
    where = _count({each.place for each in slow}, "device")
    return f"{measure} up to {peak_ms:,.0f} ms on {where} from {_hosts(slow)}"


def _storm(trouble: Trouble, places: Places) -> str:
    stuns = _of(trouble, "stun")
    vms = {each.vm for each in stuns}
    on = _names({places.datastore_name(each.datastore) for each in stuns} - {""})
    usual = " as usual at this hour" if trouble.is_noted else ", outside the usual hours,"
    return (
        f"{_count(vms, 'VM')} on {on or 'a datastore'} stunned {len(stuns)} times{usual}"
        f" by {_causes(stuns)}, worst {_seconds(stuns)}"
    )


def _errors(trouble: Trouble) -> str:
    if queues := _of(trouble, "queue"):
        return f"KAVG up to {max(each.size for each in queues):,.0f} ms on {_hosts(queues)}"
    errors = _of(trouble, "scsi")
    count = sum(int(each.size) for each in errors)
    return f"{count:,} failed commands on {_count({each.place for each in errors}, 'device')}"


def _losses(trouble: Trouble, places: Places) -> str:
    lost = _of(trouble, "path")
    kinds = _names({each.detail.replace("_", " ") for each in lost})
    things = {each.device or places.datastore_name(each.datastore) for each in lost} - {""}
    return f"{kinds} on {_names(things) or 'storage'} from {_hosts(lost)}"


def _conflicts(trouble: Trouble) -> str:
    conflicts = _of(trouble, "conflict")
    outcome = "failed" if any(each.detail == "failed" for each in conflicts) else "recovered"
    device = _names({each.device for each in conflicts} - {""}) or "a LUN that no line names"
    stuck = ", the reservation is stuck" if any(each.is_stuck for each in conflicts) else ""
    return f"reservation conflicts {outcome} on {device} from {_hosts(conflicts)}{stuck}"


def _vm(trouble: Trouble, places: Places) -> str:
    signal = trouble.founding[0]
    place = places.datastore_name(signal.datastore)
    name = f"{signal.vm} on {place}" if place else signal.vm
    if signal.kind == "consolidation":
        how = "does not converge" if signal.detail == "not_converging" else "failed"
        return f"the consolidation of {name} {how}"
    return f"{name} stood still for {_seconds(_of(trouble, 'stun'))} by {signal.detail}"


_WHERE = {
    "array": "the array, not one LUN and not one host",
    "fabric": "the fabric, for devices of several arrays are slow at once",
    "array_or_fabric": "array or fabric, not one LUN and not one host",
    "host": "this host alone, its adapter, cable or port",
    "vm": "this VM alone",
}


def _where(trouble: Trouble) -> str:
    if trouble.scope in _WHERE:
        return _WHERE[trouble.scope]
    if trouble.is_noted:
        return "its backup window"
    if trouble.is_slow:
        return "this LUN alone"
    if _of(trouble, "stun"):
        return "the load of snapshots on one datastore, no device of it is known to be slow"
    return "one device"


def _beside(trouble: Trouble) -> Iterator[str]:
    """What else belongs to it."""
    signals = (*trouble.signals, *trouble.evidence)
    slow = _of(trouble, "slow", "slow_log")
    stuns = [each for each in signals if each.kind == "stun"]
    if stuns and slow:
        vms = {each.vm for each in stuns}
        usual = sum(each.is_usual for each in stuns)
        note = f" ({usual} of the stuns as usual at this hour)" if usual else ""
        yield f"{_count(vms, 'VM')} stunned, worst {_seconds(stuns)}{note}"
    conflicts = [each for each in signals if each.kind == "conflict"]
    if conflicts and slow:
        failed = sum(each.detail == "failed" for each in conflicts)
        stuck = any(each.is_stuck for each in conflicts)
        outcome = f"{failed} of {len(conflicts)} reservation conflicts failed"
        yield outcome + (", one is stuck" if stuck else "") if failed else "reservations recover"
    losses = {each.detail.replace("_", " ") for each in signals if each.kind == "path"}
    if losses and slow:
        yield f"with {_names(losses)}"
    if any(each.kind == "unmap" for each in signals):
        yield "an UNMAP run went on at that time"


def _heard(trouble: Trouble, heard: Collection[str]) -> str:
    touched = _touched(trouble)
    total = len(touched | set(heard))
    if total <= len(touched):
        return f"no other host than {'these' if len(touched) > 1 else 'this one'} was heard"
    quiet = total - len(touched)
    return f"{total} hosts were heard, {quiet} of them {'show' if quiet > 1 else 'shows'} nothing"


def missing(trouble: Trouble, places: Places, heard: Collection[str]) -> list[str]:
    """What would make the verdict surer, a sentence each."""
    found = []
    unplaced = sorted(
        {
            each.removeprefix("datastore ")
            for each in trouble.places
            if each.startswith("datastore ")
        }
    )
    if unplaced:
        found.append(f"No inventory says which device carries {_names(unplaced)}.")
    devices = {each for each in trouble.places if each not in places.devices} - set(unplaced)
    unknown = [each for each in devices if each.startswith(("naa.", "eui.", "t10."))]
    if unknown:
        found.append(f"No inventory describes {_names(unknown)}.")
    if not any(each.kind in ("slow", "queue") for each in trouble.signals):
        found.append("No latency was measured on what is affected, or none is high.")
    if len(set(heard) | _touched(trouble)) < 2:
        found.append("No second host was heard that could show whether it is alone.")
    holes = [each for each in trouble.evidence if each.kind == "hole"]
    if holes:
        whose = {each.vm or each.host for each in holes}
        found.append(f"The log of {_names(whose)} has holes: lines were throttled or lost.")
    return found


def confidence(trouble: Trouble, missing_sentences: Sequence[str]) -> str:
    """`high`, `medium` or `low`: how much speaks for the scope, less what is missing."""
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


def _touched(trouble: Trouble) -> set[str]:
    """The hosts that show something of it."""
    return {each.host for each in (*trouble.signals, *trouble.evidence)} - {""}


def _of(trouble: Trouble, *kinds: str) -> list[Signal]:
    return [each for each in trouble.signals if each.kind in kinds]


def _hosts(signals: Sequence[Signal]) -> str:
    names = {each.host for each in signals} - {""}
    return _names(names) if len(names) == 1 else _count(names, "host")


def _count(names: Collection[str], what: str) -> str:
    if len(names) == 1 and what != "VM":
        return next(iter(names)).removeprefix("datastore ")
    return f"{len(names)} {what}{'' if len(names) == 1 else 's'}"


def _names(names: Collection[str]) -> str:
    shown = sorted(names)[:_NAMED]
    rest = len(names) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


def _causes(stuns: Sequence[Signal]) -> str:
    return " and ".join(sorted({each.detail for each in stuns}))


def _seconds(stuns: Sequence[Signal]) -> str:
    worst_s = max(each.size for each in stuns) / 1e6
    return f"{worst_s:.0f} s" if worst_s >= 100 else f"{worst_s:.1f} s"
