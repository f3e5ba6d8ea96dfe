"""Stuns: behaviour that the cases, which contain final rows only, do not cover."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stunwatch.detectors.catalogue import detector
from stunwatch.detectors.stuns.tracker import Tracker
from tests.detectors.cases import Event, Record, final_rows, records_of, run

STUNS = detector("stuns")
ROOT = Path(__file__).parents[2]
CORPUS = Path(os.environ.get("STUNWATCH_CORPUS", ROOT.parent / "shared/corpus"))
NEEDS_CORPUS = pytest.mark.skipif(
    not CORPUS.is_dir(), reason="the published log lines are not here (STUNWATCH_CORPUS)"
)
NOON_US = 1_331_208_000_000_000  # 2012-03-08T12:00:00Z
SECOND_US = 1_000_000
HOUR_US = 3600 * SECOND_US


def line(after_ms: int, message: str, **fields: Any) -> Record:
    """Return a record of one VM, `after_ms` after noon."""
    seconds, ms = divmod(after_ms, 1000)
    return {
        "kind": "line",
        "source": "vmware_log",
        "host": "esx01.lab.example",
        "vm": "vm01",
        "datastore": "datastore01",
        "head": f"2012-03-08T12:{seconds // 60:02d}:{seconds % 60:02d}.{ms:03d}Z| vcpu-0| ",
        "message": message,
        "run_id": "case",
        "event_time_us": NOON_US + after_ms * 1000,
        "time_quality": "exact",
        **fields,
    }


def unstun(after_ms: int, duration_us: int, **fields: Any) -> Record:
    return line(after_ms, f"Checkpoint_Unstun: vm stopped for {duration_us} us", **fields)


def second_line(after_ms: int, duration_us: int) -> Record:
    return line(after_ms, f"CPT: vm was stunned for {duration_us} us")


def told(record: Record, tracker: Tracker) -> list[Any]:
    return [*tracker.advance_time(record["event_time_us"]), *tracker.feed(record)]


def durations(rows: list[Event]) -> Counter[int]:
    return Counter(row["duration_us"] for row in rows)


def test_a_stun_is_written_at_its_unstun_line() -> None:
    [stun] = told(unstun(0, 237_087_978), Tracker())
    assert stun.started_at == "2012-03-08T11:56:02.912022Z"
    assert stun.ended_at == "2012-03-08T12:00:00.000000Z"
    assert (stun.measured_by, stun.severity, stun.cause) == ("unstun", "critical", "unknown")


@pytest.mark.parametrize(
    ("duration_us", "severity"),
    [
        (200_000, "normal"),
        (200_001, "notice"),
        (1_000_000, "notice"),
        (1_000_001, "warning"),
        (5_000_000, "warning"),
        (5_000_001, "critical"),
    ],
)
def test_severity_changes_above_its_threshold(duration_us: int, severity: str) -> None:
    [stun] = told(unstun(0, duration_us), Tracker())
    assert stun.severity == severity


def test_mode_changes_wait_for_an_end_line() -> None:
    tracker = Tracker()
    assert not told(line(0, "CPT current = 1, requesting 2"), tracker)
    assert not told(line(2000, "CPT current = 2, requesting 6"), tracker)
    assert tracker.next_timer_us == NOON_US + 2250 * 1000
    assert not list(tracker.advance_time(NOON_US + 2249 * 1000))
    [stun] = tracker.advance_time(NOON_US + 2250 * 1000)
    assert (stun.measured_by, stun.duration_us) == ("cpt_mode", 2_000_000)


def test_a_late_end_line_retracts_the_stun_from_mode_changes() -> None:
    tracker = Tracker()
    told(line(0, "CPT current = 1, requesting 2"), tracker)
    told(line(2000, "CPT current = 2, requesting 6"), tracker)
    [by_modes] = tracker.advance_time(NOON_US + HOUR_US)
    retracted, by_unstun = told(unstun(2001, 2_001_007), tracker)
    assert retracted.event_id == by_modes.event_id
    assert retracted.is_deleted
    assert retracted.revision > by_modes.revision
    assert by_unstun.event_id != by_modes.event_id
    assert not by_unstun.is_deleted


def test_a_stun_from_the_second_line_is_retracted_when_the_first_arrives() -> None:
    tracker = Tracker()
    [alone] = told(second_line(30, 341_000), tracker)
    assert (alone.duration_us, alone.reported_us) == (341_000, 341_000)
    retracted, folded = told(unstun(0, 312_000), tracker)
    assert (retracted.event_id, retracted.is_deleted) == (alone.event_id, 1)
    assert (folded.duration_us, folded.reported_us) == (312_000, 341_000)


def test_an_earlier_copy_of_an_end_line_replaces_the_stun() -> None:
    tracker = Tracker()
    [later] = told(unstun(7, 312_000), tracker)
    retracted, earlier = told(unstun(0, 312_000), tracker)
    assert (retracted.event_id, retracted.is_deleted) == (later.event_id, 1)
    assert earlier.ended_at == "2012-03-08T12:00:00.000000Z"


def test_the_same_duration_seconds_later_is_another_stun() -> None:
    assert len(final_rows(run(STUNS, [unstun(0, 312_000), unstun(1001, 312_000)]))) == 2


def test_the_row_with_the_longer_host_name_wins_in_a_replay() -> None:
    live = run(STUNS, [unstun(0, 312_000, host="")])
    replay = run(STUNS, [unstun(0, 312_000)])
    [row] = final_rows([*replay, *live])
    assert row["host"] == "esx01.lab.example"


def test_a_replay_writes_the_same_revision() -> None:
    live = run(STUNS, [unstun(0, 312_000, run_id="live")])
    replay = run(STUNS, [unstun(0, 312_000, run_id="replay")])
    assert live[0]["revision"] == replay[0]["revision"]


NO_TIME = {"head": "vmx| ", "time_quality": "arrival", "generation": "0badcafe"}


def test_lines_without_a_time_are_separate_stuns() -> None:
    stuns = [unstun(0, 3_100_200, offset=0, **NO_TIME), unstun(0, 640_100, offset=54, **NO_TIME)]
    rows = final_rows(run(STUNS, stuns))
    assert durations(rows) == Counter([3_100_200, 640_100])


def test_a_line_without_a_time_keeps_its_first_time_in_a_replay() -> None:
    first = run(STUNS, [unstun(0, 3_100_200, offset=0, **NO_TIME)])
    again = run(STUNS, [unstun(86_400_000, 3_100_200, offset=0, **NO_TIME)])
    assert [first[0]] == final_rows([*first, *again]) == final_rows([*again, *first])


def test_mode_changes_without_a_time_give_no_stun() -> None:
    changes = [
        line(0, "CPT current = 1, requesting 2", **NO_TIME),
        line(9000, "CPT current = 2, requesting 6", **NO_TIME),
    ]
    assert not run(STUNS, [*changes, line(60_000, "x")])


def test_a_stop_longer_than_an_hour_is_not_a_stun() -> None:
    changes = [
        line(0, "CPT current = 1, requesting 2"),
        line(3_600_001, "CPT current = 2, requesting 6"),
    ]
    assert not run(STUNS, [*changes, line(3_700_000, "x")])


def test_a_tracker_drops_its_state_after_hours_without_lines() -> None:
    tracker = Tracker()
    assert tracker.next_timer_us is None
    told(unstun(0, 312_000), tracker)
    due_us = tracker.next_timer_us
    assert due_us is not None
    assert not list(tracker.advance_time(due_us))
    assert tracker.next_timer_us is None


def test_a_tracker_stays_small_however_long_it_runs() -> None:
    tracker = Tracker()
    for minute in range(0, 2 * 24 * 60, 5):
        told(line(minute * 60_000, "CPT current = 0, requesting 1"), tracker)
        told(unstun(minute * 60_000 + 500, 312_000 + minute), tracker)
    assert len(tracker.state.ends) <= 28
    assert len(tracker.state.modes) <= 28


def test_lines_of_an_old_file_give_their_stun() -> None:
    changes = [
        line(0, "CPT current = 1, requesting 2"),
        line(2000, "CPT current = 2, requesting 6"),
        line(5000, "CPT current = 6, requesting 0"),
    ]
    tracker = Tracker()
    told(unstun(100_000_000, 312_000), tracker)
    events = [event for change in changes for event in told(change, tracker)]
    assert [event.duration_us for event in events] == [2_000_000]


CAUSES = [
    (-3000, f"SnapshotVMX_TakeSnapshot start: 'x', {options}")
    for options in ("deviceState=0, lazy=0, quiesced=1", "deviceState=1, lazy=1, quiesced=0")
]
CAUSES += [
    (-900, "SnapshotVMXTakeSnapshotComplete: Done with snapshot 'x': 1"),
    (3, 'DISKLIB-VMFS : "/vmfs/volumes/a/b/b-000002-delta.vmdk" : closed.'),
    (3, 'DISKLIB-VMFS : "/vmfs/volumes/a/b/b-flat.vmdk" : closed.'),
    (4, "DISKLIB-LIB : Resuming change tracking."),
    (20, "MigrateSetInfo: state=1 srcIp=<10.0.0.1> dstIp=<10.0.0.2> mid=1446455660473901"),
    (21, "Migrate: VM starting stun, waiting 100 seconds for go/no-go message."),
    (22, "MigrateSetState: Transitioning from state 11 to 0."),
    (410, "Requesting hot-remove of 'usb'."),
    (2600, "SnapshotVMXTakeSnapshotComplete: Done with snapshot 'x': 1"),
    (3000, "MainMem: Completed pending lazy checkpoint restore (1)."),
    (4100, "ConsolidateEnd: Snapshot consolidate complete: The operation completed (0)."),
    (9000, "SnapshotVMXConsolidateOnlineCB: Another iteration is needed."),
]


@st.composite
def stops(draw: st.DrawFn) -> list[Record]:
    """Lines of up to five stops, some of them missing or duplicated, sorted by time."""
    lines: list[Record] = []
    for _ in range(draw(st.integers(1, 5))):
        at_ms = draw(st.integers(0, 9000))
        stopped_ms = draw(st.sampled_from([20, 400, 2000]))
        parts = [
            line(at_ms, "CPT current = 0, requesting 1"),
            line(at_ms + 1, "CPT current = 1, requesting 2"),
            line(at_ms + 2, "CPT: monitor ACKing mode 2"),
            line(at_ms + 1 + stopped_ms, "CPT current = 2, requesting 6"),
            unstun(at_ms + 1 + stopped_ms, stopped_ms * 1000 - 7),
            second_line(at_ms + 31 + stopped_ms, stopped_ms * 1000 + 29_001),
            unstun(at_ms + 6 + stopped_ms, stopped_ms * 1000 - 7, host="esx01"),
            line(at_ms + 7 + stopped_ms, "Done Sync monModules(6)."),
            line(at_ms + 300 + stopped_ms, "CPT current = 6, requesting 0"),
            line(at_ms + 400 + stopped_ms, "Log for VMware ESX pid=1"),
        ]
        parts += [line(at_ms + after_ms, message) for after_ms, message in CAUSES]
        lines += draw(st.lists(st.sampled_from(parts), unique_by=id))
    return sorted(lines, key=lambda record: record["event_time_us"])


@pytest.mark.integration
@settings(max_examples=300, deadline=None)
@given(stops(), st.randoms(use_true_random=False))
def test_the_order_of_lines_does_not_change_the_rows(lines: list[Record], random: Any) -> None:
    end = {**line(60_000, ""), "kind": "progress"}
    in_order = final_rows(run(STUNS, [*lines, end]))
    shuffled = random.sample(lines, len(lines))
    assert final_rows(run(STUNS, [*shuffled, end])) == in_order


def test_a_consolidation_that_ends_just_after_a_stun_is_its_cause() -> None:
    tracker = Tracker()
    [at_first] = told(unstun(0, 312_000), tracker)
    [informed] = told(line(69, "ConsolidateEnd: Snapshot consolidate complete: x (0)."), tracker)
    assert (at_first.cause, informed.cause) == ("unknown", "snapshot_remove")
    assert informed.event_id == at_first.event_id
    assert informed.revision > at_first.revision
    assert len(informed.evidence) == 2


def test_a_replay_with_fewer_lines_does_not_change_the_cause() -> None:
    lines = [
        line(-500, "SnapshotVMX_TakeSnapshot start: 'x', deviceState=0, lazy=0, quiesced=1"),
        unstun(0, 312_000),
        line(30, "SnapshotVMXTakeSnapshotComplete: Done with snapshot 'x': 1"),
    ]
    live = run(STUNS, lines)
    for known in (lines[1:2], lines[:2], lines[1:]):
        assert final_rows([*live, *run(STUNS, known)]) == final_rows(live)


def test_an_operation_that_still_runs_is_the_cause_for_hours() -> None:
    lines = [
        line(0, "SnapshotVMX_Consolidate: Starting online snapshot consolidate operation."),
        unstun(110 * 60_000, 312_000),
        unstun(130 * 60_000, 312_000),
    ]
    assert [row["cause"] for row in final_rows(run(STUNS, lines))] == ["snapshot_remove", "unknown"]


def test_cause_lines_without_a_stun_are_forgotten() -> None:
    tracker = Tracker()
    for minute in range(0, 2 * 24 * 60, 5):
        told(line(minute * 60_000, f"HotAdd: Adding scsi-hardDisk {minute}"), tracker)
    assert len(tracker.state.causes) <= 60


@NEEDS_CORPUS
def test_a_published_memory_snapshot_stopped_its_vm_for_54_seconds() -> None:
    log = CORPUS / "sequences/ws7_memory_snapshot_bsd_ms.log"
    [stun] = final_rows(run(STUNS, records_of(log, "vm")))
    assert (stun["measured_by"], stun["duration_us"]) == ("cpt_mode", 54_433_000)
    assert stun["cause"] == "snapshot_create_memory"


@NEEDS_CORPUS
def test_a_published_lazy_snapshot_contains_no_stun() -> None:
    log = CORPUS / "sequences/ws16_lazy_memory_snapshot_std8.log"
    assert not run(STUNS, records_of(log, "vm"))


@NEEDS_CORPUS
def test_published_lines_give_the_stuns_they_contain() -> None:
    rows = final_rows(run(STUNS, records_of(CORPUS / "vmware.log", "vm")))
    timed = {row["duration_us"]: (row["measured_by"], row["cause"]) for row in rows}
    assert timed == {
        3_658_889: ("unstun", "unknown"),
        4_233_332: ("unstun", "snapshot_remove"),
        54_445_000: ("cpt_mode", "snapshot_create_memory"),
    }
    [removal] = [row for row in rows if row["cause"] == "snapshot_remove"]
    assert removal["is_cbt"]
