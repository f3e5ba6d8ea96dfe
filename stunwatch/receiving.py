"""Receives syslog over TCP and TLS, in both framings, and forwards it to Fluent Bit.

Each sender's connection is one task; all share one connection to Fluent Bit. A task stops reading
until Fluent Bit has written the previous lines to its disk. So a sender waits as long as Fluent Bit
does, lines that Fluent Bit had not stored when it ended are sent again, and the number of
connections bounds the memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import secrets
import signal
import socket
import ssl
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from stunwatch.ingest.syslog_lines import Counted, Lines, WrongFraming, events, message
from stunwatch.printable import Terminal

TERMINAL = Terminal(stderr=True, highlight=False, soft_wrap=True)

BLOCK_BYTES = 64 * 1024
BATCH_BYTES = 512 * 1024
"""A message to Fluent Bit has at most this size plus one block."""
HANDSHAKE_S = 10.0
AGAIN_S = 0.5
"""Interval between attempts to reach Fluent Bit."""
COMPLAIN_S = 10.0
STOP_S = 10.0
"""Time for Fluent Bit to accept the last lines when the receiver stops."""


Framing = type[Lines] | type[Counted]


@dataclass(frozen=True)
class Port:
    """A port to listen on."""

    number: int
    framing: Framing
    tls: ssl.SSLContext | None = None


@dataclass(frozen=True)
class Limits:
    """Maximum number of open connections, in total and per sender address."""

    connections: int = 10_000
    of_one_sender: int = 100


class Outlet:
    """The connection to Fluent Bit, with reconnects.

    Lines of all connections that wait at the same time are sent in one message.
    """

    def __init__(self, host: str, port: int) -> None:
        """Open no connection yet."""
        self._address = (host, port)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._waiting: list[tuple[bytes, int, asyncio.Future[None]]] = []
        self._sending: asyncio.Task[None] | None = None

    async def send(self, packed_events: bytes, count: int) -> None:
        """Return when Fluent Bit has these events on its disk; wait while it is unreachable."""
        done = asyncio.get_running_loop().create_future()
        self._waiting.append((packed_events, count, done))
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send_waiting())
        await done

    def close(self) -> None:
        """Close the connection if it is open."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None

    async def _send_waiting(self) -> None:
        while self._waiting:
            batch, size = [], 0
            while self._waiting and size < BATCH_BYTES:
                batch.append(self._waiting.pop(0))
                size += len(batch[-1][0])
            packed, acknowledgement = message(
                b"".join(packed_events for packed_events, _, _ in batch),
                sum(count for _, count, _ in batch),
                secrets.token_hex(8),
            )
            await self._deliver(packed, acknowledgement)
            for _, _, done in batch:
                if not done.done():
                    done.set_result(None)

    async def _deliver(self, packed: bytes, acknowledgement: bytes) -> None:
        """Send until acknowledged. Lines sent twice share an identity and are stored once."""
        is_away = False
        while True:
            try:
                if self._streams is None:
                    self._streams = await asyncio.open_connection(*self._address)
                reader, writer = self._streams
                writer.write(packed)
                await writer.drain()
                if await reader.readexactly(len(acknowledgement)) != acknowledgement:
                    raise ConnectionError("it acknowledged another message")
            except (OSError, EOFError) as error:
                self.close()
                if not is_away:
                    log(f"Fluent Bit does not answer, senders wait: {error}.")
                is_away = True
                await asyncio.sleep(AGAIN_S)
            else:
                if is_away:
                    log("Fluent Bit is back.")
                return


class Receiver:
    """The listening ports, and one task per connection."""

    def __init__(self, outlet: Outlet, limits: Limits) -> None:
        """Open no port yet."""
        self._outlet = outlet
        self._limits = limits
        self._open: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []
        self._complaints = 0
        self._next_complaint = 0.0

    async def listen(self, host: str, port: Port) -> None:
        """Accept connections on this port."""
        self._servers.append(
            await asyncio.start_server(
                partial(self._accept, port.framing),
                host,
                port.number,
                limit=BLOCK_BYTES // 2,
                ssl=port.tls,
                ssl_handshake_timeout=HANDSHAKE_S if port.tls else None,
            )
        )
        how = "each message after its length" if port.framing is Counted else "a message a line"
        log(f"Listening on {host}:{port.number}{' with TLS' if port.tls else ''}, {how}.")

    async def stop(self) -> None:
        """Accept no more connections; wait up to STOP_S for the lines that were read."""
        for server in self._servers:
            server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=STOP_S)
            if late:
                log(f"Lines of {len(late)} connections are lost: Fluent Bit did not take them.")

    def _accept(
        self, framing: Framing, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        peer = peer_of(writer)
        if (
            self._open.total() >= self._limits.connections
            or self._open[peer] >= self._limits.of_one_sender
        ):
            self._complain(f"Refused a connection from {peer}: {self._open[peer]} are open")
            writer.transport.abort()
            return
        self._open[peer] += 1
        task = asyncio.create_task(self._take(framing(), reader, writer, peer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take(
        self,
        splitter: Lines | Counted,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        peer: str,
    ) -> None:
        """Read one connection to its end."""
        keep_alive(writer)
        try:
            while block := await reader.read(BLOCK_BYTES):
                await self._hand_over(splitter.feed(block), peer)
            await self._hand_over(splitter.end(), peer)
        except WrongFraming as error:
            self._complain(f"Closed a connection from {peer}: no length before its message")
            await self._hand_over(error.messages, peer)
        except (OSError, asyncio.CancelledError):  # broken off, or the receiver stops
            pass
        finally:
            writer.close()
            self._open[peer] -= 1
            if not self._open[peer]:
                del self._open[peer]

    def _complain(self, text: str) -> None:
        """Log a refused or closed connection, at most one line in ten seconds."""
        self._complaints += 1
        now = time.monotonic()
        if now >= self._next_complaint:
            log(f"{text} (such connections until now: {self._complaints}).")
            self._next_complaint = now + COMPLAIN_S

    async def _hand_over(self, lines: list[bytes], peer: str) -> None:
        """Send lines to Fluent Bit; finish sending even if the receiver stops meanwhile."""
        if not lines:
            return
        packed = events(lines, peer, time.time_ns())
        sending = asyncio.ensure_future(self._outlet.send(packed, len(lines)))
        try:
            await asyncio.shield(sending)
        except asyncio.CancelledError:
            await sending
            raise


def peer_of(writer: asyncio.StreamWriter) -> str:
    """Return the sender's address; IPv4-mapped IPv6 addresses become plain IPv4."""
    name = writer.get_extra_info("peername")
    return str(name[0]).removeprefix("::ffff:") if name else "-"


def keep_alive(writer: asyncio.StreamWriter) -> None:
    """Enable TCP keepalive, so that the kernel detects a dead sender after some minutes."""
    connection: socket.socket = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 120)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 30)


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return a context for TLS 1.2 or newer with this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    return context


def log(text: str) -> None:
    """Print a line for the operator."""
    TERMINAL.print(f"stunwatch receive: {text}")


async def serve(outlet: Outlet, limits: Limits, host: str, ports: list[Port]) -> None:
    """Receive until SIGTERM or SIGINT."""
    allow_files(limits.connections + 100)
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    receiver = Receiver(outlet, limits)
    for port in ports:
        await receiver.listen(host, port)
    await stopped.wait()
    await receiver.stop()
    outlet.close()


def allow_files(wanted: int) -> None:
    """Raise the limit of open files as far as this process may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
