"""Hosts by the times at which they were seen; bounded, because lines may name any host and time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from stunwatch.incidents.configuration import MINUTE_US, MOST_HOSTS

STRETCH_US = 10 * MINUTE_US
"""The resolution of times: ten minutes."""

_STRETCHES = 512
"""The number of stretches kept per host: three and a half days."""


@dataclass
class HostsSeen:
    """The stretches of ten minutes in which each host was seen.

    At most `most` hosts are kept; the one added longest ago is dropped first.
    """

    most: int = MOST_HOSTS
    evicted: int = 0
    """Number of hosts dropped because of the limit."""
    hosts: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By host: its newest stretch since 1970, and a bit mask: bit n is n stretches earlier."""

    def add(self, host: str, at_us: int) -> None:
        """Add a time at which a host was seen."""
        stretch = at_us // STRETCH_US
        newest, bits = self.hosts.pop(host, (stretch, 1))
        if stretch > newest:
            bits = bits << min(stretch - newest, _STRETCHES) & ((1 << _STRETCHES) - 1)
            newest = stretch
        if newest - stretch < _STRETCHES:
            bits |= 1 << (newest - stretch)
        self.hosts[host] = newest, bits
        if len(self.hosts) > self.most:
            del self.hosts[next(iter(self.hosts))]
            self.evicted += 1

    def between(self, first_us: int, last_us: int) -> Iterator[str]:
        """The hosts seen between two times, both stretches included."""
        first, last = first_us // STRETCH_US, last_us // STRETCH_US
        for host, seen in self.hosts.items():
            if _is_between(seen, first, last):
                yield host

    def is_news(self, host: str, at_us: int, first_us: int, last_us: int) -> bool:
        """True if a host seen at this time was not yet known as seen between two times."""
        first, last = first_us // STRETCH_US, last_us // STRETCH_US
        if not first <= at_us // STRETCH_US <= last:
            return False
        return host not in self.hosts or not _is_between(self.hosts[host], first, last)

    def forget_before(self, at_us: int) -> None:
        """Drop hosts that were last seen before a time."""
        first = at_us // STRETCH_US
        self.hosts = {host: seen for host, seen in self.hosts.items() if seen[0] >= first}

    def fuller_names(self) -> dict[str, str]:
        """The full name (`esx1.lab.example`) of a first label (`esx1`), if exactly one has it."""
        fuller: dict[str, str] = {}
        for host in self.hosts:
            label, point, _ = host.partition(".")
            if point:
                fuller[label] = "" if label in fuller else host
        return {label: host for label, host in fuller.items() if host}


def _is_between(seen: tuple[int, int], first: int, last: int) -> bool:
    newest, bits = seen
    skipped = max(0, newest - last)
    width = newest - first - skipped + 1
    return width > 0 and bool(bits >> skipped & ((1 << width) - 1))
