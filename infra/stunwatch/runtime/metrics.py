"""The component that tells Prometheus how the pipeline does; where STUNWATCH_METRICS says so.

Kafka's own metrics are in JMX alone and are not told: what is needed of it is how far topics go and
readers have come, which the pipeline asks itself.
"""

from __future__ import annotations

import sys

from stunwatch.runtime.component import Component, Launch, http_ailment
from stunwatch.settings import Settings


def launch(settings: Settings) -> Launch:
    """Run the service."""
    return Launch([sys.executable, "-m", "stunwatch.metrics"])


def ailment(settings: Settings) -> str | None:
    """Say why nothing is told; None if it is."""
    return http_ailment(settings.metrics_host, settings.metrics_port, "/health")


COMPONENT = Component(
    "metrics",
    after=("kafka", "clickhouse", "jobmanager"),
    launch=launch,
    ailment=ailment,
    stop_seconds=5,
    is_wanted=lambda settings: settings.metrics,
)
