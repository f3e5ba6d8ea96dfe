"""The state of the pipeline: its components, its topics and how far each reader is behind."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from stunwatch.access import kafka_access
from stunwatch.errors import UserError
from stunwatch.runtime import checks, intake, kafka, keeper, supervision
from stunwatch.runtime.component import Component
from stunwatch.runtime.components import COMPONENTS
from stunwatch.runtime.kafka import wanted_topics
from stunwatch.runtime.processes import processes
from stunwatch.settings import Settings


@dataclass(frozen=True)
class ComponentHealth:
    """One component with its children. `note` says what is wrong, "" where nothing is."""

    name: str
    is_healthy: bool
    state: str
    pid: int
    memory_mb: int
    uptime_seconds: int
    note: str


@dataclass(frozen=True)
class TopicHealth:
    """One topic. `per_second` is None before the keeper has measured twice."""

    name: str
    messages: int
    per_second: float | None
    behind: dict[str, int] = field(default_factory=dict)
    """Consumer group → messages that it has not read yet."""


@dataclass(frozen=True)
class Health:
    """All of the pipeline. `intake` says why no line is taken in, None while lines are."""

    intake: str | None
    components: list[ComponentHealth]
    topics: list[TopicHealth]

    @property
    def is_running(self) -> bool:
        """Tell whether any component has been started."""
        return any(each.pid for each in self.components)

    @property
    def is_healthy(self) -> bool:
        """Tell whether everything does its work."""
        return not self.intake and all(each.is_healthy for each in self.components)

    def as_json(self) -> dict[str, Any]:
        """Return what `status --json` prints."""
        return {"is_running": self.is_running, "is_healthy": self.is_healthy, **asdict(self)}


def examine(settings: Settings) -> Health:
    """Look at everything once; what does not answer is unhealthy, never an error."""
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
    if kafka.ailment(settings) is None:
        with suppress(UserError):  # Kafka may end between two questions
            topics = _topics(settings)
    stopped = intake.why_intake_is_stopped(settings) if supervisor else None
    return Health(stopped, components, topics)


def _component(
    settings: Settings,
    component: Component,
    states: dict[str, dict[str, Any]],
    memory: dict[str, int],
) -> ComponentHealth:
    state = states.get(component.name, {"statename": "STOPPED", "pid": 0, "start": 0, "now": 0})
    pid = int(state["pid"])
    ailment = "it does not run"
    if pid:
        ailment = component.ailment(settings) or component.trouble(settings) or ""
    return ComponentHealth(
        name=component.name,
        is_healthy=not ailment,
        state=str(state["statename"]).lower(),
        pid=pid,
        memory_mb=memory.get(component.name, 0) // checks.MIB,
        uptime_seconds=int(state["now"]) - int(state["start"]) if pid else 0,
        note=ailment,
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
        topics.append(TopicHealth(name, sum(own.values()), rates.get(name), behind))
    return topics
