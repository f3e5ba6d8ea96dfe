"""Alerts over real Kafka to a webhook that fails first: nothing lost, nothing told twice."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson
import pytest
import yaml

from stunwatch.runtime.health import examine
from tests.alerts.incidents import closed, incident
from tests.end_to_end.conftest import Pipeline


class Hook:
    """A webhook on this machine. It refuses while `refuse` is set, or the first so many."""

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
    """Writes alerts.yaml and starts what it asks for."""

    def write(text: dict[str, Any]) -> None:
        pipeline.settings.alerts.write_text(yaml.safe_dump(text))
        pipeline.run("up")

    yield write
    pipeline.settings.alerts.unlink(missing_ok=True)


def publish(pipeline: Pipeline, *events: dict[str, Any]) -> None:
    for event in events:
        pipeline.produce("events.incident", orjson.dumps(event), key=event["event_id"])


def wait_until(is_so: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def note(pipeline: Pipeline) -> str:
    """What `status` says of the service; empty if all is well."""
    components = examine(pipeline.settings).as_json()["components"]
    return str(next(each["note"] for each in components if each["name"] == "alerts"))


def test_each_change_is_told_once_though_the_receiver_fails_and_the_service_is_killed(
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

    # Killed in the middle, with the receiver down; supervisord starts it again.
    hook.refuse = 5
    publish(pipeline, *(incident(name, 3) for name in names))
    [process] = pipeline.processes("alerts")
    os.kill(process.pid, signal.SIGKILL)
    publish(pipeline, *(closed(name, 4) for name in names))

    wait_until(lambda: len(hook.accepted) >= 3 * len(names))
    time.sleep(2)
    titles = [body["title"] for _, body in hook.accepted]
    # What was on its way when the service was killed may have been told once more, nothing else.
    assert len(titles) <= 3 * len(names) + 1
    for name in names:
        what = f"Host {name} loses its storage"
        assert [each for each in dict.fromkeys(titles) if each.endswith(what)] == [
            f"[warning] {what}",
            f"[critical] worse: {what}",
            f"[critical] over: {what}",
        ]
    assert not any("of a replay" in title for title in titles)
    wait_until(lambda: not note(pipeline))
    pipeline.wait_for("SELECT count() FROM incidents WHERE hasAny(vms, ['sql01'])", 21)
    pipeline.wait_for("SELECT count() FROM incidents WHERE state = 'closed'", 20)


def test_a_receiver_that_is_down_shows_in_status(
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


def test_alertmanager_is_told_of_the_beginning_and_of_the_end(
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
    # The service looks whether the file has changed once a second or so.
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


def test_check_and_test_say_what_would_happen(
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
    assert "test message" in body["title"]
    pipeline.run("alerts", "test", "hook")
    pipeline.settings.alerts.write_text("receivers: [{name: a b}]")
    assert "must be one word" in pipeline.run("alerts", "check", code=2).stderr
    configure({})
