"""ClickHouse over HTTP: the one way in which the command line talks to it."""

from __future__ import annotations

import http.client
import os
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

import orjson

from stunwatch.errors import UserError
from stunwatch.settings import Settings


class QueryError(UserError):
    """ClickHouse refused a query; the message is its own, without the stack."""


class ClickHouse:
    """One user's access to the server at host:port."""

    def __init__(
        self, host: str, port: int, user: str, password: str, *, timeout_s: float = 600
    ) -> None:
        self._address = (host, port)
        self._timeout_s = timeout_s
        self._headers = {"X-ClickHouse-User": user, "X-ClickHouse-Key": password}

    def command(self, sql: str, *, database: str = "stunwatch") -> None:
        """Run a statement that returns nothing. Raises QueryError."""
        for _ in self.stream(sql, database=database):
            pass

    def rows(
        self,
        sql: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        settings: Mapping[str, str] | None = None,
    ) -> list[tuple[Any, ...]]:
        """The rows of a query; 64-bit integers as int, times as text. Raises QueryError."""
        settings = {"output_format_json_quote_64bit_integers": "0", **(settings or {})}
        body = b"".join(
            self.stream(sql, parameters, output="JSONCompactEachRow", settings=settings)
        )
        return [tuple(orjson.loads(line)) for line in body.splitlines()]

    def named_rows(
        self, sql: str, parameters: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """As `rows`, each by the names of its columns. Raises QueryError."""
        quoted = {"output_format_json_quote_64bit_integers": "0"}
        body = b"".join(self.stream(sql, parameters, output="JSONEachRow", settings=quoted))
        return [orjson.loads(line) for line in body.splitlines()]

    def stream(
        self,
        sql: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        database: str = "stunwatch",
        output: str | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> Iterator[bytes]:
        """The answer in pieces, in the format asked for. Raises QueryError."""
        query = {"database": database, "wait_end_of_query": "0", **(settings or {})}
        if output:
            query["default_format"] = output
        query |= {f"param_{name}": str(value) for name, value in (parameters or {}).items()}
        connection = http.client.HTTPConnection(*self._address, timeout=self._timeout_s)
        try:
            connection.request("POST", f"/?{urlencode(query)}", sql.encode(), self._headers)
            response = connection.getresponse()
            if response.status != http.HTTPStatus.OK:
                text = response.read().decode(errors="replace").strip()
                raise QueryError(text.split("\n")[0])
            while piece := response.read(1 << 20):
                yield piece
        except (ConnectionError, http.client.HTTPException, TimeoutError) as error:
            host, port = self._address
            raise UserError(
                f"ClickHouse does not answer on {host}:{port} ({error});"
                " `stunwatch status` tells what runs."
            ) from error
        finally:
            connection.close()


def as_user(settings: Settings, user: str, *, timeout_s: float = 600) -> ClickHouse:
    """Access as a user whose password `stunwatch up` made, or is in a container's environment."""
    password = os.environ.get(f"STUNWATCH_CLICKHOUSE_{user.upper()}_PASSWORD", "")
    try:
        password = password or (settings.secrets / user).read_text().strip()
    except FileNotFoundError:
        raise UserError("There is no local pipeline yet; `stunwatch up` starts it.") from None
    host, port = settings.clickhouse_host, settings.clickhouse_http_port
    return ClickHouse(host, port, user, password, timeout_s=timeout_s)
