"""Splits blocks of bytes into lines, each with its offset in the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from os import SEEK_END
from typing import IO

_BLOCK_BYTES = 1 << 20

MAX_LINES = 16_384
"""Lines per list. A block of line feeds alone would otherwise become a million records at once."""

# (the line without its terminator, offset of its first byte, its bytes with terminator)
Line = tuple[bytes, int, int]


def batches(blocks: Iterable[bytes], max_bytes: int) -> Iterator[list[Line]]:
    r"""Yield the lines that end in each block, in lists of at most MAX_LINES.

    Every physical line counts, including blank ones and a last line without a terminator. The
    terminator is \n with the \r and NULs before it. NULs at the beginning of a line are skipped. Of
    a line longer than `max_bytes`, the first `max_bytes` + 1 bytes are kept, so that its length
    shows that it was cut. Memory is bounded by that length plus one block.
    """
    offset = 0
    rest = b""  # the beginning of a line that continues in the next block, without NULs before it
    rest_bytes = rest_nuls = 0  # the length of that line before it was cut, and of these NULs
    keep = max_bytes + 1
    for block in blocks:
        first, *others = block.split(b"\n")
        text = first if rest else first.lstrip(b"\0")
        rest_bytes += len(first)
        rest_nuls += len(first) - len(text)
        if len(rest) < keep:
            rest = (rest + text)[:keep]
        if not others:
            continue
        lines = [(_stripped(rest, rest_bytes - rest_nuls), offset, rest_bytes + 1)]
        offset += rest_bytes + 1
        tail = others.pop()
        for line in others:
            line_bytes = len(line) + 1
            if line_bytes > keep:
                text = line.lstrip(b"\0")
                lines.append((_stripped(text[:keep], len(text)), offset, line_bytes))
            else:
                lines.append((line.rstrip(b"\r\0").lstrip(b"\0"), offset, line_bytes))
            offset += line_bytes
            if len(lines) == MAX_LINES:
                yield lines
                lines = []
        text = tail.lstrip(b"\0")
        rest, rest_bytes, rest_nuls = text[:keep], len(tail), len(tail) - len(text)
        if lines:
            yield lines
    if rest_bytes:
        yield [(_stripped(rest, rest_bytes - rest_nuls), offset, rest_bytes)]


def backwards(file: IO[bytes], max_bytes: int) -> Iterator[list[Line]]:
    """Yield the lines of a file from its end. Their offsets count from the end too.

    So later lines have larger offsets, as in other files: trackers order lines of the same time by
    offset. NULs count as part of a line that is cut.
    """
    keep = max_bytes + 1
    rest, rest_bytes = b"", 0  # of a line that begins in a block before this one
    terminator_bytes = 0  # of that line; the last one may have none
    offset = 0
    end = file.seek(0, SEEK_END)
    while end > 0:
        start = max(0, end - _BLOCK_BYTES)
        file.seek(start)
        first, *others = file.read(end - start).split(b"\n")
        lines: list[Line] = []
        for text in reversed(others):
            rest, rest_bytes = (text + rest)[:keep], rest_bytes + len(text)
            if line_bytes := rest_bytes + terminator_bytes:
                lines.append((_stripped(rest, rest_bytes).lstrip(b"\0"), offset, line_bytes))
                offset += line_bytes
            rest, rest_bytes, terminator_bytes = b"", 0, 1
        rest, rest_bytes = (first + rest)[:keep], rest_bytes + len(first)
        end = start
        for number in range(0, len(lines), MAX_LINES):
            yield lines[number : number + MAX_LINES]
    if line_bytes := rest_bytes + terminator_bytes:
        yield [(_stripped(rest, rest_bytes).lstrip(b"\0"), offset, line_bytes)]


def _stripped(line: bytes, whole_bytes: int) -> bytes:
    """Return the line without `\\r` and NULs at its end, unless the line was cut."""
    return line if len(line) < whole_bytes else line.rstrip(b"\r\0")
