"""Reads the regular files of a tar or zip archive one after the other, with bounded memory.

tarfile reads extended headers and sparse maps of any size into memory, keeps every member, and
stops at the first bad header. This module uses only tarfile's parser for a single header block.
zipfile reads members in pieces, but the list of members at once; this module bounds that list.
"""

from __future__ import annotations

import calendar
import io
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from stunwatch.ingest.records import decode
from stunwatch.ingest.replay.streams import LIMITS, BlockFile, Blocks, Limits, unpacks_to_more

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

_PIECE_BYTES = 256 << 10
_ENCRYPTED = 1  # a flag of a member of a zip archive

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


class Archive(Protocol):
    """An archive. Iterate it once; `content` returns the bytes of the member yielded last."""

    @property
    def fault(self) -> str:
        """Return, after reading, what is wrong with the archive as a whole; empty if nothing."""

    def __iter__(self) -> Iterator[Member]:
        """Yield the regular files. Unreadable headers are skipped."""

    def content(self) -> Iterator[bytes]:
        """Yield the member's bytes. If the archive is cut off, yield the bytes that are there."""


class TarArchive:
    """A tar archive, which may be compressed."""

    def __init__(self, path: Path, limits: Limits) -> None:
        """The file is opened when the first member is read."""
        self._stream = BlockFile(Blocks(path, limits))
        self._limits = limits
        self._fault = ""
        self._left = 0  # unread bytes of the member's content

    @property
    def fault(self) -> str:
        """Return what is wrong. An error of the stream explains an error in the archive."""
        return str(self._stream.problem or self._fault)

    def __iter__(self) -> Iterator[Member]:
        """Yield the regular files. Unreadable headers are skipped."""
        extended = _Extended()
        members = 0
        while block := self._stream.read(_BLOCK_BYTES):
            if not block.strip(b"\0"):
                continue  # end of the archive; another archive or padding may follow
            header = _header(block)
            if header is None:
                self._fault = "the archive is damaged; a part of it was read"
                extended = _Extended()
                continue
            members += 1
            if members > self._limits.members:
                self._fault = (
                    f"the archive has more than {self._limits.members:,} members; the first were"
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
                while is_extended and (block := self._stream.read(_BLOCK_BYTES)):
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
        for piece in self._stream.pieces(self._left):
            self._left -= len(piece)
            yield piece

    def _skip(self, size: int) -> None:
        # Many programs do not write the last padding.
        if not self._stream.skip(size) and size >= _BLOCK_BYTES:
            self._fault = "the archive is cut off; what came before the cut was read"

    def _extend(self, extended: _Extended, header: tarfile.TarInfo) -> None:
        if header.size > self._limits.header_bytes:
            extended.fault = (
                f"its extended header has more than {self._limits.header_bytes:,} bytes"
            )
            self._skip(_padded(header.size))
            return
        data = self._stream.read(_padded(header.size))[: header.size]
        if header.type == tarfile.GNUTYPE_LONGNAME:
            extended.name = data.partition(b"\0")[0]
        else:
            _read_pax(data, extended)

    def _member(self, header: tarfile.TarInfo, extended: _Extended, size: int) -> Member:
        name = extended.name or header.name.encode("utf-8", "surrogateescape")
        fault = extended.fault
        if len(name) > self._limits.name_bytes:
            fault = fault or f"its name has {len(name):,} bytes"
            name = name[:_SHOWN_NAME]
        written_at = header.mtime if extended.written_at is None else extended.written_at
        return Member(decode(name), size, written_at, fault)


class ZipArchive:
    """A zip archive: its members are stored or deflated, as nearly all programs write them."""

    def __init__(self, path: Path, limits: Limits) -> None:
        """The file is opened when the first member is read."""
        self._path = path
        self._limits = limits
        self.fault = ""
        self._left = 0  # how many bytes may still be decompressed
        self._opened: tuple[zipfile.ZipFile, zipfile.ZipInfo] | None = None

    def __iter__(self) -> Iterator[Member]:
        """Yield the regular files."""
        self._left = self._limits.most_bytes(self._path.stat().st_size)
        with self._path.open("rb", buffering=0) as raw:
            try:
                archive = zipfile.ZipFile(_ShortReads(raw, self._limits.zip_list_bytes))
            except _TooLongError:
                self.fault = (
                    "the archive's list of members has more than"
                    f" {self._limits.zip_list_bytes:,} bytes. Unpack it yourself and replay the"
                    " folder"
                )
                return
            except Exception:  # zipfile documents BadZipFile, and raises others too
                self.fault = (
                    "the archive is cut off, damaged or compressed again. Unpack it yourself and"
                    " replay the folder"
                )
                return
            with archive:
                for info in archive.infolist():
                    if self._left <= 0:
                        return
                    # Windows programs may separate folders by \.
                    name = info.filename.replace("\\", "/")
                    if not name.endswith("/") and not stat.S_ISLNK(info.external_attr >> 16):
                        self._opened = archive, info
                        yield self._member(info, name)

    def content(self) -> Iterator[bytes]:
        """Yield the member's bytes. If it is damaged, yield the bytes before the damage."""
        assert self._opened is not None
        archive, info = self._opened
        try:
            with archive.open(info) as stream:
                while piece := stream.read(_PIECE_BYTES):
                    self._left -= len(piece)
                    if self._left <= 0:
                        self.fault = unpacks_to_more(self._limits)
                        return
                    yield piece
        except Exception:  # not only BadZipFile: zlib.error, EOFError, OSError, RuntimeError, …
            self.fault = "the archive is damaged; a part of it was read"

    def _member(self, info: zipfile.ZipInfo, name: str) -> Member:
        fault = ""
        if info.flag_bits & _ENCRYPTED:
            fault = "it is encrypted. Unpack the archive and replay the folder"
        elif info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            fault = (
                f"it is compressed by method {info.compress_type} of zip, which replay does not"
                " unpack. Unpack the archive and replay the folder"
            )
        if len(name) > self._limits.name_bytes:
            fault = fault or f"its name has {len(name):,} characters"
            name = name[:_SHOWN_NAME]
        return Member(name, info.file_size, _written_at(info), fault)


@dataclass(slots=True)
class Room:
    """What may still be unpacked from one path, including archives inside archives."""

    bytes_left: int
    files_left: int


def why_no_disk(path: Path, size_bytes: int, limits: Limits) -> str:
    """Return why so many bytes cannot be written to a file, or an empty string."""
    if shutil.disk_usage(path.parent).free - size_bytes >= limits.spare_disk_bytes:
        return ""
    return (
        f"there is too little room in {path.parent.parent} for {size_bytes:,} more bytes. TMPDIR"
        " names another folder"
    )


KINDS: Final[dict[str, type[TarArchive | ZipArchive]]] = {"tar": TarArchive, "zip": ZipArchive}
"""The archives that can be read, by kind."""


def kind_of(head: bytes) -> str | None:
    """Return the kind of an archive by its first bytes, decompressed; None for anything else."""
    if head[257:262] == b"ustar":
        return "tar"
    return "zip" if head.startswith((b"PK\3\4", b"PK\5\6")) else None


def open_archive(path: Path, kind: str, limits: Limits = LIMITS) -> Archive:
    """Return the archive of a kind (`kind_of`)."""
    return KINDS[kind](path, limits)


class _TooLongError(Exception):
    """Something in a zip archive is longer than may be read at once."""


class _ShortReads(io.BufferedReader):
    """A file that refuses long reads. zipfile reads the whole list of members in one."""

    def __init__(self, raw: io.FileIO, most_bytes: int) -> None:
        super().__init__(raw)
        self._most_bytes = most_bytes

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > self._most_bytes:
            raise _TooLongError
        return super().read(size)


def _written_at(info: zipfile.ZipInfo) -> float:
    """Return a member's time in seconds since 1970; 0 if it is not a time.

    It has no time zone. It is taken for UTC, so it is wrong by less than a day.
    """
    try:
        return calendar.timegm((*info.date_time, 0, 0, 0))
    except (ValueError, OverflowError):
        return 0.0


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
