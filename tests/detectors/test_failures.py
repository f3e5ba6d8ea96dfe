"""An error in a detector drops its state of one key: the record is rejected, the job continues."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from jsonschema import Draft202012Validator

from stunwatch.detectors.stuns.tracker import Tracker as Stuns
from stunwatch.engine.correlating import LIVE_EVERY_US, LiveIncidents
from stunwatch.engine.failures import (
    LONGEST_LINE,
    REJECTED_OF_A_KEY,
    REJECTED_OF_ALL,
    REJECTED_TOPIC,
    WINDOW_MS,
    Failure,
    Limit,
    rejected_line,
)
from stunwatch.engine.owner import FACTS, Owner
from stunwatch.engine.owners import Owners
from stunwatch.engine.tracking import STARTED_MS, Trackers, to_json, to_record
from stunwatch.incidents.correlator import Correlator
from tests.detectors.cases import Record, records_of_lines

SCHEMA = Draft202012Validator(json.loads(Path("schemas/rejected_line.v1.schema.json").read_text()))
NOW_MS = 1_767_225_600_000
UNSTUN = "2024-05-06T07:0{}:09.123Z In(05) vcpu-0 - Checkpoint_Unstun: vm stopped for 48211 us"
TAKEN = (
    "2024-05-06T07:08:10.123Z In(05) vcpu-0 -"
    " SnapshotVMX_TakeSnapshot start: 'a', deviceState=0, lazy=0"
)


def record(line: str = UNSTUN.format(1), owner: str = "datastore01/vm01") -> Record:
    [found] = records_of_lines([line.encode()], "vm")
    return {**found, "owner": owner, "run_id": "live", "kafka_offset": 7}


def failing(*_: Any) -> Iterator[Any]:
    raise ZeroDivisionError("of a test")


class Task:
    """Does what Tracking.java does with one bucket."""

    def __init__(self, bucket: str = "datastore01/vm01") -> None:
        self.bucket = bucket
        # The job started so long ago that silence counts.
        self.now_ms = NOW_MS - STARTED_MS
        self.trackers = Trackers(lambda: self.now_ms)
        self.now_ms = NOW_MS
        self.timers: list[int] = []
        self.facts: list[tuple[str, ...]] = []

    def feed(self, text: str) -> list[Any]:
        return self._told(self.trackers.feed(self.bucket, None, None, text))

    def fire(self) -> list[Any]:
        return self._told(self.trackers.on_timer(self.bucket, self.timers.pop()))

    def _told(self, told: Any) -> list[Any]:
        timer_ms, found = told or (0, [])
        self.timers += [timer_ms] if timer_ms else []
        self.facts += [row for row in found if row[0] == FACTS]
        return [row for row in found if row[0] != FACTS]

    @property
    def failures(self) -> int:
        return self.trackers.counts()[0]

    @property
    def evicted(self) -> int:
        return self.trackers.counts()[1]

    def owners(self) -> Owners:
        """Return the log keys in Flink's state after a checkpoint."""
        pickled = self.trackers.pickled(self.bucket)
        return pickle.loads(pickled) if pickled else Owners()


def rejected(found: list[Any]) -> list[dict[str, Any]]:
    lines = [json.loads(row[2]) for row in found if row[0] == REJECTED_TOPIC]
    for each in lines:
        SCHEMA.validate(each)
    return lines


