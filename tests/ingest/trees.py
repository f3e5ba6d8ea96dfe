"""Builds folders and archives for the tests of replay."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import zstandard

WRITTEN_AT = datetime(2024, 6, 30, 12, tzinfo=UTC).timestamp()


def vmware_log(day: int = 6, count: int = 3, month: int = 5) -> bytes:
    """Return lines in the format of ESXi 8, one per second."""
    return b"".join(
        b"2024-%02d-%02dT07:08:%02d.123Z In(05) vcpu-0 - line %d\r\n" % (month, day, number, number)
        for number in range(count)
    )


def vmkernel(day: int = 6, count: int = 3) -> bytes:
    """Return lines in the format of ESXi 7, one per second."""
    return b"".join(
        b"2021-05-%02dT07:08:%02d.123Z cpu1:2097)Vol3: 731: line %d\n" % (day, number, number)
        for number in range(count)
    )


def hostd(day: int = 6) -> bytes:
    """Return a message of ESXi 7 with a continuation line."""
    return (
        b"2021-05-%02dT07:08:09.123Z info hostd[9B1C2D70] [Originator@6876 sub=Vimsvc] {\n"
        b"--> }\n" % day
    )


def esxtop(host: str = "esx01", rows: int = 2) -> bytes:
    """Return samples of one device, 5 s apart."""
    head = rf'"(PDH-CSV 4.0) (UTC)(0)","\\{host}\Physical Disk Adapter(vmhba1)\Reads/sec"' + "\n"
    return head.encode() + b"".join(
        b'"05/06/2021 07:08:%02d","%d.5"\n' % (number * 5, number) for number in range(rows)
    )


def write(path: Path, content: bytes) -> Path:
    """Write a file with a fixed modification time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (WRITTEN_AT, WRITTEN_AT))
    return path


def tar(members: dict[str, bytes]) -> bytes:
    """Return an archive of these members, with a link and a folder among them."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        folder = tarfile.TarInfo("empty")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.mtime = int(WRITTEN_AT)
            archive.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("link.log")
        link.type = tarfile.SYMTYPE
        link.linkname = "/etc/passwd"
        archive.addfile(link)
    return buffer.getvalue()


def tgz(members: dict[str, bytes]) -> bytes:
    return gzip.compress(tar(members))


def zipped(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a zip archive of these members, with a folder among them."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr(zipfile.ZipInfo("empty/", (2024, 6, 30, 12, 0, 0)), b"")
        for name, content in members.items():
            member = zipfile.ZipInfo(name, (2024, 6, 30, 12, 0, 0))
            archive.writestr(member, content, method)
    return buffer.getvalue()


def zst(content: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(content)
