"""Reads the regular files of a tar archive one after the other, with bounded memory.

tarfile reads extended headers and sparse maps of any size into memory, keeps every member, and
stops at the first bad header. This module uses only tarfile's parser for a single header block.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field

from stunwatch.ingest.records import decode
from stunwatch.ingest.replay.streams import BlockFile, Limits

_BLOCK_BYTES = 512
_REGULAR = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)
_WITHOUT_CONTENT = (
    tarfile.LNKTYPE,
    tarfile.SYMTYPE,
    tarfile.CHRTYPE,
    tarfile.BLKTYPE,
    tarfile.DIRTYPE,
    tarfile.FIFOTYPE,
)
_PAX_MEMBER = (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE)
_IS_EXTENDED, _IS_EXTENDED_FURTHER = 482, 504  # offsets of flags in the blocks of a sparse map
_MOST_DIGITS = 19
_SHOWN_NAME = 200

SPARSE = "it is stored as a sparse file, which replay does not unpack; unpack it yourself"
DAMAGED_HEADER = "its extended header is damaged"


@dataclass(frozen=True, slots=True)
class Member:
    """A regular file in an archive."""

    name: str
    size_bytes: int
    written_at: float  # seconds since 1970, from the archive; any value is possible
    fault: str  # why it cannot be unpacked; empty if it can be


@dataclass(slots=True)
class _Extended:
    """The values that extended headers set for the next member."""

    name: bytes = b""
    size_bytes: int | None = None
    written_at: float | None = None
    fault: str = ""


@dataclass(slots=True)
class Archive:
    """A tar archive. Iterate it once; `content` returns the bytes of the member yielded last.

    After reading, `fault` describes an error in the archive as a whole. If the stream had an error
    too, report that one first.
    """

    stream: BlockFile
    limits: Limits
    fault: str = ""
    _left: int = field(default=0, init=False)  # unread bytes of the member's content

    def __iter__(self) -> Iterator[Member]:
        """Yield the regular files. Unreadable headers are skipped."""
        extended = _Extended()
        members = 0
        while block := self.stream.read(_BLOCK_BYTES):
            if not block.strip(b"\0"):
                continue  # end of the archive; another archive or padding may follow
            header = _header(block)
            if header is None:
                self.fault = "the archive is damaged; a part of it was read"
                extended = _Extended()
                continue
            members += 1
            if members > self.limits.members:
                self.fault = (
                    f"the archive has more than {self.limits.members:,} members; the first were"
                    " read. To replay all of it, unpack it yourself and replay the folder"
                )
                return
            size = header.size
            if header.type in (tarfile.GNUTYPE_LONGNAME, *_PAX_MEMBER):
                self._extend(extended, header)
                continue
            if header.type in (tarfile.GNUTYPE_LONGLINK, tarfile.XGLTYPE):
                self._skip(_padded(size))
                continue
            if header.type == tarfile.GNUTYPE_SPARSE:
                extended.fault = extended.fault or SPARSE
                is_extended = bool(block[_IS_EXTENDED])
                while is_extended and (block := self.stream.read(_BLOCK_BYTES)):
                    is_extended = len(block) == _BLOCK_BYTES and bool(block[_IS_EXTENDED_FURTHER])
            if header.type in _WITHOUT_CONTENT:
                size = 0
            elif extended.size_bytes is not None:
                size = extended.size_bytes
            self._left = size
            if header.type in (*_REGULAR, tarfile.GNUTYPE_SPARSE):
                yield self._member(header, extended, size)
            padding = -size % _BLOCK_BYTES
            self._skip(self._left + padding)
            extended = _Extended()

    def content(self) -> Iterator[bytes]:
        """Yield the member's bytes. If the archive is cut off, yield the bytes that are there."""
        for piece in self.stream.pieces(self._left):
            self._left -= len(piece)
            yield piece

    def _skip(self, size: int) -> None:
        # Many programs do not write the last padding.
        if not self.stream.skip(size) and size >= _BLOCK_BYTES:
            self.fault = "the archive is cut off; what came before the cut was read"

    def _extend(self, extended: _Extended, header: tarfile.TarInfo) -> None:
        if header.size > self.limits.header_bytes:
            extended.fault = f"its extended header has more than {self.limits.header_bytes:,} bytes"
            self._skip(_padded(header.size))
            return
        data = self.stream.read(_padded(header.size))[: header.size]
        if header.type == tarfile.GNUTYPE_LONGNAME:
            extended.name = data.partition(b"\0")[0]
        else:
            _read_pax(data, extended)

    def _member(self, header: tarfile.TarInfo, extended: _Extended, size: int) -> Member:
        name = extended.name or header.name.encode("utf-8", "surrogateescape")
        fault = extended.fault
        if len(name) > self.limits.name_bytes:
            fault = fault or f"its name has {len(name):,} bytes"
            name = name[:_SHOWN_NAME]
        written_at = header.mtime if extended.written_at is None else extended.written_at
        return Member(decode(name), size, written_at, fault)


def _header(block: bytes) -> tarfile.TarInfo | None:
    """Return the header in a block; None if the block is not a header."""
    if block[257:262] != b"ustar":
        return None
    try:
        header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except (tarfile.TarError, ValueError):
        return None
    return header if header.size >= 0 else None


def _padded(size: int) -> int:
    return size + -size % _BLOCK_BYTES


def _read_pax(data: bytes, extended: _Extended) -> None:
    """Read the records `<length> <key>=<value>\\n` of a header and keep those that are needed."""
    at = 0
    while at < len(data):
        space = data.find(b" ", at, at + _MOST_DIGITS + 1)
        length = _number(data[at:space]) if space > 0 else None
        if length is None or length <= space - at + 1 or at + length > len(data):
            extended.fault = DAMAGED_HEADER
            return
        key, _, value = data[space + 1 : at + length - 1].partition(b"=")
        at += length
        if key in (b"path", b"GNU.sparse.name"):
            extended.name = value
        elif key == b"size":
            extended.size_bytes = _number(value)
            if extended.size_bytes is None:
                extended.fault = DAMAGED_HEADER
        elif key == b"mtime":
            try:
                extended.written_at = float(value)
            except ValueError:
                extended.fault = DAMAGED_HEADER
        if key.startswith(b"GNU.sparse."):
            extended.fault = SPARSE


def _number(digits: bytes) -> int | None:
    return int(digits) if digits.isdigit() and len(digits) <= _MOST_DIGITS else None
