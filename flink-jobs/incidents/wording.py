"""Formats of numbers, names, durations and causes in verdicts and next steps."""

from __future__ import annotations

from collections.abc import Collection

_NAMED = 3
"""How many names a sentence lists; the others are counted."""

_DURING = {
    "snapshot_create": "snapshot creation",
    "snapshot_create_memory": "snapshot creation with memory",
    "snapshot_remove": "snapshot removal",
    "vmotion": "vMotion",
    "storage_vmotion": "Storage vMotion",
    "hot_add": "hot add",
    "suspend_resume": "suspend or resume",
}
"""The operation that a stun's cause names (schemas/stun.v1)."""


def listed(names: Collection[str]) -> str:
    """The first names in alphabetical order, and how many more there are."""
    shown = sorted(names)[:_NAMED]
    rest = len(names) - len(shown)
    return ", ".join(shown) + (f" and {rest:,} more" if rest else "")


def counted(number: int, noun: str) -> str:
    """A number with its noun: `1 stun`, `8,807 stuns`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def part(names: Collection[str], everything: Collection[str], noun: str) -> str:
    """Return the share of all these: the name of one, `3 LUNs` if all are, else `3 of 4 LUNs`."""
    if len(names) == 1:
        return next(iter(names))
    if len(names) == len(everything):
        return counted(len(names), noun)
    return f"{len(names):,} of {counted(len(everything), noun)}"


def milliseconds(latency_ms: float) -> str:
    """A latency: `1,240 ms`; below 10 ms with a decimal."""
    return f"{latency_ms:,.0f} ms" if latency_ms >= 10 else f"{latency_ms:.1f} ms"


def seconds(duration_us: float) -> str:
    """A stun's duration: `12.3 s`; from 100 s on without a decimal."""
    duration_s = duration_us / 1e6
    return f"{duration_s:,.0f} s" if duration_s >= 100 else f"{duration_s:.1f} s"


def cause(causes: Collection[str]) -> str:
    """The operations during which VMs were stunned, from the causes of their stuns."""
    operations = sorted({_DURING[each] for each in causes if each in _DURING})
    if not operations:
        return "cause unknown"
    unknown = ", some of unknown cause" if set(causes) - _DURING.keys() else ""
    return f"during {' and '.join(operations)}{unknown}"
