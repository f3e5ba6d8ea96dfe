"""Serves the pipeline's own metrics to Prometheus: the state of `status`, and stored data.

    python -m stunwatch.metrics

If a source does not answer, its metrics are left out; the response never fails as a whole.
"""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, MetricsHandler
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from stunwatch.clickhouse import as_user
from stunwatch.errors import UserError
from stunwatch.local import checks, live, queues, supervision
from stunwatch.local.components import BY_NAME
from stunwatch.local.health import Health, examine
from stunwatch.schema import SQL
from stunwatch.settings import Settings, load_settings

STORED: Final = SQL / "queries" / "metrics" / "pipeline.sql"
ASKED_S: Final = 10.0
"""Timeout for ClickHouse. It may be short, because Prometheus scrapes again soon."""

SEEN_FROM_AFAR: Final = ("kafka", "clickhouse", "jobmanager", "taskmanager")


class Pipeline(Collector):
    """Collects all metrics anew for every scrape, for one scrape at a time."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._one_at_a_time = threading.Lock()

    def collect(self) -> Iterator[Metric]:
        """Yield every metric with its samples."""
        with self._one_at_a_time:
            yield from (*own(self._settings), *stored(self._settings))


def own(settings: Settings) -> Iterator[Metric]:
    """Yield the metrics of the processes, Kafka and Flink."""
    health = examine(settings)
    yield _gauge("intake_stopped", "1 while intake is stopped.", bool(health.intake))
    free = checks.free_mb(settings.home) * checks.MIB
    yield _gauge("disk_free_bytes", "Free space on the file system of the data.", free)
    needed = settings.min_free_mb * checks.MIB
    yield _gauge("disk_needed_bytes", "Minimum free space for intake.", needed)
    yield from _components(settings, health)
    yield from _topics(health)
    yield _queues(settings)
    yield from _live_job(settings)


def _components(settings: Settings, health: Health) -> Iterator[Metric]:
    """Yield the components' metrics; in a container, only of those reachable over the network."""
    works = GaugeMetricFamily(
        "stunwatch_component_healthy", "1 while a component is healthy.", labels=["component"]
    )
    if supervision.connect(settings) is None:
        for name in SEEN_FROM_AFAR:
            works.add_metric([name], BY_NAME[name].unhealthy_reason(settings) is None)
        yield works
        return
    memory = GaugeMetricFamily(
        "stunwatch_component_memory_bytes", "Memory of a component.", labels=["component"]
    )
    for each in health.components:
        works.add_metric([each.name], each.is_healthy)
        memory.add_metric([each.name], each.memory_mb * checks.MIB)
    yield from (works, memory)


def _topics(health: Health) -> Iterator[Metric]:
    written = CounterMetricFamily(
        "stunwatch_topic_messages", "Messages written to a topic so far.", labels=["topic"]
    )
    behind = GaugeMetricFamily(
        "stunwatch_reader_behind_messages",
        "Messages of a topic that a consumer group has not read yet.",
        labels=["topic", "group"],
    )
    committed = GaugeMetricFamily(
        "stunwatch_reader_committed_messages",
        "Offsets of a consumer group, summed over the partitions of a topic.",
        labels=["topic", "group"],
    )
    for topic in health.topics:
        written.add_metric([topic.name], topic.messages)
        for group, count in topic.behind.items():
            behind.add_metric([topic.name, group], count)
        for group, count in topic.committed.items():
            committed.add_metric([topic.name, group], count)
    yield from (written, behind, committed)


def _queues(settings: Settings) -> Metric:
    ages = GaugeMetricFamily(
        "stunwatch_queue_poll_age_seconds",
        "Time since a Kafka table of ClickHouse, of the server that answers, has polled.",
        labels=["queue"],
    )
    for each in queues.look(settings):
        ages.add_metric([each.name], each.seconds)
    return ages


def _live_job(settings: Settings) -> Iterator[Metric]:
    runs = "1 while the live job runs."
    try:
        jobs = live.live_jobs(settings)
        yield _gauge("live_job_running", runs, bool(jobs) and jobs[0].is_running)
        if not jobs:
            return
        found = live.checkpoints(settings, jobs[0])
    except OSError:
        yield _gauge("live_job_running", runs, False)
        return
    yield CounterMetricFamily(
        "stunwatch_checkpoints_failed",
        "Failed checkpoints of the live job.",
        found.failed,
    )
    yield _gauge(
        "checkpoint_age_seconds",
        "Seconds since the last checkpoint of the live job.",
        round(found.age_seconds, 3),
    )


def stored(settings: Settings) -> list[Metric]:
    """Return the metrics of the stored data; none if ClickHouse does not answer."""
    try:
        clickhouse = as_user(settings, "analyst", timeout_s=ASKED_S)
        rows = clickhouse.rows(STORED.read_text())
    except (UserError, OSError):
        return []
    found: dict[str, Metric] = {}
    for name, kind, help_, labels, value in rows:
        # ClickHouse writes null for a value that is not a number.
        if value is not None:
            found.setdefault(name, Metric(name, help_, kind)).add_sample(name, labels, value)
    return list(found.values())


def _gauge(name: str, help_: str, value: float) -> Metric:
    return GaugeMetricFamily(f"stunwatch_{name}", help_, value)


class Handler(MetricsHandler):
    """Answers /metrics, and /health without queries to other components."""

    def do_GET(self) -> None:
        if self.path == "/health":
            self._answer(http.HTTPStatus.OK, "healthy\n")
        elif self.path.partition("?")[0] == "/metrics":
            super().do_GET()
        else:
            self._answer(http.HTTPStatus.NOT_FOUND, "The metrics are at /metrics.\n")

    def _answer(self, status: http.HTTPStatus, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    """Serve until the process is stopped."""
    settings = load_settings()
    Handler.registry = CollectorRegistry()
    Handler.registry.register(Pipeline(settings))
    address = (settings.bind_address, settings.metrics_port)
    http.server.ThreadingHTTPServer(address, Handler).serve_forever()


if __name__ == "__main__":
    main()
