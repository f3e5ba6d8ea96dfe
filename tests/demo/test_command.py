"""`stunwatch demo`: its last messages and its exit codes. No component is started."""

from __future__ import annotations

import re
import signal
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stunwatch import cli
from stunwatch.cli import demo
from stunwatch.demo.live import ends_as_by_ctrl_c
from stunwatch.demo.scenario import load
from stunwatch.demo.watching import IncidentRow, StunRow, Watching

AT = datetime(2026, 11, 23, 8, 0, 21, tzinfo=UTC)


def watched(*, is_seen: bool) -> Watching:
    watching = Watching(load(), AT)
    watching.stun_sent("demo-sql01", AT, AT)
    if is_seen:
        row = StunRow("demo-sql01", "2026-11-23 08:00:21.000000", 1, "normal", "unknown")
        assert list(watching.stuns([row], AT))
        incident = IncidentRow(
            "0b6f3f0e", "2026-11-23 08:00:16", "2026-11-23 08:00:16", "critical",
            2, "It is the LUN.", "Look at the LUN.",
        )  # fmt: skip
        assert list(watching.incidents([incident], AT))
    return watching


@pytest.fixture(autouse=True)
def without_a_pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STUNWATCH_HOME", str(tmp_path))
    monkeypatch.setenv("STUNWATCH_TRIAL", "1")
    monkeypatch.setattr(demo, "_up", lambda *_, **__: None)
    monkeypatch.setattr(demo, "_fetch_superset", lambda _: None)
    monkeypatch.setattr(demo.pipeline, "up", lambda *_, **__: None)
    monkeypatch.setattr(demo, "_replay", lambda settings, console: None)


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli.app, ["demo", *words], env={"COLUMNS": "400"})
    return done.exit_code, done.output


def test_the_output_ends_with_the_verdict_dashboards_and_removal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo.live, "run", lambda *_: watched(is_seen=True))
    code, said = run()
    assert code == 0
    assert "It is the LUN." in said
    assert "/superset/dashboard/last_night/" in said
    assert "/entity/vm?vm=sql01" in said
    assert str(tmp_path / "secrets" / "superset_admin") in said
    assert re.search(rf"To remove the demo, .* delete {re.escape(str(tmp_path))}\n", said)


def test_a_missing_stun_is_reported_with_a_command_to_show_it_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(demo.live, "run", lambda *_: watched(is_seen=False))
    code, said = run()
    assert code == demo.EXIT_NOT_SEEN
    assert "the stun of demo-sql01 that ended at 08:00:21.000 UTC; the incident" in said
    assert "sql longest_stuns --param vm=demo-app01" in said
    assert "/superset/dashboard/last_night/" in said


def test_with_no_live_no_lines_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo.live, "run", lambda *_: pytest.fail("lines were fed"))
    code, said = run("--no-live")
    assert code == 0
    assert "demo-" not in said


def test_ctrl_c_keeps_the_pipeline_and_prints_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> Watching:
        raise KeyboardInterrupt

    monkeypatch.setattr(demo.live, "run", interrupted)
    code, said = run()
    assert code == demo.EXIT_STOPPED
    assert "Stopped. The pipeline runs" in said


def test_sigterm_is_handled_like_ctrl_c() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), ends_as_by_ctrl_c(signal.SIGTERM):
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before
