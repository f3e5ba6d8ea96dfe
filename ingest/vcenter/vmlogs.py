"""Following a VM's vmware.log on its datastore: what was written since the last visit.

for chunk in visit(folder, log.position):
    for topic, key, record in log.messages(chunk, machine, received_at):
        ...                     # ship; then keep log, which has moved on

A host writes vmware.log, and at a power-on, a vMotion or a size renames it to vmware-<n>.log, n one
more than ever before, and begins a new one. Bytes of vmware.log are therefore what they seem as
long as there is no vmware-<n + 1>.log; and once there is, it holds the rest of what was being read.
So nothing is read twice to know a file again: a visit without news is one request, and one with
news has a second, which asks for a name that is not there.

Nothing here knows a clock, Kafka or the vCenter: `Folder` is all that is asked of a datastore.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Protocol

from ingest.records import (
    LineRecords,
    Origin,
    generation_of,
    kafka_key,
    strip_terminator,
)
from ingest.replay.reading import REJECTED, Message
from ingest.times import utc_text
from ingest.vcenter.fleet import Machine
from ingest.vcenter.session import Part

VMWARE_LOG: Final = "esxi.vmware_log"

LOG: Final = "vmware.log"
CHUNK_BYTES: Final = 1 << 19
LONGEST_LINE: Final = 1 << 20
"""A line without an end is cut after so many bytes. A record keeps less of it."""
FIRST_LINE_BYTES: Final = 2048
"""So much of a file is read for its fingerprint, where it must be found again."""
MOST_LOOKED_AT: Final = 4
"""In so many of a folder's newest rotated logs."""


class Folder(Protocol):
    """A VM's folder on a datastore. Whatever it raises ends the visit."""

    def read(self, name: str, offset: int, most: int) -> Part | None:
        """At most `most` bytes of a file from `offset` on; None if there is no such file."""

    def numbers(self) -> list[int]:
        """Which rotated logs there are: 7 for vmware-7.log."""


@dataclass(frozen=True)
class Position:
    """How far a VM's log has been read."""

    generation: str = ""
    """The fingerprint of the file; empty before its first line."""
    offset: int = 0
    """Where the next line begins, in bytes."""
    rotated: int = 0
    """The highest number that a rotated log has; this one will have the next."""
    rest: bytes = b""
    """The beginning of the next line, where its end was not there yet."""

    @property
    def read_to(self) -> int:
        """In bytes."""
        return self.offset + len(self.rest)


@dataclass(frozen=True)
class Chunk:
    """What was read: whole lines, with their terminators. There may be none."""

    file: str
    generation: str
    offset: int
    """Of the first line, in bytes."""
    lines: list[bytes]
    position: Position
    """Where to go on."""


@dataclass(frozen=True)
class Move:
    """A VM went to another host."""

    at: str
    """When that became known, as event_time text."""
    host: str
    """Where it had been."""


@dataclass
class Log:
    """One VM's log as it is followed: what is kept of it from visit to visit."""

    position: Position | None = None
    event_time: str = ""
    """Of the last line that has one; a line without inherits it."""
    host: str = ""
    """Which wrote the last line."""

    def messages(
        self, chunk: Chunk, machine: Machine, received_at: datetime, move: Move | None = None
    ) -> list[Message]:
        """The chunk's lines for Kafka, after which the log stands at its end.

        A line's host is the one on which the VM ran: `machine` tells where it is, `move` where it
        was before, and a rotated log is the last host's that wrote to it.
        """
        if self.position is None or chunk.generation != self.position.generation:
            self.event_time, self.host = "", machine.host
        maker = LineRecords(
            Origin(
                run_id="live",
                source="vmware_log",
                host=machine.host,
                vm=machine.folder_name,
                datastore=machine.datastore,
                file=f"/vmfs/volumes/{machine.datastore}/{machine.log_folder}/{chunk.file}",
                generation=chunk.generation,
            ),
            written_at=received_at,
        )
        if self.event_time:
            maker.last_event_time, maker.last_quality = self.event_time, "exact"
        received = utc_text(received_at)
        offset = chunk.offset
        made: list[Message] = []
        for line in chunk.lines:
            record = maker.make(strip_terminator(line), received, offset, len(line))
            offset += len(line)
            if chunk.file == LOG:
                is_before = move is not None and record.get("event_time", received) < move.at
                self.host = move.host if move and is_before else machine.host
            record["host"] = self.host
            topic = REJECTED if "reason" in record else VMWARE_LOG
            if topic == VMWARE_LOG:
                record["vm_name"], record["vm_id"] = machine.name, machine.id
            made.append((topic, kafka_key(record), record))
        self.position = chunk.position
        self.event_time = maker.last_event_time or ""
        return made


