"""Follows the vmware.logs of a vCenter's VMs: schedules polls and ships the lines.

There are three kinds of threads. One follows the fleet. Several poll the folders of VMs. The thread
that calls `step` assigns polls, ships their lines, and then stores how far each log has been read.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from queue import Empty, Queue, SimpleQueue
from typing import Any, Final

import orjson
from pyVmomi import vmodl

from stunwatch.ingest.times import utc_text
from stunwatch.ingest.vcenter.collectors.polls import (
    Calendar,
    DatastoreFolder,
    Limits,
    Paced,
    WaitingRoom,
)
from stunwatch.ingest.vcenter.fleet import Fleet, Machine, Selection
from stunwatch.ingest.vcenter.pace import wait_seconds
from stunwatch.ingest.vcenter.positions import TOPIC, Positions
from stunwatch.ingest.vcenter.session import Part, Session, StoppedError, VCenterError
from stunwatch.ingest.vcenter.vmlogs import Log, Move, Position, find, poll
from stunwatch.shipping import Batch, Shipper, by_topic

POLLS_AT_ONCE: Final = 16
REQUESTS: Final = 2
"""Requests of a poll that finds new lines. A poll starts only if the limits allow all of them,
because a poll that waits blocks a thread."""
LISTING_REQUESTS: Final = 3
"""Requests of a poll that also lists the folder."""
STIRRED_FOR_S: Final = 120.0
"""How long a log is polled often after its VM changed: a stun is logged when it ends."""
STIRRED_EVERY_S: Final = 5.0
LISTED_EVERY_S: Final = 6 * 3600.0
"""How often a folder is listed. A collector's first poll lists it too."""
HANDOVER_S: Final = 30.0
"""How long to wait for another collector to hand over the position of a VM that moved here."""
FLUSHED_EVERY_S: Final = 1.0
STATUS_EVERY_S: Final = 10.0
FLEET_WAIT_S: Final = 5
CHUNKS_WAITING: Final = 32
"""Maximum number of chunks read but not shipped. While Kafka is away, polls wait."""


@dataclass
class Counts:
    """Counters since the start."""

    polls: int = 0
    requests: int = 0
    lines: int = 0


@dataclass
class Followed:
    """One VM's log in one folder."""

    machine: Machine
    log: Log = field(default_factory=Log)
    """During a poll, only the poll uses it."""
    is_inherited: bool = False
    """It was read in another folder before, and must be found in this one."""
    inherited: bytes = b""
    """The position that was handed over."""
    is_polling: bool = False
    """A poll is running."""
    is_read: bool = False
    """A poll has ended: at the end of the log, or with an unexpected error."""
    failed_polls: int = 0
    """Number of polls in a row that failed by an error other than the vCenter's."""
    unproved: dict[int, Part] = field(default_factory=dict)
    """Data read by a poll that failed, see DatastoreFolder."""
    move: Move | None = None
    listed_at: float = float("-inf")
    stirred_until: float = float("-inf")
    successor: Machine | None = None
    """The VM at its new location; this folder is polled one last time."""

    @property
    def value(self) -> bytes:
        """Return how far the log has been read, in the stored form."""
        return stored(self.log, self.machine, is_handed_over=self.is_inherited)

    def is_to_be_listed(self, now: float) -> bool:
        """Return True if a poll must look for renamed files. True for the first poll of a run."""
        return now >= self.listed_at + LISTED_EVERY_S

    def restore(self, value: bytes) -> None:
        """Continue from a stored position."""
        kept = orjson.loads(value)
        self.log, self.is_inherited = restored(kept), kept["is_handed_over"]
        self.inherited = value if self.is_inherited else b""


@dataclass(frozen=True)
class News:
    """The current fleet, and the ids of the VMs that changed."""

    machines: dict[str, Machine]
    stirred: set[str]


@dataclass(frozen=True)
class Told:
    """Lines that a poll read, and the position after them."""

    followed: Followed
    lines: int
    batches: list[tuple[str, Batch]]
    """By topic, serialised for Kafka. Kept small, since many may wait while Kafka is away."""
    value: bytes


