"""What esxtop samples in batch mode: one CSV a host, a row a step."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stunwatch.simulation.fleet import SECOND_US, Fleet, Host
from stunwatch.simulation.truth import Latency, Truth, text
from stunwatch.simulation.virtual_machines import Trouble

DAVG_ABOVE_MS, KAVG_ABOVE_MS = 25.0, 2.0
"""From where on the first seeds call a device slow."""

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
    """Steps in which a device is slow: the first and the one after the last."""

    first: int
    end: int
    metric: str
    level_ms: float
    is_rare: bool = False
    """Hardly any command is sent: the average is that of one."""
    holes: float = 0.0
    """The share of fast samples in between."""
    least_commands: float = 0.0
    """A second."""


class Sampler:
    """One host's esxtop."""

    restarts = 0.0
    """How probable it is that it was started again, into the same file."""

    def __init__(self, fleet: Fleet, host: Host, devices: Sequence[str]) -> None:
        self.fleet = fleet
        self.host = host
        self.devices = devices
        self._dice: random.Random = fleet.dice("esxtop", host.number)
        self._times = list(self._moments())
        self._slow: dict[str, list[Slow]] = {device: [] for device in self.devices}

    def _moments(self) -> Iterator[int]:
        at, step_us = self.fleet.started_us, self.host.esxtop_step_s * SECOND_US
        while at < self.fleet.ended_us:
            yield at
            # Now and then a step takes a second longer.
            at += step_us + (SECOND_US if self._dice.random() < 0.04 else 0)

    def spikes(self) -> None:
        """Moments that are no minute together: nobody's trouble."""
        dice, steps = self._dice, len(self._times)
        for device in self.devices:
            for _ in range(max(1, steps * self.host.esxtop_step_s // 7_200)):
                first = dice.randrange(1, max(2, steps - 4))
                # One sample, or a few that are no minute together.
                most = max(1, min(3, 40 // self.host.esxtop_step_s))
                lasting = 1 if dice.random() < 0.85 else most
                is_rare = dice.random() < 0.5
                spike = Slow(first, first + lasting, "davg", dice.uniform(60, 700), is_rare)
                self._add(device, spike)

    def slow(
        self, device: str, began_us: int, ended_us: int, metric: str, level_ms: float
    ) -> int | None:
        """A busy device is slow from one time to another; the first slow sample's time, if any.

        Spikes that come too near to it do not happen.
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
        """Long enough for nobody to doubt it."""
        return len(steps) * self.host.esxtop_step_s >= 120

    def _add(self, device: str, slow: Slow) -> None:
        """Unless it would touch another one."""
        if not any(self._touches(slow, each) for each in self._slow[device]):
            self._slow[device].append(slow)

    def _touches(self, one: Slow, other: Slow) -> bool:
        margin = 400 // self.host.esxtop_step_s
        return one.end + margin >= other.first and other.end + margin >= one.first

    def rows(self, truth: Truth) -> Iterator[tuple[int, str]]:
        """(time, line); what was slow is added to the truth."""
        header = self._header()
        again = len(self._times) // 2 if self._dice.random() < self.restarts else 0
        _, zone_minutes = self.host.esxtop_zone
        at_work = {device: self._slow_by_step(device) for device in self.devices}
        told: dict[tuple[str, int], list[tuple[int, float]]] = {}
        yield self.fleet.started_us, header
        for number, at in enumerate(self._times):
            if number and number == again:
                yield at, header
            stamp = time.strftime(
                "%m/%d/%Y %H:%M:%S", time.gmtime(at // SECOND_US + zone_minutes * 60)
            )
            values = [stamp, "0.12", f"{self._dice.random():.2f}", "31.40"]
            for device in self.devices:
                slow = at_work[device].get(number)
                values += self._sample(number, slow, device, told)
            truth.samples += len(self.devices)
            yield at, '"' + '","'.join(values) + '"'
        for (device, first), samples in told.items():
            slow = at_work[device][first]
            truth.latency.append(self._fact(device, slow, samples))

    def _slow_by_step(self, device: str) -> dict[int, Slow]:
        return {
            number: slow for slow in self._slow[device] for number in range(slow.first, slow.end)
        }

    def _fact(self, device: str, slow: Slow, samples: list[tuple[int, float]]) -> Latency:
        return Latency(
            self.host.name,
            device,
            slow.metric,
            "esxtop",
            text(samples[0][0]),
            text(samples[-1][0]),
            self._is_long(range(slow.first, slow.end)),
            len(samples),
            round(max(value for _, value in samples), 2),
            slow.end - slow.first == 1,
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
        told: dict[tuple[str, int], list[tuple[int, float]]],
    ) -> list[str]:
        """The counters of one device at one step."""
        chance = self._dice.random
        davg = 1.0 + 14.0 * chance() * chance()
        kavg = 0.4 * chance() * chance()
        commands = 5.0 + 900.0 * chance() * chance()
        if slow is not None:
            is_edge = number in {slow.first, slow.end - 1}
            if is_edge or chance() >= slow.holes:
                value = slow.level_ms * (0.75 + 0.5 * chance())
                davg, kavg = (value, kavg) if slow.metric == "davg" else (davg, value)
                told.setdefault((device, slow.first), []).append((self._times[number], value))
            commands = 0.2 if slow.is_rare else max(commands * 0.3, slow.least_commands)
        reads = commands * 0.6
        busy = commands * (davg + kavg) / 1000
        return [
            f"{min(busy, 64.0):.0f}", f"{max(0.0, busy - 64.0):.0f}", f"{commands:.2f}",
            f"{reads:.2f}", f"{commands - reads:.2f}", f"{reads / 32:.2f}",
            f"{(commands - reads) / 32:.2f}", f"{davg:.2f}", f"{kavg:.2f}", f"{davg + kavg:.2f}",
            f"{kavg * 0.8:.2f}", "0.00", "0.00", "0.00",
        ]  # fmt: skip


class NightSampler(Sampler):
    """One host's esxtop in a night in which any device may be slow."""

    restarts = 0.2

    def __init__(self, fleet: Fleet, host: Host, troubles: Sequence[Trouble]) -> None:
        super().__init__(fleet, host, [each.device for each in host.datastores][:8])
        self._plan(troubles)
        self.spikes()

    def _plan(self, troubles: Sequence[Trouble]) -> None:
        """When which device is slow: the array's trouble, some of its own, and spikes."""
        dice, steps = self._dice, len(self._times)
        for datastore in self.host.datastores[: len(self.devices)]:
            for trouble in troubles:
                if trouble.array == datastore.array.name:
                    inside = self._inside(trouble.started_us, trouble.ended_us)
                    if self._is_long(inside):
                        self._add(
                            datastore.device,
                            Slow(inside[0], inside[-1] + 1, "davg", dice.uniform(300, 1500)),
                        )
        for _ in range(max(1, steps * self.host.esxtop_step_s // 14_400)):
            # Several LUNs at once, or the queue of one.
            metric = dice.choice(("davg", "davg", "kavg"))
            lasting = max(4, dice.randrange(150, 900) // self.host.esxtop_step_s)
            first = dice.randrange(1, max(2, steps - lasting - 1))
            level_ms = dice.uniform(60, 900) if metric == "davg" else dice.uniform(8, 60)
            slow = Slow(first, first + lasting, metric, level_ms, holes=dice.choice((0, 0, 0.08)))
            for device in dice.sample(self.devices, min(len(self.devices), dice.choice((1, 2, 3)))):
                if slow.end < steps and self._is_long(range(slow.first, slow.end)):
                    self._add(device, slow)
