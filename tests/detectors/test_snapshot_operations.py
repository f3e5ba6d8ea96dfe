"""Snapshot operations: behaviour that the cases, which contain final rows only, do not cover."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stunwatch.detectors.catalogue import detector
from stunwatch.detectors.snapshot_operations.tracker import Tracker
from tests.detectors.cases import Event, Record, final_rows, records_of, run

OPERATIONS = detector("snapshot_operations")
ROOT = Path(__file__).parents[2]
CORPUS = Path(os.environ.get("STUNWATCH_CORPUS", ROOT.parent / "shared/corpus"))
NEEDS_CORPUS = pytest.mark.skipif(
    not CORPUS.is_dir(), reason="the published log lines are not here (STUNWATCH_CORPUS)"
)
NOON_US = 1_331_208_000_000_000  # 2012-03-08T12:00:00Z
MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR

STARTED = "SnapshotVMX_Consolidate: Starting online snapshot consolidate operation."
ITERATION = "SnapshotVMXConsolidateOnlineCB: Another iteration is needed."
ENDED = "ConsolidateEnd: Snapshot consolidate complete: The operation completed successfully (0)."
BEGAN = "MainMem: Begin lazy IO (262144 pages, 0 done, 1 threads, bio = 0)."
SAVED = "MainMem: Completed pending lazy checkpoint save (1)."


def line(after_ms: int, message: str, **fields: Any) -> Record:
    """Return a record of one VM, `after_ms` after noon."""
    return {
        "kind": "line",
        "source": "vmware_log",
        "host": "esx01.lab.example",
        "vm": "vm01",
        "datastore": "datastore01",
        "head": f"2012-03-08T12:00:00.000Z+{after_ms}| vmx| ",
        "message": message,
        "run_id": "case",
        "event_time_us": NOON_US + after_ms * 1000,
        "time_quality": "exact",
        **fields,
    }


def take(after_ms: int, name: str, memory: int = 0) -> Record:
    return line(after_ms, f"SnapshotVMX_TakeSnapshot start: '{name}', deviceState={memory}, lazy=0")


def done(after_ms: int, name: str) -> Record:
    return line(after_ms, f"SnapshotVMXTakeSnapshotComplete: Done with snapshot '{name}': 4")


def opened(after_ms: int, number: int, size: int) -> Record:
    path = f"/vmfs/volumes/datastore01/vm01/vm01-{number:06d}-delta.vmdk"
    return line(
        after_ms, f'DISKLIB-VMFS  : "{path}" : open successful (8) size = {size}, hd = 0. Type 8'
    )


def closed(after_ms: int, link: str) -> Record:
    return line(after_ms, f'DISKLIB-VMFS  : "/vmfs/volumes/ds/vm01/vm01{link}.vmdk" : closed.')


def told(tracker: Tracker, record: Record) -> list[Any]:
    return [*tracker.advance_time(record["event_time_us"]), *tracker.feed(record)]


def published(name: str) -> list[Event]:
    return final_rows(run(OPERATIONS, records_of(CORPUS / name, "vm")))


def test_an_operation_is_open_at_once_and_ends_with_its_last_line() -> None:
    tracker = Tracker()
    [running] = told(tracker, line(0, STARTED))
    [ended] = told(tracker, line(3 * MINUTE, ENDED))
    assert (running.outcome, running.ended_at, running.duration_ms) == ("open", None, None)
    assert (ended.outcome, ended.duration_ms) == ("ok", 3 * MINUTE)
    assert ended.event_id == running.event_id
    assert ended.revision > running.revision


def test_a_removal_of_days_is_one_operation() -> None:
    records = [
        line(0, STARTED),
        *(line(hours * HOUR, ITERATION) for hours in range(5, 60, 5)),
        line(3 * DAY, ENDED),
    ]
    [row] = final_rows(run(OPERATIONS, records))
    assert (row["outcome"], row["iterations"], row["duration_ms"]) == ("ok", 11, 3 * DAY)


def test_an_operation_without_an_end_is_dropped_after_a_week_and_stays_open() -> None:
    tracker = Tracker()
    [running] = told(tracker, line(0, STARTED))
    assert running.outcome == "open"
    for day in range(1, 7):
        assert not list(tracker.advance_time(NOON_US + day * DAY * 1000))
    assert tracker.next_timer_us is not None
    assert not list(tracker.advance_time(NOON_US + 8 * DAY * 1000))
    assert tracker.next_timer_us is None


def test_a_tracker_stays_small_however_many_snapshots_a_vm_gets() -> None:
    tracker = Tracker()
    for after_ms in range(0, 3 * DAY, 30 * MINUTE):
        for record in (
            take(after_ms, "half-hourly"),
            closed(after_ms + 500, "-flat"),
            done(after_ms + 2000, "half-hourly"),
            line(after_ms + 10 * MINUTE, STARTED),
            opened(after_ms + 10 * MINUTE + 900, 1, 500 << 20),
            line(after_ms + 14 * MINUTE, ENDED),
        ):
            told(tracker, record)
    [group] = tracker.groups.values()
    assert len(group.facts) <= 40
    assert len(group.written) <= 14


def test_the_error_code_of_an_end_line_sets_the_outcome() -> None:
    ended = "ConsolidateEnd: Snapshot consolidate complete: Cancelled (34)."
    [row] = final_rows(run(OPERATIONS, [line(0, STARTED), line(5000, ended)]))
    assert (row["outcome"], row["duration_ms"]) == ("failed", 5000)


@pytest.mark.parametrize(
    ("sizes", "is_converging"),
    [
        ([], None),
        ([300], None),
        ([300, 200], True),
        ([300, 200, 100], True),
        ([300, 300], False),
        ([300, 200, 250], False),
        ([300, 400, 100], False),
    ],
)
def test_helpers_converge_if_each_is_smaller_than_the_last(
    sizes: list[int], is_converging: bool | None
) -> None:
    records = [line(0, STARTED)]
    for place, size in enumerate(sizes, 1):
        records += [
            line(place * MINUTE, ITERATION),
            opened(place * MINUTE + 900, place % 2 + 1, size << 20),
        ]
    [row] = final_rows(run(OPERATIONS, records))
    assert row["helper_sizes"] == [size << 20 for size in sizes]
    assert row["iterations"] == len(sizes)
    assert row["is_converging"] is is_converging


def test_the_size_of_a_helper_is_that_at_its_merge_not_at_its_creation() -> None:
    records = [
        line(0, STARTED),
        opened(100, 1, 900 << 20),
        opened(101, 2, 24_576),
        line(60_000, ITERATION),
        opened(60_100, 3, 24_576),
        opened(60_101, 2, 300 << 20),
        opened(119_000, 3, 400 << 20),
        line(120_000, ITERATION),
        opened(120_100, 4, 24_576),
        opened(120_101, 3, 400 << 20),
    ]
    [row] = final_rows(run(OPERATIONS, records))
    assert row["delta_bytes"] == 900 << 20
    assert row["helper_sizes"] == [300 << 20, 400 << 20]
    assert row["is_converging"] is False


def test_a_lower_snapshot_that_remains_is_not_a_helper() -> None:
    records = [
        line(0, STARTED),
        opened(100, 2, 200 << 20),
        opened(101, 1, 800 << 20),
        line(60_000, ITERATION),
        opened(60_101, 1, 800 << 20),
        opened(60_102, 3, 9 << 20),
    ]
    [row] = final_rows(run(OPERATIONS, records))
    assert row["helper_sizes"] == [9 << 20]


def test_an_end_line_of_another_snapshot_does_not_end_a_creation() -> None:
    [row] = final_rows(run(OPERATIONS, [take(0, "a"), done(2000, "b")]))
    assert (row["outcome"], row["name"]) == ("open", "a")


def test_lines_without_a_time_are_ignored() -> None:
    assert not run(OPERATIONS, [line(0, STARTED, time_quality="arrival", head="vmx| ")])


def test_a_replay_writes_the_same_revision() -> None:
    live = run(OPERATIONS, [line(0, STARTED, run_id="live"), line(9000, ENDED, run_id="live")])
    replay = run(OPERATIONS, [line(0, STARTED, run_id="b"), line(9000, ENDED, run_id="b")])
    assert [row["revision"] for row in live] == [row["revision"] for row in replay]


@st.composite
def histories(draw: st.DrawFn) -> list[Record]:
    """Lines of up to five tasks, some of them missing or duplicated, sorted by time."""
    lines: list[Record] = []
    for _ in range(draw(st.integers(1, 5))):
        at = draw(st.integers(0, 600_000))
        lock = f"'/vm01-000001-delta.vmdk' : Failed to lock the file ({at})"
        name = draw(st.sampled_from(["a", "b", "Consolidate Helper- 0"]))
        parts = [
            line(at - 2, "Log for VMware ESX pid=1"),
            take(at, name, memory=draw(st.integers(0, 1))),
            line(at + 900, BEGAN),
            line(at + 9000, "MainMem: End lazy IO (262144 done, sync = 0, error = 1)."),
            line(at + 9100, SAVED),
            line(at + 9150, "MainMem: Completed pending lazy checkpoint restore (1)."),
            line(at + 9200, "SnapshotVMXTakeSnapshotComplete: Snapshot 0 failed: it did not work"),
            done(at + 9300, name),
            closed(at + 12_000, "-000001-delta"),
            closed(at + 12_001, "-flat"),
            line(at + 12_500, STARTED),
            line(at + 12_503, STARTED),
            opened(at + 12_600, 1, 800 << 20),
            line(at + 15_000, ITERATION),
            opened(at + 15_600, 2, 300 << 20),
            line(at + 20_000, "SnapshotVMXConsolidateOnlineCB: nextState = 1 uid 4"),
            line(at + 22_000, f"AIOGNRC: Failed to open {lock}"),
            line(at + 22_900, f"DISK: Failed to open disk for consolidate {lock}"),
            line(at + 25_000, "ConsolidateItemComplete: Cancelling online consolidate."),
            line(at + 27_000, "SnapshotVMXConsolidateOnlineCB: Done with consolidate"),
            line(at + 27_200, ENDED),
            line(at + 27_204, ENDED, host="esx01"),
        ]
        lines += draw(st.lists(st.sampled_from(parts), unique_by=id))
    return sorted(lines, key=lambda record: record["event_time_us"])


@pytest.mark.integration
@settings(max_examples=400, deadline=None)
@given(histories(), st.randoms(use_true_random=False))
def test_the_order_of_lines_does_not_change_the_rows(lines: list[Record], random: Any) -> None:
    in_order = final_rows(run(OPERATIONS, lines))
    shuffled = random.sample(lines, len(lines))
    assert final_rows(run(OPERATIONS, shuffled)) == in_order


@NEEDS_CORPUS
def test_a_published_lazy_snapshot_took_334_seconds_and_a_tuned_one_84() -> None:
    lazy = [
        row for row in published("vmware.log") if row["lazy_io_ms"] and row["pages"] == 1_048_576
    ]
    assert [row["lazy_io_ms"] for row in lazy] == [83_898, 333_969]
    assert [row["kind"] for row in lazy] == ["create_memory", "create_memory"]
    assert [row["formula_ms"] for row in lazy] == [409_600, 409_600]
    assert [row["pages_per_second"] for row in lazy] == [12498.2, 3139.7]
    assert lazy[1]["started_at"] == "2012-07-27T17:39:45.992000Z"
    assert lazy[1]["ended_at"] == "2012-07-27T17:45:19.961000Z"


@NEEDS_CORPUS
def test_published_resumes_are_not_snapshots() -> None:
    log = CORPUS / "vmware.log"
    begun = sum("MainMem: Begin lazy IO" in text for text in log.read_text().splitlines())
    assert begun > 2
    assert sum(row["pages"] is not None for row in published("vmware.log")) == 2


@NEEDS_CORPUS
def test_a_published_lazy_snapshot_ends_when_it_is_completed() -> None:
    [row] = published("sequences/ws16_lazy_memory_snapshot_std8.log")
    assert (row["kind"], row["name"], row["outcome"]) == ("create_memory", "Snapshot 5", "ok")
    assert (row["pages"], row["lazy_io_ms"]) == (3_178_496, 1_145_601)
    assert row["duration_ms"] == 1_147_347


@NEEDS_CORPUS
def test_a_published_memory_snapshot_of_a_stopped_vm_has_no_lazy_window() -> None:
    [row] = published("sequences/ws7_memory_snapshot_bsd_ms.log")
    assert (row["kind"], row["name"], row["outcome"]) == ("create_memory", "原始", "ok")
    assert (row["duration_ms"], row["pages"], row["lazy_io_ms"]) == (55_001, None, None)


@NEEDS_CORPUS
def test_a_removal_with_a_published_lock_line_failed() -> None:
    [row] = published("sequences/esxi5_consolidate_lock_failure.log")
    assert (row["kind"], row["outcome"], row["duration_ms"]) == ("remove", "failed", 1527)
    assert row["started_at"] == "2012-07-06T21:01:10.893000Z"
    reasons = [text for text in row["evidence"] if "Failed to lock the file" in text]
    assert any("DISK: Failed to open disk for consolidate" in text for text in reasons)
    assert any("DISKLIB-VMFS" in text for text in reasons)
