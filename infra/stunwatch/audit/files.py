"""Finds the bytes of files that are not in ClickHouse, by `coverage` and by the files' own size.

A file is known by its generation, the fingerprint of its first line, because rotation renames
files: one that is not found under its name is looked for in the same folder.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ingest.records import generation_of
from ingest.replay.esxtop import MAX_ROW_BYTES, is_header
from ingest.replay.lines import batches
from ingest.replay.streams import Blocks, UnreadableError, beginning
from stunwatch.audit.events import NO_LIMIT, query
from stunwatch.clickhouse import ClickHouse

LINES_AT_ONCE = 2_000_000
"""Of so many lines `coverage` can tell at once without running out of memory."""

NAMED_AT_ONCE = 1_000
"""So many fingerprints or places fit into a query's parameters."""

_HEAD_BYTES = 1 << 20
"""No first line is longer, except an esxtop header: of that the first 1024 bytes count."""

_COVERAGE = """
SELECT generation, file, source, host, vm, datastore, bytes_to, gaps
FROM coverage
WHERE generation IN {generations:Array(String)}
"""


# Lines that are about to expire: what is missing before them has expired already.
_EXPIRING = """
SELECT generation, offset
FROM
(
    SELECT generation, offset, received_at FROM log_lines_stored
    UNION ALL
    SELECT generation, offset, received_at FROM rejected_lines_stored
    UNION ALL
    SELECT generation, offset, received_at FROM latency_samples_stored
)
WHERE
    generation IN {generations:Array(String)}
    AND offset IN {offsets:Array(UInt64)}
    AND received_at < {kept_since:DateTime('UTC')}
GROUP BY generation, offset
"""


@dataclass(frozen=True)
class StoredFile:
    """One row of `coverage`, and where the file is now."""

    generation: str
    name: str
    """The name that it had when its last line arrived."""
    source: str
    host: str
    vm: str
    datastore: str
    bytes_to: int
    """Nothing is stored behind this byte."""
    gaps: tuple[tuple[int, int], ...]
    """[from, to) in bytes: missing before `bytes_to`, and behind it where the size is known."""
    path: Path | None = None
    """None where it is not on this machine."""
    size: int | None = None
    """Of the file, decompressed, up to its last whole line; None where it is not known."""

    @property
    def gap_bytes(self) -> int:
        """How many bytes are missing."""
        return sum(end - start for start, end in self.gaps)


def stored_files(clickhouse: ClickHouse, since: str) -> list[StoredFile]:
    """Every file that lines came from; all but their names is filled in only where bytes lack.

    `since` is what `stunwatch.audit.events.kept_since` says.
    """
    found: list[StoredFile] = []
    suspicious: list[tuple[str, int]] = []
    for generation, name, lines, bytes_to, is_suspicious in clickhouse.rows(
        query("files"), settings=NO_LIMIT
    ):
        if is_suspicious:
            suspicious.append((generation, lines))
        else:
            found.append(StoredFile(generation, name, "", "", "", "", bytes_to, ()))
    for batch in _batches(suspicious):
        found += covered(clickhouse, batch, since)
    return found


def _batches(files: list[tuple[str, int]]) -> Iterator[list[str]]:
    batch: list[str] = []
    batch_lines = 0
    for generation, lines in files:
        is_full = batch_lines + lines > LINES_AT_ONCE or len(batch) == NAMED_AT_ONCE
        if batch and is_full:
            yield batch
            batch, batch_lines = [], 0
        batch.append(generation)
        batch_lines += lines
    if batch:
        yield batch


def covered(clickhouse: ClickHouse, generations: list[str], since: str) -> Iterator[StoredFile]:
    """What `coverage` tells of these files; what has expired is not missing."""
    names = _array(generations)
    rows = clickhouse.rows(_COVERAGE, {"generations": names}, settings=NO_LIMIT)
    ends = sorted({end for *_, gaps in rows for _, end in gaps})
    expired: set[tuple[str, int]] = set()
    for first in range(0, len(ends), NAMED_AT_ONCE):
        offsets = ends[first : first + NAMED_AT_ONCE]
        parameters = {"generations": names, "offsets": offsets, "kept_since": since}
        found = clickhouse.rows(_EXPIRING, parameters, settings=NO_LIMIT)
        expired |= {(generation, offset) for generation, offset in found}
    for generation, name, source, host, vm, datastore, bytes_to, gaps in rows:
        places = tuple((start, end) for start, end in gaps if (generation, end) not in expired)
        yield StoredFile(generation, name, source, host, vm, datastore, bytes_to, places)


