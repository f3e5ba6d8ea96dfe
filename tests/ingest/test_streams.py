"""Reading of plain, compressed, truncated and damaged files."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
from pathlib import Path

import pytest
from trees import zst

from stunwatch.ingest.replay.streams import LIMITS, BlockFile, Blocks, UnreadableError, beginning

CONTENT = b"".join(b"line %d of a file of some length\n" % number for number in range(100_000))


def read(path: Path) -> tuple[bytes, str | None]:
    """Return the bytes that were read, and the error."""
    pieces = []
    try:
        for block in Blocks(path):
            assert block
            pieces.append(block)
    except UnreadableError as problem:
        return b"".join(pieces), str(problem)
    return b"".join(pieces), None


@pytest.mark.parametrize(
    "packed",
    [
        CONTENT,
        gzip.compress(CONTENT),
        gzip.compress(CONTENT[:1000]) + gzip.compress(CONTENT[1000:]),
        gzip.compress(CONTENT) + b"\0" * 512,
        zst(CONTENT),
        zst(CONTENT[:1000]) + zst(CONTENT[1000:]),
        bz2.compress(CONTENT),
        bz2.compress(CONTENT[:1000]) + bz2.compress(CONTENT[1000:]),
        lzma.compress(CONTENT),
        lzma.compress(CONTENT, preset=9) + b"\0" * 8,
        lzma.compress(CONTENT[:1000]) + lzma.compress(CONTENT[1000:]),
    ],
    ids=[
        "plain",
        "gzip",
        "two gzip members",
        "padded gzip",
        "zstd",
        "two zstd frames",
        "bzip2",
        "two bzip2 streams",
        "xz",
        "padded xz",
        "two xz streams",
    ],
)
def test_the_compression_is_recognised_by_the_first_bytes(tmp_path: Path, packed: bytes) -> None:
    path = tmp_path / "any.name"
    path.write_bytes(packed)
    assert read(path) == (CONTENT, None)
    blocks = Blocks(path)
    assert sum(map(len, blocks)) == len(CONTENT)
    assert blocks.consumed_bytes == len(packed)


@pytest.mark.parametrize("mark", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_text_in_utf16_becomes_utf8(tmp_path: Path, pack, mark: str) -> None:  # type: ignore[no-untyped-def]
    """PowerShell 5.1 writes UTF-16 with a byte order mark: `Get-Log … > vmkernel.log`."""
    path = tmp_path / "vmkernel.log"
    text = "\r\n".join(f"line {number} Größe 容量 🚨" for number in range(100_000))
    path.write_bytes(pack(f"\ufeff{text}".encode(mark)))
    assert read(path) == (text.encode(), None)


def test_damaged_utf16_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "vmkernel.log"
    path.write_bytes("\ufeffone ".encode("utf-16-le") + b"\x00\xd8" + b"t\0w\0o\0\n")
    assert read(path) == ("one \ufffdtwo\ufffd".encode(), None)


@pytest.mark.parametrize(
    "pack",
    [gzip.compress, zst, bz2.compress, lzma.compress],
    ids=["gzip", "zstd", "bzip2", "xz"],
)
def test_a_truncated_file_is_read_up_to_the_cut(tmp_path: Path, pack) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "cut"
    content = CONTENT + os.urandom(300_000)
    packed = pack(content)
    path.write_bytes(packed[:-1000])
    found, complaint = read(path)
    assert content.startswith(found)
    assert len(found) > len(CONTENT)
    assert complaint is not None
    assert "is truncated" in complaint


def test_a_damaged_gzip_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "damaged.gz"
    packed = bytearray(gzip.compress(os.urandom(3_000_000)))
    packed[2_000_000:2_000_100] = b"\xff" * 100
    path.write_bytes(packed)
    found, complaint = read(path)
    assert len(found) >= 1_000_000
    assert complaint is not None
    assert "damaged" in complaint or "truncated" in complaint


def test_xz_that_needs_much_memory_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "greedy.xz"
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 512 << 20, "mode": lzma.MODE_FAST, "mf": 3}]
    packer = lzma.LZMACompressor(lzma.FORMAT_XZ, filters=filters)
    path.write_bytes(packer.compress(CONTENT) + packer.flush())
    assert read(path) == (
        b"",
        "the xz data is damaged, or needs more than 128 MiB of memory (Memory usage limit"
        " exceeded)",
    )


BOMBS = [
    gzip.compress(b"\0" * 100_000_000, compresslevel=9),
    zst(b"\0" * 100_000_000),
    zst(b"\n" * 100_000_000),
    bz2.compress(b"\0" * 100_000_000),
    lzma.compress(b"\0" * 100_000_000),
]


@pytest.mark.parametrize("bomb", BOMBS, ids=["gzip", "zstd", "zstd of line feeds", "bzip2", "xz"])
def test_a_compression_bomb_gives_small_blocks_and_ends_early(tmp_path: Path, bomb: bytes) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(bomb)
    found, complaint = 0, ""
    try:
        for block in Blocks(path):
            assert len(block) <= 6 << 20
            found += len(block)
    except UnreadableError as problem:
        complaint = str(problem)
    assert found <= LIMITS.most_bytes(len(bomb))
    assert complaint.startswith("it unpacks to more than 200 times its size")


def test_a_log_with_a_high_compression_ratio_is_not_a_bomb(tmp_path: Path) -> None:
    line = b"2021-05-06T07:08:%02d.%03dZ cpu1:2097)NMP: nmp_ThrottleLogForDevice: the same again\n"
    content = b"".join(line % (each // 1000 % 60, each % 1000) for each in range(100_000))
    for pack in (gzip.compress, zst, bz2.compress, lzma.compress):
        path = tmp_path / "flood"
        path.write_bytes(pack(content))
        assert read(path) == (content, None)


def test_many_small_gzip_members_take_linear_time(tmp_path: Path) -> None:
    path = tmp_path / "members.gz"
    path.write_bytes(gzip.compress(b"", mtime=0) * 50_000 + gzip.compress(b"x", mtime=0))
    assert read(path) == (b"x", None)


def test_text_after_gzip_data_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "trailing.gz"
    path.write_bytes(gzip.compress(CONTENT) + b"something else")
    found, complaint = read(path)
    assert found == CONTENT
    assert complaint is not None
    assert "damaged" in complaint


def test_a_missing_or_unreadable_file_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read(tmp_path / "absent")[1] == "it cannot be read: no such file or directory"
    assert read(tmp_path)[1] == "it cannot be read: is a directory"

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    assert read(tmp_path / "x")[1] == "it cannot be read: permission denied"


def test_a_block_file_reads_any_number_of_bytes(tmp_path: Path) -> None:
    path = tmp_path / "plain"
    path.write_bytes(CONTENT)
    file = BlockFile(Blocks(path))
    assert file.read(10) == CONTENT[:10]
    assert file.read(2_000_000) == CONTENT[10:2_000_010]
    assert file.read(len(CONTENT)) == CONTENT[2_000_010:]
    assert file.read(5) == b""


def test_the_beginning_of_a_truncated_file_is_returned(tmp_path: Path) -> None:
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(os.urandom(10_000))[:5000])
    assert 0 < len(beginning(path, 100_000)) < 10_000
    assert len(beginning(path, 100)) == 100
