"""Splits blocks of bytes into lines, each with its offset in the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

MAX_LINES = 16_384
"""Lines per list. A block of line feeds alone would otherwise become a million records at once."""

# (the line without its terminator, offset of its first byte, its bytes with terminator)
Line = tuple[bytes, int, int]


def batches(blocks: Iterable[bytes], max_bytes: int) -> Iterator[list[Line]]:
    r"""Yield the lines that end in each block, in lists of at most MAX_LINES.

    Every physical line counts, including blank ones and a last line without a terminator. The
    terminator is \n with the \r and NULs before it. Of a line longer than `max_bytes`, the first
    `max_bytes` + 1 bytes are kept, so that its length shows that it was cut. Memory is bounded by
    that length plus one block.
    """
    offset = 0
    rest = b""  # the beginning of a line that continues in the next block
    rest_bytes = 0  # its length before it was cut
    keep = max_bytes + 1
    for block in blocks:
        first, *others = block.split(b"\n")
        if not others:
            rest_bytes += len(first)
            if len(rest) < keep:
                rest = (rest + first)[:keep]
            continue
        line_bytes = rest_bytes + len(first) + 1
        first = (rest + first)[:keep] if len(rest) < keep else rest
        lines = [(_stripped(first, line_bytes - 1), offset, line_bytes)]
        offset += line_bytes
        tail = others.pop()
        for line in others:
            line_bytes = len(line) + 1
            if line_bytes > keep:
                lines.append((_stripped(line[:keep], line_bytes - 1), offset, line_bytes))
            else:
                lines.append((line.rstrip(b"\r\0"), offset, line_bytes))
            offset += line_bytes
            if len(lines) == MAX_LINES:
                yield lines
                lines = []
        rest, rest_bytes = tail[:keep], len(tail)
        if lines:
            yield lines
    if rest_bytes:
        yield [(_stripped(rest, rest_bytes), offset, rest_bytes)]


def _stripped(line: bytes, whole_bytes: int) -> bytes:
    """Return the line without `\\r` and NULs at its end, unless the line was cut."""
    return line if len(line) < whole_bytes else line.rstrip(b"\r\0")
