"""An error in a detector drops its state of one key: the record is rejected, the job continues."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pyflink.common import Row
from pyflink.datastream import OutputTag

from stunwatch.detectors.stuns.tracker import Tracker as Stuns
from stunwatch.engine.correlating import FAST_CLOCK_US, CorrelateLive
from stunwatch.engine.failures import (
    LONGEST_LINE,
    METRIC,
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


class State:
    """A ValueState, a MapState or a ListState of one key."""

    def __init__(self) -> None:
        self.kept: Any = None
        self.map: dict[str, Any] = {}
        self.list: list[Any] = []

    def value(self) -> Any:
        return self.kept

    def update(self, value: Any) -> None:
        self.kept = value

    def clear(self) -> None:
        self.kept = None
        self.list.clear()

    def add(self, value: Any) -> None:
        self.list.append(value)

    def get(self, key: str | None = None) -> Any:
        return list(self.list) if key is None else self.map.get(key)

    def put(self, key: str, value: Any) -> None:
        self.map[key] = value


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


class Flink:
    """A fake of Flink's context for a function; collects its output."""

    def __init__(self, function: Any, key: str = "datastore01/vm01") -> None:
        self.function = function
        self.states: dict[str, State] = {}
        self.now_ms = NOW_MS
        self.timers: list[int] = []
        self.counted: Counter[str] = Counter()
        counter = lambda name: SimpleNamespace(inc=lambda by=1: self.counted.update({name: by}))  # noqa: E731
        group = SimpleNamespace(counter=counter, gauge=lambda name, value: None)
        self.timer_service = SimpleNamespace(
            current_processing_time=lambda: self.now_ms,
            register_processing_time_timer=self.timers.append,
            register_event_time_timer=self.timers.append,
            delete_processing_time_timer=self.timers.remove,
        )
        self.context: Any = SimpleNamespace(
            timer_service=lambda: self.timer_service,
            get_current_key=lambda: key,
            timestamp=lambda: 1,
        )
        state = lambda descriptor: self.states.setdefault(descriptor.name, State())  # noqa: E731
        function.open(
            SimpleNamespace(
                get_metrics_group=lambda: group,
                get_state=state,
                get_map_state=state,
                get_list_state=state,
            )
        )

    @property
    def failures(self) -> int:
        return self.counted[METRIC]

    def feed(self, value: Row) -> list[Row]:
        return rows(self.function.process_element(value, self.context))

    def fire(self) -> list[Row]:
        return rows(self.function.on_timer(self.timers.pop(), self.context))

    def correlate(self, value: Row) -> list[Row]:
        """Feed an event to the correlator, and fire the timer that it waits for."""
        assert not self.feed(value)
        return self.fire()


def rows(output: Iterator[Any]) -> list[Row]:
    return [each for each in output if not isinstance(each[0], OutputTag)]


def rejected(found: list[Row]) -> list[dict[str, Any]]:
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


EVENT = Row("events.stun", '{"event_id": "e"}', None)


def test_the_first_error_of_the_correlator_drops_one_event(monkeypatch: pytest.MonkeyPatch) -> None:
    live = Flink(CorrelateLive(submitted_us=0), "fleet")
    monkeypatch.setattr(Correlator, "feed", lambda *_: iter(()))
    live.correlate(EVENT)
    first = live.states["correlator"].kept.value[0]
    with monkeypatch.context() as patched:
        patched.setattr(Correlator, "feed", failing)
        [line] = rejected(live.correlate(EVENT))
        assert live.states["correlator"].kept.value[0] is first
    live.correlate(EVENT)
    assert live.states["correlator"].kept.value[0] is first
    assert line["reason"] == "detector incidents failed: ZeroDivisionError"
    assert (line["file"], line["line"]) == ("events.stun", EVENT[1])


def test_the_second_error_in_a_row_drops_the_state_of_the_correlator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    live = Flink(CorrelateLive(submitted_us=0), "fleet")
    monkeypatch.setattr(Correlator, "feed", failing)
    monkeypatch.setattr(Correlator, "advance_time", failing)
    live.correlate(EVENT)
    first = live.states["correlator"].kept.value[0]
    [line] = rejected(live.fire())
    assert live.states["correlator"].kept.value[0] is not first
    assert line["line"] == ""
    assert live.failures == 2


def test_a_late_timer_processes_events_with_the_present_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    live, latest_us = Flink(CorrelateLive(submitted_us=0), "fleet"), list[int]()
    monkeypatch.setattr(Correlator, "feed", lambda *given: iter(latest_us.append(given[-2]) or ()))
    live.feed(EVENT)
    # As after a restart: otherwise events of today would be too far ahead of the timer.
    live.now_ms += 48 * 3_600_000
    live.fire()
    assert latest_us == [live.now_ms * 1000 + FAST_CLOCK_US]


def test_an_error_of_flink_itself_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    live = Flink(CorrelateLive(submitted_us=0), "fleet")

    def reads_a_band(_: Correlator, __: str, ___: Any, bands: Any, *____: Any) -> Iterator[Any]:
        bands["vm a"]
        return iter(())

    monkeypatch.setattr(Correlator, "feed", reads_a_band)
    monkeypatch.setattr(State, "get", failing)
    with pytest.raises(ZeroDivisionError):
        live.correlate(EVENT)
