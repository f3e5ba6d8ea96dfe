"""Reads new lines of a VM's vmware.log from its datastore, since the previous poll.

for chunk in poll(folder, log.position):
    for topic, key, record in log.messages(chunk, machine, received_at):
        ...                     # ship; then save log, which has a new position

A host writes vmware.log. At a power-on, a vMotion or a size limit, the host renames it to
vmware-<n>.log, where n is one more than ever before, and starts a new one. So while there is no
vmware-<n + 1>.log, vmware.log is still the same file. Once it exists, it holds the rest of the file
that was being read. So the file needs no second read to identify it: a poll without new lines is
one request. With new lines, a second request asks for a name that does not exist.

This module uses no clock, no Kafka and no vCenter. It reads a datastore only through `Folder`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Protocol

from stunwatch.ingest.records import (
    LineRecords,
    Origin,
    datastore_name,
    generation_of,
    kafka_key,
    strip_terminator,
)
from stunwatch.ingest.replay.reading import REJECTED, Message
from stunwatch.ingest.times import utc_text
from stunwatch.ingest.vcenter.fleet import Machine
from stunwatch.ingest.vcenter.session import Part

VMWARE_LOG: Final = "esxi.vmware_log"

LOG: Final = "vmware.log"
CHUNK_BYTES: Final = 1 << 19
LONGEST_LINE: Final = 1 << 20
"""A line without an end is cut after this many bytes. A record keeps fewer."""
FIRST_LINE_BYTES: Final = 2048
"""How much of a file is read for its fingerprint, to identify a file."""
MOST_LOOKED_AT: Final = 4
"""How many of a folder's newest rotated logs are searched for the file."""


class Folder(Protocol):
    """A VM's folder on a datastore. Any exception that it raises ends the poll."""

    def read(self, name: str, offset: int, most: int) -> Part | None:
        """Return up to `most` bytes of a file from `offset`; None if there is no such file."""

    def numbers(self) -> list[int]:
        """Return the numbers of the rotated logs: 7 for vmware-7.log."""


@dataclass(frozen=True)
class Position:
    """How far a VM's log has been read."""

    generation: str = ""
    """The fingerprint of the file; empty before its first line."""
    offset: int = 0
    """The offset of the next line, in bytes."""
    rotated: int = 0
    """The highest number of a rotated log; vmware.log will get the next one."""
    rest: bytes = b""
    """The beginning of the next line, if its end was not written yet."""

    @property
    def read_to(self) -> int:
        """Return how far the file has been read, in bytes."""
        return self.offset + len(self.rest)


@dataclass(frozen=True)
class Chunk:
    """The whole lines that were read, with their terminators. May be empty."""

    file: str
    generation: str
    offset: int
    """The offset of the first line, in bytes."""
    lines: list[bytes]
    position: Position
    """The position after the chunk."""


@dataclass(frozen=True)
class Move:
    """A VM moved to another host."""

    at: str
    """When the move was detected, as event_time text."""
    host: str
    """The host before the move."""


@dataclass
class Log:
    """The state of reading one VM's log, kept between polls."""

    position: Position | None = None
    event_time: str = ""
    """Time of the last line that has one; lines without a time inherit it."""
    host: str = ""
    """The host that wrote the last line."""

    def messages(
        self, chunk: Chunk, machine: Machine, received_at: datetime, move: Move | None = None
    ) -> list[Message]:
        """Return the chunk's lines as Kafka messages, and move the log's position to its end.

        A line's host is the host that ran the VM at that time. `machine` has the current host and
        `move` the previous one. In a rotated log, it is the last host that wrote to the file.
        """
        if self.position is None or chunk.generation != self.position.generation:
            self.event_time, self.host = "", machine.host
        maker = LineRecords(
            Origin(
                run_id="live",
                source="vmware_log",
                host=machine.host,
                vm=machine.folder_name,
                datastore=datastore_name(machine.datastore, machine.host),
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


def poll(folder: Folder, position: Position | None, *, look: bool = False) -> Iterator[Chunk]:
    """Yield what was written since `position`, across rotations; all of vmware.log if it is None.

    `look` lists the folder first. Use it if the last poll was long ago: many logs may have been
    rotated, or old logs deleted, after which the numbers start again.
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
            # The file was truncated, or rotated to a number that existed before.
            position = yield from _catch_up(folder, find(folder, position))
        else:
            chunk = _chunk(LOG, position, part.data)
            yield chunk
            position = chunk.position
            if position.read_to >= part.size:
                return


def find(folder: Folder, position: Position) -> Position:
    """Return where to continue a log that was read in another folder, or lost in this one.

    If it is not found, return the beginning of the folder's vmware.log.
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
    """Return True if a file is the one that was being read."""
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
    """Yield the rest of a log that was rotated, and all logs rotated after it.

    `part` is the first part of that rest, if it has been read already. Returns the position in
    the current vmware.log.
    """
    newest = max(_newest(folder), position.rotated + (part is not None))
    for number in range(position.rotated + 1, newest + 1):
        yield from _rest(folder, _name(number), position, part)
        position, part = Position(rotated=number), None
        yield _nothing_at(position)
    return position


def _rest(folder: Folder, name: str, position: Position, part: Part | None) -> Iterator[Chunk]:
    """Yield a rotated log from `position` to its end, including a last line without terminator."""
    part = part or folder.read(name, position.read_to, CHUNK_BYTES)
    while part is not None:
        is_end = position.read_to + len(part.data) >= part.size
        chunk = _chunk(name, position, part.data, is_end=is_end)
        yield chunk
        position = chunk.position
        part = None if is_end else folder.read(name, position.read_to, CHUNK_BYTES)


def _nothing_at(position: Position) -> Chunk:
    """Return an empty chunk, so that the position is known even if nothing is read after it."""
    return Chunk(LOG, position.generation, position.offset, [], position)


def _chunk(name: str, position: Position, data: bytes, *, is_end: bool = False) -> Chunk:
    """Return the whole lines after `position`; all data if the file is complete."""
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
