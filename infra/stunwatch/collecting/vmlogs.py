"""Follows the vmware.logs of a vCenter's VMs: who is visited when, and what becomes of it.

Three kinds of threads: one follows the fleet, some visit folders, and the one that calls `step`
deals out visits, ships what they bring, and then writes how far each log has been read.
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

from ingest.times import utc_text
from ingest.vcenter.fleet import Fleet, Machine, Selection
from ingest.vcenter.pace import wait_seconds
from ingest.vcenter.positions import TOPIC, Positions
from ingest.vcenter.session import Part, Session, StoppedError, VCenterError
from ingest.vcenter.vmlogs import Log, Move, Position, find, visit
from stunwatch.collecting.visits import Calendar, DatastoreFolder, Limits, Paced, WaitingRoom
from stunwatch.shipping import Batch, Shipper, by_topic

VISITS_AT_ONCE: Final = 16
REQUESTS: Final = 2
"""Of a visit with news. It begins when all may be sent: one that waits midway keeps a thread."""
LISTING_REQUESTS: Final = 3
"""Of a visit that lists the folder too."""
STIRRED_FOR_S: Final = 120.0
"""So long after something was done to a VM its log is visited often: a stun is told at its end."""
STIRRED_EVERY_S: Final = 5.0
LISTED_EVERY_S: Final = 6 * 3600.0
"""A folder is listed this often, and at a collector's first visit."""
HANDOVER_S: Final = 30.0
"""So long another collector may take to say how far it had read a VM that moved here."""
FLUSHED_EVERY_S: Final = 1.0
STATUS_EVERY_S: Final = 10.0
FLEET_WAIT_S: Final = 5
CHUNKS_WAITING: Final = 32
"""Read but not yet shipped. While Kafka is away, visits wait."""


@dataclass
class Counts:
    """What has been done since the start."""

    visits: int = 0
    requests: int = 0
    lines: int = 0


@dataclass
class Followed:
    """One VM's log at one place."""

    machine: Machine
    log: Log = field(default_factory=Log)
    """It belongs to the visit while there is one."""
    is_inherited: bool = False
    """It was read in another folder until now, and must be found in this one."""
    is_visited: bool = False
    """Right now."""
    shipped: bytes | None = None
    """The position up to which its lines have been given to Kafka."""
    is_read: bool = False
    """A visit has come to its end."""
    unproved: dict[int, Part] = field(default_factory=dict)
    """What a visit that broke off had read, see DatastoreFolder."""
    move: Move | None = None
    listed_at: float = float("-inf")
    stirred_until: float = float("-inf")
    successor: Machine | None = None
    """Where the VM lies now; this place is visited for the last time."""

    @property
    def value(self) -> bytes:
        """How far the log has been read, as it is kept."""
        return stored(self.log, self.machine, is_handed_over=self.is_inherited)

    def is_to_be_listed(self, now: float) -> bool:
        """Whether a visit looks for files that were renamed: at first, also after a restart."""
        return now >= self.listed_at + LISTED_EVERY_S

    def restore(self, value: bytes) -> None:
        """Go on where it was left."""
        kept = orjson.loads(value)
        self.log, self.is_inherited = restored(kept), kept["is_handed_over"]


@dataclass(frozen=True)
class News:
    """The fleet as it is now, and the ids of the VMs that something was done to."""

    machines: dict[str, Machine]
    stirred: set[str]


@dataclass(frozen=True)
class Told:
    """What a visit brought, and how far the log has been read with it."""

    followed: Followed
    lines: int
    batches: list[tuple[str, Batch]]
    """By topic, as Kafka takes them: small, for many may wait while Kafka is away."""
    value: bytes


@dataclass(frozen=True)
class Back:
    """A visit's end; `error` is what broke it off."""

    followed: Followed
    requests: int
    error: Exception | None


@dataclass
class Trouble:
    """A datastore cannot be read."""

    sentence: str
    attempts: int
    until: float
    """When the next attempt is due."""


def key_of(machine: Machine) -> str:
    """By which a log's position is kept."""
    return f"{machine.share}/{machine.log_folder}"