@dataclass(frozen=True)
class Back:
    """The end of a poll; `error` is the exception that ended it, if any."""

    followed: Followed
    requests: int
    error: Exception | None


@dataclass
class Trouble:
    """A datastore that cannot be read."""

    sentence: str
    attempts: int
    until: float
    """Time of the next attempt."""


def stored(log: Log, machine: Machine, *, is_handed_over: bool) -> bytes:
    """Return a log's position in its stored form."""
    position = log.position or Position()
    return orjson.dumps(
        {
            "vm_id": machine.id,
            "share": machine.share,
            "generation": position.generation,
            "offset": position.offset,
            "rotated": position.rotated,
            "event_time": log.event_time,
            "host": log.host,
            "is_handed_over": is_handed_over,
        }
    )


def restored(kept: dict[str, Any]) -> Log:
    """Return the log of a position in its stored form."""
    position = Position(kept["generation"], kept["offset"], kept["rotated"])
    return Log(position, kept["event_time"], kept["host"])


def run(
    selection: Selection,
    limits: Limits,
    session: Session,
    positions: Positions,
    shipper: Shipper,
    stop: threading.Event,
    say: Callable[[str], None],
    *,
    is_once: bool,
) -> None:
    """Follow the logs of the selected VMs; `is_once`: stop when each has been read to its end."""
    say(f"Following the VMs of {session.content.about.fullName}, {session.address}.")
    collector = Collector(session, positions, shipper, selection, limits, stop, say)
    told_at = time.monotonic()
    try:
        while not stop.is_set() and not (is_once and collector.is_done):
            collector.step()
            if time.monotonic() - told_at >= STATUS_EVERY_S:
                told_at = time.monotonic()
                say(collector.status)
        collector.close()
    except BaseException:
        collector.abandon()
        raise
    say(collector.status)


