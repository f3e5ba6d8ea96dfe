"""Compressed or not, whole or not: what can be read is read."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
from trees import zst

from ingest.replay.streams import BlockFile, Blocks, UnreadableError, beginning

CONTENT = b"".join(b"line %d of a file of some length\n" % number for number in range(100_000))


def read(path: Path) -> tuple[bytes, str | None]:
    """What came out, and the complaint."""
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
    ],
    ids=["plain", "gzip", "two gzip members", "padded gzip", "zstd", "two zstd frames"],
)
def test_the_first_bytes_tell_how_a_file_is_packed(tmp_path: Path, packed: bytes) -> None:
    path = tmp_path / "any.name"
    path.write_bytes(packed)
    assert read(path) == (CONTENT, None)
    blocks = Blocks(path)
    assert sum(map(len, blocks)) == len(CONTENT)
    assert blocks.consumed_bytes == len(packed)


@pytest.mark.parametrize("pack", [gzip.compress, zst], ids=["gzip", "zstd"])
def test_of_a_file_that_was_cut_off_the_rest_is_read(tmp_path: Path, pack) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "cut"
    content = CONTENT + os.urandom(300_000)
    packed = pack(content)
    path.write_bytes(packed[:-1000])
    found, complaint = read(path)
    assert content.startswith(found)
    assert len(found) > len(CONTENT)
    assert complaint is not None
    assert "is cut off" in complaint


def test_a_damaged_gzip(tmp_path: Path) -> None:
    path = tmp_path / "damaged.gz"
    packed = bytearray(gzip.compress(os.urandom(3_000_000)))
    packed[2_000_000:2_000_100] = b"\xff" * 100
    path.write_bytes(packed)
    found, complaint = read(path)
    assert len(found) >= 1_000_000
    assert complaint is not None
    assert "damaged" in complaint or "cut off" in complaint


def test_a_bomb_comes_in_small_blocks(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"\0" * 300_000_000, compresslevel=9))
    assert max(len(block) for block in Blocks(path)) <= 1 << 20


def test_no_permission_and_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(tmp_path / "absent")[1] == "it cannot be read: no such file or directory"
    assert read(tmp_path)[1] == "it cannot be read: is a directory"

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    assert read(tmp_path / "x")[1] == "it cannot be read: permission denied"


def test_blocks_as_a_file(tmp_path: Path) -> None:
    path = tmp_path / "plain"
    path.write_bytes(CONTENT)
    file = BlockFile(Blocks(path))
    assert file.read(10) == CONTENT[:10]
    assert file.read(2_000_000) == CONTENT[10:2_000_010]
    assert file.read(len(CONTENT)) == CONTENT[2_000_010:]
    assert file.read(5) == b""


def test_the_beginning_of_a_cut_file_is_what_there_is(tmp_path: Path) -> None:
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(os.urandom(10_000))[:5000])
    assert 0 < len(beginning(path, 100_000)) < 10_000
    assert len(beginning(path, 100)) == 100
