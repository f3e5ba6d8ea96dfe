"""Sorts the lines of an export by their times.

Servers that search many indexes at the same time, and programs that copy an index, write lines in
no order. Detectors need the order of the time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from heapq import merge
from pathlib import Path
from typing import Final

from stunwatch.ingest.records import MAX_LINE_BYTES
from stunwatch.ingest.replay.lines import batches
from stunwatch.ingest.replay.streams import UnreadableError

TimeOf = Callable[[bytes], str | None]
"""Returns the time of a line as text that sorts by time; None if it has none."""

HELD_BACK: Final = 2_000
"""How many messages of a file wait for older ones. Lines of a log are nearly in order."""

_PART_BYTES = 64 << 20  # sorted in memory
_LINE_BYTES = 200  # what a line and its time cost besides its text
_MOST_PARTS = 256  # each is an open file while they are merged
_SAMPLED = 50  # the time of one line in so many is read to find out whether a file is in order
_FEW = 5


def is_unordered(blocks: Iterable[bytes], time_of: TimeOf) -> bool:
    """Return True if lines are older than lines more than HELD_BACK lines before them."""
    times: deque[str] = deque()  # of the last lines
    newest = ""  # of all lines before them
    older = 0
    for number, line in enumerate(_lines(blocks)):
        if number % _SAMPLED:
            continue
        times.append(time_of(line) or newest)
        if len(times) > HELD_BACK // _SAMPLED:
            newest = max(newest, times.popleft())
        older += times[-1] < newest
        if older > _FEW:
            return True
    return False


def write_sorted(blocks: Iterable[bytes], time_of: TimeOf, to: Path) -> None:
    """Write the lines by time to a file. A line without a time follows the line before it.

    Lines of the same time keep their order. Raises OSError, and UnreadableError for a file that is
    too large.
    """
    parts: list[Path] = []
    for number, part in enumerate(_parts(blocks, time_of)):
        if number == _MOST_PARTS:
            raise UnreadableError(
                "the file is too large to sort. Sort its lines by time and replay the result"
            )
        parts.append(to.with_name(f"{to.name}.{number}"))
        with parts[-1].open("wb") as file:
            file.writelines(b"%b\0%b\n" % timed for timed in part)
    with ExitStack() as opened, to.open("wb") as file:
        sources = [opened.enter_context(each.open("rb")) for each in parts]
        for timed in merge(*sources, key=lambda line: line.partition(b"\0")[0]):
            file.write(timed.partition(b"\0")[2])
    for each in parts:
        each.unlink()


def _parts(blocks: Iterable[bytes], time_of: TimeOf) -> Iterator[list[tuple[bytes, bytes]]]:
    """Yield sorted lists of times and lines."""
    part: list[tuple[bytes, bytes]] = []
    size = 0
    time = ""
    for line in _lines(blocks):
        time = time_of(line) or time
        part.append((time.encode(), line))
        size += len(line) + _LINE_BYTES
        if size >= _PART_BYTES:
            yield sorted(part, key=lambda timed: timed[0])
            part, size = [], 0
    yield sorted(part, key=lambda timed: timed[0])


def _lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines; of a longer one, one byte more than MAX_LINE_BYTES shows that it is cut."""
    for batch in batches(blocks, MAX_LINE_BYTES):
        for line, _, _ in batch:
            yield line
