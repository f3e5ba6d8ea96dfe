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


def _stripped(line: bytes, whole_bytes: int) -> bytes:
    """Return the line without `\\r` and NULs at its end, unless the line was cut."""
    return line if len(line) < whole_bytes else line.rstrip(b"\r\0")
