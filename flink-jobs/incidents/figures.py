"""The names and numbers of an incident, used for the columns of its row and for its texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple

from stunwatch.incidents.grouping import PATH, Trouble, is_device
from stunwatch.incidents.signals import Signal
from stunwatch.incidents.topology import Topology

_METRICS = ("davg", "gavg", "kavg")
"""In this order: of an incident with several metrics, the first one is shown."""

LATENCY = frozenset({"slow", "slow_log", "queue"})
"""Kinds of signals whose size is a latency."""


class Peak(NamedTuple):
    """The highest latency of an incident."""

    ms: float
    metric: str
    """`davg`, `gavg` or `kavg`."""
    source: str
    """`esxtop`, `vmkernel`, `vcenter` or `storage_rm`."""


@dataclass(frozen=True)
class Figures:
    """The columns of an incident that its verdict names."""

    hosts: Sequence[str]
    devices: Sequence[str]
    paths: Sequence[str]
    datastores: Sequence[str]
    vms: Sequence[str]
    reporting_hosts: int
    """Number of hosts that sent logs in the hour before, including those of the incident."""
    stun_count: int
    worst_stun_us: int
    """0 without stuns."""
    conflict_count: int
    failed_command_count: int
    peak: Peak | None

    @property
    def peak_davg_ms(self) -> float | None:
        """The peak, if it is a DAVG."""
        return self.peak.ms if self.peak and self.peak.metric == "davg" else None


def figures(trouble: Trouble, topology: Topology, seen: AbstractSet[str]) -> Figures:
    """The figures of all signals of an incident. `seen`: the hosts that sent logs before it."""
    signals = (*trouble.signals, *trouble.evidence)
    stuns = [each for each in signals if each.kind == "stun"]
    hosts = _names(each.host for each in signals)
    return Figures(
        hosts=hosts,
        devices=_names(
            name for each in signals for name in (each.device, each.place) if is_device(name)
        ),
        paths=_names(
            name for each in signals for name in (each.path, each.place.partition(PATH)[2])
        ),
        datastores=_names(_datastores(signals, topology)),
        vms=_names(each.vm for each in signals),
        reporting_hosts=len(seen) + sum(host not in seen for host in hosts),
        stun_count=len(stuns),
        worst_stun_us=int(max((each.size for each in stuns), default=0)),
        conflict_count=sum(each.kind == "conflict" for each in signals),
        failed_command_count=sum(int(each.size) for each in signals if each.kind == "scsi"),
        peak=peak_of(signals),
    )


def peak_of(signals: Iterable[Signal]) -> Peak | None:
    """The highest DAVG, from any source; without one the highest GAVG, else KAVG."""
    peaks = [Peak(each.size, each.metric, each.origin) for each in signals if each.kind in LATENCY]
    first = min((_METRICS.index(each.metric) for each in peaks), default=0)
    return max((each for each in peaks if each.metric == _METRICS[first]), default=None)


def _datastores(signals: Sequence[Signal], topology: Topology) -> Iterable[str]:
    yield from (topology.datastore_name(each.datastore) for each in signals)
    for device in {each.place for each in signals if is_device(each.place)}:
        yield from topology.datastores_on(device)


def _names(names: Iterable[str]) -> list[str]:
    return sorted(set(names) - {""})
