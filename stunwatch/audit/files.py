"""Finds byte ranges of files that are not in ClickHouse, by `coverage` and the file sizes.

A file is identified by its generation, the fingerprint of its first line, because log rotation
renames files. A file that is not found under its name is searched for in the same folder.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from stunwatch.audit.events import NO_LIMIT, query
from stunwatch.clickhouse import ClickHouse
from stunwatch.ingest.records import generation_of
from stunwatch.ingest.replay.esxtop import MAX_ROW_BYTES, is_header
from stunwatch.ingest.replay.lines import batches
from stunwatch.ingest.replay.streams import (
    MAGIC_BYTES,
    Blocks,
    UnreadableError,
    beginning,
    is_plain,
)

LINES_AT_ONCE = 2_000_000
"""Maximum number of lines per query of `coverage`, so that it does not run out of memory."""

NAMED_AT_ONCE = 1_000
"""Maximum number of fingerprints in a query's parameters."""

_HEAD_BYTES = 1 << 20
"""Maximum length of a first line. Of an esxtop header, only the first 1024 bytes count."""

_COVERAGE = """
SELECT generation, file, source, host, vm, datastore, bytes_to, gaps
FROM coverage
WHERE generation IN {generations:Array(String)}
"""


@dataclass(frozen=True)
class StoredFile:
    """One row of `coverage`, and the current path of the file."""

    generation: str
    name: str
    """The name that it had when its last line arrived."""
    source: str
    host: str
    vm: str
    datastore: str
    bytes_to: int
    """Nothing is stored after this byte."""
    gaps: tuple[tuple[int, int], ...]
    """[from, to) in bytes: missing before `bytes_to`, and after it if the size is known."""
    path: Path | None = None
    """None if the file is not on this machine."""
    size: int | None = None
    """Size of the file, decompressed, up to its last complete line; None if unknown."""

    @property
    def gap_bytes(self) -> int:
        """Return the number of missing bytes."""
        return sum(end - start for start, end in self.gaps)


def stored_files(clickhouse: ClickHouse) -> list[StoredFile]:
    """Return all files that lines came from. Source and owner are set only if bytes are missing."""
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
        found += covered(clickhouse, batch)
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


def covered(clickhouse: ClickHouse, generations: list[str]) -> Iterator[StoredFile]:
    """Yield the rows of `coverage` for these files."""
    for generation, name, source, host, vm, datastore, bytes_to, gaps in clickhouse.rows(
        _COVERAGE, {"generations": generations}, settings=NO_LIMIT
    ):
        places = tuple((start, end) for start, end in gaps)
        yield StoredFile(generation, name, source, host, vm, datastore, bytes_to, places)


def look_again(clickhouse: ClickHouse, files: list[StoredFile]) -> list[StoredFile]:
    """Query these files again; keep the sizes that were measured before."""
    before = {each.generation: each for each in files}
    names = list(before)
    found: list[StoredFile] = []
    for first in range(0, len(names), NAMED_AT_ONCE):
        for now in covered(clickhouse, names[first : first + NAMED_AT_ONCE]):
            then = before[now.generation]
            found.append(without_headers(with_tail(replace(now, path=then.path, size=then.size))))
    return found


class Finder:
    """Finds stored files on this machine; caches the contents of folders."""

    def __init__(self) -> None:
        self._folders: dict[Path, dict[str, Path]] = {}

    def measure(self, file: StoredFile) -> StoredFile:
        """Return the file with its current path, and with the bytes after the last stored byte as a
        gap.
        """
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
        # A rotated file is in the same folder as its successor.
        folder = named.parent
        if folder not in self._folders:
            self._folders[folder] = _generations_in(folder)
        return self._folders[folder].get(file.generation)


def with_tail(file: StoredFile) -> StoredFile:
    """Return the file with the bytes after its last stored byte as a gap."""
    if file.size is None or file.size <= file.bytes_to:
        return file
    return replace(file, gaps=(*file.gaps, (file.bytes_to, file.size)))


def without_headers(file: StoredFile) -> StoredFile:
    """Return the file without gaps that are headers, which occur if esxtop was restarted with `>>`.

    A header defines columns and becomes no record.
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
    """Return the fingerprint of a regular file's first line; None if it cannot be read."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return None
        head = beginning(path, _HEAD_BYTES, is_after_nuls=True)
    except (OSError, UnreadableError):
        return None
    return generation_of(head.partition(b"\n")[0]) if head else None


def _size(path: Path, stored_to: int) -> int:
    """Return the end of the last complete line in bytes, decompressed. Raises OSError."""
    with path.open("rb") as stream:
        if not is_plain(stream.read(MAGIC_BYTES)):
            return _decompressed_size(path)
        size = end = stream.seek(min(stored_to, path.stat().st_size))
        while block := stream.read(1 << 20):
            # Bytes after the last newline are a line that is still being written.
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
        pass  # only the readable part of a damaged file counts
    return size
