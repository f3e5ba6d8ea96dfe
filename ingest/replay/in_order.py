"""Reads the files of a replay in the order of their lines' times.

Detectors take the lines of a log key in the order in which they arrive. A host writes several logs
at the same time, and rotated files follow each other, so the files of one log key are merged.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from typing import Final, Protocol

from stunwatch.ingest.records import Record, owner_key
from stunwatch.ingest.replay.reading import ESXTOP, Message
from stunwatch.ingest.replay.sorting import HELD_BACK
from stunwatch.ingest.replay.sources import SourceFile
from stunwatch.ingest.replay.streams import Problem

MOST_OPEN: Final = 64
"""How many files of a log key are read at the same time. If more overlap, the others wait: their
lines arrive later than those of the same time, and none is lost."""

MOST_HELD_BYTES: Final = 8 << 20
"""About how much of a file is in memory, if that is less than twice HELD_BACK messages. A line may
have 64 KiB, so the number of lines alone does not bound memory."""

_SENT_AT_ONCE: Final = 2_000


class FileReading(Protocol):
    """The part of ingest.replay.Reading that is used."""

    lines_read: int

    @property
    def bytes_read(self) -> int: ...
    @property
    def consumed_bytes(self) -> int: ...
    @property
    def problem(self) -> Problem | None: ...
    def __iter__(self) -> Iterator[list[Message]]: ...


class InOrder:
    """Iterate it once to get lists of messages of all files.

    Lines of one log key are in the order of their time; lines of the same time are in the order of
    the files. After the last line of a log key comes one progress record, with its newest time.
    """

    def __init__(
        self, files: Iterable[SourceFile], reading_of: Callable[[SourceFile], FileReading]
    ) -> None:
        """`reading_of` opens a file."""
        self._files = list(files)
        self._reading_of = reading_of
        self._ended_bytes = 0
        self._open: list[tuple[str, int, _Open]] = []
        """A heap of the open files, by the time of their next message and their number."""
        self._read_bytes = 0
        self.begun: list[tuple[SourceFile, FileReading]] = []
        """The files whose reading has begun, with their counters."""

    @property
    def consumed_bytes(self) -> int:
        """Return how many bytes of the files on disk have been read."""
        return self._ended_bytes + sum(each.reading.consumed_bytes for _, _, each in self._open)

    def __iter__(self) -> Iterator[list[Message]]:
        """Yield lists of messages, one group of files after the other."""
        for group in groups(self._files):
            progress: dict[tuple[str, str], Record] = {}
            yield from self._in_parts(self._merged(group, progress))
            if progress:
                yield [(topic, key, record) for (topic, key), record in progress.items()]

    def _merged(
        self, group: list[SourceFile], progress: dict[tuple[str, str], Record]
    ) -> Iterator[list[Message]]:
        """Yield parts of the files of one group so that the parts are in order."""
        waiting = deque(sorted(group, key=lambda file: _without_zone(file.first_event_time)))
        opened = self._open
        while waiting or opened:
            limit = None
            if waiting and len(opened) < MOST_OPEN:
                limit = _without_zone(waiting[0].first_event_time)
                if not opened or limit <= opened[0][0]:
                    file = waiting.popleft()
                    reading = self._reading_of(file)
                    self.begun.append((file, reading))
                    self._put(_Open(file, reading, progress), len(self.begun))
                    continue
            _, number, first = heappop(opened)
            if opened:
                limit = opened[0][0] if limit is None else min(limit, opened[0][0])
            known_bytes = first.reading.bytes_read
            yield first.take(limit)
            self._read_bytes += first.reading.bytes_read - known_bytes
            self._put(first, number)

    def _in_parts(self, lists: Iterator[list[Message]]) -> Iterator[list[Message]]:
        """Join short lists."""
        joined: list[Message] = []
        limit_bytes = self._read_bytes + MOST_HELD_BYTES
        for each in lists:
            joined += each
            if len(joined) >= _SENT_AT_ONCE or self._read_bytes >= limit_bytes:
                yield joined
                joined = []
                limit_bytes = self._read_bytes + MOST_HELD_BYTES
        if joined:
            yield joined

    def _put(self, each: _Open, number: int) -> None:
        if each.has_ended:
            self._ended_bytes += each.file.size_bytes
        else:
            heappush(self._open, (each.time, number, each))


class _Open:
    """A file that is being read: its next messages, sorted by time."""

    def __init__(
        self,
        file: SourceFile,
        reading: FileReading,
        progress: dict[tuple[str, str], Record],
    ) -> None:
        self.file = file
        self.reading = reading
        self._progress = progress
        self._batches = iter(reading)
        self._latest = ""
        self._times: list[str] = []
        self._messages: list[Message] = []
        self._at = 0
        self._held: tuple[list[str], list[Message]] = [], []
        self.has_ended = False
        self._refill()

    @property
    def time(self) -> str:
        """The time of its next message."""
        return self._times[self._at]

    def take(self, limit: str | None) -> list[Message]:
        """Return the messages up to a time, at least one; None: all that are sorted."""
        first = self._at
        if limit is None:
            self._at = len(self._messages)
        else:
            self._at = max(first + 1, bisect_right(self._times, limit, first))
        taken = self._messages[first : self._at]
        if self._at == len(self._messages):
            self._refill()
        return taken

    def _refill(self) -> None:
        """Read until there is a message, or until the end."""
        times, messages = self._held
        self._held = [], []
        # All of them are sorted each time, and a row of esxtop has few messages. So read as many
        # again as are held back.
        limit_bytes = self.reading.bytes_read + MOST_HELD_BYTES // 2
        while len(messages) < 2 * HELD_BACK and (
            not messages or self.reading.bytes_read < limit_bytes
        ):
            batch = next(self._batches, None)
            if batch is None:
                self.has_ended = not messages
                break
            if batch and batch[-1][2].get("kind") == "progress":
                batch = self._without_progress(batch)
            latest = self._latest
            for message in batch:
                # A rejected line may have no time and stays in its place.
                moment = message[2].get("event_time")
                if moment is not None:
                    latest = moment[:-1]
                times.append(latest)
            self._latest = latest
            messages += batch
            if batch and batch[-1][0] == ESXTOP:
                self._note_samples(batch)
        else:
            times, messages = _sorted(times, messages)
            cut = len(messages) - min(HELD_BACK, len(messages) // 2)
            self._held = times[cut:], messages[cut:]
            times, messages = times[:cut], messages[:cut]
            self._times, self._messages, self._at = times, messages, 0
            return
        self._times, self._messages = _sorted(times, messages)
        self._at = 0

    def _without_progress(self, batch: list[Message]) -> list[Message]:
        """Keep the records that end log keys until the group ends; return the other messages."""
        others = []
        for topic, key, record in batch:
            if record.get("kind") != "progress":
                others.append((topic, key, record))
                continue
            if self._is_newer(topic, key, record):
                self._progress[topic, key] = record
        return others

    def _note_samples(self, batch: list[Message]) -> None:
        """Remember the end of the samples of each host, from a row of esxtop."""
        for topic, key, record in (batch[0], batch[-1]):
            if topic == ESXTOP and self._is_newer(topic, key, record):
                self._progress[topic, key] = _end_of_samples(record)

    def _is_newer(self, topic: str, key: str, record: Record) -> bool:
        known = self._progress.get((topic, key))
        return known is None or _without_zone(known["event_time"]) < _without_zone(
            record["event_time"]
        )


def groups(files: Iterable[SourceFile]) -> Iterator[list[SourceFile]]:
    """Yield the files of each log key: of a VM, or of a host.

    Files without a host, for example of a relay, are one group: they contain lines of many hosts.
    """
    found: dict[tuple[str, ...], list[SourceFile]] = {}
    for file in files:
        found.setdefault(group_of(file), []).append(file)
    yield from found.values()


def group_of(file: SourceFile) -> tuple[str, ...]:
    """Return what the files of one log key have in common.

    The host that lines name wins over that of the folder, as in records.
    """
    if file.kind == "vmware_log":
        return file.kind, file.datastore or "", file.vm or ""
    return file.kind, owner_key(file.named_host or file.host) if file.host else ""


def _end_of_samples(sample: Record) -> Record:
    """Return the progress record after this sample, which closes the windows of its host."""
    kept = ("event_time", "received_at", "source", "host", "run_id", "time_quality")
    return {"kind": "progress", **{name: sample[name] for name in kept if name in sample}}


def _without_zone(moment: str) -> str:
    """Return a time without its `Z`: then texts of any precision sort by time."""
    return moment[:-1]


def _sorted(times: list[str], messages: list[Message]) -> tuple[list[str], list[Message]]:
    """Sort messages by their times. Most lists are sorted already."""
    in_order = sorted(times)
    if in_order == times:
        return times, messages
    places = sorted(range(len(times)), key=times.__getitem__)
    return in_order, [messages[place] for place in places]
