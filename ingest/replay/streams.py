"""The bytes of a file, decompressed as they are read, with bounded memory."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import zstandard

_BLOCK_BYTES = 1 << 20
# A kilobyte of zstd may hold megabytes: small bites bound what comes out of one.
_ZSTD_BITE_BYTES = 8 << 10
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True, slots=True)
class Problem:
    """What kept something from being read, for a person: the path and a sentence about it."""

    path: str
    sentence: str


class UnreadableError(Exception):
    """Reading ended early; its text is the sentence. What came before was handed over."""


class Blocks:
    """Iterates the decompressed blocks of a file; plain, gzip or zstd by its first bytes.

    Raises UnreadableError after the last readable block if the file is damaged, cut off or not
    permitted.
    """

    def __init__(self, path: Path) -> None:
        """Nothing is opened before the first block is asked for."""
        self._path = path
        self.consumed_bytes = 0  # of the file as it lies on disk

    def __iter__(self) -> Iterator[bytes]:
        """Blocks of at most a few megabytes, none empty."""
        try:
            with self._path.open("rb") as stream:
                magic = stream.read(4)
                stream.seek(0)
                if magic.startswith(_GZIP):
                    yield from self._gunzip(stream)
                elif magic == _ZSTD:
                    yield from self._unzstd(stream)
                else:
                    yield from self._bites(stream, _BLOCK_BYTES)
        except OSError as problem:
            raise UnreadableError(sentence_of(problem)) from problem

    def _bites(self, stream: IO[bytes], size: int) -> Iterator[bytes]:
        while bite := stream.read(size):
            self.consumed_bytes += len(bite)
            yield bite

    def _gunzip(self, stream: IO[bytes]) -> Iterator[bytes]:
        unzip = zlib.decompressobj(wbits=31)
        try:
            for bite in self._bites(stream, _BLOCK_BYTES):
                rest = bite
                while rest:
                    if unzip.eof:  # a further member, or the padding that tapes and disks leave
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
            raise UnreadableError("the gzip data is cut off; what came before the cut was read")

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
            raise UnreadableError("the zstd data is cut off; what came before the cut was read")


class BlockFile:
    """Blocks as a file object with `read`, as much of one as tarfile needs.

    It ends where the blocks end; `problem` says if that was too early.
    """

    def __init__(self, blocks: Blocks) -> None:
        """Read on from the first block."""
        self.problem: UnreadableError | None = None
        self._blocks = iter(blocks)
        self._buffer = b""

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end."""
        pieces = [self._buffer]
        missing = size - len(self._buffer)
        try:
            while missing > 0 and (block := next(self._blocks, b"")):
                pieces.append(block)
                missing -= len(block)
        except UnreadableError as problem:
            self.problem = problem
        whole = b"".join(pieces)
        self._buffer = whole[size:]
        return whole[:size]


def beginning(path: Path, size: int) -> bytes:
    """The first `size` decompressed bytes, or what of them can be read."""
    pieces: list[bytes] = []
    missing = size
    try:
        for block in Blocks(path):
            pieces.append(block)
            missing -= len(block)
            if missing <= 0:
                break
    except UnreadableError:
        if not pieces:
            raise
    return b"".join(pieces)[:size]


def sentence_of(problem: OSError) -> str:
    """An operating system's complaint in a sentence, without its number."""
    reason = (problem.strerror or str(problem)).lower()
    return f"it cannot be read: {reason}"