def test_without_a_list_of_failures_an_error_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no test of a tracker ignores an error."""
    monkeypatch.setattr(Stuns, "feed", failing)
    with pytest.raises(ZeroDivisionError):
        list(Owner().feed(record()))


@pytest.mark.parametrize("method", ["__init__", "feed", "advance_time", "flush", "next_timer_us"])
def test_the_other_detectors_of_a_key_continue_after_an_error(
    monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    broken = property(failing) if method == "next_timer_us" else failing
    monkeypatch.setattr(Stuns, method, broken)
    owner, failures = Owner(), list[Failure]()
    lines = [record(), record(TAKEN), {**record(TAKEN), "kind": "progress"}]
    events = [event for each in lines for _, event in owner.feed(each, failures)]
    assert {each.detector for each in failures} == {"stuns"}
    assert "snapshot_operations" in {getattr(each, "detector", "") for each in events}
    assert "stuns" not in owner._trackers or method == "flush"


def test_a_detector_finds_events_again_after_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    live = Task()
    with monkeypatch.context() as patched:
        patched.setattr(Stuns, "feed", failing)
        [line] = rejected(live.feed(to_json(record())))
    assert line["reason"] == "detector stuns failed: ZeroDivisionError"
    assert line["line"] == UNSTUN.format(1)
    assert (line["source"], line["vm"], line["offset"]) == ("vmware_log", "vm01", 0)
    assert live.failures == 1
    found = live.feed(to_json(record(UNSTUN.format(2))))
    assert [row[0] for row in found] == ["events.stun"]


def test_an_error_at_a_timer_is_rejected_too(monkeypatch: pytest.MonkeyPatch) -> None:
    live = Task()
    live.feed(to_json(record()))
    monkeypatch.setattr(Stuns, "advance_time", failing)
    [line] = rejected(live.fire())
    assert line["reason"] == "detector stuns failed: ZeroDivisionError"
    assert (line["line"], line["file"]) == ("", "datastore01/vm01")


def test_an_event_that_json_cannot_represent_is_a_failure_of_its_detector(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    feed = Stuns.feed

    def too_large(self: Stuns, each: Record) -> Iterator[Any]:
        return (replace(event, duration_us=1 << 64) for event in feed(self, each))

    monkeypatch.setattr(Stuns, "feed", too_large)
    [line] = rejected(Task().feed(to_json(record())))
    assert line["reason"] == "detector stuns failed: TypeError"


def test_a_replay_continues_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stuns, "feed", failing)
    replay = Task()
    [line] = rejected(replay.feed(to_json({**record(), "run_id": "r1"})))
    assert (line["line"], line["run_id"]) == (UNSTUN.format(1), "r1")


def test_the_rejected_records_of_one_key_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stuns, "feed", failing)
    live = Task()
    found = [row for _ in range(100) for row in live.feed(to_json(record()))]
    assert len(rejected(found)) == REJECTED_OF_A_KEY
    assert live.failures == 100
    live.now_ms += WINDOW_MS
    assert len(rejected(live.feed(to_json(record())))) == 1


def test_the_rejected_records_of_all_keys_are_limited() -> None:
    limit = Limit()
    taken = sum(limit.takes(f"esx{number}", "stuns", 0) for number in range(10_000))
    assert taken == REJECTED_OF_ALL
    assert len(limit._written) == REJECTED_OF_ALL
    assert limit.takes("esx1", "stuns", WINDOW_MS)


@pytest.mark.parametrize("message", ["x" * 300_000, "\x00" * 300_000, "half of a pair: \ud800"])
def test_a_rejected_line_fits_a_kafka_message(message: str) -> None:
    text = rejected_line(Failure("stuns", KeyError(), {"message": message}), "esx01", NOW_MS)
    assert len(text.encode()) < 200_000
    assert json.loads(text)["line"] == message[:LONGEST_LINE]


@pytest.mark.parametrize("missing", ["owner", "event_time", "kind", "source", "message", "run_id"])
def test_a_record_that_violates_its_schema_is_ignored(missing: str) -> None:
    assert to_record(to_json(record())) is not None
    assert to_record(to_json({**record(), missing: None})) is None


@pytest.mark.parametrize(
    "time",
    ["", "x", "0001-01-01", "99999-01-01T00:00:00Z", "9" * 5000, "0001-01-01T00:00:00+23:59"],
)
def test_any_text_as_a_time_raises_no_error(time: str) -> None:
    to_record(to_json({**record(), "event_time": time}))


class Fleet:
    """Does what Correlating.java does, without its state."""

    def __init__(self) -> None:
        self.now_ms = NOW_MS
        self.live = LiveIncidents(0, lambda: self.now_ms)
        self.timers: list[int] = []

    def feed(self, topic: str, text: str, written_at: str | None = None) -> list[Any]:
        return self._told(self.live.feed(topic, text, written_at))

    def fire(self) -> list[Any]:
        return self._told(self.live.on_timer(self.timers.pop()))

    def _told(self, told: Any) -> list[Any]:
        timer_ms, rows = told or (0, [])
        self.timers += [timer_ms] if timer_ms else []
        return list(rows)

    def correlator(self) -> Correlator:
        """Return the correlator in Flink's state after a checkpoint."""
        correlator, _, _ = pickle.loads(dict(self.live.pickled())["correlator"])
        return cast(Correlator, correlator)


def stun(event_id: str) -> tuple[str, str]:
    """Return the topic and the text of a stun."""
    sample = Path("schemas/samples/stun.v1.measured_by_unstun.pass.json").read_text()
    return "events.stun", json.dumps(
        {**json.loads(sample), "event_id": event_id, "duration_us": 5_000_000}
    )


def test_the_first_error_of_the_correlator_drops_one_event(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet()
    assert not fleet.feed(*stun("e1"))
    with monkeypatch.context() as patched:
        patched.setattr(Correlator, "feed", failing)
        [line] = rejected(fleet.feed(*stun("e2")))
    assert not fleet.feed(*stun("e3"))
    assert line["reason"] == "detector incidents failed: ZeroDivisionError"
    assert (line["file"], line["line"]) == stun("e2")
    assert {*fleet.correlator().signals} == {"e1", "e3"}


def test_the_second_error_in_a_row_drops_the_state_of_the_correlator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fleet = Fleet()
    assert not fleet.feed(*stun("e1"))
    with monkeypatch.context() as patched:
        patched.setattr(Correlator, "feed", failing)
        patched.setattr(Correlator, "advance_time", failing)
        fleet.feed(*stun("e2"))
        assert fleet.correlator().signals
        fleet.now_ms += LIVE_EVERY_US // 1000
        [line] = rejected(fleet.fire())
    assert not fleet.correlator().signals
    assert line["line"] == ""
    assert fleet.live.counts()[0] == 2