def visit(folder: Folder, position: Position | None, *, look: bool = False) -> Iterator[Chunk]:
    """What was written since `position`, over all rotations since; at first, all of vmware.log.

    `look` lists the folder first. That is for a VM that was not visited for long: much may have
    been rotated, or its old logs removed, after which their numbers begin anew.
    """
    if position is None:
        position = Position(rotated=_newest(folder))
        yield _nothing_at(position)
    elif look:
        if _newest(folder) < position.rotated:
            position = find(folder, position)
        position = yield from _catch_up(folder, position)
    while True:
        part = folder.read(LOG, position.read_to, CHUNK_BYTES)
        if part is not None and part.size == position.read_to:
            return
        older = folder.read(_name(position.rotated + 1), position.read_to, CHUNK_BYTES)
        if older is not None:
            position = yield from _catch_up(folder, position, older)
        elif part is None:
            return
        elif part.size < position.read_to:
            # It was cut short, or rotated to a number that was there before.
            position = yield from _catch_up(folder, find(folder, position))
        else:
            chunk = _chunk(LOG, position, part.data)
            yield chunk
            position = chunk.position
            if position.read_to >= part.size:
                return


def find(folder: Folder, position: Position) -> Position:
    """Where a log goes on that was read in another folder, or lost sight of in this one.

    Where it is not to be found, the folder's own vmware.log begins.
    """
    numbers = sorted(folder.numbers())
    begun = Position(rotated=numbers[-1] if numbers else 0)
    if not position.generation:
        return begun
    if _has(folder, LOG, position):
        return replace(position, rotated=begun.rotated, rest=b"")
    for number in reversed(numbers[-MOST_LOOKED_AT:]):
        if _has(folder, _name(number), position):
            return replace(position, rotated=number - 1, rest=b"")
    return begun


def _has(folder: Folder, name: str, position: Position) -> bool:
    """Whether a file is the one that was being read."""
    part = folder.read(name, 0, FIRST_LINE_BYTES)
    if part is None or part.size < position.offset:
        return False
    return generation_of(part.data.partition(b"\n")[0]) == position.generation


def _newest(folder: Folder) -> int:
    return max(folder.numbers(), default=0)


def _name(number: int) -> str:
    return f"vmware-{number}.log"


def _catch_up(
    folder: Folder, position: Position, part: Part | None = None
) -> Generator[Chunk, None, Position]:
    """The rest of what was being read, if it was rotated, and all that was rotated after it.

    `part` is the first of that rest, if it has been read. Returns where vmware.log goes on.
    """
    newest = max(_newest(folder), position.rotated + (part is not None))
    for number in range(position.rotated + 1, newest + 1):
        yield from _rest(folder, _name(number), position, part)
        position, part = Position(rotated=number), None
        yield _nothing_at(position)
    return position


def _rest(folder: Folder, name: str, position: Position, part: Part | None) -> Iterator[Chunk]:
    """A rotated log from `position` to its end: the last line counts without a terminator too."""
    part = part or folder.read(name, position.read_to, CHUNK_BYTES)
    while part is not None:
        is_end = position.read_to + len(part.data) >= part.size
        chunk = _chunk(name, position, part.data, is_end=is_end)
        yield chunk
        position = chunk.position
        part = None if is_end else folder.read(name, position.read_to, CHUNK_BYTES)


def _nothing_at(position: Position) -> Chunk:
    """So that a visit's end is known where it read nothing after it."""
    return Chunk(LOG, position.generation, position.offset, [], position)


def _chunk(name: str, position: Position, data: bytes, *, is_end: bool = False) -> Chunk:
    """The whole lines in what comes after `position`; all of it, if nothing more will come."""
    data = position.rest + data
    end = data.rfind(b"\n") + 1
    if is_end or (end == 0 and len(data) >= LONGEST_LINE):
        end = len(data)
    lines = [line + b"\n" for line in data[:end].split(b"\n")]
    last = lines.pop()[:-1]
    if last:
        lines.append(last)
    generation = position.generation or (generation_of(lines[0]) if lines else "")
    after = Position(generation, position.offset + end, position.rotated, data[end:])
    return Chunk(name, generation, position.offset, lines, after)
