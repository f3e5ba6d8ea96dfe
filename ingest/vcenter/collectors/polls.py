"""Schedules when VM folders are polled through a vCenter, and limits the rate of requests.

A poll reads what was appended to one VM's log.
"""

from __future__ import annotations

import heapq
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from stunwatch.ingest.vcenter.fleet import Machine
from stunwatch.ingest.vcenter.pace import Buckets, Rate
from stunwatch.ingest.vcenter.session import FileGoneError, FilePlace, Part, Session, StoppedError
from stunwatch.ingest.vcenter.vmlogs import LOG

# vCenter and hosts write links like: href="/folder/app01/vmware%2d3.log?dcPath=lab&amp;dsName=san"
_ROTATED: Final = re.compile(r"vmware(?:-|%2[dD])(\d{1,9})\.log")


BURST_S: Final = 2.0
"""After a pause, the requests of this many seconds may be sent at once."""


@dataclass(frozen=True)
class Limits:
    """Rate limits for requests to a vCenter."""

    host_requests_per_second: float = 5.0
    """For the files of all VMs on one host."""
    datastore_requests_per_second: float = 20.0
    sweep_s: float = 300.0
    """Every log is polled this often, even if its VM did not change."""


class Paced:
    """Delays every request until the limits of its host and datastore allow it."""

    def __init__(self, limits: Limits, stop: threading.Event) -> None:
        self._hosts = Buckets(_rate(limits.host_requests_per_second))
        self._datastores = Buckets(_rate(limits.datastore_requests_per_second))
        self._stop = stop

    def is_free(self, machine: Machine, requests: int) -> bool:
        """Return True if this many requests may be sent one after the other without waiting."""
        return not (
            self._hosts.wait_seconds(machine.host, requests)
            or self._datastores.wait_seconds(machine.share, requests)
        )

    def reserve(self, machine: Machine) -> float:
        """Count a request, and return how many seconds to wait before sending it."""
        return max(self._hosts.reserve(machine.host), self._datastores.reserve(machine.share))

    def wait(self, seconds: float) -> None:
        """Wait. Raises StoppedError if the collector is stopped meanwhile."""
        if self._stop.wait(seconds):
            raise StoppedError


class DatastoreFolder:
    """A VM's folder, read through the vCenter at a limited rate."""

    def __init__(
        self,
        session: Session,
        machine: Machine,
        pace: Paced,
        wait_s: float,
        unproved: dict[int, Part],
    ) -> None:
        """`wait_s`: the wait before the first request, which is reserved already.

        `unproved`: data of vmware.log, by offset, that the last poll read before it failed, when
        it was not yet certain that the file was the same. The data is not read again. This poll
        stores its own there.
        """
        self.requests = 0
        self._unproved = unproved
        self._session = session
        self._machine = machine
        self._pace = pace
        self._wait_s = wait_s

    def read(self, name: str, offset: int, most: int) -> Part | None:
        if self.requests == 0 and name == LOG and offset in self._unproved:
            return self._unproved[offset]
        part = self._read(name, offset, most)
        self._unproved.clear()
        if name == LOG and part is not None and part.data:
            self._unproved[offset] = part
        return part

    def _read(self, name: str, offset: int, most: int) -> Part | None:
        self._wait()
        try:
            return self._session.read_file(self._place(name), offset, most)
        except FileGoneError:
            return None

    def numbers(self) -> list[int]:
        self._wait()
        self._unproved.clear()
        try:
            page = self._session.list_folder(self._place(""))
        except FileGoneError:
            return []
        return [int(number) for number in _ROTATED.findall(page)]

    def _wait(self) -> None:
        if self.requests:
            self._wait_s = self._pace.reserve(self._machine)
        self.requests += 1
        self._pace.wait(self._wait_s)

    def _place(self, name: str) -> FilePlace:
        machine = self._machine
        return FilePlace(machine.datacenter, machine.datastore, f"{machine.log_folder}/{name}")


class Calendar:
    """Due times of polls, by key. If a key has several, the earliest counts."""

    def __init__(self) -> None:
        self._dates: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def put(self, key: str, due: float) -> None:
        if due < self._dates.get(key, float("inf")):
            self._dates[key] = due
            heapq.heappush(self._heap, (due, key))

    def take_due(self, now: float) -> Iterator[tuple[float, str]]:
        """Yield the keys that are due, with their due times."""
        while self._heap and self._heap[0][0] <= now:
            due, key = heapq.heappop(self._heap)
            if self._dates.get(key) == due:
                del self._dates[key]
                yield due, key


class WaitingRoom:
    """Keys that are due and wait for the limits of host and datastore. Hosts take turns."""

    def __init__(self) -> None:
        self._queues: dict[str, deque[tuple[float, str]]] = {}

    def put(self, host: str, due: float, key: str) -> None:
        self._queues.setdefault(host, deque()).append((due, key))

    def take(self, may_go: Callable[[str], bool]) -> Iterator[str]:
        """Yield one key per host in turn, as long as `may_go(key)` returns True for some key."""
        has_gone = True
        while has_gone:
            has_gone = False
            for host, queue in list(self._queues.items()):
                # Move the host to the end, so that the next host is first the next time.
                del self._queues[host]
                if may_go(queue[0][1]):
                    has_gone = True
                    yield queue.popleft()[1]
                else:
                    # Another VM of this host may be on a datastore that is available.
                    queue.rotate(-1)
                if queue:
                    self._queues[host] = queue

    def lag_s(self, now: float) -> float:
        """Return how long the oldest entry has been waiting, in seconds."""
        return max((now - due for queue in self._queues.values() for due, _ in queue), default=0.0)


def _rate(per_second: float) -> Rate:
    return Rate(per_second, max(1.0, per_second * BURST_S))
