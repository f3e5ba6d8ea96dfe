"""A ClickHouse client over HTTP. All commands use it."""

from __future__ import annotations

import http.client
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

import orjson

from stunwatch.errors import UserError
from stunwatch.query_errors import explained
from stunwatch.settings import Settings


class QueryError(UserError):
    """ClickHouse rejected a query. The message suggests a remedy (stunwatch/query_errors.py)."""


_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\0": "\\0"})


_EXCEPTION = b"__exception__"
_TAIL_BYTES = 64 << 10


def _pieces(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """Yield the response body. Raises QueryError if the query failed after it had sent rows.

    ClickHouse then appends the error to the rows and ends the transfer early. The appended text is
    `__exception__`, a tag, the error, its length and the tag, `__exception__`.
    """
    tail = b""
    try:
        while piece := response.read(1 << 20):
            tail = piece[-_TAIL_BYTES:]
            yield piece
    except http.client.IncompleteRead as error:
        _, found, said = (tail + error.partial)[-2 * _TAIL_BYTES :].partition(_EXCEPTION)
        if not found:
            raise
        yield error.partial.partition(_EXCEPTION)[0]
        said = said.partition(_EXCEPTION)[0].partition(b"Code: ")[2]
        text = said.decode(errors="replace")
        raise QueryError(explained(re.sub(r"\r?\n\d{1,9} \w+\s*$", "", f"Code: {text}"))) from None


def _written(value: Any) -> str:
    """Format the value of a query parameter as a TabSeparated field, which ClickHouse expects.

    A list becomes an array literal with quoted strings.
    """
    if isinstance(value, list):
        return f"[{','.join(_quoted(each) for each in value)}]"
    return str(value).translate(_ESCAPES)


def _quoted(value: Any) -> str:
    if not isinstance(value, str):
        return str(value)
    escaped = value.translate(_ESCAPES).replace("'", "\\'")
    return f"'{escaped}'"


class ClickHouse:
    """Access to the server at host:port as one user."""

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
        """Return the rows of a query; 64-bit integers as int, times as text. Raises QueryError."""
        settings = {"output_format_json_quote_64bit_integers": "0", **(settings or {})}
        body = b"".join(
            self.stream(sql, parameters, output="JSONCompactEachRow", settings=settings)
        )
        return [tuple(orjson.loads(line)) for line in body.splitlines()]

    def named_rows(
        self, sql: str, parameters: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """Return the rows as `rows` does, each as a dict by column name. Raises QueryError."""
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
        """Yield the response in pieces, in the format `output`. Raises QueryError."""
        query = {"database": database, "wait_end_of_query": "0", **(settings or {})}
        if output:
            query["default_format"] = output
        query |= {f"param_{name}": _written(value) for name, value in (parameters or {}).items()}
        # Arguments of the command line may contain bytes that are not UTF-8; so may a column.
        address = f"/?{urlencode(query, errors='surrogateescape')}"
        body = sql.encode(errors="surrogateescape")
        connection = http.client.HTTPConnection(*self._address, timeout=self._timeout_s)
        try:
            connection.request("POST", address, body, self._headers)
            response = connection.getresponse()
            if response.status != http.HTTPStatus.OK:
                text = response.read().decode(errors="replace").strip()
                raise QueryError(explained(text))
            yield from _pieces(response)
        except TimeoutError as error:
            host, port = self._address
            raise UserError(
                f"ClickHouse on {host}:{port} did not answer within {self._timeout_s:g} s. Query"
                " less data, or look at `stunwatch status`."
            ) from error
        except (OSError, http.client.HTTPException) as error:
            host, port = self._address
            raise UserError(
                f"Cannot reach ClickHouse on {host}:{port}: {error}. `stunwatch status` shows what"
                " runs; `stunwatch up` starts it."
            ) from error
        finally:
            connection.close()


def as_user(settings: Settings, user: str, *, timeout_s: float = 600) -> ClickHouse:
    """Return a client for a user whose password is in a secret file or in the environment.

    `stunwatch up` writes the files; containers set STUNWATCH_CLICKHOUSE_<USER>_PASSWORD.
    """
    password = os.environ.get(f"STUNWATCH_CLICKHOUSE_{user.upper()}_PASSWORD", "")
    try:
        password = password or (settings.secrets / user).read_text().strip()
    except FileNotFoundError:
        raise UserError(
            f"No pipeline has been started here: {settings.secrets / user} does not exist."
            " `stunwatch up` starts one."
        ) from None
    host, port = settings.clickhouse_host, settings.clickhouse_http_port
    return ClickHouse(host, port, user, password, timeout_s=timeout_s)
