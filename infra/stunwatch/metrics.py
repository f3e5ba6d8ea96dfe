"""Serves the pipeline's own metrics to Prometheus: what `status` knows, and what is stored.

    python -m stunwatch.metrics

What cannot be asked at the moment is left out, and the rest is told: an answer never fails as a
whole. ClickHouse writes its part of the text itself.
"""

from __future__ import annotations

import http.server
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from stunwatch.clickhouse import as_user
from stunwatch.errors import UserError
from stunwatch.runtime import checks, flink, live, supervision
from stunwatch.runtime.components import BY_NAME
from stunwatch.runtime.health import Health, examine
from stunwatch.schema import SQL
from stunwatch.settings import Settings, load_settings

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
STORED: Final = SQL / "metrics" / "pipeline.sql"
ASKED_S: Final = 10.0
"""How long ClickHouse may take; Prometheus asks again soon."""

SEEN_FROM_AFAR: Final = ("kafka", "clickhouse", "jobmanager", "taskmanager")


@dataclass(frozen=True)
class Metric:
    """One series: `kind` is gauge or counter."""

    name: str
    kind: str
    help: str
    value: float
    labels: Mapping[str, str]


def text(settings: Settings) -> str:
    """All metrics, as Prometheus reads them."""
    told: set[str] = set()
    lines = []
    for each in sorted(own(settings), key=lambda one: one.name):
        if each.name not in told:
            told.add(each.name)
            lines += [f"# HELP {each.name} {each.help}", f"# TYPE {each.name} {each.kind}"]
        labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in each.labels.items())
        lines.append(f"{each.name}{{{labels}}} {each.value}")
    return "\n".join(lines) + "\n" + stored(settings)


def own(settings: Settings) -> Iterator[Metric]:
    """What the processes, Kafka and Flink tell."""
    health = examine(settings)
    yield _gauge("intake_stopped", "1 while no line is taken in.", bool(health.intake))
    yield _gauge(
        "disk_free_bytes",
        "What the file system of the data has left.",
        checks.free_mb(settings.home) * checks.MIB,
    )
    yield _gauge("disk_needed_bytes", "Below this intake stops.", settings.min_free_mb * checks.MIB)
    yield from _components(settings, health)
    for topic in health.topics:
        place = {"topic": topic.name}
        yield Metric(
            "stunwatch_topic_messages_total",
            "counter",
            "Messages that were ever written to a topic.",
            topic.messages,
            place,
        )
        for group, count in topic.behind.items():
            help_ = "Messages of a topic that a consumer group has not read yet."
            yield _gauge("reader_behind_messages", help_, count, **place, group=group)
    yield from _live_job(settings)


def _components(settings: Settings, health: Health) -> Iterator[Metric]:
    """Of what runs here; a container sees others through the network alone."""
    works = "1 while a component does its work."
    if supervision.connect(settings) is None:
        for name in SEEN_FROM_AFAR:
            is_healthy = BY_NAME[name].ailment(settings) is None
            yield _gauge("component_healthy", works, is_healthy, component=name)
        return
    for each in health.components:
        yield _gauge("component_healthy", works, each.is_healthy, component=each.name)
        memory = each.memory_mb * checks.MIB
        yield _gauge("component_memory_bytes", "Its memory.", memory, component=each.name)


def _live_job(settings: Settings) -> Iterator[Metric]:
    try:
        jobs = live.live_jobs(settings)
        is_running = bool(jobs) and jobs[0].is_running
        yield _gauge("live_job_running", "1 while the live job takes in lines.", is_running)
        if not jobs:
            return
        found = flink.get(settings, f"/jobs/{jobs[0].job_id}/checkpoints")
    except OSError:
        yield _gauge("live_job_running", "1 while the live job takes in lines.", False)
        return
    yield Metric(
        "stunwatch_checkpoints_failed_total",
        "counter",
        "Checkpoints of the live job that failed.",
        found["counts"]["failed"],
        {},
    )
    newest = found["latest"]["completed"]
    saved_ms = newest["latest_ack_timestamp"] if newest else jobs[0].started_at
    yield _gauge(
        "checkpoint_age_seconds",
        "Since the live job saved its state.",
        round(max(0.0, time.time() - saved_ms / 1000), 3),
    )


def stored(settings: Settings) -> str:
    """What ClickHouse tells, in its own format; empty where it does not answer."""
    try:
        clickhouse = as_user(settings, "reader", timeout_s=ASKED_S)
        return b"".join(clickhouse.stream(STORED.read_text(), output="Prometheus")).decode()
    except (UserError, OSError):
        return ""


def _gauge(name: str, help_: str, value: float, **labels: str) -> Metric:
    return Metric(f"stunwatch_{name}", "gauge", help_, float(value), labels)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers /metrics, and /health without asking anybody."""

    settings: Settings
    one_at_a_time = threading.Lock()

    def do_GET(self) -> None:
        if self.path == "/health":
            self._answer(http.HTTPStatus.OK, "it serves\n")
        elif self.path == "/metrics":
            with self.one_at_a_time:
                told = text(self.settings)
            self._answer(http.HTTPStatus.OK, told)
        else:
            self._answer(http.HTTPStatus.NOT_FOUND, "/metrics is served here\n")

    def _answer(self, status: http.HTTPStatus, told: str) -> None:
        body = told.encode()
        self.send_response(status)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nobody wants to read that Prometheus asked."""


def main() -> None:
    """Serve until told to stop."""
    Handler.settings = load_settings()
    address = (Handler.settings.bind_address, Handler.settings.metrics_port)
    http.server.ThreadingHTTPServer(address, Handler).serve_forever()


if __name__ == "__main__":
    main()
