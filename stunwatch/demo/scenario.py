"""The live scenario: the lines that the demo sends, their times, and the expected results."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from stunwatch.ingest import yaml_file

FILE = Path(__file__).with_name("live.yaml")

_STUN = re.compile(r"Checkpoint_Unstun: vm stopped for (\d{1,19}) us")


@dataclass(frozen=True)
class ScenarioLine:
    """One line of the scenario."""

    at_s: float
    """Seconds after the start."""
    vm: str
    """The VM whose vmware.log gets the line; empty for a host's line, which is sent by syslog."""
    text: str
    """The line, with `{at}` in place of the time."""

    @property
    def stun_us(self) -> int | None:
        """Return the microseconds of the stun that this line ends; None if it ends none."""
        found = _STUN.search(self.text)
        return int(found[1]) if found else None

    def written(self, at: datetime) -> str:
        """Return the line with this time."""
        return self.text.replace("{at}", stamp(at))


@dataclass(frozen=True)
class Scenario:
    """The live scenario. All names in it start with `demo-`."""

    hosts: tuple[str, ...]
    datastore: str
    lines: tuple[ScenarioLine, ...]

    @property
    def vms(self) -> tuple[str, ...]:
        """Return the VMs in the order of their first line."""
        return tuple(dict.fromkeys(each.vm for each in self.lines if each.vm))

    @property
    def worst_vm(self) -> str:
        """Return the VM with the longest stun."""
        return max(self.lines, key=lambda each: each.stun_us or 0).vm

    @property
    def seconds(self) -> float:
        """Return the duration from the first line to the last."""
        return self.lines[-1].at_s


def stamp(now: datetime) -> str:
    """Format a time like ESXi 8: UTC with milliseconds, `2026-11-23T08:09:10.123Z`."""
    return f"{now.astimezone(UTC):%Y-%m-%dT%H:%M:%S}.{now.microsecond // 1000:03}Z"


def made_up_names() -> set[str]:
    """Return the names of the scenario's hosts and VMs."""
    return {*load().hosts, *load().vms}


@cache
def load() -> Scenario:
    """Return the bundled scenario."""
    read = yaml_file.read(FILE)
    lines = (
        ScenarioLine(float(each["at_s"]), each.get("vm", ""), each["line"])
        for each in read["lines"]
    )
    return Scenario(tuple(read["hosts"]), read["datastore"], tuple(lines))
