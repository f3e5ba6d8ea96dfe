"""Failed commands of one host, as episodes by device, path, opcode, status and sense.

A failure may be logged up to three times, in pieces, or not at all: by the path (NMP, HPP) and by
the device (ScsiDeviceIO); on two lines since ESXi 7; and only as a count if the path's log is
throttled. The meaning of a line depends on the lines before it, so a small state machine reads the
lines in the order in which they were written. A late line is inserted at its position, and the
machine reads the newest lines again.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from stunwatch.detectors.bounds import EVICTED, MOST_EPISODES, MOST_KEYS
from stunwatch.detectors.catalogue import detector
from stunwatch.detectors.events import (
    changed,
    content_hash,
    event_id,
    fullest_host,
    timestamp,
    weighed_revision,
)
from stunwatch.detectors.records import is_continuation, verbatim
from stunwatch.detectors.two_lines import is_status_of, joined, world_of
from stunwatch.ingest.records import owner_key

_DETECTOR = detector("scsi_errors")
_PATTERNS = _DETECTOR.patterns
_LIMITS = _DETECTOR.thresholds
_QUIET = [
    pattern for name, pattern in _PATTERNS.items() if name.startswith(("quiet_", "elsewhere_"))
]
_EXPECTED = [pattern for name, pattern in _PATTERNS.items() if name.startswith("expected_")]

_MINUTE = 60_000_000
_GAP_US = _LIMITS["gap_minutes"] * _MINUTE
_SAME_COMMAND_US = _LIMITS["same_command_within_ms"] * 1000
_WRITTEN_EVERY_US = _LIMITS["written_every_seconds"] * 1_000_000
_KEEP_US = _LIMITS["keep_minutes"] * _MINUTE
_REORDERED = _LIMITS["lines_reordered_count"]

# Limits on what a flood of made-up lines can fill. A device returns a few kinds of failure, and a
# world waits for the status of one command.
_COPIES_KNOWN = 10_000
_MOST_ALIVE = 64
_MOST_WAITING = 8

_EVIDENCE = 6
"""Most lines of evidence, the first of an episode. A host in trouble has thousands of episodes."""

_CHECK_CONDITION = "0x2"
"""CHECK CONDITION: the device status that the sense data explain."""


@dataclass(frozen=True)
class ScsiError:
    """One row of the view `scsi_errors`, except `detected_at`. Times are UTC with microseconds."""

    event_id: str
    detector: str
    revision: int
    is_deleted: int
    run_id: str
    host: str
    device: str
    path: str
    opcode: str
    host_status: str
    device_status: str
    plugin_status: str
    sense: str
    is_expected: bool
    started_at: str
    ended_at: str
    count: int
    evidence: list[str]


class Failure(NamedTuple):
    """One failed command, parsed from a line."""

    layer: str
    """`path`, `device`, or empty if the line names neither."""
    key: tuple[str, ...]
    """Device, path, opcode, host, device and plug-in status, sense."""
    command: str
    """The address of the command in the kernel, if the line contains it."""
    verdict: str
    """`error`, `expected`, or `quiet`, which starts no episode."""


class Line(NamedTuple):
    """A relevant line. Sorts by time, then offset, then text."""

    at_us: int
    offset: int
    message: str
    text: str
    host: str
    thread: str
    kind: str
    """`failure`, `command` (its status is on the next line), `status` (of the line before) or
    `repeated`."""
    failure: Failure | None = None
    """Of a failure; of a status, the failure if no command is known."""
    device: str = ""
    times: int = 0


@dataclass
class Episode:
    """Failures of one key, no two neighbours further apart than the gap."""

    key: tuple[str, ...]
    is_expected: bool
    first_us: int
    last_us: int
    count: int = 0
    lines: int = 0
    """The device's lines from the first failure until the gap after the last. More lines make a
    better row."""
    host: str = ""
    evidence: list[str] = field(default_factory=list)
    is_changed: bool = True
    """True if it differs from the row written last."""


@dataclass
class Machine:
    """The state after reading lines in the order in which they were written."""

    episodes: dict[tuple[str, ...], list[Episode]] = field(default_factory=dict)
    alive: dict[str, list[Episode]] = field(default_factory=dict)
    """The episodes of a device that may still continue, the newest last."""
    last_errors: dict[str, tuple[int, tuple[str, ...], int]] = field(default_factory=dict)
    """By device, what `last error status` refers to: time, episode key, and count so far. An empty
    key means a failure that starts no episode."""
    commands: dict[tuple[str, str], int] = field(default_factory=dict)
    """When a path's line reported a command of a device, by the command's address and by its
    status."""
    waiting: dict[tuple[str, str], list[Line]] = field(default_factory=dict)
    """Commands that wait for their status, by layer and world."""
    instant_us: int = 0
    instant: set[tuple[str, str]] = field(default_factory=set)
    """Thread and message of the lines of the newest instant: a second one is a copy."""
    opened: list[Episode] = field(default_factory=list)
    """The episodes that started since the list was last cleared."""
    evicted: list[Episode] = field(default_factory=list)
    """The episodes that were evicted because of a limit, since the list was last cleared."""

    def step(self, line: Line) -> None:
        """Process the next line."""
        if line.at_us != self.instant_us:
            self.instant_us = line.at_us
            self.instant.clear()
        name = (line.thread, line.message)
        is_copy = name in self.instant
        if len(self.instant) >= _COPIES_KNOWN:
            self.instant.clear()
        self.instant.add(name)
        if line.kind == "repeated":
            if not is_copy:
                self._repeated(line)
            self._witness(line.at_us, line.device)
        elif line.kind == "command":
            if not is_copy:
                self._command(line)
            self._witness(line.at_us, line.device, "")
        elif line.kind == "status":
            failure, lines = self._status(line)
            if not is_copy:
                self._failed(failure, line.at_us, lines)
            self._witness(line.at_us, *{failure.key[0], ""})
        elif line.failure is not None:
            if not is_copy:
                self._failed(line.failure, line.at_us, [line])
            self._witness(line.at_us, line.failure.key[0])

    def all_episodes(self) -> Iterator[Episode]:
        """Yield every episode that is kept."""
        for known in self.episodes.values():
            yield from known

    def forget(self, oldest_us: int) -> None:
        """Forget everything that ended before."""
        for key, known in list(self.episodes.items()):
            known[:] = [each for each in known if each.last_us >= oldest_us]
            if not known:
                del self.episodes[key]
        for device, alive in list(self.alive.items()):
            alive[:] = [each for each in alive if each.last_us >= oldest_us]
            if not alive:
                del self.alive[device]
        self.last_errors = {
            device: error for device, error in self.last_errors.items() if error[0] >= oldest_us
        }
        self.commands = {
            command: at_us for command, at_us in self.commands.items() if at_us >= oldest_us
        }
        self.waiting = {
            thread: lines for thread, lines in self.waiting.items() if lines[-1].at_us >= oldest_us
        }

    def _command(self, line: Line) -> None:
        waiting = self.waiting.setdefault((line.message[:3], world_of(line.thread)), [])
        waiting[:] = [each for each in waiting if is_status_of(each.at_us, line.at_us)]
        waiting.append(line)
        del waiting[:-_MOST_WAITING]
        if len(self.waiting) > MOST_KEYS:
            del self.waiting[next(iter(self.waiting))]
        self._last_error_was(line.device, (line.at_us, (), 0))

    def _status(self, line: Line) -> tuple[Failure, list[Line]]:
        """Return the failure that a status line completes, and its lines."""
        writer = (line.message[:3], world_of(line.thread))
        waiting = self.waiting.pop(writer, [])
        waiting = [each for each in waiting if is_status_of(each.at_us, line.at_us)]
        assert line.failure is not None
        if not waiting:
            return line.failure, [line]
        command, *others = waiting
        if others:
            self.waiting[writer] = others
        told = failure_of(joined(command.message, line.message))
        return told or line.failure, [command, line]

    def _repeated(self, line: Line) -> None:
        """Count `repeated N times`. N counts from the last error: 10, 20 and 40 are 40 failures."""
        at_us, key, so_far = self.last_errors.get(line.device, (line.at_us, (), 0))
        if not key or line.at_us - at_us > _GAP_US:
            return
        more = line.times - so_far if line.times > so_far else line.times
        self._last_error_was(line.device, (line.at_us, key, line.times))
        self._count(key, line.at_us, more, [line], is_expected=False)

    def _failed(self, failure: Failure, at_us: int, lines: list[Line]) -> None:
        device = failure.key[0]
        is_error = failure.verdict != "quiet"
        # ESX 4 logs no command for a device failure: there the same status means the same command.
        command = (device, failure.command)
        alike = (device, " ".join(failure.key[2:6]))
        if failure.layer == "path":
            if device:
                self._last_error_was(device, (at_us, failure.key if is_error else (), 0))
            self._told_by_path(at_us, command, alike)
        elif failure.command:
            if at_us - self.commands.get(command, -_MINUTE) <= _SAME_COMMAND_US:
                return
        elif at_us - self.commands.pop(alike, -_MINUTE) <= _SAME_COMMAND_US:
            return
        if is_error:
            self._count(failure.key, at_us, 1, lines, failure.verdict == "expected")

    def _last_error_was(self, device: str, error: tuple[int, tuple[str, ...], int]) -> None:
        self.last_errors.pop(device, None)
        self.last_errors[device] = error  # at the end: most recently used
        if len(self.last_errors) > MOST_KEYS:
            del self.last_errors[next(iter(self.last_errors))]

    def _told_by_path(self, at_us: int, *commands: tuple[str, str]) -> None:
        if len(self.commands) > _REORDERED:
            self.commands = {
                command: told_us
                for command, told_us in self.commands.items()
                if at_us - told_us <= _SAME_COMMAND_US
            }
        for each in commands:
            self.commands[each] = at_us

    def _count(
        self, key: tuple[str, ...], at_us: int, times: int, lines: list[Line], is_expected: bool
    ) -> None:
        known = self.episodes.pop(key, [])
        self.episodes[key] = known  # moved to the end: most recently used
        near = [
            each for each in known if each.first_us - _GAP_US <= at_us <= each.last_us + _GAP_US
        ]
        if near:
            episode = near[-1]
        else:
            episode = Episode(key, is_expected, at_us, at_us)
            insort(known, episode, key=_first_us)
            alive = self.alive.setdefault(key[0], [])
            alive.append(episode)
            del alive[:-_MOST_ALIVE]
            self.opened.append(episode)
            if len(known) > MOST_EPISODES:
                oldest = min((each for each in known if each is not episode), key=_last_us)
                known[:] = [each for each in known if each is not oldest]
                self._evict(oldest)
            if len(self.episodes) > MOST_KEYS:
                for each in self.episodes.pop(next(iter(self.episodes))):
                    self._evict(each)
        episode.first_us = min(episode.first_us, at_us)
        episode.last_us = max(episode.last_us, at_us)
        episode.count += times
        episode.host = fullest_host([episode.host, *(line.host for line in lines)])
        if len(episode.evidence) < _EVIDENCE:
            texts = [*episode.evidence, *(line.text for line in lines)]
            episode.evidence = list(dict.fromkeys(texts))[:_EVIDENCE]

    def _evict(self, evicted: Episode) -> None:
        alive = [each for each in self.alive.pop(evicted.key[0], []) if each is not evicted]
        if alive:
            self.alive[evicted.key[0]] = alive
        self.evicted.append(evicted)

    def _witness(self, at_us: int, *devices: str) -> None:
        for device in devices:
            alive = self.alive.get(device)
            if not alive:
                continue
            if any(each.last_us + _GAP_US < at_us for each in alive):
                alive[:] = [each for each in alive if each.last_us + _GAP_US >= at_us]
            for each in alive:
                each.lines += 1
                each.is_changed = True


@dataclass
class Tracker:
    """Tracks the failed commands of one host."""

    owner: str = ""
    run_id: str = ""
    event_time_us: int = 0
    folded: Machine = field(default_factory=Machine)
    """The state after the lines that are no longer kept."""
    lines: list[Line] = field(default_factory=list)
    """The newest lines, sorted."""
    machine: Machine = field(default_factory=Machine)
    """The state after all lines."""
    folded_names: dict[int, None] = field(default_factory=dict)
    """Fingerprints of lines that are no longer kept: reading them again changes nothing."""
    written: dict[str, ScsiError] = field(default_factory=dict)
    retracted: dict[str, ScsiError] = field(default_factory=dict)
    """Retracted rows, by event_id."""
    is_out_of_order: bool = False
    """True if a line arrived that belongs before lines already processed."""
    changed_at_us: int | None = None
    """The event time of the oldest change that is not yet written."""
    forget_at_us: int | None = None

    def feed(self, record: Mapping[str, Any]) -> Iterator[ScsiError]:
        """Yield an event if this line starts an episode."""
        line = read(record)
        if line is None or self._is_known(line):
            return
        self.owner = owner_key(line.host) if line.host else record.get("owner", "")
        self.run_id = record.get("run_id", "")
        in_order = self.machine.instant_us <= line.at_us and (
            not self.lines or line > self.lines[-1]
        )
        insort(self.lines, line)
        if in_order and not self.is_out_of_order:
            self.machine.step(line)
            yield from self._write(self.machine.opened)
            self.machine.opened.clear()
            yield from self._evicted()
        else:
            self.is_out_of_order = True
        if self.changed_at_us is None:
            self.changed_at_us = self.event_time_us
        if self.forget_at_us is None:
            self.forget_at_us = self.event_time_us + _KEEP_US
        if len(self.lines) > 2 * _REORDERED:
            self._fold(len(self.lines) - _REORDERED)

    def advance_time(self, event_time_us: int) -> Iterator[ScsiError]:
        """Yield changed events, after waiting for further changes."""
        self.event_time_us = max(self.event_time_us, event_time_us)
        if (
            self.changed_at_us is not None
            and self.changed_at_us + _WRITTEN_EVERY_US <= self.event_time_us
        ):
            yield from self._changes()
        if self.forget_at_us is not None and self.forget_at_us <= self.event_time_us:
            yield from self._changes()
            self._forget()

    def flush(self) -> Iterator[ScsiError]:
        """Yield all changed events: a source has ended."""
        yield from self._changes()

    @property
    def next_timer_us(self) -> int | None:
        """When a change is due to be written or an episode expires; None if none is kept."""
        if self.changed_at_us is None:
            return self.forget_at_us
        return self.changed_at_us + _WRITTEN_EVERY_US

    def _is_known(self, line: Line) -> bool:
        place = bisect_left(self.lines, line)
        is_kept = place < len(self.lines) and self.lines[place] == line
        return is_kept or _name(line) in self.folded_names

    def _changes(self) -> Iterator[ScsiError]:
        """Yield the rows that differ from those written before."""
        self.changed_at_us = None
        gone = set(self.written)
        if self.is_out_of_order:
            self.is_out_of_order = False
            self.machine = deepcopy(self.folded)
            for line in self.lines:
                self.machine.step(line)
            gone -= {self._id(episode) for episode in self.machine.evicted}
            for episode in self.machine.all_episodes():
                episode.is_changed = True
                gone.discard(self._id(episode))
            for name in gone:
                self.retracted[name] = _retracted(self.written.pop(name), self.run_id)
                yield self.retracted[name]
        self.machine.opened.clear()
        yield from self._evicted()
        yield from self._write(self.machine.all_episodes())

    def _evicted(self) -> Iterator[ScsiError]:
        """Write unwritten changes of the episodes that are evicted. Their rows stay as written."""
        EVICTED["episodes"] += len(self.machine.evicted)
        yield from self._write(self.machine.evicted)
        for episode in self.machine.evicted:
            self.written.pop(self._id(episode), None)
        self.machine.evicted.clear()

    def _write(self, episodes: Iterable[Episode]) -> Iterator[ScsiError]:
        for episode in episodes:
            if not episode.is_changed:
                continue
            episode.is_changed = False
            row = self._row(episode)
            before = self.written.get(row.event_id) or self.retracted.pop(row.event_id, None)
            if before is not None and before.revision == row.revision:
                continue
            if before is not None and before.revision > row.revision:
                # A late line may shrink an episode or bring one back: the newer row must win.
                row = changed(row, revision=before.revision + 1)
            self.written[row.event_id] = row
            yield row

    def _id(self, episode: Episode) -> str:
        return event_id(_DETECTOR.name, self.owner, *episode.key, timestamp(episode.first_us))

    def _row(self, episode: Episode) -> ScsiError:
        device, path, opcode, host_status, device_status, plugin_status, sense = episode.key
        row = ScsiError(
            event_id=self._id(episode),
            detector=_DETECTOR.name,
            revision=0,
            is_deleted=0,
            run_id="",
            host=episode.host,
            device=device,
            path=path,
            opcode=opcode,
            host_status=host_status,
            device_status=device_status,
            plugin_status=plugin_status,
            sense=sense,
            is_expected=episode.is_expected,
            started_at=timestamp(episode.first_us),
            ended_at=timestamp(episode.last_us),
            count=episode.count,
            evidence=list(episode.evidence),
        )
        revision = weighed_revision(
            episode.lines, 0, content_hash(row), _DETECTOR.version, is_deleted=False
        )
        return changed(row, revision=revision, run_id=self.run_id)

    def _forget(self) -> None:
        oldest_us = self.event_time_us - _KEEP_US
        self._fold(bisect_left(self.lines, (oldest_us,)))
        for machine in (self.folded, self.machine):
            machine.forget(oldest_us)
        oldest = timestamp(oldest_us)
        self.written = {name: row for name, row in self.written.items() if row.ended_at >= oldest}
        self.retracted = {
            name: row for name, row in self.retracted.items() if row.ended_at >= oldest
        }
        is_empty = not self.lines and not self.machine.episodes and not self.machine.last_errors
        self.forget_at_us = None if is_empty else self.event_time_us + _KEEP_US // 4

    def _fold(self, count: int) -> None:
        """Keep only the state after the first `count` lines, not the lines."""
        for line in self.lines[:count]:
            self.folded.step(line)
            self.folded_names[_name(line)] = None
        self.folded.opened.clear()
        self.folded.evicted.clear()
        del self.lines[:count]
        for each in list(self.folded_names)[: max(0, len(self.folded_names) - 4 * _REORDERED)]:
            del self.folded_names[each]


def read(record: Mapping[str, Any]) -> Line | None:
    """Parse a record. Return None if it is not about failed commands, or is incomplete."""
    if is_continuation(record):
        return None
    message = record["message"]
    line = Line(
        at_us=record["event_time_us"],
        offset=record.get("offset", -1),
        message=message,
        text=verbatim(record),
        host=record.get("host", ""),
        thread=record.get("thread", ""),
        kind="failure",
    )
    if found := _PATTERNS["repeated"].search(message):
        return line._replace(kind="repeated", device=found["device"], times=int(found["times"]))
    if found := _PATTERNS["command_alone"].search(message):
        return line._replace(kind="command", device=found["device"])
    failure = failure_of(message) or _failure_on_esx3(message)
    if failure is None:
        return None
    return line._replace(kind="failure" if failure.layer else "status", failure=failure)


def failure_of(message: str) -> Failure | None:
    """Parse a failed command. Return None if the message is not one or was cut off too early."""
    status = _PATTERNS["status"].search(message)
    if status is None:
        return None
    sense = _PATTERNS["sense"].search(message)
    # Without its sense a CHECK CONDITION may be anything, including a harmless one.
    if status["device"] == _CHECK_CONDITION and sense is None and "Invalid" not in message:
        return None
    statuses = (status["host"], status["device"], status["plugin"])
    tail = (*statuses, sense["sense"] if sense else "")
    verdict = _verdict(message)
    if found := _PATTERNS["failed_on_device"].search(message):
        key = (found["device"], "", found["opcode"], *tail)
        return Failure("device", key, found["command"] or "", verdict)
    if found := _PATTERNS["failed_on_path"].search(message):
        key = (found["device"], found["path"], found["opcode"], *tail)
        return Failure("path", key, found["command"], verdict)
    is_nvme = _PATTERNS["nvme_status"].search(message) is not None
    if is_nvme or _PATTERNS["status_alone"].search(message):
        # The line before names the device and the command. This one alone is no evidence.
        return Failure("", ("", "", "", *tail), "", verdict if is_nvme else "quiet")
    return None


def _verdict(message: str) -> str:
    if any(pattern.search(message) for pattern in _QUIET):
        return "quiet"
    return "expected" if any(pattern.search(message) for pattern in _EXPECTED) else "error"


def _failure_on_esx3(message: str) -> Failure | None:
    """Parse statuses of ESX 3 and convert them to the format of later versions."""
    if found := _PATTERNS["not_ready_on_esx3"].search(message):
        key = ("", found["path"], "0x0", found["host"], found["device"], "0x0", "")
        return Failure("path", key, "", "error")
    found = _PATTERNS["failed_on_esx3"].search(message)
    if found is None:
        return None
    host, device = hex(int(found["host"])), hex(int(found["device"]))
    sense = found["sense"] if device == _CHECK_CONDITION else ""
    verdict = _verdict(f" H:{host} D:{device} P:0x0 Valid sense data: {found['sense']}")
    is_success = (host, device) == ("0x0", "0x0")
    key = ("", found["path"], "", host, device, "0x0", sense)
    return Failure("path", key, "", "quiet" if is_success else verdict)


def _retracted(row: ScsiError, run_id: str) -> ScsiError:
    revision = weighed_revision(row.revision >> 32, 0, 0, _DETECTOR.version, is_deleted=True)
    return changed(row, revision=revision, is_deleted=1, run_id=run_id)


def _name(line: Line) -> int:
    """Return a 64-bit fingerprint of a line. Python's own hash differs between processes."""
    return content_hash([line.at_us, line.text]) << 32 | content_hash([line.text, line.offset])


def _first_us(episode: Episode) -> int:
    return episode.first_us


def _last_us(episode: Episode) -> int:
    return episode.last_us
