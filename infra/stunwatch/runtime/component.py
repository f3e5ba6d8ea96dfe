"""What the supervisor needs to know of a component."""

from __future__ import annotations

import http.client
from collections.abc import Callable
from dataclasses import dataclass, field

from stunwatch.settings import Settings


@dataclass(frozen=True)
class Launch:
    """A process about to be started."""

    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Component:
    """One supervised process with its children.

    `launch` prepares what the process needs (it runs before every start, in the process that then
    becomes the component). `ailment` says in a sentence why the component cannot be used yet; None
    means that it is healthy.
    """

    name: str
    after: tuple[str, ...]
    launch: Callable[[Settings], Launch]
    ailment: Callable[[Settings], str | None]
    stop_seconds: int
    is_wanted: Callable[[Settings], bool] = lambda _: True
    """Whether it is to run at all."""
    trouble: Callable[[Settings], str | None] = lambda _: None
    """Like `ailment`, but nothing that the start must wait for."""


def http_ailment(host: str, port: int, path: str, patience_seconds: float = 2) -> str | None:
    """Ask a component for its health over HTTP; the `ailment` of one that has a page for it."""
    connection = http.client.HTTPConnection(host, port, timeout=patience_seconds)
    try:
        connection.request("GET", path)
        if connection.getresponse().status == http.HTTPStatus.OK:
            return None
    except (OSError, http.client.HTTPException):
        pass
    finally:
        connection.close()
    return f"{host}:{port} does not answer"
