"""A VM that moved while no collector ran: no line is lost, in whatever order shares are read.

Everything is in memory: the datastore, the topic of positions, and the collectors (run in steps).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import permutations
from queue import Empty, Queue
from typing import Any, cast

import orjson
import pytest

from stunwatch.ingest.replay.reading import REJECTED
from stunwatch.ingest.vcenter.collectors import vmlogs
from stunwatch.ingest.vcenter.collectors.polls import Limits
from stunwatch.ingest.vcenter.collectors.vmlogs import Collector
from stunwatch.ingest.vcenter.fleet import Machine, Selection
from stunwatch.ingest.vcenter.positions import TOPIC, Positions
from stunwatch.ingest.vcenter.session import FileGoneError, FilePlace, Part, Session
from stunwatch.shipping import Batch, Shipper

OLD, NEW = "lab/san-01", "lab/san-02"
SHARES = {OLD: 0, NEW: 1}
PATIENCE_S = 30


def machine(datastore: str) -> Machine:
    return Machine("vm-1", "app", "esx01", "gold", "lab", datastore, "app", {})


def lines(*numbers: int) -> bytes:
    return b"".join(
        f"2026-11-21T10:00:{number:02}.000Z In(05) vmx - line {number}\n".encode()
        for number in numbers
    )


class MemorySession:
    """The files of all datastores, by `san-01/app/vmware.log`."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def read_file(self, place: FilePlace, offset: int, most: int) -> Part:
        data = self.files.get(f"{place.datastore}/{place.path}")
        if data is None:
            raise FileGoneError("not there")
        return Part(data[offset : offset + most], len(data))

    def list_folder(self, place: FilePlace) -> str:
        folder = f"{place.datastore}/{place.path}"
        names = [name.removeprefix(folder) for name in self.files if name.startswith(folder)]
        return "".join(f'<a href="/folder/app/{name}?dsName=x">' for name in names)


class MemoryPositions:
    """One collector's part of the topic; `topic` is shared by all."""

    def __init__(self, topic: dict[str, tuple[str, bytes]], total: int = len(SHARES)) -> None:
        self.topic = topic
        self.mine: set[str] = set()
        self.before_loss = lambda: None
        self._seen: dict[str, bytes] = {}
        self._total = total

    @property
    def shares(self) -> frozenset[int]:
        return frozenset(SHARES[each] for each in self.mine)

    @property
    def is_whole(self) -> bool:
        return len(self.mine) == self._total

    def is_mine(self, share: str) -> bool:
        return share in self.mine

    def take(self, share: str) -> None:
        """Read a share to its end."""
        self.mine.add(share)
        self._seen |= self._of(share)

    def poll(self, seconds: float) -> dict[str, bytes]:
        written: dict[str, bytes] = {}
        for share in self.mine:
            of_share = self._of(share)
            written |= {k: v for k, v in of_share.items() if self._seen.get(k) != v}
        self._seen |= written
        return written

    def get(self, share: str, key: str) -> bytes | None:
        return self._seen.get(key) if share in self.mine else None

    def all(self) -> dict[str, bytes]:
        return {
            key: self._seen[key]
            for share in self.mine
            for key in self._of(share)
            if key in self._seen
        }

    def message(self, share: str, key: str, value: bytes | None) -> dict[str, Any]:
        return {"share": share, "key": key, "value": value}

    def _of(self, share: str) -> dict[str, bytes]:
        return {key: value for key, (of, value) in self.topic.items() if of == share}


class MemoryShipper:
    """Keeps the lines, and writes positions to the topic in `flush`."""

    def __init__(self, topic: dict[str, tuple[str, bytes]]) -> None:
        self.lines: list[str] = []
        self.reasons: list[str] = []
        self._topic = topic

    def send(self, topic: str, batch: Batch) -> None:
        for each in batch:
            if topic == REJECTED:
                self.reasons.append(orjson.loads(each["value"])["reason"])
            elif topic != TOPIC:
                self.lines.append(orjson.loads(each["value"])["message"])
            elif each["value"] is None:
                self._topic.pop(each["key"], None)
            else:
                self._topic[each["key"]] = each["share"], each["value"]

    def flush(self) -> None:
        """Acknowledge everything at once."""


