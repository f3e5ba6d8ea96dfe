"""Reads files and decompresses them block by block, with bounded memory."""

from __future__ import annotations

import bz2
import codecs
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, NamedTuple, Protocol

import zstandard

_BLOCK_BYTES = 1 << 20
_XZ_MEMORY_BYTES = 128 << 20
"""`xz -9` needs 65 MiB to decompress. A header may demand 4 GiB."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much an archive or a compressed file may cost. A file beyond a limit is reported.

    None of these is a setting. To replay a trusted file beyond a limit, unpack it and replay the
    folder, which has no limits.
    """

    ratio: int = 200  # real logs and bundles stay below 100
    free_bytes: int = 16 << 20  # allowed output of any file, however small
    header_bytes: int = 1 << 20  # of a member's extended header in a tar archive
    zip_list_bytes: int = 16 << 20  # about 150,000 members; zipfile keeps 600 bytes for each
    name_bytes: int = 4096  # of a member's path; Linux does not allow longer ones
    members: int = 2_000_000
    logs: int = 200_000  # each is a file in the temporary folder
    depth: int = 8  # archives inside archives
    problems: int = 1000  # that are kept
    spare_disk_bytes: int = 1 << 30  # free space to leave on the temporary disk

    def most_bytes(self, packed_bytes: int) -> int:
        """Return how many bytes may be decompressed from a file of this size."""
        return self.free_bytes + self.ratio * packed_bytes


LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Problem:
    """Why something could not be read: a path and a sentence for the user."""

    path: str
    sentence: str
    is_failure: bool = True
    """False if it is not a log: nothing is lost, and the replay of other files has not failed."""


class UnreadableError(Exception):
    """Reading ended early. The text is the sentence to show; data before the error was returned."""


