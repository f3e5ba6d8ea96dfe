"""How long `up` waits for a component: progress of any component restarts the wait."""

from __future__ import annotations

import time
from typing import Any

import pytest

from stunwatch.errors import UserError
from stunwatch.local import pipeline
from stunwatch.local.component import Component, Launch
from stunwatch.printable import Terminal
from stunwatch.settings import load_settings


class _Supervisor:
    """A supervisor whose components run once they were started."""

    def __init__(self) -> None:
        self.started: list[str] = []

    def states(self) -> dict[str, dict[str, Any]]:
        return {each: {"statename": "RUNNING", "pid": 1} for each in self.started}

    def start(self, name: str) -> None:
        self.started.append(name)


def _component(name: str, checks: list[str | None]) -> Component:
    """Return a component with these results of its health checks; the last one is repeated."""
    return Component(
        name,
        after=(),
        launch=lambda _: Launch([]),
        unhealthy_reason=lambda _: checks.pop(0) if len(checks) > 1 else checks[0],
        stop_seconds=1,
    )


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> _Supervisor:
    """Return the supervisor of a pipeline where loading the dashboards takes long."""
    monkeypatch.setattr(pipeline, "STILL_SECONDS", 0.5)
    for module, step in (
        (pipeline.kafka, "apply_principals"),
        (pipeline.kafka, "apply_topics"),
        (pipeline.readers, "read_all_into_new_tables"),
        (pipeline.clickhouse, "apply_sql"),
    ):
        monkeypatch.setattr(module, step, lambda _: None)
    monkeypatch.setattr(pipeline.dashboards, "apply_if_changed", lambda _: time.sleep(1))
    monkeypatch.setattr(pipeline.superset, "is_installed", lambda _: True)
    return _Supervisor()


def _start(
    monkeypatch: pytest.MonkeyPatch, supervisor: _Supervisor, checks: list[str | None]
) -> None:
    monkeypatch.setattr(
        pipeline,
        "COMPONENTS",
        [
            _component("kafka", [None]),
            _component("clickhouse", [None]),
            _component("taskmanager", checks),
            _component("superset", ["does not answer", None]),
        ],
    )
    pipeline._start(load_settings(), supervisor, Terminal(stderr=True), waits_for_superset=False)  # type: ignore[arg-type]


def test_the_wait_starts_again_after_a_slow_step_of_another_component(
    monkeypatch: pytest.MonkeyPatch, supervisor: _Supervisor
) -> None:
    _start(monkeypatch, supervisor, [*["0 of 4 slots are registered"] * 2, None])
    assert "superset" in supervisor.started


def test_a_component_that_never_becomes_healthy_ends_the_start(
    monkeypatch: pytest.MonkeyPatch, supervisor: _Supervisor
) -> None:
    with pytest.raises(UserError, match="taskmanager does not start: 0 of 4 slots"):
        _start(monkeypatch, supervisor, ["0 of 4 slots are registered"])
