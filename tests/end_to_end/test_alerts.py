"""Alerts over real Kafka to a failing webhook: nothing is lost, nothing is sent twice."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson
import pytest
import yaml

from stunwatch.clickhouse import as_user
from stunwatch.local.health import examine
from tests.alerts.made_incidents import closed, incident
from tests.pipeline import Pipeline


class Hook:
    """A webhook on this machine. It refuses the first `refuse` requests."""

    def __init__(self, refuse: int = 0) -> None:
        self.refuse = refuse
        self.refused = 0
        self.accepted: list[tuple[str, Any]] = []
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                is_refused = hook.refuse > 0
                if is_refused:
                    hook.refuse -= 1
                    hook.refused += 1
                else:
                    hook.accepted.append((self.path, json.loads(body)))
                self.send_response(503 if is_refused else 200)
                self.end_headers()

            def log_message(self, *words: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook(refuse=3)
    yield made
    made.close()


@pytest.fixture
def configure(pipeline: Pipeline) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Return a function that writes alerts.yaml and starts the service if needed."""

    def write(text: dict[str, Any]) -> None:
        pipeline.settings.alerts.write_text(yaml.safe_dump(text))
        pipeline.run("up")

    yield write
    pipeline.settings.alerts.unlink(missing_ok=True)


def publish(pipeline: Pipeline, *events: dict[str, Any]) -> None:
    for event in events:
        # The service sends nothing about incidents that were detected long before.
        event["detected_at"] = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
        pipeline.produce("events.incident", orjson.dumps(event), key=event["event_id"])


