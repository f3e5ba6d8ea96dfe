"""The process that becomes a component."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stunwatch.local import launch
from stunwatch.local.component import Component, Launch


def test_a_component_runs_at_its_own_priority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Superset's start delayed detection by 20 s."""
    charts = Component(
        name="superset",
        after=(),
        launch=lambda _: Launch(["serve", "charts"], niceness=5),
        unhealthy_reason=lambda _: None,
        stop_seconds=1,
    )
    done: list[object] = []
    monkeypatch.setenv("STUNWATCH_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["launch", "superset"])
    monkeypatch.setattr(launch, "BY_NAME", {"superset": charts})
    monkeypatch.setattr(launch.os, "nice", done.append)
    monkeypatch.setattr(launch.os, "execvpe", lambda _, command, __: done.append(command))
    launch.main()
    assert done == [5, ["serve", "charts"]]
