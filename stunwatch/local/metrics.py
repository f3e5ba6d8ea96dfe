"""The component that serves metrics to Prometheus, if STUNWATCH_METRICS is set.

Kafka exposes its own metrics only through JMX, and they are not served. The pipeline itself queries
the end offsets of topics and the consumer offsets.
"""

from __future__ import annotations

import sys

from stunwatch.local.component import Component, Launch, http_unhealthy_reason
from stunwatch.settings import Settings


def launch(settings: Settings) -> Launch:
    """Run the service."""
    return Launch([sys.executable, "-m", "stunwatch.metrics"])


def unhealthy_reason(settings: Settings) -> str | None:
    """Return the problem if metrics are not served; None if they are."""
    return http_unhealthy_reason(settings.metrics_host, settings.metrics_port, "/health")


COMPONENT = Component(
    "metrics",
    after=("kafka", "clickhouse", "jobmanager"),
    launch=launch,
    unhealthy_reason=unhealthy_reason,
    stop_seconds=5,
    is_wanted=lambda settings: settings.metrics,
)
