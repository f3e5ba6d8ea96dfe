"""The keeper runs exactly one live job, and stops intake before the disk is full."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stunwatch.local import checks, flink, intake, job_code, keeper, live
from stunwatch.local.keeper import DiskGuard, LiveJobKeeper
from stunwatch.local.live import History, LiveJob
from stunwatch.settings import Settings, load_settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    made = replace(load_settings({}), home=tmp_path, min_free_mb=100)
    made.make_folders()
    return made


class Supervisor:
    """A stub of a supervisor with one component."""

    def __init__(self) -> None:
        self.state = "RUNNING"

    def states(self) -> dict[str, dict[str, Any]]:
        return {"kafka": {"statename": self.state}}

    def start(self, name: str) -> None:
        self.state = "RUNNING"

    def stop(self, name: str) -> None:
        self.state = "STOPPED"


def test_intake_stops_below_the_limit_and_resumes_well_above_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor, guard = Supervisor(), DiskGuard(settings)
    seen = []
    for free_mb in (101, 99, 110, 124, 125, 100):
        monkeypatch.setattr(checks, "free_mb", lambda _, free_mb=free_mb: free_mb)
        guard.tick(supervisor)  # type: ignore[arg-type]
        seen.append((free_mb, supervisor.state, intake.why_intake_is_stopped(settings) is None))
    assert seen == [
        (101, "RUNNING", True),
        (99, "STOPPED", False),
        (110, "STOPPED", False),
        (124, "STOPPED", False),
        (125, "RUNNING", True),
        (100, "RUNNING", True),
    ]


def test_the_reason_contains_free_and_required_space(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "free_mb", lambda _: 7)
    assert intake.why_intake_is_stopped(settings) == (
        f"Intake is stopped: the file system of {settings.home} has 7 MiB free;"
        " 125 are needed. Free some space; intake then continues by itself."
    )


def checkpoint(settings: Settings, job_id: str, number: int, is_complete: bool = True) -> Path:
    """Create a checkpoint written at second `number`."""
    folder = flink.checkpoints(settings) / job_id / f"chk-{number}"
    folder.mkdir(parents=True)
    if is_complete:
        (folder / "_metadata").touch()
        os.utime(folder / "_metadata", (number, number))
    return folder


def test_checkpoints_of_live_jobs_are_returned_newest_first(settings: Settings) -> None:
    history = History(settings)
    history.add("aa")
    history.add("bb")
    older = checkpoint(settings, "aa", 7)
    newest = checkpoint(settings, "bb", 8)
    checkpoint(settings, "bb", 9, is_complete=False)
    checkpoint(settings, "of-another-job", 10)
    assert history.newest_checkpoints() == [newest, older]


def test_a_job_with_enough_checkpoints_drops_those_of_earlier_jobs(settings: Settings) -> None:
    history = History(settings)
    history.add("aa")
    checkpoint(settings, "aa", 7)
    history.add("bb")
    checkpoint(settings, "bb", 8)
    history.add("bb")
    assert history.ids() == ["aa", "bb"]
    checkpoint(settings, "bb", 9)
    history.add("bb")
    assert history.ids() == ["bb"]
    assert not (flink.checkpoints(settings) / "aa").exists()


class Client:
    """A stub of the submitting client; it runs until `code` is set."""

    started: list[list[str]]

    def __init__(self, command: list[str], **_: object) -> None:
        self.code: int | None = None
        Client.started.append(command)

    def poll(self) -> int | None:
        return self.code


@pytest.fixture
def submitting(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> LiveJobKeeper:
    Client.started = []
    monkeypatch.setattr(subprocess, "Popen", Client)
    monkeypatch.setattr(live, "live_jobs", lambda _: [])
    monkeypatch.setattr(keeper, "RETRY_SECONDS", -1.0)
    return LiveJobKeeper(settings)


def test_no_second_client_starts_during_a_submission(submitting: LiveJobKeeper) -> None:
    submitting.tick()
    submitting.tick()
    assert len(Client.started) == 1
    assert "--from-checkpoint" not in Client.started[0]


def test_after_a_checkpoint_that_fails_the_previous_one_is_used(
    submitting: LiveJobKeeper, settings: Settings
) -> None:
    History(settings).add("aa")
    older, newer = checkpoint(settings, "aa", 7), checkpoint(settings, "aa", 8)
    for _ in range(3):
        submitting.tick()
        client = submitting._client
        assert isinstance(client, Client)
        client.code = 1
    tried = [each[each.index("--from-checkpoint") + 1] for each in Client.started[:2]]
    assert tried == [f"file://{newer}", f"file://{older}"]
    assert "--from-checkpoint" not in Client.started[2]


def test_after_a_version_that_fails_its_trial_the_previous_one_runs(
    submitting: LiveJobKeeper, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    History(settings).add("aa")
    newest = checkpoint(settings, "aa", 7)
    gave_way = iter([True, False])
    monkeypatch.setattr(job_code, "go_back", lambda _: next(gave_way))
    for _ in range(3):
        submitting.tick()
        client = submitting._client
        assert isinstance(client, Client)
        client.code = 1
    # The previous version can use the checkpoint that failed with the version on trial.
    assert [f"file://{newest}" in each for each in Client.started[:2]] == [True, True]


def test_a_savepoint_is_used_like_a_checkpoint(settings: Settings) -> None:
    History(settings).add("aa")
    checkpoint(settings, "aa", 7)
    saved = flink.savepoints(settings) / "savepoint-aa-1"
    saved.mkdir(parents=True)
    (saved / "_metadata").touch()
    os.utime(saved / "_metadata", (8, 8))
    assert History(settings).newest_checkpoints()[0] == saved


@pytest.mark.parametrize(
    ("saved_s_ago", "state", "trouble"),
    [
        (20, "RUNNING", None),
        (75, "RUNNING", "the live job has completed no checkpoint for 75 s"),
        (None, "RUNNING", "the live job has completed no checkpoint for 90 s"),
        (75, "RESTARTING", None),
    ],
)
def test_status_says_that_the_job_makes_no_checkpoints(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    saved_s_ago: int | None,
    state: str,
    trouble: str | None,
) -> None:
    now_s = 1_700_000_000
    monkeypatch.setattr(time, "time", lambda: now_s)
    job = LiveJob("j", state, (now_s - 90) * 1000, 1, 1)
    monkeypatch.setattr(live, "live_jobs", lambda _: [job])
    newest = saved_s_ago and {"latest_ack_timestamp": (now_s - saved_s_ago) * 1000}
    answer = {"counts": {"completed": 1, "failed": 0}, "latest": {"completed": newest}}
    monkeypatch.setattr(flink, "get", lambda *_: answer)
    assert keeper.COMPONENT.trouble(Settings(home=tmp_path)) == trouble


def test_the_younger_of_two_live_jobs_is_cancelled(
    submitting: LiveJobKeeper, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [LiveJob(each, "RUNNING", at, 4, 4) for at, each in enumerate(("old", "young"))]
    cancelled: list[str] = []
    monkeypatch.setattr(live, "live_jobs", lambda _: jobs)
    monkeypatch.setattr(flink, "cancel", lambda _, job_id: cancelled.append(job_id))
    submitting.tick()
    assert cancelled == ["young"]
    assert History(settings).ids() == ["old"]
    assert Client.started == []
