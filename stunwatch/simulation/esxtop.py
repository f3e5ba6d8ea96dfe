"""Writes esxtop's batch output: one CSV per host, with one row per step."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stunwatch.simulation.fleet import SECOND_US, Fleet, Host
from stunwatch.simulation.truth import Latency, Quiet, Truth, text
from stunwatch.simulation.virtual_machines import Trouble

DAVG_ABOVE_MS, KAVG_ABOVE_MS, GAVG_ABOVE_MS = 25.0, 2.0, 25.0
"""The thresholds from which the first seeds (sources) call a device slow."""

_ENOUGH_COMMANDS, _SLOW_COMMANDS = 20, 12
_LAST_MINUTES_US = 120 * SECOND_US
"""Nothing is slow at the end of a file, where it is unknown how long it would have lasted."""

_SUSTAINED_US = 60 * SECOND_US
_SUSTAINED_SHARE = 0.8
"""Sustained: for at least 60 s, at least this share of the samples is above the threshold."""

_MACHINE_COLUMNS = (
    "Memory\\Memory Overcommit (1 Minute Avg)",
    "Physical Cpu Load\\Cpu Load (1 Minute Avg)",
    "Physical Cpu(_Total)\\% Processor Time",
)
_COUNTERS = (
    "Active Commands",
    "Queued Commands",
    "Commands/sec",
    "Reads/sec",
    "Writes/sec",
    "MBytes Read/sec",
    "MBytes Written/sec",
    "Average Driver MilliSec/Command",
    "Average Kernel MilliSec/Command",
    "Average Guest MilliSec/Command",
    "Average Queue MilliSec/Command",
    "Failed Reserves/sec",
    "Aborts/sec",
    "Resets/sec",
)


@dataclass(frozen=True, slots=True)
class Slow:
    """A period in which a device is slow: the numbers of its first step and of the one after it."""

    first: int
    end: int
    metric: str
    level_ms: float
    is_rare: bool = False
    """There is hardly any command, so the average is that of one command."""
    holes: float = 0.0
    """The share of fast samples during the period."""
    least_commands: float = 0.0
    """Per second."""


def is_weighty(value_ms: float, above_ms: float, commands: float) -> bool:
    """Return True if the commands above the threshold are evidence; a single slow one is not.

    Either there are enough per second, or their total excess is many times the threshold
    (flink-jobs/detectors/latency/README.md).
    """
    return commands >= _ENOUGH_COMMANDS or commands * (value_ms / above_ms - 1) >= _SLOW_COMMANDS


class _Sampled(NamedTuple):
    """One sample during a slow period."""

    time_us: int
    value_ms: float
    is_above: bool
    is_slow: bool
    """False for a fast sample during the period, and for one with too few commands."""


def _is_sustained(samples: Sequence[_Sampled]) -> bool:
    """Return True if some part, from one slow sample to another, is long and slow enough."""
    for first, begun in enumerate(samples):
        slow = 0
        for count, each in enumerate(samples[first:], 1):
            slow += each.is_slow
            is_long = each.time_us - begun.time_us >= _SUSTAINED_US
            if begun.is_slow and each.is_slow and is_long and slow >= count * _SUSTAINED_SHARE:
                return True
    return False


class Sampler:
    """The esxtop of one host."""

    restarts = 0.0
    """The probability that it was restarted with the same output file."""

    def __init__(self, fleet: Fleet, host: Host, devices: Sequence[str]) -> None:
        self.fleet = fleet
        self.host = host
        self.devices = devices
        self._rng: random.Random = fleet.rng("esxtop", host.number)
        self._times = list(self._moments())
        self._slow: dict[str, list[Slow]] = {device: [] for device in self.devices}

    def _moments(self) -> Iterator[int]:
        at, step_us = self.fleet.started_us, self.host.esxtop_step_s * SECOND_US
        while at < self.fleet.ended_us:
            yield at
            # Occasionally a step takes a second longer.
            at += step_us + (SECOND_US if self._rng.random() < 0.04 else 0)

    def spikes(self) -> None:
        """Add spikes: slow samples that together last less than a minute and are no incident."""
        rng, steps = self._rng, len(self._times)
        for device in self.devices:
            for _ in range(max(1, steps * self.host.esxtop_step_s // 7_200)):
                first = rng.randrange(1, max(2, steps - 4))
                # One sample, or a few that together last less than a minute.
                most = max(1, min(3, 40 // self.host.esxtop_step_s))
                lasting = 1 if rng.random() < 0.85 else most
                is_rare = rng.random() < 0.5
                spike = Slow(first, first + lasting, "davg", rng.uniform(60, 700), is_rare)
                self._add(device, spike)

    def slow(
        self, device: str, began_us: int, ended_us: int, metric: str, level_ms: float
    ) -> int | None:
        """Make a busy device slow from one time to another; return the first slow sample's time.

        None if there is none. Spikes close to the period are removed.
        """
        inside = self._inside(began_us, ended_us)
        if not inside:
            return None
        slow = Slow(inside[0], inside[-1] + 1, metric, level_ms, least_commands=40.0)
        apart = [each for each in self._slow[device] if not self._touches(slow, each)]
        self._slow[device] = [*apart, slow]
        return self._times[slow.first]

    def _inside(self, began_us: int, ended_us: int) -> list[int]:
        return [number for number, at in enumerate(self._times) if began_us <= at < ended_us]

    def _is_long(self, steps: Sequence[int]) -> bool:
        """Return True if the period is clearly long enough."""
        return len(steps) * self.host.esxtop_step_s >= 120

    def _add(self, device: str, slow: Slow) -> None:
        """Add the period, unless it is too close to another one or to the end."""
        last = self._times[min(slow.end, len(self._times)) - 1]
        is_last = last > self.fleet.ended_us - _LAST_MINUTES_US
        if not is_last and not any(self._touches(slow, each) for each in self._slow[device]):
            self._slow[device].append(slow)

    def _touches(self, one: Slow, other: Slow) -> bool:
        margin = 400 // self.host.esxtop_step_s
        return one.end + margin >= other.first and other.end + margin >= one.first

    def rows(self, truth: Truth) -> Iterator[tuple[int, str]]:
        """Yield (time, line), and add the slow periods to the truth."""
        header = self._header()
        again = len(self._times) // 2 if self._rng.random() < self.restarts else 0
        _, zone_minutes = self.host.esxtop_zone
        at_work = {device: self._slow_by_step(device) for device in self.devices}
        told: dict[tuple[str, int], list[_Sampled]] = {}
        yield self.fleet.started_us, header
        for number, at in enumerate(self._times):
            if number and number == again:
                yield at, header
            stamp = time.strftime(
                "%m/%d/%Y %H:%M:%S", time.gmtime(at // SECOND_US + zone_minutes * 60)
            )
            values = [stamp, "0.12", f"{self._rng.random():.2f}", "31.40"]
            for device in self.devices:
                slow = at_work[device].get(number)
                values += self._sample(number, slow, device, told)
            truth.samples += len(self.devices)
            yield at, '"' + '","'.join(values) + '"'
        for (device, first), samples in told.items():
            slow = at_work[device][first]
            if device == self.host.boot_device:
                what = "a moment in which the boot device was slow"
                truth.quiet.append(Quiet(self.host.name, device, what, len(samples)))
            elif any(each.is_slow for each in samples):
                truth.latency.append(self._fact(device, slow, samples))

    def _slow_by_step(self, device: str) -> dict[int, Slow]:
        return {
            number: slow for slow in self._slow[device] for number in range(slow.first, slow.end)
        }

    def _fact(self, device: str, slow: Slow, samples: list[_Sampled]) -> Latency:
        above = [each for each in samples if each.is_slow]
        return Latency(
            self.host.name,
            device,
            slow.metric,
            "esxtop",
            "sustained" if _is_sustained(samples) else "spike",
            text(above[0].time_us),
            text(above[-1].time_us),
            len(above),
            max(each.value_ms for each in above),
        )

    def _header(self) -> str:
        name, minutes = self.host.esxtop_zone
        prefix = f"\\\\{self.host.name}\\"
        names = [
            f"(PDH-CSV 4.0) ({name})({minutes})",
            *(prefix + each for each in _MACHINE_COLUMNS),
        ]
        names += [
            f"{prefix}Physical Disk SCSI Device({device})\\{counter}"
            for device in self.devices
            for counter in _COUNTERS
        ]
        return '"' + '","'.join(names) + '"'

    def _sample(
        self,
        number: int,
        slow: Slow | None,
        device: str,
        told: dict[tuple[str, int], list[_Sampled]],
    ) -> list[str]:
        """Return the counters of one device at one step."""
        chance = self._rng.random
        davg = 1.0 + 14.0 * chance() * chance()
        kavg = 0.4 * chance() * chance()
        commands = 5.0 + 900.0 * chance() * chance()
        if slow is not None:
            samples = told.setdefault((device, slow.first), [])
            is_edge = number in {slow.first, slow.end - 1}
            is_after_a_hole = bool(samples) and not samples[-1].is_above
            is_above = is_edge or chance() >= slow.holes or is_after_a_hole
            if is_above:
                value = slow.level_ms * (0.75 + 0.5 * chance())
                davg, kavg = (value, kavg) if slow.metric == "davg" else (davg, value)
            commands = 0.2 if slow.is_rare else max(commands * 0.3, slow.least_commands)
            value = round(davg if slow.metric == "davg" else kavg, 2)
            above_ms = DAVG_ABOVE_MS if slow.metric == "davg" else KAVG_ABOVE_MS
            is_slow = is_above and is_weighty(value, above_ms, round(commands, 2))
            samples.append(_Sampled(self._times[number], value, is_above, is_slow))
        reads = commands * 0.6
        busy = commands * (davg + kavg) / 1000
        return [
            f"{min(busy, 64.0):.0f}", f"{max(0.0, busy - 64.0):.0f}", f"{commands:.2f}",
            f"{reads:.2f}", f"{commands - reads:.2f}", f"{reads / 32:.2f}",
            f"{(commands - reads) / 32:.2f}", f"{davg:.2f}", f"{kavg:.2f}", f"{davg + kavg:.2f}",
            f"{kavg * 0.8:.2f}", "0.00", "0.00", "0.00",
        ]  # fmt: skip


class NightSampler(Sampler):
    """The esxtop of one host in a night in which any device may become slow."""

    restarts = 0.2

    def __init__(self, fleet: Fleet, host: Host, troubles: Sequence[Trouble]) -> None:
        super().__init__(fleet, host, [each.device for each in host.datastores][:8])
        self._plan(troubles)
        self.spikes()

    def _plan(self, troubles: Sequence[Trouble]) -> None:
        """Plan slow periods: those of the array, some of single devices, and spikes."""
        rng, steps = self._rng, len(self._times)
        for datastore in self.host.datastores[: len(self.devices)]:
            for trouble in troubles:
                if trouble.array == datastore.array.name:
                    inside = self._inside(trouble.started_us, trouble.ended_us)
                    if self._is_long(inside):
                        self._add(
                            datastore.device,
                            Slow(inside[0], inside[-1] + 1, "davg", rng.uniform(300, 1500)),
                        )
        for _ in range(max(1, steps * self.host.esxtop_step_s // 14_400)):
            # Several LUNs at once, or the queue of one.
            metric = rng.choice(("davg", "davg", "kavg"))
            lasting = max(4, rng.randrange(150, 900) // self.host.esxtop_step_s)
            first = rng.randrange(1, max(2, steps - lasting - 1))
            level_ms = rng.uniform(60, 900) if metric == "davg" else rng.uniform(8, 60)
            holes = rng.choice((0, 0, 0.08))
            slow = Slow(first, first + lasting, metric, level_ms, holes=holes, least_commands=40.0)
            for device in rng.sample(self.devices, min(len(self.devices), rng.choice((1, 2, 3)))):
                if slow.end < steps and self._is_long(range(slow.first, slow.end)):
                    self._add(device, slow)
