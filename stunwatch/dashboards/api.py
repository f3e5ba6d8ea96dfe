"""A client of Superset's API, as its administrator. All commands use it."""

from __future__ import annotations

import http.client
import http.cookiejar
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from stunwatch.errors import UserError
from stunwatch.local import superset
from stunwatch.settings import Settings

PAGE = 100
"""Maximum number of rows that Superset returns per request."""


class Superset:
    """A session. Raises UserError if Superset does not answer, or rejects a request."""

    def __init__(self, address: str, user: str, password: str, *, timeout_s: float = 120) -> None:
        self._address = address
        self._timeout_s = timeout_s
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), cookies)
        self._headers = {"Referer": address}
        login = {"username": user, "password": password, "provider": "db"}
        token = self.post("security/login", login)["access_token"]
        self._headers["Authorization"] = f"Bearer {token}"
        self._headers["X-CSRFToken"] = self.get("security/csrf_token/")["result"]

    def get(self, path: str) -> Any:
        """Return the response to GET /api/v1/<path>."""
        return json.loads(self._ask("GET", path))

    def post(self, path: str, content: object) -> Any:
        """Return the response to POST /api/v1/<path> with JSON."""
        return json.loads(self._ask("POST", path, content))

    def put(self, path: str, content: object) -> None:
        """PUT /api/v1/<path> with JSON."""
        self._ask("PUT", path, content)

    def delete(self, path: str) -> None:
        """DELETE /api/v1/<path>."""
        self._ask("DELETE", path)

    def listed(self, kind: str, columns: tuple[str, ...]) -> Iterator[dict[str, Any]]:
        """Yield all objects of a kind (chart, dataset, …) with these columns."""
        number = 0
        while True:
            listing = ",".join(columns)
            query = f"(columns:!({listing}),page:{number},page_size:{PAGE})"
            rows = self.get(f"{kind}/?q={quote(query)}")["result"]
            yield from rows
            if len(rows) < PAGE:
                return
            number += 1

    def upload(self, path: str, name: str, content: bytes, fields: Mapping[str, str]) -> None:
        """POST a file as a form with fields to /api/v1/<path>."""
        boundary = uuid4().hex
        parts = [
            f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{value}\r\n'
            for field, value in fields.items()
        ]
        parts.append(
            f'--{boundary}\r\nContent-Disposition: form-data; name="{name}";'
            f' filename="{name}.zip"\r\nContent-Type: application/zip\r\n\r\n'
        )
        body = "".join(parts).encode() + content + f"\r\n--{boundary}--\r\n".encode()
        self._send("POST", path, body, f"multipart/form-data; boundary={boundary}")

    def download(self, path: str) -> bytes:
        """Return the body of GET /api/v1/<path>."""
        return self._ask("GET", path)

    def _ask(self, method: str, path: str, content: object = None) -> bytes:
        body = None if content is None else json.dumps(content).encode()
        return self._send(method, path, body, "application/json")

    def _send(self, method: str, path: str, body: bytes | None, kind: str) -> bytes:
        request = urllib.request.Request(  # noqa: S310 (the address is our own)
            f"{self._address}/api/v1/{path}",
            data=body,
            headers=self._headers | ({"Content-Type": kind} if body is not None else {}),
            method=method,
        )
        try:
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                content: bytes = answer.read()
                return content
        except urllib.error.HTTPError as error:
            raise UserError(_said(error, path)) from error
        except (OSError, http.client.HTTPException) as error:
            raise UserError(
                f"Cannot reach Superset on {self._address}: {error}. `stunwatch status` shows what"
                " runs; `stunwatch up` starts it."
            ) from error


def administrator(settings: Settings) -> Superset:
    """Log in with the password that `stunwatch up` generated."""
    if not superset.is_wanted(settings):
        raise UserError("Superset is disabled. `stunwatch up` without --no-superset starts it.")
    password = superset.admin_password(settings)
    try:
        return Superset(superset.address(settings), superset.ADMIN, password)
    except UserError as error:
        raise UserError(
            f"{error} If you changed the administrator's password in Superset, write the new one"
            f" to {superset.password_file(settings)}."
        ) from error


def _said(error: urllib.error.HTTPError, path: str) -> str:
    """Describe a rejected request in a sentence. For an import, name each faulty file."""
    try:
        answer = json.loads(error.read())
    except ValueError:
        return f"Superset answers {error.code} to {path}; `stunwatch logs superset` shows why."
    reasons = []
    for each in answer.get("errors", []):
        reasons.append(each.get("message", ""))
        for file, fault in each.get("extra", {}).items():
            if file != "issue_codes":
                reasons.append(f"{file}: {json.dumps(fault)}")
    reason = "; ".join(filter(None, reasons)) or str(answer.get("message", answer))
    return f"Superset refuses {path} ({error.code}): {reason}"
