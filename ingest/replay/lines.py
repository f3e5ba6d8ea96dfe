"""Blocks of bytes become lines, each with its place in the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

# (the line without its terminator, offset of its first byte, its bytes with terminator)
Line = tuple[bytes, int, int]


def batches(blocks: Iterable[bytes], max_bytes: int) -> Iterator[list[Line]]:
    r"""One list of lines per block in which lines end.

    Every physical line counts, blank ones too, and the last one without a terminator. The
    terminator is \n with the \r and NULs before it. Of a line longer than `max_bytes` only the
    first `max_bytes` + 1 bytes are kept (so that a cut line shows by its length); memory holds no
    more than that and a block.
    """
    offset = 0
    rest = b""  # the beginning of the line that goes on in the next block
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
        rest, rest_bytes = tail[:keep], len(tail)
        yield lines
    if rest_bytes:
        yield [(_stripped(rest, rest_bytes), offset, rest_bytes)]


def _stripped(line: bytes, whole_bytes: int) -> bytes:
    """Without what belongs to the terminator, unless the line's end was cut off."""
    return line if len(line) < whole_bytes else line.rstrip(b"\r\0")
