"""All components of the local pipeline, in start order."""

from __future__ import annotations

from stunwatch.local import (
    alerts,
    clickhouse,
    collectors,
    flink,
    kafka,
    keeper,
    metrics,
    superset,
)
from stunwatch.local.component import Component

COMPONENTS: tuple[Component, ...] = (
    kafka.COMPONENT,
    clickhouse.COMPONENT,
    flink.JOBMANAGER,
    flink.TASKMANAGER,
    keeper.COMPONENT,
    alerts.COMPONENT,
    superset.COMPONENT,
    metrics.COMPONENT,
    *collectors.COMPONENTS,
)
BY_NAME = {each.name: each for each in COMPONENTS}
