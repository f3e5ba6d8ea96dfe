"""The state of the pipeline: its components, topics and consumer lag."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from stunwatch.access import kafka_access
from stunwatch.clickhouse import as_user
from stunwatch.errors import UserError
from stunwatch.local import checks, intake, kafka, keeper, queues, supervision
from stunwatch.local.component import Component
from stunwatch.local.components import COMPONENTS
from stunwatch.local.kafka import wanted_topics
from stunwatch.local.processes import processes
from stunwatch.local.queues import ASKED_S
from stunwatch.schema import SQL
from stunwatch.settings import Settings


@dataclass(frozen=True)
class ComponentHealth:
    """A component with its children. `note` describes the problem; "" if there is none."""

    name: str
    is_healthy: bool
    state: str
    pid: int
    memory_mb: int
    uptime_seconds: int
    note: str


@dataclass(frozen=True)
class TopicHealth:
    """One topic. `per_second` is None until the keeper has measured it twice."""

    name: str
    messages: int
    per_second: float | None
    behind: dict[str, int] = field(default_factory=dict)
    """Unread messages by consumer group."""
    committed: dict[str, int] = field(default_factory=dict)
    """Offsets by consumer group, summed over the partitions."""


@dataclass(frozen=True)
class DetectorFailure:
    """A detector that failed in the last hour, its errors' names, and the records kept."""

    detector: str
    errors: str
    records: int

    @property
    def sentence(self) -> str:
        """A sentence for people."""
        return (
            f"The detector {self.detector} failed in the last hour ({self.errors}), on"
            f" {self.records} records that are kept: `stunwatch sql rejected_by_reason`."
        )


STYLES: Final = {"ok": "green", "few_hosts": "yellow", "replayed_only": "yellow"}
"""Rich styles by state; every other state is red."""


@dataclass(frozen=True)
class LiveLines:
    """Whether live lines arrive, in one sentence.

    `state` is that of the view `newest_line` (sql/views/newest_line.sql), or `unknown`.
    """

    state: str
    sentence: str

    @property
    def style(self) -> str:
        """Rich style of the state."""
        return STYLES.get(self.state, "bold red")

    @property
    def is_missing(self) -> bool:
        """True if live lines are missing, or if it is unknown whether they arrive."""
        return self.state not in STYLES

    def as_json(self) -> dict[str, Any]:
        """Return state, sentence, and whether live lines are missing."""
        return {**asdict(self), "is_missing": self.is_missing}


@dataclass(frozen=True)
class Health:
    """The whole pipeline. `intake` is the reason why intake is stopped, or None."""

    intake: str | None
    components: list[ComponentHealth]
    topics: list[TopicHealth]
    stuck_readers: list[str] = field(default_factory=list)
    """Sentences about consumers that have unread messages but made no progress for five minutes,
    and about tables of ClickHouse that have stopped reading.
    """
    detector_failures: list[DetectorFailure] = field(default_factory=list)
    """They do not make the pipeline unhealthy: other detectors continue, as does this one for other
    keys.
    """
    live_lines: LiveLines | None = None
    """Whether live lines arrive; None if this was not checked."""

    @property
    def is_running(self) -> bool:
        """True if any component has been started."""
        return any(each.pid for each in self.components)

    @property
    def is_healthy(self) -> bool:
        """True if components work, intake runs, no consumer is stuck, and lines arrive."""
        works = all(each.is_healthy for each in self.components)
        # A new pipeline without lines is healthy; one whose lines have stopped is not.
        has_stopped = self.live_lines is not None and self.live_lines.state in ("silent", "unknown")
        return works and not self.intake and not self.stuck_readers and not has_stopped

    def as_json(self) -> dict[str, Any]:
        """Return the content of `status --json`."""
        live_lines = self.live_lines.as_json() if self.live_lines else None
        own = {"is_running": self.is_running, "is_healthy": self.is_healthy}
        return {**own, **asdict(self), "live_lines": live_lines}


def examine(settings: Settings) -> Health:
    """Check everything once. A component that does not answer is unhealthy; it raises no error."""
    supervisor = supervision.connect(settings)
    states = supervisor.states() if supervisor else {}
    memory: dict[str, int] = {}
    for process in processes(settings):
        memory[process.component] = memory.get(process.component, 0) + process.resident_bytes
    components = [
        _component(settings, each, states, memory)
        for each in COMPONENTS
        if each.is_wanted(settings)
    ]
    topics: list[TopicHealth] = []
    if kafka.unhealthy_reason(settings) is None:
        with suppress(UserError):  # Kafka may stop between two queries
            topics = _topics(settings)
    stopped = intake.why_intake_is_stopped(settings) if supervisor else None
    stuck: list[str] = []
    if supervisor:
        stuck = [
            *keeper.stuck_readers(settings),
            *(each.sentence for each in queues.stalled(settings)),
        ]
    return Health(stopped, components, topics, stuck)


def detector_failures(settings: Settings) -> list[DetectorFailure]:
    """Query ClickHouse for detectors that failed; empty if it does not answer."""
    with suppress(UserError, OSError):
        clickhouse = as_user(settings, "reader", timeout_s=ASKED_S)
        rows = clickhouse.rows((SQL / "queries" / "metrics" / "detector_failures.sql").read_text())
        return [DetectorFailure(*row) for row in rows]
    return []


def _component(
    settings: Settings,
    component: Component,
    states: dict[str, dict[str, Any]],
    memory: dict[str, int],
) -> ComponentHealth:
    state = states.get(component.name, {"statename": "STOPPED", "pid": 0, "start": 0, "now": 0})
    pid = int(state["pid"])
    unhealthy_reason = "it does not run"
    if pid:
        unhealthy_reason = component.unhealthy_reason(settings) or component.trouble(settings) or ""
    return ComponentHealth(
        name=component.name,
        is_healthy=not unhealthy_reason,
        state=str(state["statename"]).lower(),
        pid=pid,
        memory_mb=memory.get(component.name, 0) // checks.MIB,
        uptime_seconds=int(state["now"]) - int(state["start"]) if pid else 0,
        note=unhealthy_reason,
    )


def _topics(settings: Settings) -> list[TopicHealth]:
    from stunwatch.kafka import Kafka  # noqa: PLC0415 (slow to import)

    try:
        rates: dict[str, float] = json.loads(keeper.rates(settings).read_text())
    except (OSError, ValueError):
        rates = {}
    broker = Kafka(kafka_access(settings, "metrics"), patience_seconds=0)
    ends = broker.ends(wanted_topics())
    committed = {group: broker.committed(group) for group in broker.groups()}
    topics = []
    for name in wanted_topics():
        own = {key: end for key, end in ends.items() if key[0] == name}
        behind = {
            group: sum(end - offsets[key] for key, end in own.items() if key in offsets)
            for group, offsets in sorted(committed.items())
            if any(key in offsets for key in own)
        }
        read = {group: sum(committed[group].get(key, 0) for key in own) for group in behind}
        topics.append(TopicHealth(name, sum(own.values()), rates.get(name), behind, read))
    return topics
