"""Every component of the local pipeline, in the order in which they start."""

from __future__ import annotations

from stunwatch.runtime import (
    alerts,
    clickhouse,
    collectors,
    flink,
    kafka,
    keeper,
    metrics,
    superset,
)
from stunwatch.runtime.component import Component

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
