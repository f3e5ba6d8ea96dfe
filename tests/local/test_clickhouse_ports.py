"""The ports of the embedded ClickHouse, on a real server."""

from __future__ import annotations

import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from stunwatch.local import clickhouse
from tests.clickhouse_server import Server

RESET = struct.pack("ii", 1, 0)
"""SO_LINGER with no time: closing the socket resets the connection."""

SENT = (b"", b"POST / HT", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nSEL")


def reset_connections(port: int, sent: bytes, times: int) -> None:
    """Send the beginning of a request and reset the connection, again and again."""
    for number in range(times):
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            client.sendall(sent)
            time.sleep(0.002 * (number % 2))


@pytest.mark.parametrize("sent", SENT)
def test_clients_that_reset_their_connections_do_not_stop_the_server(
    server: Server, sent: bytes
) -> None:
    port = server.settings.clickhouse_http_port
    with ThreadPoolExecutor(4) as clients:
        for each in [clients.submit(reset_connections, port, sent, 100) for _ in range(4)]:
            each.result()
    assert server.reader.rows("SELECT 1") == [(1,)]


@pytest.mark.skipif(clickhouse.installed() is not None, reason="an installed server opens it")
def test_the_native_port_is_closed(server: Server) -> None:
    # Nothing local uses it.
    with socket.socket() as client:
        assert client.connect_ex(("127.0.0.1", server.settings.clickhouse_tcp_port)) != 0
