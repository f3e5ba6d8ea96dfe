"""A replay waits until the live job and ClickHouse have processed its messages."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from stunwatch import consumers
from stunwatch.consumers import PATIENCE_S, wait_until_detected, wait_until_read
from stunwatch.errors import UserError
from stunwatch.kafka import Offsets
from stunwatch.local import flink, live
from stunwatch.local.live import LiveJob, make_checkpoint
from stunwatch.settings import Settings

ENDS = {("esxi.backfill", 0): 7, ("esxi.backfill", 1): 0}
PLACE = ("esxi.backfill", 0)


class Clock:
    """A monotonic clock that only `sleep` advances."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Broker:
    """The offsets that a group has committed."""

    def __init__(self) -> None:
        self.offsets: Offsets = {}

    def committed(self, group: str, places: Iterable[tuple[str, int]]) -> Offsets:
        return self.offsets


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in (consumers, live):
        monkeypatch.setattr(module, "time", made)
    return made


def test_the_offsets_are_committed_after_a_checkpoint_and_a_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps: list[str] = []
    broker: Any = Broker()

    def checkpoint() -> None:
        steps.append("checkpoint")
        if steps.count("checkpoint") == 1:
            raise OSError("the job restarts")

    def nudge() -> None:
        steps.append("nudge")
        broker.offsets = {PLACE: 7}

    monkeypatch.setattr(live, "make_checkpoint", lambda *_: checkpoint())
    settings: Any = None
    wait_until_detected(settings, broker, ENDS, nudge, lambda: None)
    assert steps == ["checkpoint", "checkpoint", "nudge"]


def test_a_job_that_stops_moving_is_an_error(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    def no_job() -> None:
        raise OSError("no job")

    monkeypatch.setattr(live, "make_checkpoint", lambda *_: no_job())
    broker: Any = Broker()
    settings: Any = None
    with pytest.raises(UserError, match=f"processed no message for {PATIENCE_S} s; 7 messages"):
        wait_until_detected(settings, broker, ENDS, lambda: None, lambda: None)
    assert clock.now > PATIENCE_S


def test_a_consumer_that_stops_moving_is_an_error(clock: Clock) -> None:
    broker: Any = Broker()
    steps = iter([3])

    def moves() -> None:
        if clock.now > PATIENCE_S - 10:
            broker.offsets = {PLACE: next(steps, 3)}

    with pytest.raises(UserError, match="4 messages of clickhouse-records are unread"):
        wait_until_read(broker, "clickhouse-records", ENDS, moves)
    assert clock.now > 2 * PATIENCE_S - 20


ANSWERS = {
    "completed": {"status": {"id": "COMPLETED"}, "operation": {"checkpointId": 7}},
    "failed": {
        "status": {"id": "COMPLETED"},
        "operation": {"failure-cause": {"class": "CheckpointException"}},
    },
    "slow": {"status": {"id": "IN_PROGRESS"}},
}


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ("completed", None),
        ("failed", "no checkpoint: CheckpointException"),
        ("slow", "the checkpoint was not complete after 60 s"),
    ],
)
def test_a_checkpoint_completes_or_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: str, error: str | None
) -> None:
    job = LiveJob("j", "RUNNING", 0, 1, 1)
    monkeypatch.setattr(live, "live_jobs", lambda _: [job])
    monkeypatch.setattr(flink, "post", lambda *_: {"request-id": "r"})
    monkeypatch.setattr(flink, "get", lambda *_: ANSWERS[answer])
    settings = Settings(home=tmp_path)
    if error is None:
        make_checkpoint(settings, 60)
        return
    with pytest.raises(OSError, match=error):
        make_checkpoint(settings, 60)


def test_without_a_job_there_is_no_checkpoint(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(live, "live_jobs", lambda _: [])
    with pytest.raises(OSError, match="not submitted yet"):
        make_checkpoint(Settings(home=tmp_path), 60)
