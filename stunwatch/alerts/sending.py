"""Sends a message to a receiver: through Apprise, or to Prometheus Alertmanager."""

from __future__ import annotations

import http.client
import logging
import ssl
from base64 import b64encode
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import unquote, urlsplit

import orjson

from stunwatch.alerts.alert_state import utc_now
from stunwatch.alerts.configuration import Receiver
from stunwatch.alerts.messages import Message

TIMEOUT_S = 10

FIRES_FOR = timedelta(days=30)
"""End time of an open alert. Without one, Alertmanager resolves the alert by itself."""

_TYPES = {"critical": "failure", "warning": "warning", "notice": "info"}


def send(receiver: Receiver, message: Message) -> str:
    """Deliver a message; return the problem, empty if it was accepted."""
    if receiver.kind == "alertmanager":
        return _to_alertmanager(receiver, message)
    return _by_apprise(receiver, message)


def why_no_receiver(receiver: Receiver) -> str:
    """Return the problem with a receiver's URL, empty if there is none."""
    if receiver.kind == "alertmanager":
        return ""
    import apprise  # noqa: PLC0415 (slow to import)

    with apprise.LogCapture(level=logging.CRITICAL + 1):
        return "" if apprise.Apprise().add(receiver.url) else "Apprise does not support this url"


def _by_apprise(receiver: Receiver, message: Message) -> str:
    import apprise  # noqa: PLC0415 (slow to import)

    kind = "success" if message.change in ("closed", "withdrawn") else _TYPES[message.severity]
    with apprise.LogCapture(level=logging.WARNING, fmt="%(message)s") as said:
        service = apprise.Apprise()
        if not service.add(receiver.url):
            return "Apprise does not support this url"
        # As text, so that Apprise escapes the service's markup.
        is_accepted = service.notify(
            title=message.title,
            body=message.body,
            notify_type=apprise.NotifyType(kind),
            body_format=apprise.NotifyFormat.TEXT,
        )
        if is_accepted:
            return ""
        return _without_secrets(said.getvalue(), receiver.url) or "not accepted"


def _without_secrets(text: str, url: str) -> str:
    """Return the first line of Apprise's log, without any part of a URL that could be a secret."""
    line = next((each for each in text.splitlines() if each.strip()), "")
    for part in (*url.replace("?", "/").replace("@", "/").replace(":", "/").split("/"), url):
        if len(part) > 3 and part not in (urlsplit(url).hostname, urlsplit(url).scheme):
            line = line.replace(part, "…").replace(unquote(part), "…")
    return line[:200]


def _to_alertmanager(receiver: Receiver, message: Message) -> str:
    place = urlsplit(receiver.url)
    headers = {"Content-Type": "application/json"}
    if place.username:
        pair = f"{unquote(place.username)}:{unquote(place.password or '')}"
        headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
    connection: http.client.HTTPConnection
    host, port = place.hostname or "", place.port
    if place.scheme == "https":
        context = ssl.create_default_context()
        connection = http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=context)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    try:
        path = f"{place.path.rstrip('/')}/api/v2/alerts"
        connection.request("POST", path, orjson.dumps(alerts_of(message, utc_now())), headers)
        answer = connection.getresponse()
        answer.read()
        return "" if answer.status < 300 else f"Alertmanager answered {answer.status}"
    except (OSError, http.client.HTTPException) as error:
        return f"cannot reach Alertmanager ({getattr(error, 'strerror', None) or error})"
    finally:
        connection.close()


def alerts_of(message: Message, now: datetime) -> list[dict[str, Any]]:
    """Return the alerts for Alertmanager about this change.

    Alertmanager identifies an alert by its labels, and the severity is a label. When the severity
    rises, the alert of the lower severity ends and another one begins.
    """
    ended_at = _text(now) if message.ended_at == "now" else message.ended_at
    found = [_alert(message, message.severity, ended_at or _text(now + FIRES_FOR))]
    if message.change == "worse":
        found.insert(0, _alert(message, message.severity_before, _text(now)))
    return found


def _alert(message: Message, severity: str, ends_at: str) -> dict[str, Any]:
    fields = asdict(message)
    alert = {
        "labels": {
            "alertname": "StunwatchIncident",
            "incident_id": fields["incident_id"],
            "severity": severity,
        },
        "annotations": {"summary": fields["title"], "description": fields["body"]},
        "startsAt": fields["opened_at"],
        "endsAt": ends_at,
    }
    if fields["report"].startswith(("http://", "https://")):
        alert["generatorURL"] = fields["report"]
    return alert


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
