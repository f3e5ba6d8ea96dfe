"""Splitting bytes into lines with offsets, for any block sizes."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Iterator
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from stunwatch.ingest.records import strip_terminator
from stunwatch.ingest.replay import lines
from stunwatch.ingest.replay.lines import Line, backwards, batches


def lines_of(*blocks: bytes, max_bytes: int = 100) -> list[Line]:
    return [line for batch in batches(blocks, max_bytes) for line in batch]


def test_every_physical_line_has_its_offset() -> None:
    assert lines_of(b"one\r\ntwo\n\nfour\0\0\nfive") == [
        (b"one", 0, 5),
        (b"two", 5, 4),
        (b"", 9, 1),
        (b"four", 10, 7),
        (b"five", 17, 4),
    ]


def test_an_empty_input_has_no_lines() -> None:
    assert lines_of() == []


def test_a_line_may_span_blocks() -> None:
    assert lines_of(b"on", b"", b"e\ntw", b"o\r", b"\n", b"x") == [
        (b"one", 0, 4),
        (b"two", 4, 5),
        (b"x", 9, 1),
    ]


def test_a_long_line_is_kept_one_byte_beyond_the_cap() -> None:
    for blocks in (
        (b"x" * 50 + b"\nnext",),
        (b"x" * 7, b"x" * 43, b"\nnext"),
        (b"x" * 30, b"x" * 20 + b"\nnext"),
    ):
        assert lines_of(*blocks, max_bytes=20) == [(b"x" * 21, 0, 51), (b"next", 51, 4)]


def test_memory_is_bounded() -> None:
    def blocks() -> Iterator[bytes]:
        for _ in range(10_000):
            yield b"x" * 1000

    (line,) = lines_of(*blocks(), max_bytes=20)
    assert line == (b"x" * 21, 0, 10_000_000)


@given(st.binary(max_size=300), st.lists(st.integers(1, 40), max_size=20), st.integers(5, 400))
def test_the_sizes_of_blocks_do_not_change_the_lines(
    content: bytes, sizes: list[int], max_bytes: int
) -> None:
    blocks = []
    at = 0
    for size in [*sizes, len(content)]:
        blocks.append(content[at : at + size])
        at += size
    found = lines_of(*blocks, max_bytes=max_bytes)
    offset = 0
    pieces = content.split(b"\n")
    wholes = [piece + b"\n" for piece in pieces[:-1]] + [pieces[-1]] * bool(pieces[-1])
    assert len(found) == len(wholes)
    for (raw, at_offset, line_bytes), whole in zip(found, wholes, strict=True):
        assert (at_offset, line_bytes) == (offset, len(whole))
        bare = whole.removesuffix(b"\n").lstrip(b"\0")
        kept = strip_terminator(whole) if len(bare) <= max_bytes + 1 else bare[: max_bytes + 1]
        assert raw == kept
        offset += len(whole)


@given(
    st.binary(max_size=300).map(lambda content: content.replace(b"\0", b"")),
    st.integers(1, 50),
    st.integers(5, 400),
)
def test_a_file_has_the_same_lines_from_its_end(
    content: bytes, block_bytes: int, max_bytes: int
) -> None:
    with mock.patch.object(lines, "_BLOCK_BYTES", block_bytes):
        found = [line for batch in backwards(io.BytesIO(content), max_bytes) for line in batch]
    assert found == [
        (line, len(content) - offset - line_bytes, line_bytes)
        for line, offset, line_bytes in reversed(lines_of(content, max_bytes=max_bytes))
    ]


def test_a_long_line_takes_little_memory_from_its_end() -> None:
    content = io.BytesIO(b"first\n" + b"x" * 20_000_000 + b"\n")
    tracemalloc.start()
    found = [line for batch in backwards(content, 20) for line in batch]
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()
    assert found == [(b"x" * 21, 0, 20_000_001), (b"first", 20_000_001, 6)]