def wait_until(is_so: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def note(pipeline: Pipeline) -> str:
    """Return the note of `status` about the service; empty if it is healthy."""
    components = examine(pipeline.settings).as_json()["components"]
    return str(next(each["note"] for each in components if each["name"] == "alerts"))


@pytest.mark.slow
def test_each_change_is_sent_once_even_if_receiver_and_service_fail(
    pipeline: Pipeline, hook: Hook, configure: Callable[[dict[str, Any]], None]
) -> None:
    configure(
        {
            "receivers": [
                {
                    "name": "hook",
                    "url": f"json://{hook.place}/",
                    "severities": ["notice", "warning", "critical"],
                }
            ],
            "retry": {"first_seconds": 0.2, "longest_seconds": 2},
        }
    )
    names = [f"alerted{number}" for number in range(20)]
    publish(pipeline, *(incident(name, 1, severity="warning") for name in names))
    publish(pipeline, *(incident(name, 2, severity="warning", stun_count=8) for name in names))
    publish(pipeline, incident("of a replay", run_id="2026-03-01T00-00-00-abcd"))
    wait_until(lambda: len(hook.accepted) >= 5)
    assert hook.refused == 3

    # Killed in the middle, while the receiver refuses; supervisord starts it again.
    hook.refuse = 5
    publish(pipeline, *(incident(name, 3) for name in names))
    [process] = pipeline.processes("alerts")
    os.kill(process.pid, signal.SIGKILL)
    publish(pipeline, *(closed(name, 4) for name in names))

    wait_until(lambda: len(hook.accepted) >= 3 * len(names))
    time.sleep(2)
    titles = [body["title"] for _, body in hook.accepted]
    # Only a message in flight when the service was killed may be sent twice.
    assert len(titles) <= 3 * len(names) + 1
    for name in names:
        what = f"Host {name} loses its storage"
        assert [each for each in dict.fromkeys(titles) if each.endswith(what)] == [
            f"[warning] {what}",
            f"[critical] worse: {what}",
            f"[critical] closed: {what}",
        ]
    assert not any("of a replay" in title for title in titles)
    wait_until(lambda: not note(pipeline))
    told = "SELECT count() FROM incidents WHERE verdict LIKE 'Host alerted%'"
    pipeline.wait_for(told, 20)
    pipeline.wait_for(f"{told} AND state = 'closed'", 20)


def of_host(name: str, revision: int, **fields: Any) -> dict[str, Any]:
    """Return an incident of a host with this name."""
    return incident(name, revision, **{"hosts": [f"{name}.lab.example"], **fields})


def title(what: str, name: str) -> str:
    return f"[{what}Host {name} loses its storage"


def mute_for(pipeline: Pipeline, host: str, seconds: float) -> None:
    """Mute a host for less time than the command line allows."""
    expires_at = datetime.now(UTC) + timedelta(seconds=seconds)
    as_user(pipeline.settings, "admin").command(
        "INSERT INTO mutes_stored (mute_id, host, reason, muted_by, muted_at, expires_at) VALUES"
        f" (generateUUIDv4(), '{host}', 'a test', 'test', now64(3),"
        f" fromUnixTimestamp64Milli({round(expires_at.timestamp() * 1000)}))"
    )


@pytest.mark.slow
def test_acknowledgements_and_mutes_apply_even_if_receiver_and_service_fail(
    pipeline: Pipeline, hook: Hook, configure: Callable[[dict[str, Any]], None]
) -> None:
    configure(
        {
            "receivers": [
                {
                    "name": "marked_hook",
                    "url": f"json://{hook.place}/",
                    "severities": ["notice", "warning", "critical"],
                }
            ],
            "retry": {"first_seconds": 0.2, "longest_seconds": 2},
        }
    )
    # The service checks about once per second whether the file has changed.
    time.sleep(2)

    def titles() -> list[str]:
        """Return the different titles. A message in flight during a kill may be sent twice."""
        return list(dict.fromkeys(body["title"] for _, body in hook.accepted))

    words = ("--for", "4h", "--reason", "a new HBA")
    pipeline.run("incident", "mute", "--host", "lifted", *words)
    mute_for(pipeline, "expires.lab.example", 15)
    muted_at = time.monotonic()
    publish(
        pipeline,
        of_host("lifted", 1, severity="notice"),
        of_host("expires", 1),
        of_host("over", 1, hosts=["lifted.lab.example"]),
        of_host("usual", 1, state="noted"),
        of_host("seen_to", 1, severity="notice"),
    )
    wait_until(lambda: title("notice] ", "seen_to") in titles())
    assert hook.refused == 3

    # Held-back messages are stored and survive a kill.
    [process] = pipeline.processes("alerts")
    os.kill(process.pid, signal.SIGKILL)
    identity = incident("seen_to")["event_id"]
    pipeline.wait_for(f"SELECT count() FROM incidents WHERE incident_id = '{identity}'", 1)
    pipeline.run("incident", "ack", identity, "--note", "mine")
    publish(
        pipeline,
        of_host("lifted", 2, severity="warning"),
        closed("over", 2, hosts=["lifted.lab.example"]),
        of_host("seen_to", 2, severity="warning"),
    )
    wait_until(lambda: title("critical] ", "expires") in titles())
    assert time.monotonic() > muted_at + 13
    assert titles() == [title("notice] ", "seen_to"), title("critical] ", "expires")]

    listed = pipeline.run("incident", "list").stdout
    [mute_id] = re.findall(r"muted: lifted until .* \(mute (\w+)\)", listed)
    pipeline.run("incident", "unmute", mute_id)
    wait_until(lambda: title("warning] ", "lifted") in titles())
    publish(
        pipeline,
        of_host("seen_to", 3),
        of_host("usual", 2),
        *(closed(name, 9) for name in ("lifted", "expires", "usual", "seen_to")),
    )
    wait_until(lambda: len(titles()) >= 9)
    time.sleep(3)
    assert sorted(titles()[3:]) == sorted(
        [
            title("critical] worse: ", "seen_to"),
            title("critical] ", "usual"),
            title("warning] closed: ", "lifted"),
            *(title("critical] closed: ", name) for name in ("expires", "usual", "seen_to")),
        ]
    )
    assert len(hook.accepted) <= len(titles()) + 1


@pytest.mark.slow
def test_mutes_do_not_apply_while_clickhouse_does_not_answer(
    pipeline: Pipeline, hook: Hook, configure: Callable[[dict[str, Any]], None]
) -> None:
    hook.refuse = 0
    configure({"receivers": [{"name": "any_hook", "url": f"json://{hook.place}/"}]})
    time.sleep(2)
    pipeline.run("incident", "mute", "--host", "deaf", "--for", "30m", "--reason", "a test")
    publish(pipeline, of_host("deaf", 1, scope="host"))
    pipeline.wait_for("SELECT count() FROM incidents WHERE has(hosts, 'deaf.lab.example')", 1)
    time.sleep(2)
    assert not hook.accepted
    servers = pipeline.processes("clickhouse")
    try:
        for each in servers:
            os.kill(each.pid, signal.SIGSTOP)
        publish(pipeline, of_host("too much", 1, hosts=["deaf.lab.example"]))
        wait_until(lambda: len(hook.accepted) == 1)
        assert "Mutes are unknown" in note(pipeline)
    finally:
        for each in servers:
            os.kill(each.pid, signal.SIGCONT)
    wait_until(lambda: not note(pipeline))
    assert [body["title"] for _, body in hook.accepted] == [title("critical] ", "too much")]
    said = (pipeline.settings.logs / "alerts.log").read_text()
    assert said.count("Mutes are unknown: ") == 1
    checked = pipeline.run("alerts", "check").stdout
    [mute_id] = re.findall(r"muted: deaf until .* a test \(mute (\w+)\)", checked)
    pipeline.run("incident", "unmute", mute_id)
    wait_until(lambda: len(hook.accepted) == 2)
    assert "muted: deaf" not in pipeline.run("alerts", "check").stdout
    publish(pipeline, *(closed(name, 2) for name in ("deaf", "too much")))
    wait_until(lambda: len(hook.accepted) == 4)


def test_status_shows_a_receiver_that_is_down(
    pipeline: Pipeline, configure: Callable[[dict[str, Any]], None]
) -> None:
    configure(
        {
            "receivers": [{"name": "nobody_home", "url": "json://127.0.0.1:9/sesame"}],
            "retry": {"first_seconds": 0.2, "longest_seconds": 1},
        }
    )
    publish(pipeline, incident("unheard"))
    wait_until(lambda: "nobody_home did not accept a message" in note(pipeline))
    shown = pipeline.status().stdout
    assert "nobody_home" in shown
    assert "sesame" not in shown
    assert "sesame" not in (pipeline.settings.logs / "alerts.log").read_text()


def test_alertmanager_receives_start_and_end_of_an_incident(
    pipeline: Pipeline, hook: Hook, configure: Callable[[dict[str, Any]], None]
) -> None:
    configure(
        {
            "receivers": [
                {"name": "manager", "kind": "alertmanager", "url": f"http://{hook.place}/am"}
            ],
            "report_url": "https://stunwatch.lab.example/{incident_id}",
            "retry": {"first_seconds": 0.2, "longest_seconds": 1},
        }
    )
    # The service checks about once per second whether the file has changed.
    time.sleep(2)
    publish(pipeline, incident("managed", 1, severity="warning"), incident("managed", 2))
    publish(pipeline, closed("managed", 3))
    wait_until(lambda: len(hook.accepted) == 3)
    assert {path for path, _ in hook.accepted} == {"/am/api/v2/alerts"}
    opened, worse, over = (body for _, body in hook.accepted)
    identity = incident("managed")["event_id"]
    [alert] = opened
    assert alert["labels"]["incident_id"] == identity
    assert alert["generatorURL"].endswith(identity)
    assert alert["startsAt"] == "2026-03-01T02:00:00.000000Z"
    assert [each["labels"]["severity"] for each in worse] == ["warning", "critical"]
    assert worse[0]["labels"] == alert["labels"]
    assert worse[0]["endsAt"] < worse[1]["endsAt"]
    [alert] = over
    assert alert["labels"] == worse[1]["labels"]
    assert alert["endsAt"] == "2026-03-01T02:12:00.000000Z"


def test_alerts_check_and_alerts_test_hide_passwords_and_report_results(
    pipeline: Pipeline, hook: Hook, configure: Callable[[dict[str, Any]], None]
) -> None:
    hook.refuse = 0
    text = {
        "receivers": [
            {"name": "hook", "url": f"json://user:sesame@{hook.place}/"},
            {"name": "nobody_home", "url": "json://127.0.0.1:9/"},
        ]
    }
    pipeline.settings.alerts.write_text(yaml.safe_dump(text))
    shown = pipeline.run("alerts", "check").stdout
    assert "hook" in shown
    assert "sesame" not in shown
    done = pipeline.run("alerts", "test", code=1)
    assert "hook: accepted" in done.stdout
    assert "sesame" not in done.stdout
    [(_, body)] = hook.accepted
    assert "Test message" in body["title"]
    pipeline.run("alerts", "test", "hook")
    pipeline.settings.alerts.write_text("receivers: [{name: a b, url: 'json://x'}]")
    assert "must be one word" in pipeline.run("alerts", "check", code=2).stderr
    configure({})