def _array(generations: list[str]) -> str:
    """Fingerprints as ClickHouse's array literal; they are hexadecimal."""
    return "[" + ",".join(f"'{generation}'" for generation in generations) + "]"


def look_again(clickhouse: ClickHouse, files: list[StoredFile], since: str) -> list[StoredFile]:
    """The same files as they are stored now, with the sizes that were measured before."""
    before = {each.generation: each for each in files}
    names = list(before)
    found: list[StoredFile] = []
    for first in range(0, len(names), NAMED_AT_ONCE):
        for now in covered(clickhouse, names[first : first + NAMED_AT_ONCE], since):
            then = before[now.generation]
            found.append(without_headers(with_tail(replace(now, path=then.path, size=then.size))))
    return found


class Finder:
    """Finds stored files on this machine; it remembers what it saw of a folder."""

    def __init__(self) -> None:
        self._folders: dict[Path, dict[str, Path]] = {}

    def measure(self, file: StoredFile) -> StoredFile:
        """The file, where it is now, with what lies behind its last byte stored among its gaps."""
        path = self._path_of(file)
        if path is None:
            archive = Path(file.name.partition("!")[0])
            return replace(file, path=archive if archive.is_file() else None)
        try:
            size = _size(path, file.bytes_to)
        except OSError:
            return replace(file, path=path)
        return without_headers(with_tail(replace(file, path=path, size=size)))

    def _path_of(self, file: StoredFile) -> Path | None:
        named = Path(file.name)
        if _generation(named) == file.generation:
            return named
        # What was rotated lies beside its successor.
        folder = named.parent
        if folder not in self._folders:
            self._folders[folder] = _generations_in(folder)
        return self._folders[folder].get(file.generation)


def with_tail(file: StoredFile) -> StoredFile:
    """The file with what lies behind the last byte stored among its gaps."""
    if file.size is None or file.size <= file.bytes_to:
        return file
    return replace(file, gaps=(*file.gaps, (file.bytes_to, file.size)))


def without_headers(file: StoredFile) -> StoredFile:
    """The file without those gaps that are headers: esxtop was started again with `>>`.

    A header tells what columns mean and becomes no record.
    """
    if file.path is None or file.source != "esxtop" or not file.gaps:
        return file
    try:
        headers = {
            (offset, offset + line_bytes)
            for batch in batches(Blocks(file.path), MAX_ROW_BYTES)
            for row, offset, line_bytes in batch
            if is_header(row)
        }
    except UnreadableError:
        return file
    return replace(file, gaps=tuple(gap for gap in file.gaps if gap not in headers))


def _generations_in(folder: Path) -> dict[str, Path]:
    try:
        paths = sorted(folder.iterdir())
    except OSError:
        return {}
    return {generation: path for path in paths if (generation := _generation(path))}


def _generation(path: Path) -> str | None:
    """The fingerprint of a regular file's first line; None where there is none to read."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return None
        head = beginning(path, _HEAD_BYTES)
    except (OSError, UnreadableError):
        return None
    return generation_of(head.partition(b"\n")[0]) if head else None


def _size(path: Path, stored_to: int) -> int:
    """Up to which byte, decompressed, there are lines that should be stored. Raises OSError."""
    with path.open("rb") as stream:
        if stream.read(4).startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd")):
            return _decompressed_size(path)
        size = end = stream.seek(min(stored_to, path.stat().st_size))
        while block := stream.read(1 << 20):
            # What stands behind the last line's end is a line that is still being written.
            if (newline := block.rfind(b"\n")) >= 0:
                end = size + newline + 1
            size += len(block)
    return end


def _decompressed_size(path: Path) -> int:
    size = 0
    try:
        for block in Blocks(path):
            size += len(block)
    except UnreadableError:
        pass  # what can be read of a damaged file is all that counts
    return size
