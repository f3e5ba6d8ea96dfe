"""`stunwatch receive` between senders and a fake Fluent Bit (a socket of the test)."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from stunwatch.ingest.syslog_lines import Counted, Lines
from stunwatch.receiving import Limits, Outlet, Port, Receiver

HOST = "127.0.0.1"
CHUNK = re.compile(rb"\x81\xa5chunk\xb0(.{16})", re.DOTALL)
LINE = re.compile(rb"\xa4line\xdb....(.*?)\xa4peer\xd9\x09127.0.0.1", re.DOTALL)


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test."""

    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        asyncio.run(test(*arguments, **named))

    return run


class FluentBit:
    """A fake Fluent Bit. It keeps its port while it is stopped."""

    def __init__(self) -> None:
        self.taken = b""
        self.acknowledges = True
        self.port = 0
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._take, HOST, self.port, limit=1 << 16)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._open:
            writer.transport.abort()

    async def has(self, expected: bytes) -> None:
        async with asyncio.timeout(10):
            while expected not in self.taken:
                await asyncio.sleep(0.01)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        with contextlib.suppress(ConnectionError):
            buffer = b""
            while block := await reader.read(1 << 16):
                buffer += block
                while match := CHUNK.search(buffer):
                    self.taken += b"".join(LINE.findall(buffer[: match.start()]))
                    buffer = buffer[match.end() :]
                    if self.acknowledges:
                        writer.write(b"\x81\xa3ack\xb0" + match[1])


@contextlib.asynccontextmanager
async def receiving(
    fluent_bit: FluentBit, limits: Limits | None = None
) -> AsyncIterator[tuple[Receiver, int]]:
    outlet = Outlet(HOST, fluent_bit.port)
    receiver = Receiver(outlet, limits or Limits())
    await receiver.listen(HOST, Port(0, Lines))
    await receiver.listen(HOST, Port(0, Counted))
    yield receiver, receiver._servers[0].sockets[0].getsockname()[1]
    await receiver.stop()
    outlet.close()


@in_a_loop
async def test_each_line_reaches_fluent_bit() -> None:
    fluent_bit = FluentBit()
    await fluent_bit.start()
    async with receiving(fluent_bit) as (_, port):
        _, sender = await asyncio.open_connection(HOST, port)
        sender.write(b"one\n\ntwo\n\0three")
        sender.close()
        await fluent_bit.has(b"three")
    assert fluent_bit.taken == b"onetwothree"


@in_a_loop
async def test_senders_wait_while_fluent_bit_is_away(capsys: pytest.CaptureFixture[str]) -> None:
    fluent_bit = FluentBit()
    await fluent_bit.start()
    async with receiving(fluent_bit) as (_, port):
        _, sender = await asyncio.open_connection(HOST, port)
        sender.write(b"before\n")
        await fluent_bit.has(b"before")
        await fluent_bit.stop()
        sender.write(b"meanwhile\n")
        await asyncio.sleep(0.2)
        await fluent_bit.start()
        await fluent_bit.has(b"meanwhile")
        sender.write(b"after\n")
        await fluent_bit.has(b"after")
        sender.close()
    said = capsys.readouterr().err
    assert said.count("does not answer, senders wait") == said.count("Fluent Bit is back") == 1


@in_a_loop
async def test_one_address_has_so_many_connections_and_gets_them_back() -> None:
    fluent_bit = FluentBit()
    await fluent_bit.start()
    async with receiving(fluent_bit, Limits(connections=10, of_one_sender=2)) as (_, port):
        senders = [(await asyncio.open_connection(HOST, port))[1] for _ in range(2)]
        reader, refused = await asyncio.open_connection(HOST, port)
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        refused.close()
        senders[0].write(b"first\n")
        await fluent_bit.has(b"first")
        senders[0].close()
        async with asyncio.timeout(10):
            while b"again" not in fluent_bit.taken:
                _, again = await asyncio.open_connection(HOST, port)
                again.write(b"again\n")
                await asyncio.sleep(0.05)
                again.close()
        senders[1].close()


@in_a_loop
async def test_wrong_framing_closes_the_connection_behind_the_messages_before_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fluent_bit = FluentBit()
    await fluent_bit.start()
    async with receiving(fluent_bit) as (receiver, _):
        port = receiver._servers[1].sockets[0].getsockname()[1]
        for _ in range(3):
            reader, sender = await asyncio.open_connection(HOST, port)
            sender.write(b"4 good4 also0 <14>not counted\n")
            assert await reader.read() == b""
            sender.close()
        await fluent_bit.has(b"goodalso" * 3)
    assert capsys.readouterr().err.count("no length before its message") == 1


@in_a_loop
async def test_what_fluent_bit_did_not_acknowledge_is_sent_again() -> None:
    fluent_bit = FluentBit()
    await fluent_bit.start()
    fluent_bit.acknowledges = False
    async with receiving(fluent_bit) as (_, port):
        _, sender = await asyncio.open_connection(HOST, port)
        sender.write(b"first\n")
        await fluent_bit.has(b"first")
        sender.write(b"second\n")
        await asyncio.sleep(0.1)
        assert fluent_bit.taken == b"first"
        await fluent_bit.stop()
        fluent_bit.acknowledges = True
        await fluent_bit.start()
        await fluent_bit.has(b"firstfirstsecond")
        sender.close()
