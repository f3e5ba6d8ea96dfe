"""Reads files and decompresses them block by block, with bounded memory."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import zstandard

_BLOCK_BYTES = 1 << 20
# The rest of a bite is copied once for each gzip member, and a member may have only 20 bytes.
_GZIP_BITE_BYTES = 64 << 10
# Four bytes of zstd may expand to 128 KiB: small bites limit the output of one bite.
_ZSTD_BITE_BYTES = 128
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True, slots=True)
class Limits:
    """How much an archive or a compressed file may cost. A file beyond a limit is reported.

    None of these is a setting. To replay a trusted file beyond a limit, unpack it and replay the
    folder, which has no limits.
    """

    ratio: int = 200  # real logs and bundles stay below 100
    free_bytes: int = 16 << 20  # allowed output of any file, however small
    header_bytes: int = 1 << 20  # of a member's extended header
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


class Blocks:
    """Iterates the decompressed blocks of a file: plain, gzip or zstd, by its first bytes.

    Raises UnreadableError after the last readable block if the file is damaged, cut off, over the
    limits or not permitted.
    """

    def __init__(self, path: Path, limits: Limits = LIMITS) -> None:
        """The file is opened when the first block is read."""
        self._path = path
        self._limits = limits
        self.consumed_bytes = 0  # of the file on disk

    def __iter__(self) -> Iterator[bytes]:
        """Yield blocks of at most 4 MiB, none empty."""
        try:
            with self._path.open("rb") as stream:
                magic = stream.read(4)
                stream.seek(0)
                if magic.startswith(_GZIP):
                    yield from self._bounded(stream, self._gunzip(stream))
                elif magic == _ZSTD:
                    yield from self._bounded(stream, self._unzstd(stream))
                else:
                    yield from self._bites(stream, _BLOCK_BYTES)
        except OSError as problem:
            raise UnreadableError(sentence_of(problem)) from problem

    def _bounded(self, stream: IO[bytes], blocks: Iterator[bytes]) -> Iterator[bytes]:
        left = self._limits.most_bytes(os.fstat(stream.fileno()).st_size)
        for block in blocks:
            if len(block) > left:
                if left:
                    yield block[:left]
                raise UnreadableError(
                    f"it unpacks to more than {self._limits.ratio} times its size; the part before"
                    " was read. To replay all of it, unpack it yourself and replay the result"
                )
            left -= len(block)
            yield block

    def _bites(self, stream: IO[bytes], size: int) -> Iterator[bytes]:
        while bite := stream.read(size):
            self.consumed_bytes += len(bite)
            yield bite

    def _gunzip(self, stream: IO[bytes]) -> Iterator[bytes]:
        unzip = zlib.decompressobj(wbits=31)
        try:
            for bite in self._bites(stream, _GZIP_BITE_BYTES):
                rest = bite
                while rest:
                    if unzip.eof:  # another member, or padding that tapes and disks add
                        rest = rest.lstrip(b"\0")
                        if not rest:
                            break
                        unzip = zlib.decompressobj(wbits=31)
                    if block := unzip.decompress(rest, _BLOCK_BYTES):
                        yield block
                    rest = unzip.unused_data if unzip.eof else unzip.unconsumed_tail
        except zlib.error as problem:
            raise UnreadableError(f"the gzip data is damaged ({problem})") from problem
        if not unzip.eof:
            raise UnreadableError("the gzip data is truncated; the part before was read")

    def _unzstd(self, stream: IO[bytes]) -> Iterator[bytes]:
        unzip = zstandard.ZstdDecompressor().decompressobj()
        try:
            for bite in self._bites(stream, _ZSTD_BITE_BYTES):
                rest = bite
                while rest:
                    if unzip.eof:
                        unzip = zstandard.ZstdDecompressor().decompressobj()
                    if block := unzip.decompress(rest):
                        yield block
                    rest = unzip.unused_data if unzip.eof else b""
        except zstandard.ZstdError as problem:
            raise UnreadableError(f"the zstd data is damaged ({problem})") from problem
        if not unzip.eof:
            raise UnreadableError("the zstd data is truncated; the part before was read")


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


def sentence_of(problem: OSError | RuntimeError) -> str:
    """Return an operating system error as a sentence, without its number."""
    reason = (getattr(problem, "strerror", None) or str(problem)).lower()
    return f"it cannot be read: {reason}"