class _Decompressor(Protocol):
    """The interface of bz2 and lzma: one member, stream or frame of a compressed file."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Gunzip:
    """Decompresses one gzip member."""

    def __init__(self) -> None:
        self._unzip = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._unzip.eof

    @property
    def needs_input(self) -> bool:
        return not self._unzip.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._unzip.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._unzip.decompress(self._unzip.unconsumed_tail + data, max_length)


class _Unzstd:
    """Decompresses one zstd frame. It returns all output of its input: `max_length` is ignored."""

    needs_input = True

    def __init__(self) -> None:
        self._unzip = zstandard.ZstdDecompressor().decompressobj()

    @property
    def eof(self) -> bool:
        return self._unzip.eof

    @property
    def unused_data(self) -> bytes:
        return self._unzip.unused_data

    def decompress(self, data: bytes, _: int) -> bytes:
        return self._unzip.decompress(data)


def _unxz() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES)


class _Compression(NamedTuple):
    """A format of compressed files."""

    name: str
    magic: bytes
    decompressor: Callable[[], _Decompressor]
    error: type[Exception]
    fault: str = "is damaged"
    # The rest of a bite is copied once for each member, and a gzip member may have only 20 bytes.
    bite_bytes: int = 64 << 10


_COMPRESSIONS = (
    _Compression("gzip", b"\x1f\x8b", _Gunzip, zlib.error),
    # Four bytes of zstd may expand to 128 KiB: small bites limit the output of one bite.
    _Compression("zstd", b"\x28\xb5\x2f\xfd", _Unzstd, zstandard.ZstdError, bite_bytes=128),
    _Compression("bzip2", b"BZh", bz2.BZ2Decompressor, OSError),
    _Compression(
        "xz",
        b"\xfd7zXZ\0",
        _unxz,
        lzma.LZMAError,
        fault=f"is damaged, or needs more than {_XZ_MEMORY_BYTES >> 20} MiB of memory",
    ),
)
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
MAGIC_BYTES = max(len(each.magic) for each in _COMPRESSIONS)


class Blocks:
    """Iterates the decompressed blocks of a file: plain, or compressed, by its first bytes.

    A text in UTF-16 that begins with a byte order mark, as PowerShell writes, becomes UTF-8.

    Raises UnreadableError after the last readable block if the file is damaged, cut off, over the
    limits or not permitted.
    """

    def __init__(self, path: Path, limits: Limits = LIMITS) -> None:
        """The file is opened when the first block is read."""
        self._path = path
        self._limits = limits
        self.consumed_bytes = 0  # of the file on disk

    def __iter__(self) -> Iterator[bytes]:
        """Yield blocks of at most 6 MiB, none empty."""
        try:
            with self._path.open("rb") as stream:
                magic = stream.read(MAGIC_BYTES)
                stream.seek(0)
                for compression in _COMPRESSIONS:
                    if magic.startswith(compression.magic):
                        packed_bytes = os.fstat(stream.fileno()).st_size
                        blocks = self._decompressed(stream, compression)
                        yield from _as_utf8(self._bounded(blocks, packed_bytes))
                        return
                yield from _as_utf8(self._bites(stream, _BLOCK_BYTES))
        except OSError as problem:
            raise UnreadableError(sentence_of(problem)) from problem

    def _bounded(self, blocks: Iterator[bytes], packed_bytes: int) -> Iterator[bytes]:
        left = self._limits.most_bytes(packed_bytes)
        for block in blocks:
            if len(block) > left:
                if left:
                    yield block[:left]
                raise UnreadableError(unpacks_to_more(self._limits))
            left -= len(block)
            yield block

    def _bites(self, stream: IO[bytes], size: int) -> Iterator[bytes]:
        while bite := stream.read(size):
            self.consumed_bytes += len(bite)
            yield bite

    def _decompressed(self, stream: IO[bytes], compression: _Compression) -> Iterator[bytes]:
        unpacker = compression.decompressor()
        for bite in self._bites(stream, compression.bite_bytes):
            rest = bite
            while rest or not (unpacker.eof or unpacker.needs_input):
                if unpacker.eof:  # another member, or padding that tapes and disks add
                    rest = rest.lstrip(b"\0")
                    if not rest:
                        break
                    unpacker = compression.decompressor()
                try:
                    block = unpacker.decompress(rest, _BLOCK_BYTES)
                except compression.error as problem:
                    raise UnreadableError(
                        f"the {compression.name} data {compression.fault} ({problem})"
                    ) from problem
                if block:
                    yield block
                rest = unpacker.unused_data
        if not unpacker.eof:
            raise UnreadableError(
                f"the {compression.name} data is truncated; the part before was read"
            )


def is_plain(beginning: bytes) -> bool:
    """Return True if Blocks yields a file as it is, by its first MAGIC_BYTES bytes."""
    return not beginning.startswith((*_UTF16_MARKS, *(each.magic for each in _COMPRESSIONS)))


def unpacks_to_more(limits: Limits) -> str:
    """Return the sentence about a compressed file or archive that is over its limit."""
    return (
        f"it unpacks to more than {limits.ratio} times its size; the part before was read. To"
        " replay all of it, unpack it yourself and replay the result"
    )


def _as_utf8(blocks: Iterator[bytes]) -> Iterator[bytes]:
    first = next(blocks, b"")
    if not first.startswith(_UTF16_MARKS):
        yield from chain([first] if first else [], blocks)
        return
    decoder = codecs.getincrementaldecoder("utf-16")(errors="replace")
    for block in chain([first], blocks):
        if text := decoder.decode(block):
            yield text.encode()
    if text := decoder.decode(b"", final=True):
        yield text.encode()


class BlockFile:
    """A file object over blocks that only reads forward.

    It ends where the blocks end. `problem` is set if that was too early.
    """

    def __init__(self, blocks: Blocks) -> None:
        """Start at the first block."""
        self.problem: UnreadableError | None = None
        self._blocks = iter(blocks)
        self._block = b""
        self._at = 0  # offset in the block

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes; fewer only at the end."""
        return b"".join(self.pieces(size))

    def pieces(self, size: int) -> Iterator[bytes]:
        """Yield the same bytes in pieces of at most one block."""
        missing = size
        while missing > 0:
            if self._at == len(self._block):
                self._block, self._at = self._next_block(), 0
                if not self._block:
                    return
            piece = self._block[self._at : self._at + missing]
            self._at += len(piece)
            missing -= len(piece)
            yield piece

    def skip(self, size: int) -> bool:
        """Skip `size` bytes; return False if there are fewer."""
        return sum(map(len, self.pieces(size))) == size

    def _next_block(self) -> bytes:
        if self.problem is None:
            try:
                return next(self._blocks, b"")
            except UnreadableError as problem:
                self.problem = problem
        return b""


def beginning(
    path: Path, size: int, limits: Limits = LIMITS, *, is_after_nuls: bool = False
) -> bytes:
    """Return the first `size` decompressed bytes, or as many as can be read.

    With `is_after_nuls`, the NULs at the beginning are skipped.
    """
    pieces: list[bytes] = []
    missing = size
    try:
        for block in Blocks(path, limits):
            piece = block.lstrip(b"\0") if is_after_nuls and not pieces else block
            if piece:
                pieces.append(piece)
                missing -= len(piece)
            if missing <= 0:
                break
    except UnreadableError:
        if not pieces:
            raise
    return b"".join(pieces)[:size]


def end(path: Path, size: int, limits: Limits = LIMITS) -> bytes:
    """Return the last `size` decompressed bytes that can be read. Reads the whole file."""
    kept = b""
    with suppress(UnreadableError):  # the reading of the file reports it
        for block in Blocks(path, limits):
            kept = (kept + block)[-size:]
    return kept


def sentence_of(problem: OSError | RuntimeError) -> str:
    """Return an operating system error as a sentence, without its number."""
    reason = (getattr(problem, "strerror", None) or str(problem)).lower()
    return f"it cannot be read: {reason}"
