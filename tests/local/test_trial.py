"""Simulated data is never mixed with a user's data: it has its own pipeline, or it is refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from stunwatch import cli
from stunwatch.cli import demo, simulate
from stunwatch.demo.scenario import made_up_names
from stunwatch.errors import UserError
from stunwatch.local import trial
from stunwatch.settings import Settings, load_settings
from tools.bench import __main__ as bench
from tools.score import __main__ as score


class Names:
    """A stub of ClickHouse that returns these names."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def rows(self, _: str) -> list[tuple[str]]:
        return [(each,) for each in self._names]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, Settings]]:
    """Return the calls of `up` and `down`, which are stubs."""
    calls: list[tuple[str, Settings]] = []

    def up(settings: Settings, *_: Any, **__: Any) -> None:
        (settings.home / "data").write_text("made up")
        calls.append(("up", settings))

    monkeypatch.setattr(trial.pipeline, "up", up)
    monkeypatch.setattr(trial.pipeline, "down", lambda each, _: calls.append(("down", each)))
    monkeypatch.setenv("STUNWATCH_HOME", str(tmp_path / "user"))
    monkeypatch.setenv("STUNWATCH_BUILD", str(tmp_path / "build"))
    return calls


def assert_own(settings: Settings, user: Settings) -> None:
    """Assert that a trial shares no folder and no port with the user's pipeline."""
    assert settings.home != user.home
    assert not settings.home.is_relative_to(user.home)
    ports, known = ({port for *_, port in each.ports()} for each in (settings, user))
    assert not ports & (known | {port for *_, port in load_settings({}).ports()})


def test_a_trial_is_removed_even_after_a_failure(
    started: list[tuple[str, Settings]], tmp_path: Path
) -> None:
    user = load_settings()
    with pytest.raises(ZeroDivisionError), trial.trial_pipeline(user, Console()) as own:
        assert_own(own, user)
        assert (own.home / "data").exists()
        with (
            pytest.raises(UserError, match="Another `make bench`"),
            trial.trial_pipeline(user, Console()),
        ):
            pass
        raise ZeroDivisionError
    assert [what for what, _ in started] == ["down", "up", "down"]
    assert not own.home.exists()
    assert not user.home.exists()


def test_bench_uses_its_own_pipeline(
    started: list[tuple[str, Settings]], monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[Settings] = []
    measured = (
        *("live_latency", "small_replays", "replay_speed", "stuns_by_sql", "fleet_speed"),
        *("idle", "live_against_others"),
    )
    for name in measured:
        monkeypatch.setattr(bench, name, lambda own, *_: used.append(own) or {"figure": 1.0})
    monkeypatch.setattr(sys, "argv", ["bench", "--idle", "0"])
    bench.main()
    assert len(used) == len(measured) + 3  # two warm up; latency has two rates
    for each in used:
        assert_own(each, load_settings())
    assert [what for what, _ in started] == ["down", "up", "down"]


def test_score_uses_its_own_pipeline(
    started: list[tuple[str, Settings]], monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[Settings] = []
    monkeypatch.setattr(
        score.pipeline, "run", lambda own, *_: used.append(own) or ({"seed": 1}, [])
    )
    monkeypatch.setattr(sys, "argv", ["score"])
    score.main()
    [own] = used
    assert_own(own, load_settings())


@pytest.mark.parametrize(
    ("names", "others"),
    [
        ((), set()),
        (
            ("esx01.lab.example", "esx02-s7.sim.example", "esx02-s7", "demo-esx01", "demo-sql01"),
            set(),
        ),
        (("esx01.corp.test", "esx01.lab.example"), {"esx01.corp.test"}),
        # The demo replays logs of esx01.lab.example, but esx01 may be a user's host.
        (("esx01", "esx01.lab.example"), {"esx01"}),
        (
            ("demo-esx03", "example", "esx.example.com"),
            {"demo-esx03", "example", "esx.example.com"},
        ),
    ],
)
def test_names_of_real_hosts_are_found(names: tuple[str, ...], others: set[str]) -> None:
    assert trial.not_made_up(names, made_up_names()) == others


@pytest.mark.parametrize("words", [["simulate", "--live"], ["demo"]])
def test_simulated_lines_are_refused_if_the_pipeline_has_other_logs(
    words: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def send(*_: Any, **__: Any) -> None:
        raise AssertionError("it sends")

    monkeypatch.setenv("STUNWATCH_HOME", str(tmp_path))
    monkeypatch.setattr(trial, "as_user", lambda *_, **__: Names("esx07.corp.test", "demo-esx01"))
    monkeypatch.setattr(simulate, "Kafka", lambda *_, **__: type("", (), {"ends": len})())
    monkeypatch.setattr(simulate, "feed", send)
    monkeypatch.setattr(demo, "_up", lambda *_, **__: None)
    monkeypatch.setattr(demo, "_fetch_superset", lambda _: None)
    monkeypatch.setattr(demo, "_replay", send)
    done = CliRunner().invoke(cli.app, words)
    assert isinstance(done.exception, UserError)
    assert str(done.exception).startswith(
        f"This pipeline has logs of esx07.corp.test. `stunwatch {' '.join(words)}` would mix"
    )


def test_nothing_is_sent_if_the_pipelines_logs_are_unknown(tmp_path: Path) -> None:
    settings = load_settings({"STUNWATCH_HOME": str(tmp_path)})
    with pytest.raises(UserError, match="No pipeline has been started here"):
        trial.require_no_other_logs(settings, (), "stunwatch demo")


def test_a_trial_accepts_simulated_lines(tmp_path: Path) -> None:
    settings = load_settings({"STUNWATCH_HOME": str(tmp_path), "STUNWATCH_TRIAL": "1"})
    trial.require_no_other_logs(settings, (), "stunwatch demo")
