"""Splitting of streams into lines and counted messages, for any bytes in any blocks."""

from __future__ import annotations

import random

import pytest

from stunwatch.ingest.records import MAX_LINE_BYTES
from stunwatch.ingest.syslog_lines import Counted, Lines, WrongFraming, events, message


def split(*blocks: bytes) -> list[bytes]:
    lines = Lines()
    found = [line for block in blocks for line in lines.feed(block)]
    return found + lines.end()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"\n\n\n\0\0\r\n", []),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\n\nb\n\n", [b"a", b"b"]),
        (b"a\0b\n\0c", [b"a", b"b", b"c"]),
        (b"a\r\n\r\nb\r\n", [b"a\r", b"b\r"]),
        (b"no end", [b"no end"]),
        (b"\xff\xfe\n\xc3", [b"\xff\xfe", b"\xc3"]),
    ],
)
def test_a_stream_is_split_into_lines(content: bytes, expected: list[bytes]) -> None:
    assert split(content) == expected
    assert split(*(content[at : at + 1] for at in range(len(content)))) == expected


def test_any_stream_in_any_blocks_gives_each_line_once() -> None:
    generator = random.Random(5)
    for _ in range(200):
        content = bytes(generator.choices(b"ab\n\0\r \xff<0", k=200))
        cuts = sorted(generator.sample(range(200), 5))
        blocks = [content[a:b] for a, b in zip([0, *cuts], [*cuts, 200], strict=True)]
        whole = content.replace(b"\0", b"\n").split(b"\n")
        assert split(*blocks) == [line for line in whole if line.strip(b"\r") or len(line) > 1]


def test_a_line_without_end_takes_bounded_memory() -> None:
    lines = Lines()
    for _ in range(100):
        assert lines.feed(b"x" * 65536) == []
    assert sum(map(len, lines._begun)) == MAX_LINE_BYTES + 1
    [line, after] = lines.feed(b"x\nafter\n")
    assert (len(line), after) == (MAX_LINE_BYTES + 1, b"after")


def test_a_long_line_in_one_block_is_cut_too() -> None:
    [line] = split(b"x" * (MAX_LINE_BYTES * 2) + b"\n")
    assert len(line) == MAX_LINE_BYTES + 1


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"1 a2 bc", [b"a", b"bc"]),
        (b"3 a\nb\n4 \0\xff<1", [b"a\nb", b"\0\xff<1"]),
        (b"0 1 a0 0 ", [b"a"]),
        (b"1 a5 abc", [b"a"]),
        (b"0000001 a", [b"a"]),
    ],
)
def test_a_stream_of_counted_messages_is_split_by_length(
    content: bytes, expected: list[bytes]
) -> None:
    assert Counted().feed(content) == expected
    messages = Counted()
    found = [m for at in range(len(content)) for m in messages.feed(content[at : at + 1])]
    assert found + messages.end() == expected


@pytest.mark.parametrize("wrong", [b"<14>x\n", b" 1 a", b"-1 a", b"00000001 a", b"1\na", b"1a"])
def test_an_invalid_length_raises_wrong_framing(wrong: bytes) -> None:
    with pytest.raises(WrongFraming) as raised:
        Counted().feed(b"1 a" + wrong)
    assert raised.value.messages == [b"a"]


def test_a_long_counted_message_takes_bounded_memory() -> None:
    messages = Counted()
    assert messages.feed(b"9999999 ") == []
    for _ in range(152):
        assert messages.feed(b"x" * 65536) == []
    assert sum(map(len, messages._begun)) == MAX_LINE_BYTES + 1
    [long, after] = messages.feed(b"x" * (9999999 - 152 * 65536) + b"1 a")
    assert (len(long), after) == (MAX_LINE_BYTES + 1, b"a")


def test_events_are_messagepack_of_the_forward_protocol() -> None:
    packed = events([b"a b", b"\xff"], "192.0.2.7", 1_700_000_000_123_456_789)
    time = b"\x92\xd7\0\x65\x53\xf1\0\x07\x5b\xcd\x15"
    peer = b"\xa4peer\xd9\x09192.0.2.7"
    assert packed == (
        time + b"\x82\xa4line\xdb\0\0\0\x03a b" + peer
        + time + b"\x82\xa4line\xdb\0\0\0\x01\xff" + peer
    )  # fmt: skip
    whole, acknowledgement = message(packed, 2, "c1")
    assert whole == b"\x93\xa6syslog\xdd\0\0\0\x02" + packed + b"\x81\xa5chunk\xa2c1"
    assert acknowledgement == b"\x81\xa3ack\xa2c1"