def stored(log: Log, machine: Machine, *, is_handed_over: bool) -> bytes:
    """A log's position as it is kept."""
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
    """The log that `stored` kept."""
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
    """Follow the logs of a selection of VMs; `is_once`: until each has been read to its end."""
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
    """Follows the logs that are this collector's. All methods are for one thread."""

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
        """`tell` shows a sentence."""
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
        self._visits = 0
        """Under way."""
        self._troubles: dict[str, Trouble] = {}
        self._machines: dict[str, Machine] = {}
        self._keys: dict[str, str] = {}
        """Of every selected VM, by its id."""
        self._unwritten: dict[str, tuple[str, bytes | None]] = {}
        """By key: the share, and the position; None where it is to be taken away."""
        self._flushed_at = time.monotonic()
        self._news: SimpleQueue[News | Exception] = SimpleQueue()
        self._brought: Queue[Told | Back] = Queue(CHUNKS_WAITING)
        self._pool = ThreadPoolExecutor(VISITS_AT_ONCE, thread_name_prefix="visit")
        self._positions = positions
        positions.before_loss = self._flush
        self._shares: frozenset[int] = frozenset()
        threading.Thread(target=self._follow_fleet, name="fleet", daemon=True).start()

    def step(self) -> None:
        """Do what is to be done now. Takes a twentieth of a second where that is nothing."""
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
        """Let visits end, and ship what they brought."""
        self._stop.set()
        while self._visits:
            self._take_brought(wait_s=0.05)
        self._pool.shutdown()
        self._flush()

    def abandon(self) -> None:
        """Let visits end, and leave what they brought: whoever comes next reads it again."""
        self._stop.set()
        while self._visits:
            self._visits -= isinstance(self._brought.get(), Back)
        self._pool.shutdown()

    @property
    def is_done(self) -> bool:
        """Whether every log has been visited, and read to its end."""
        return (
            self._positions.is_settled
            and bool(self._followed)
            and all(each.is_read and not each.is_visited for each in self._followed.values())
        )

    @property
    def status(self) -> str:
        """How it is doing, in a line."""
        counts = self.counts
        parts = [
            f"{len(self._followed):,} of {len(self._keys):,} VMs followed",
            f"{counts.lines:,} lines",
            f"{counts.requests:,} requests",
            f"{self._waiting.lag_s(time.monotonic()):.0f} s behind",
        ]
        if self._troubles:
            parts.append(f"{len(self._troubles):,} datastores cannot be read")
        return ", ".join(parts)

    def _follow_fleet(self) -> None:
        """In a thread of its own."""
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
                # Raised where it ends the collector, by `step`.
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
            # Now it can be told of whom there are positions elsewhere than they are.
            self._take_shares()

    def _take_machine(self, machine: Machine, known: str | None) -> None:
        """Follow a VM, or take in what was done to it since its log was at `known`."""
        if known is not None and known != machine.key:
            self._leave(known, machine)
        followed = self._followed.get(machine.key)
        if followed is None:
            has_come = known is not None and known != machine.key
            self._follow(machine, HANDOVER_S if has_come else 0.0)
            return
        if followed.machine.host != machine.host:
            followed.move = Move(utc_text(datetime.now(UTC)), followed.machine.host)
        followed.machine = machine
        followed.stirred_until = time.monotonic() + STIRRED_FOR_S
        self._calendar.put(machine.key, time.monotonic())

    def _follow(self, machine: Machine, after_s: float = 0.0) -> None:
        """Begin where it was left, if the VM is in this collector's share.

        `after_s`: how long whoever followed it elsewhere may take to say how far.
        """
        share = machine.share
        if not self._positions.is_mine(share):
            return
        followed = self._followed[machine.key] = Followed(machine)
        if (value := self._positions.get(share, machine.key)) is not None:
            followed.restore(value)
            after_s = 0.0
        self._calendar.put(machine.key, time.monotonic() + after_s)

    def _leave(self, key: str, machine: Machine) -> None:
        """A VM's files have moved: read what is left of them, then hand over."""
        if (followed := self._followed.get(key)) is not None:
            followed.successor = machine
            self._calendar.put(key, time.monotonic())

    def _hand_over(self, key: str, share: str, log: Log, machine: Machine) -> None:
        """Say how far a log was read to whoever follows it at its new place."""
        self._followed.pop(key, None)
        self._unwritten[key] = share, None
        there = self._followed.get(machine.key)
        if there is None or there.log.position is None:
            value = stored(log, machine, is_handed_over=True)
            self._unwritten[machine.key] = machine.share, value
            if self._positions.is_mine(machine.share):
                there = self._followed[machine.key] = Followed(machine)
                there.restore(value)
                self._calendar.put(machine.key, time.monotonic())

    def _take_shares(self) -> None:
        """Begin with what has become this collector's, and forget what is no longer."""
        self._shares = self._positions.shares
        for key, followed in list(self._followed.items()):
            if not self._positions.is_mine(followed.machine.share):
                del self._followed[key]
        for key, value in self._positions.all().items():
            kept = orjson.loads(value)
            machine = self._machines.get(kept["vm_id"])
            if machine is not None and machine.key != key and key not in self._followed:
                self._hand_over(key, kept["share"], restored(kept), machine)
        for id, key in self._keys.items():
            if key not in self._followed:
                self._follow(self._machines[id])

    def _take_positions(self, written: dict[str, bytes]) -> None:
        """What other collectors hand over, among what was written."""
        for key, value in written.items():
            followed = self._followed.get(key)
            if (
                followed is None
                or followed.is_inherited
                or not orjson.loads(value)["is_handed_over"]
            ):
                continue
            if followed.log.position is None and not followed.is_visited:
                followed.restore(value)
                self._calendar.put(key, time.monotonic())
            elif followed.shipped is not None:
                # It came too late, and must not be what the next start finds.
                self._unwritten[key] = followed.machine.share, followed.shipped

    def _deal_out(self) -> None:
        now = time.monotonic()
        for due, key in self._calendar.take_due(now):
            if (followed := self._followed.get(key)) is not None:
                self._waiting.put(followed.machine.host, due, key)
        for key in self._waiting.take(lambda key: self._may_go(key, now)):
            followed = self._followed.get(key)
            if followed is None or followed.is_visited:
                continue
            trouble = self._troubles.get(followed.machine.share)
            if trouble is not None and trouble.until > now:
                self._calendar.put(key, trouble.until)
                continue
            followed.is_visited = True
            self._visits += 1
            self._pool.submit(self._visit, followed, self._pace.reserve(followed.machine))

    def _may_go(self, key: str, now: float) -> bool:
        """Whether the one with this key need not wait: for a visit, or for having none."""
        followed = self._followed.get(key)
        if followed is None or followed.is_visited:
            return True
        trouble = self._troubles.get(followed.machine.share)
        if trouble is not None and trouble.until > now:
            return True
        requests = LISTING_REQUESTS if followed.is_to_be_listed(now) else REQUESTS
        return self._visits < 2 * VISITS_AT_ONCE and self._pace.is_free(followed.machine, requests)

    def _visit(self, followed: Followed, wait_s: float) -> None:
        """In a thread of the pool."""
        machine, log = followed.machine, followed.log
        folder = DatastoreFolder(self._session, machine, self._pace, wait_s, followed.unproved)
        error: Exception | None = None
        now = time.monotonic()
        try:
            if followed.is_inherited and log.position is not None:
                log.position = find(folder, log.position)
                followed.is_inherited = False
            look = followed.is_to_be_listed(now)
            for chunk in visit(folder, log.position, look=look):
                made = log.messages(chunk, machine, datetime.now(UTC), followed.move)
                self._brought.put(Told(followed, len(made), by_topic(made), followed.value))
            followed.listed_at = now if look else followed.listed_at
        except Exception as caught:
            # Whoever takes what was brought raises it, unless it is a vCenter's trouble.
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
            # Whoever has the share now reads it again.
            return
        for topic, batch in told.batches:
            self._shipper.send(topic, batch)
        self.counts.lines += told.lines
        told.followed.shipped = told.value
        self._unwritten[machine.key] = machine.share, told.value

    def _welcome(self, back: Back) -> None:
        followed, error = back.followed, back.error
        machine, share = followed.machine, followed.machine.share
        followed.is_visited = False
        self._visits -= 1
        self.counts.visits += 1
        self.counts.requests += back.requests
        now = time.monotonic()
        if isinstance(error, VCenterError):
            self._be_troubled(share, str(error), now)
        elif error is None:
            followed.is_read = True
            if self._troubles.pop(share, None):
                self._tell(f"{share} can be read again.")
        elif not isinstance(error, StoppedError):
            raise error
        if self._followed.get(machine.key) is not followed:
            return
        if followed.successor is not None:
            self._hand_over(machine.key, share, followed.log, followed.successor)
            return
        is_stirred = now < followed.stirred_until
        every_s = STIRRED_EVERY_S if is_stirred else self._limits.sweep_s
        self._calendar.put(machine.key, now + every_s * random.uniform(0.9, 1.1))

    def _be_troubled(self, share: str, sentence: str, now: float) -> None:
        """Leave a datastore alone for a while, longer each time; the others go on."""
        trouble = self._troubles.get(share)
        if trouble is None:
            self._tell(sentence)
            trouble = self._troubles[share] = Trouble(sentence, 0, now)
        if trouble.until <= now:
            trouble.attempts += 1
            trouble.until = now + wait_seconds(trouble.attempts)

    def _flush(self) -> None:
        """Have everything acknowledged that was shipped, and then how far it goes."""
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