class Fleet:
    """Returns VMs when a test allows it."""

    next_news: Queue[dict[str, Machine]] = Queue()
    """The queue of the next fleet, which is created in its collector's own thread."""
    is_made = threading.Event()

    def __init__(self, *_: Any, **__: Any) -> None:
        self.machines: dict[str, Machine] = {}
        self.news = Fleet.next_news
        Fleet.is_made.set()

    def wait(self, seconds: float) -> set[str]:
        try:
            self.machines = self.news.get(timeout=0.01)
        except Empty:
            return set()
        return {*self.machines}


class Run:
    """A collector that the test runs step by step."""

    def __init__(self, session: MemorySession, topic: dict[str, tuple[str, bytes]]) -> None:
        self.positions = MemoryPositions(topic)
        self.shipper = MemoryShipper(topic)
        self.stop = threading.Event()
        self.fleet: Queue[dict[str, Machine]] = Queue()
        Fleet.next_news = self.fleet
        Fleet.is_made.clear()
        self.collector = Collector(
            cast(Session, session),
            cast(Positions, self.positions),
            cast(Shipper, self.shipper),
            Selection(),
            Limits(host_requests_per_second=1e6, datastore_requests_per_second=1e6, sweep_s=0.01),
            self.stop,
        )
        assert Fleet.is_made.wait(PATIENCE_S)

    def until_told(self, wanted: set[str]) -> None:
        self.until(
            lambda: {*self.shipper.lines} >= wanted,
            lambda: f"never shipped: {sorted(wanted - {*self.shipper.lines})}",
        )

    def until(self, met: Callable[[], bool], unhealthy_reason: Callable[[], str]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            self.collector.step()
            if met():
                return
            self.stop.wait(0.002)
        raise AssertionError(unhealthy_reason())

    def close(self) -> None:
        self.collector.close()


def told(*numbers: int) -> set[str]:
    return {f"line {number}" for number in numbers}


@pytest.fixture
def session() -> MemorySession:
    return MemorySession()


def left_behind(session: MemorySession) -> dict[str, tuple[str, bytes]]:
    """A collector reads two lines and ends. Then the VM writes, moves, rotates and writes."""
    topic: dict[str, tuple[str, bytes]] = {}
    session.files["san-01/app/vmware.log"] = lines(1, 2)
    first = Run(session, topic)
    first.positions.take(OLD)
    first.positions.take(NEW)
    first.fleet.put({"vm-1": machine("san-01")})
    first.until_told(told(1, 2))
    first.close()
    assert topic
    session.files = {
        "san-02/app/vmware-1.log": lines(1, 2, 3),
        "san-02/app/vmware.log": lines(4, 5),
    }
    return topic


@pytest.mark.parametrize("order", list(permutations(["fleet", OLD, NEW])), ids="-".join)
def test_one_collector_reads_the_rest_of_the_rotated_log(
    session: MemorySession, order: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vmlogs, "Fleet", Fleet)
    run = Run(session, left_behind(session))
    for each in order:
        if each == "fleet":
            run.fleet.put({"vm-1": machine("san-02")})
        else:
            run.positions.take(each)
        for _ in range(20):
            run.collector.step()
            run.stop.wait(0.002)
    run.until_told(told(3, 4, 5))
    run.close()
    assert not told(1, 2) & {*run.shipper.lines}, "read again"


@pytest.mark.parametrize("wait_s", [30.0, 0.0], ids=["in time", "too late"])
def test_a_position_handed_over_late_is_still_used(
    session: MemorySession, wait_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vmlogs, "Fleet", Fleet)
    monkeypatch.setattr(vmlogs, "HANDOVER_S", wait_s)
    topic = left_behind(session)
    newer = Run(session, topic)
    newer.positions.take(NEW)
    newer.fleet.put({"vm-1": machine("san-02")})
    if wait_s:
        for _ in range(30):
            newer.collector.step()
            newer.stop.wait(0.002)
        assert not newer.shipper.lines
    else:
        newer.until(lambda: bool(newer.shipper.lines), lambda: "it waits for ever")
    older = Run(session, topic)
    older.positions.take(OLD)
    older.fleet.put({"vm-1": machine("san-02")})
    older.until(
        lambda: NEW in {share for share, _ in topic.values()}, lambda: "it keeps the position"
    )
    older.close()
    newer.until_told(told(3, 4, 5))
    newer.close()
    # The position for the next start: after the last line of the current file.
    [(share, value)] = topic.values()
    kept = orjson.loads(value)
    assert (share, kept["offset"], kept["rotated"]) == (NEW, len(lines(4, 5)), 1)
