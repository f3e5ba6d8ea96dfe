"""Splits syslog streams, in both framings, into events of Fluent Bit's Forward protocol.

Fluent Bit's syslog input has two bugs. Splitting by lines: an empty line, such as between a line
feed and a NUL, makes it parse its buffer again from every offset (upstream issue 2741). Splitting
by length: a wrong length makes it stop without a message. Its Forward input reads each event once
and acknowledges what it has stored on disk.

This module does no input or output; `stunwatch receive` calls it.

The protocol: https://github.com/fluent/fluentd/wiki/Forward-Protocol-Specification-v1
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from stunwatch.ingest.records import MAX_LINE_BYTES

_KEPT_BYTES: Final = MAX_LINE_BYTES + 1  # one more, so that the shipper sees that a line was cut
_LENGTH_DIGITS: Final = 7


class WrongFraming(ValueError):
    """The stream has something else where the length of a message should be."""

    def __init__(self, messages: list[bytes]) -> None:
        """`messages` are those that ended before the error."""
        super().__init__("no length")
        self.messages = messages


class _Splitter:
    """Collects an incomplete message. Memory is bounded: at most _KEPT_BYTES are kept."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []
        self._begun_bytes = 0

    def _keep(self, part: bytes) -> None:
        part = part[: _KEPT_BYTES - self._begun_bytes]
        if part:
            self._begun.append(part)
            self._begun_bytes += len(part)

    def _taken(self) -> bytes:
        message = b"".join(self._begun)
        self._begun.clear()
        self._begun_bytes = 0
        return message


class Lines(_Splitter):
    """Splits a connection into one message per line. A line feed or a NUL ends a line."""

    def feed(self, block: bytes) -> list[bytes]:
        """Return the lines that end in this block, without terminators and without empty lines."""
        *ended, rest = block.replace(b"\0", b"\n").split(b"\n")
        if ended:
            self._keep(ended[0])
            ended[0] = self._taken()
            ended = [line[:_KEPT_BYTES] for line in ended if line and line != b"\r"]
        self._keep(rest)
        return ended

    def end(self) -> list[bytes]:
        """Return the last line if the sender closed the connection without ending it."""
        line = self._taken()
        return [line] if line and line != b"\r" else []


class Counted(_Splitter):
    """Splits a connection into messages preceded by their length in bytes (RFC 6587, 3.4.1)."""

    def __init__(self) -> None:
        """Start by expecting a length."""
        super().__init__()
        self._digits = b""
        self._missing = 0
        """Bytes of the message that have not arrived."""

    def feed(self, block: bytes) -> list[bytes]:
        """Return the messages that end in this block.

        Raises:
            WrongFraming: there is no length where one should be; `messages` holds the earlier ones.
        """
        messages: list[bytes] = []
        at = 0
        while at < len(block):
            if self._missing:
                part = block[at : at + self._missing]
                at += len(part)
                self._missing -= len(part)
                self._keep(part)
                if not self._missing:
                    messages.append(self._taken())
                continue
            byte = block[at : at + 1]
            at += 1
            if byte.isdigit() and len(self._digits) < _LENGTH_DIGITS:
                self._digits += byte
            elif byte == b" " and self._digits:
                self._missing, self._digits = int(self._digits), b""
            elif (
                byte not in b"\r\n\0" or self._digits
            ):  # some senders also end a message with these
                raise WrongFraming(messages)
        return messages

    def end(self) -> list[bytes]:
        """Return nothing: an incomplete message is dropped."""
        return []


def events(lines: Iterable[bytes], peer: str, received_at_ns: int) -> bytes:
    """Return one MessagePack event per line: [time, {line, peer}]. The output is reproducible."""
    seconds, nanoseconds = divmod(received_at_ns, 1_000_000_000)
    before = b"\x92\xd7\0" + struct.pack(">II", seconds, nanoseconds) + b"\x82\xa4line\xdb"
    address = peer.encode()
    after = b"\xa4peer\xd9" + bytes([len(address)]) + address
    length = struct.Struct(">I").pack
    return b"".join([b"%b%b%b%b" % (before, length(len(line)), line, after) for line in lines])


def message(packed_events: bytes, count: int, chunk: str) -> tuple[bytes, bytes]:
    """Return a message of events, and the acknowledgement that Fluent Bit sends for it.

    `chunk` identifies it, in at most 31 ASCII characters. The input sets the tag.
    """
    name = bytes([0xA0 + len(chunk)]) + chunk.encode()
    count_of_events = struct.pack(">I", count)
    return (
        b"\x93\xa6syslog\xdd" + count_of_events + packed_events + b"\x81\xa5chunk" + name,
        b"\x81\xa3ack" + name,
    )