class Collector:
    """Follows the logs in this collector's shares. Call its methods from one thread only."""

    def __init__(
        self,
        session: Session,
        positions: Positions,
        shipper: Shipper,
        selection: Selection,
        limits: Limits,
        stop: threading.Event,
        tell: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        """`tell` shows a message to the user."""
        self.counts = Counts()
        self._session = session
        self._shipper = shipper
        self._selection = selection
        self._limits = limits
        self._stop = stop
        self._tell = tell
        self._pace = Paced(limits, stop)
        self._followed: dict[str, Followed] = {}
        self._calendar = Calendar()
        self._waiting = WaitingRoom()
        self._polls = 0
        """Number of polls that are running."""
        self._troubles: dict[str, Trouble] = {}
        self._machines: dict[str, Machine] = {}
        self._keys: dict[str, str] = {}
        """Keys of the selected VMs, by VM id."""
        self._unwritten: dict[str, tuple[str, bytes | None]] = {}
        """Positions to write, by key: (share, position). None deletes the position."""
        self._handed_over: dict[str, bytes] = {}
        """Positions handed over to shares of other collectors. If such a share is assigned to this
        collector, it may start before it has read the position that it wrote itself."""
        self._flushed_at = time.monotonic()
        self._news: SimpleQueue[News | Exception] = SimpleQueue()
        self._brought: Queue[Told | Back] = Queue(CHUNKS_WAITING)
        self._pool = ThreadPoolExecutor(POLLS_AT_ONCE, thread_name_prefix="poll")
        self._positions = positions
        positions.before_loss = self._flush
        self._shares: frozenset[int] = frozenset()
        threading.Thread(target=self._follow_fleet, name="fleet", daemon=True).start()

    def step(self) -> None:
        """Do the work that is due. If there is none, this takes 0.05 seconds."""
        self._take_positions(self._positions.poll(0.0 if self._brought.qsize() else 0.05))
        while not self._news.empty():
            self._take_news(self._news.get())
        if self._positions.shares != self._shares:
            self._take_shares()
        self._deal_out()
        self._take_brought()
        if time.monotonic() - self._flushed_at >= FLUSHED_EVERY_S:
            self._flush()

    def close(self) -> None:
        """Wait for the polls to end, and ship what they read."""
        self._stop.set()
        while self._polls:
            self._take_brought(wait_s=0.05)
        self._pool.shutdown()
        self._flush()

    def abandon(self) -> None:
        """Wait for the polls to end, and drop their lines: the next collector reads them again."""
        self._stop.set()
        while self._polls:
            self._polls -= isinstance(self._brought.get(), Back)
        self._pool.shutdown()

    @property
    def is_done(self) -> bool:
        """Return True if every log has been polled and read to its end."""
        return (
            self._positions.is_settled
            and bool(self._followed)
            and all(each.is_read and not each.is_polling for each in self._followed.values())
        )

    @property
    def status(self) -> str:
        """Return the status in one line."""
        counts = self.counts
        parts = [
            f"{len(self._followed):,} of {len(self._keys):,} VMs followed",
            f"{counts.lines:,} lines",
            f"{counts.requests:,} requests",
            f"{self._waiting.lag_s(time.monotonic()):.0f} s behind",
        ]
        if self._troubles:
            parts.append(f"{len(self._troubles):,} datastores cannot be read")
        if failed := sum(each.failed_polls > 0 for each in self._followed.values()):
            parts.append(f"{failed:,} logs cannot be followed")
        return ", ".join(parts)

    def _follow_fleet(self) -> None:
        """Runs in its own thread."""
        fleet = Fleet(self._session, with_tags=bool(self._selection.tags))
        failed = 0
        while not self._stop.is_set():
            try:
                stirred = fleet.wait(FLEET_WAIT_S)
            except StoppedError:
                return
            except (VCenterError, vmodl.MethodFault) as error:
                failed += 1
                self._tell(str(error) if isinstance(error, VCenterError) else error.msg)
                self._stop.wait(wait_seconds(failed))
            except Exception as error:
                # `step` raises it, which ends the collector.
                self._news.put(error)
                return
            else:
                failed = 0
                if stirred:
                    self._news.put(News(dict(fleet.machines), stirred))

    def _take_news(self, news: News | Exception) -> None:
        if isinstance(news, Exception):
            raise news
        is_first = not self._machines
        self._machines = news.machines
        for id in news.stirred:
            machine = self._machines.get(id)
            known = self._keys.pop(id, None)
            if machine is not None and self._selection.takes(machine):
                self._keys[id] = machine.key
                self._take_machine(machine, known)
            elif known is not None:
                self._followed.pop(known, None)
        if is_first:
            # Only now is it known which positions belong to VMs that have moved.
            self._take_shares()

    def _take_machine(self, machine: Machine, known: str | None) -> None:
        """Follow a VM, or update it. `known` is the key of its log so far."""
        if known is not None and known != machine.key:
            self._leave(known, machine)
        followed = self._followed.get(machine.key)
        if followed is None:
            has_come = known is not None and known != machine.key
            self._follow(machine, has_come=has_come)
            return
        if followed.machine.host != machine.host:
            followed.move = Move(utc_text(datetime.now(UTC)), followed.machine.host)
        followed.machine = machine
        followed.stirred_until = time.monotonic() + STIRRED_FOR_S
        self._calendar.put(machine.key, time.monotonic())

    def _follow(self, machine: Machine, *, has_come: bool = False) -> None:
        """Continue from the stored position, if the VM is in this collector's shares.

        `has_come`: its log was followed in another folder until now. If there is no position for
        this folder, the VM may have moved. Its position is then in another share, and is handed
        over from there. Only a collector with all shares knows that there is none.
        """
        share = machine.share
        if not self._positions.is_mine(share):
            return
        followed = self._followed[machine.key] = Followed(machine)
        wait_s = HANDOVER_S if has_come or not self._positions.is_whole else 0.0
        value = self._positions.get(share, machine.key) or self._handed_over.pop(machine.key, None)
        if value is not None:
            followed.restore(value)
            wait_s = 0.0
        self._calendar.put(machine.key, time.monotonic() + wait_s)

    def _leave(self, key: str, machine: Machine) -> None:
        """A VM's files have moved: read the rest of the old ones, then hand over."""
        if (followed := self._followed.get(key)) is not None:
            followed.successor = machine
            self._calendar.put(key, time.monotonic())

    def _hand_over(self, key: str, share: str, log: Log, machine: Machine) -> None:
        """Hand the position of a log over to the collector that follows it in its new folder."""
        self._followed.pop(key, None)
        self._unwritten[key] = share, None
        if log.position is None or not log.position.generation:
            # Nothing was read there.
            self._calendar.put(machine.key, time.monotonic())
            return
        value = stored(log, machine, is_handed_over=True)
        self._unwritten[machine.key] = machine.share, value
        if self._positions.is_mine(machine.share):
            self._inherit(machine, value)
        else:
            self._handed_over[machine.key] = value

    def _inherit(self, machine: Machine, value: bytes) -> None:
        """Continue from the position in the former folder.

        The log may have been started here already, without the rest of the rotated file. It is then
        read again from the former position: a line that is read twice is stored once.
        """
        before = self._followed.get(machine.key)
        followed = self._followed[machine.key] = Followed(machine)
        followed.restore(value)
        if before is not None:
            followed.stirred_until, followed.move = before.stirred_until, before.move
        self._calendar.put(machine.key, time.monotonic())

    def _take_shares(self) -> None:
        """Start with newly assigned shares, and drop the revoked ones."""
        self._shares = self._positions.shares
        for key, followed in list(self._followed.items()):
            if not self._positions.is_mine(followed.machine.share):
                del self._followed[key]
        for key, value in self._positions.all().items():
            kept = orjson.loads(value)
            machine = self._machines.get(kept["vm_id"])
            if machine is not None and machine.key != key and key not in self._followed:
                self._hand_over(key, kept["share"], restored(kept), machine)
        leaving = {each.successor.key for each in self._followed.values() if each.successor}
        for id, key in self._keys.items():
            here = self._followed.get(key)
            if here is None:
                self._follow(self._machines[id])
            elif self._positions.is_whole and here.log.position is None and key not in leaving:
                # No position exists in another folder, so there is nothing to wait for.
                self._calendar.put(key, time.monotonic())

    def _take_positions(self, written: dict[str, bytes]) -> None:
        """Take over the positions that other collectors handed over."""
        for key, value in written.items():
            followed = self._followed.get(key)
            if followed is None or followed.inherited == value:
                continue
            if orjson.loads(value)["is_handed_over"]:
                self._inherit(followed.machine, value)

    def _deal_out(self) -> None:
        now = time.monotonic()
        for due, key in self._calendar.take_due(now):
            if (followed := self._followed.get(key)) is not None:
                self._waiting.put(followed.machine.host, due, key)
        for key in self._waiting.take(lambda key: self._may_go(key, now)):
            followed = self._followed.get(key)
            if followed is None or followed.is_polling:
                continue
            trouble = self._troubles.get(followed.machine.share)
            if trouble is not None and trouble.until > now:
                self._calendar.put(key, trouble.until)
                continue
            followed.is_polling = True
            self._polls += 1
            self._pool.submit(self._poll, followed, self._pace.reserve(followed.machine))

    def _may_go(self, key: str, now: float) -> bool:
        """Return True if this key may leave the queue: it can be polled, or needs no poll."""
        followed = self._followed.get(key)
        if followed is None or followed.is_polling:
            return True
        trouble = self._troubles.get(followed.machine.share)
        if trouble is not None and trouble.until > now:
            return True
        requests = LISTING_REQUESTS if followed.is_to_be_listed(now) else REQUESTS
        return self._polls < 2 * POLLS_AT_ONCE and self._pace.is_free(followed.machine, requests)

    def _poll(self, followed: Followed, wait_s: float) -> None:
        """Runs in a thread of the pool."""
        machine, log = followed.machine, followed.log
        folder = DatastoreFolder(self._session, machine, self._pace, wait_s, followed.unproved)
        error: Exception | None = None
        now = time.monotonic()
        try:
            if followed.is_inherited and log.position is not None:
                log.position = find(folder, log.position)
                followed.is_inherited = False
            look = followed.is_to_be_listed(now)
            for chunk in poll(folder, log.position, look=look):
                made = log.messages(chunk, machine, datetime.now(UTC), followed.move)
                self._brought.put(Told(followed, len(made), by_topic(made), followed.value))
            followed.listed_at = now if look else followed.listed_at
        except Exception as caught:
            # The thread that calls `step` handles the error.
            error = caught
        self._brought.put(Back(followed, folder.requests, error))

    def _take_brought(self, wait_s: float = 0.0) -> None:
        for _ in range(CHUNKS_WAITING):
            try:
                brought = (
                    self._brought.get(timeout=wait_s) if wait_s else self._brought.get_nowait()
                )
            except Empty:
                return
            if isinstance(brought, Told):
                self._ship(brought)
            else:
                self._welcome(brought)

    def _ship(self, told: Told) -> None:
        machine = told.followed.machine
        if not self._positions.is_mine(machine.share):
            # The collector that has the share now reads it again.
            return
        for topic, batch in told.batches:
            self._shipper.send(topic, batch)
        self.counts.lines += told.lines
        if self._followed.get(machine.key) is told.followed:
            self._unwritten[machine.key] = machine.share, told.value

    def _welcome(self, back: Back) -> None:
        followed, error = back.followed, back.error
        machine, share = followed.machine, followed.machine.share
        followed.is_polling = False
        self._polls -= 1
        self.counts.polls += 1
        self.counts.requests += back.requests
        now = time.monotonic()
        if isinstance(error, VCenterError):
            self._be_troubled(share, str(error), now)
        elif error is None:
            followed.is_read = True
            followed.failed_polls = 0
            if self._troubles.pop(share, None):
                self._tell(f"{share} can be read again.")
        elif not isinstance(error, StoppedError):
            self._be_failed(followed, error)
        if self._followed.get(machine.key) is not followed:
            return
        if followed.successor is not None:
            self._hand_over(machine.key, share, followed.log, followed.successor)
            return
        is_stirred = now < followed.stirred_until
        every_s = STIRRED_EVERY_S if is_stirred else self._limits.sweep_s
        every_s = max(every_s, wait_seconds(followed.failed_polls))
        self._calendar.put(machine.key, now + every_s * random.uniform(0.9, 1.1))

    def _be_failed(self, followed: Followed, error: Exception) -> None:
        """Do not poll this VM for a while, longer each time. Other VMs continue."""
        if not followed.failed_polls:
            machine = followed.machine
            place = f"[{machine.datastore}] {machine.log_folder}"
            self._tell(f"Cannot follow the log in {place}: {type(error).__name__}: {error}")
        followed.failed_polls += 1
        followed.is_read = True

    def _be_troubled(self, share: str, sentence: str, now: float) -> None:
        """Do not poll this datastore for a while, longer each time. Others continue."""
        trouble = self._troubles.get(share)
        if trouble is None:
            self._tell(sentence)
            trouble = self._troubles[share] = Trouble(sentence, 0, now)
        if trouble.until <= now:
            trouble.attempts += 1
            trouble.until = now + wait_seconds(trouble.attempts)

    def _flush(self) -> None:
        """Wait until all shipped lines are acknowledged, then write their positions."""
        self._flushed_at = time.monotonic()
        if not self._unwritten:
            return
        self._shipper.flush()
        self._shipper.send(
            TOPIC,
            [
                self._positions.message(share, key, value)
                for key, (share, value) in self._unwritten.items()
            ],
        )
        self._shipper.flush()
        self._unwritten.clear()
