"""The ports of the embedded ClickHouse, on a real server."""

from __future__ import annotations

import socket

import pytest

from stunwatch.local import clickhouse
from tests.clickhouse_server import Server


@pytest.mark.skipif(clickhouse.installed() is not None, reason="an installed server opens it")
def test_the_native_port_is_closed(server: Server) -> None:
    # Nothing local uses it, and a client that resets its connection can abort the server.
    with socket.socket() as client:
        assert client.connect_ex(("127.0.0.1", server.settings.clickhouse_tcp_port)) != 0
