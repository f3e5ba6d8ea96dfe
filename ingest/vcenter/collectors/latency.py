"""Queries counters in rounds, and ships the samples to Kafka."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from xml.etree import ElementTree

from pyVmomi import vim, vmodl

from stunwatch.ingest.records import owner_key, to_json
from stunwatch.ingest.times import utc_text
from stunwatch.ingest.vcenter.latency import (
    TOPIC,
    Answer,
    Counters,
    Entity,
    Question,
    Rounds,
    answers_in,
    counters_of,
    query,
    samples,
)
from stunwatch.ingest.vcenter.names import folder_in, host_name
from stunwatch.ingest.vcenter.positions import TOPIC as POSITIONS
from stunwatch.ingest.vcenter.positions import Positions
from stunwatch.ingest.vcenter.properties import read_all
from stunwatch.ingest.vcenter.session import Session
from stunwatch.shipping import Batch, Shipper

EVERY: Final = timedelta(seconds=60)
"""Time between the starts of two rounds. Each round reads three steps."""

CALLS_AT_ONCE: Final = 4
"""Parallel calls to a vCenter."""

DEALT_S: Final = 2.0
"""If no share is assigned for this long, the assignment is complete. The positions of all objects
in the shares are then known."""

LOOKS_FOR_OBJECTS: Final = timedelta(minutes=5)
"""How often the lists of hosts and VMs are read. Until then, samples name a moved VM's old host."""

_HOST = ("name", "runtime.connectionState", "config.network.dnsConfig")
_VM = ("runtime.host", "runtime.powerState", "config.files.vmPathName")


@dataclass(frozen=True)
class Round:
    """The result of one round."""

    until: datetime
    asked: int
    """Number of objects."""
    samples: int
    is_behind: bool
    """There are more steps to query at once."""


class Collector:
    """Queries a vCenter's counters, round by round."""

    def __init__(
        self,
        session: Session,
        send: Callable[[str, Batch], None],
        rounds: Rounds,
        is_mine: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """`send` ships messages to a topic. `is_mine` selects the objects to query, by id."""
        self.entities: list[Entity] = []
        self.rounds = rounds
        self._session = session
        self._send = send
        self._is_mine = is_mine
        self._counters: Counters = {}
        self._looked_at: datetime | None = None

    def round(self) -> Round:
        """Query all objects for steps that are available and not read. Raises VCenterError."""
        now = self._session.now()
        self._look(now)
        mine = [each for each in self.entities if self._is_mine(each.moid)]
        until = self.rounds.next_until(now)
        if not mine:
            return Round(until, 0, 0, is_behind=False)
        shipped = 0
        for question, answer in self._answers(self.rounds.questions(mine, until, now)):
            shipped += self._ship(question, answer)
            self.rounds.take(answer, until)
        self.rounds.until = until
        return Round(until, len(mine), shipped, is_behind=self.rounds.next_until(now) > until)

    def _look(self, now: datetime) -> None:
        if self._looked_at is not None and now - self._looked_at < LOOKS_FOR_OBJECTS:
            return
        self._counters = counters_of(self._session.content.perfManager.perfCounter)
        self.entities = list(entities(self._session))
        self._looked_at = now

    def _answers(self, batches: Iterable[list[Question]]) -> Iterator[tuple[Question, Answer]]:
        """Yield answers in the order of the questions. A few calls run ahead."""
        with ThreadPoolExecutor(CALLS_AT_ONCE) as pool:
            waiting: deque[Future[list[tuple[Question, Answer]]]] = deque()
            for batch in batches:
                waiting.append(pool.submit(self._ask, batch))
                if len(waiting) > CALLS_AT_ONCE:
                    yield from waiting.popleft().result()
            for each in waiting:
                yield from each.result()

    def _ask(self, batch: list[Question]) -> list[tuple[Question, Answer]]:
        """Send one call. If it fails for one object, the others are queried without it.

        The object may be deleted, or its name may contain characters that XML does not allow.
        """
        asked = {each.entity.moid: each for each in batch}
        manager = self._session.undecoded(self._session.content.perfManager)
        try:
            soap = manager.QueryPerf([query(each, self._counters) for each in batch])
            answers = list(answers_in(soap))
        except (vmodl.MethodFault, ElementTree.ParseError):
            if len(batch) == 1:
                return []
            half = len(batch) // 2
            return self._ask(batch[:half]) + self._ask(batch[half:])
        return [(asked[each.moid], each) for each in answers if each.moid in asked]

    def _ship(self, question: Question, answer: Answer) -> int:
        received_at = utc_text(datetime.now(UTC))
        key = owner_key(question.entity.host).encode()
        batch: Batch = [
            {"key": key, "value": to_json(each)}
            for each in samples(answer, question, self._counters, received_at)
        ]
        if batch:
            self._send(TOPIC, batch)
        return len(batch)


def entities(session: Session) -> Iterator[Entity]:
    """Yield the hosts connected to a vCenter, and the VMs that run on them."""
    names: dict[str, str] = {}
    for moid, host in read_all(session, vim.HostSystem, _HOST):
        if host.get("runtime.connectionState") == "connected":
            own = host.get("config.network.dnsConfig")
            names[moid] = host_name(host["name"], own and own.hostName, own and own.domainName)
            yield Entity(moid, "HostSystem", names[moid])
    for moid, machine in read_all(session, vim.VirtualMachine, _VM):
        if machine.get("runtime.powerState") != "poweredOn" or "runtime.host" not in machine:
            continue
        runs_on = names.get(machine["runtime.host"]._moId)
        path = machine.get("config.files.vmPathName")
        if runs_on and path:
            yield Entity(moid, "VirtualMachine", runs_on, vm=folder_in(path))


def run(
    session: Session,
    positions: Positions,
    shipper: Shipper,
    stop: threading.Event,
    say: Callable[[str], None],
    *,
    is_once: bool = False,
) -> None:
    """Run rounds for this collector's objects; `is_once`: stop after catching up.

    Samples are acknowledged before their position is written: after a crash some are sent twice,
    and none is missing. Raises VCenterError or a subclass.
    """
    collector = Collector(session, shipper.send, Rounds(), positions.is_mine)
    shares: frozenset[int] = frozenset()
    while not stop.is_set():
        positions.poll(0.1)
        if not shares or shares != positions.shares:
            shares = _dealt(positions, stop)
            continue
        taken = collector.rounds.taken
        for moid, value in positions.all().items():
            at = datetime.fromisoformat(value.decode())
            taken[moid] = max(at, taken.get(moid, at))
        before = dict(taken)
        done = collector.round()
        shipper.flush()
        shipper.send(
            POSITIONS,
            [
                positions.message(moid, moid, utc_text(at).encode())
                for moid, at in taken.items()
                if before.get(moid) != at and positions.is_mine(moid)
            ],
        )
        say(f"{done.samples:,} samples of {done.asked:,} objects up to {done.until:%H:%M:%S}")
        if done.is_behind:
            continue
        if is_once:
            break
        rest = datetime.now(UTC) + EVERY
        # Do not wait after a new assignment: its objects have waited long enough.
        while not stop.is_set() and datetime.now(UTC) < rest and shares == positions.shares:
            positions.poll(1.0)
    shipper.flush()


def _dealt(positions: Positions, stop: threading.Event) -> frozenset[int]:
    """Wait for the assignment of shares to complete; return this collector's shares."""
    shares: frozenset[int] = frozenset()
    while not stop.is_set() and (not shares or shares != positions.shares):
        shares = positions.shares
        positions.poll(DEALT_S)
    return shares
