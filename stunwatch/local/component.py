"""The description of a component for the supervisor."""

from __future__ import annotations

import http.client
from collections.abc import Callable
from dataclasses import dataclass, field

from stunwatch.settings import Settings


@dataclass(frozen=True)
class Launch:
    """A process that is about to start."""

    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    niceness: int = 0
    """Added to that of the supervisor: with a higher one, other processes run first."""


@dataclass(frozen=True)
class Component:
    """One supervised process with its children.

    `launch` prepares the start. It runs before every start, in the process that then becomes the
    component. `unhealthy_reason` returns one sentence on why the component is unhealthy, or None
    if it is healthy.
    """

    name: str
    after: tuple[str, ...]
    launch: Callable[[Settings], Launch]
    unhealthy_reason: Callable[[Settings], str | None]
    stop_seconds: int
    is_wanted: Callable[[Settings], bool] = lambda _: True
    """Whether the component runs with these settings."""
    trouble: Callable[[Settings], str | None] = lambda _: None
    """Like `unhealthy_reason`, but the start does not wait for it."""


def http_unhealthy_reason(
    host: str, port: int, path: str, patience_seconds: float = 2
) -> str | None:
    """Request a component's health page over HTTP; return the problem, None if it answers 200."""
    connection = http.client.HTTPConnection(host, port, timeout=patience_seconds)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        # Read the whole response: a server logs an error with a stack trace if a client leaves
        # early.
        answer.read()
        if answer.status == http.HTTPStatus.OK:
            return None
    except (OSError, http.client.HTTPException):
        pass
    finally:
        connection.close()
    return f"{host}:{port} does not answer"
