"""Countdowns: behaviour that the cases, which contain final rows only, do not cover."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stunwatch.detectors.catalogue import detector
from stunwatch.detectors.sync_cr_countdowns.tracker import Tracker
from tests.detectors.cases import Event, Record, final_rows, records_of, run

COUNTDOWNS = detector("sync_cr_countdowns")
ROOT = Path(__file__).parents[2]
CORPUS = Path(os.environ.get("STUNWATCH_CORPUS", ROOT.parent / "shared/corpus"))
NEEDS_CORPUS = pytest.mark.skipif(
    not CORPUS.is_dir(), reason="the published log lines are not here (STUNWATCH_CORPUS)"
)
NOON_US = 1_331_208_000_000_000  # 2012-03-08T12:00:00Z
SECOND_US = 1_000_000
BARE: dict[str, Any] = {"head": "", "thread": ""}


def line(after_ms: int, message: str, world: int = 1039, **fields: Any) -> Record:
    """Return a vmkernel record of one host, `after_ms` after noon."""
    minutes, ms = divmod(after_ms, 60_000)
    clock = f"12:{minutes:02d}:{ms // 1000:02d}.{ms % 1000:03d}"
    return {
        "kind": "line",
        "source": "syslog",
        "program": "vmkernel",
        "host": "esx35-a",
        "thread": f"cpu0:{world}",
        "head": f"Mar  8 {clock[:8]} esx35-a vmkernel: 3:{clock} cpu0:{world})",
        "message": message,
        "offset": after_ms,
        "run_id": "case",
        "event_time_us": NOON_US + after_ms * 1000,
        "time_quality": "exact",
        **fields,
    }


def step(after_ms: int, remaining: int, world: int = 1039, **fields: Any) -> Record:
    return line(after_ms, f"SCSI: vm {world}: 109: Sync CR at {remaining}", world, **fields)


def esx4_step(after_ms: int, remaining: int, opcode: str = "28", world: int = 4121) -> Record:
    message = f"ScsiCore: 1181: Sync CR (opcode {opcode}) at {remaining} (wid {world})"
    return line(after_ms, message, 4108)


def failed(after_ms: int, world: int = 1039, **fields: Any) -> Record:
    message = "WARNING: SCSI: 119: Failing I/O due to too many reservation conflicts"
    return line(after_ms, message, world, **fields)


def path(after_ms: int, retries: int = 0, world: int = 1039, **fields: Any) -> Record:
    message = (
        "WARNING: SCSI: 5628: status SCSI reservation conflict, rstatus 0xc0de01"
        f" for vmhba1:0:7. residual R 919, CR {retries}, ER 3"
    )
    return line(after_ms, message, world, **fields)


def told(record: Record, tracker: Tracker) -> list[Any]:
    return [*tracker.advance_time(record["event_time_us"]), *tracker.feed(record)]


def progress(after_ms: int) -> Record:
    return {**line(after_ms, ""), "kind": "progress"}


def ends(rows: list[Event]) -> list[tuple[int, int, str]]:
    """World, steps and outcome of each row."""
    return [(row["world_id"], row["steps"], row["outcome"]) for row in rows]


def test_a_count_down_is_open_until_no_line_arrives_for_a_while() -> None:
    tracker = Tracker()
    [first] = told(step(0, 64), tracker)
    assert (first.outcome, first.eta_ms) == ("open", None)
    [second] = told(step(1000, 48), tracker)
    assert (second.outcome, second.eta_ms, second.event_id) == ("open", 3000, first.event_id)
    assert tracker.next_timer_us == NOON_US + 16 * SECOND_US + 1
    assert not list(tracker.advance_time(NOON_US + 16 * SECOND_US))
    [over] = tracker.advance_time(NOON_US + 16 * SECOND_US + 1)
    assert (over.outcome, over.eta_ms, over.duration_ms) == ("recovered", None, 1000)


def test_a_higher_or_equal_value_starts_another_count_down() -> None:
    lines = [step(0, 64), step(1000, 48), step(2000, 48), step(3000, 32), step(4000, 64)]
    rows = final_rows(run(COUNTDOWNS, lines))
    assert ends(rows) == [(1039, 2, "recovered"), (1039, 2, "recovered"), (1039, 1, "open")]


def test_the_same_line_from_a_source_with_another_clock_is_a_copy() -> None:
    copies = [{**step(0, 64), "event_time_us": NOON_US + 900_000, "offset": -1}]
    lines = [step(0, 64), *copies, step(1000, 48)]
    rows = final_rows(run(COUNTDOWNS, lines))
    assert ends(rows) == [(1039, 2, "open")]
    assert rows[0]["started_at"] == "2012-03-08T12:00:00.000000Z"


def test_zero_is_a_failure_even_without_a_failure_line() -> None:
    [row] = final_rows(run(COUNTDOWNS, [step(0, 16), step(1000, 0)]))
    assert (row["outcome"], row["is_stuck"], row["path"]) == ("failed", False, "")


def test_a_failure_above_zero_is_matched_by_its_world() -> None:
    lines = [step(0, 64), step(10, 64, 1037), step(1000, 48), step(1010, 48, 1037), failed(1900)]
    assert ends(final_rows(run(COUNTDOWNS, lines))) == [(1039, 2, "failed"), (1037, 2, "open")]


def test_a_failure_of_a_world_without_a_count_down_is_ignored() -> None:
    rows = final_rows(run(COUNTDOWNS, [step(0, 64), failed(500, 1200)]))
    assert ends(rows) == [(1039, 1, "open")]


def test_a_failure_without_a_head_belongs_to_the_nearest_count_down() -> None:
    lines = [step(0, 64), step(1000, 64, 1037), failed(1500, **BARE)]
    assert ends(final_rows(run(COUNTDOWNS, lines))) == [(1039, 1, "open"), (1037, 1, "failed")]


def test_a_failure_without_a_head_belongs_to_the_count_down_that_reached_zero() -> None:
    lines = [step(0, 0), step(100, 64, 1037), failed(150, **BARE)]
    assert ends(final_rows(run(COUNTDOWNS, lines))) == [(1039, 1, "failed"), (1037, 1, "open")]


def test_a_failure_with_a_head_belongs_to_the_newest_count_down_of_its_world() -> None:
    rows = final_rows(run(COUNTDOWNS, [step(0, 0), step(900, 64), failed(1800)]))
    assert ends(rows) == [(1039, 1, "failed"), (1039, 1, "failed")]
    assert [row["duration_ms"] for row in rows] == [0, 900]


def test_a_path_without_retries_left_means_a_stuck_reservation() -> None:
    [row] = final_rows(run(COUNTDOWNS, [step(0, 16), step(1000, 0), failed(1000), path(1001)]))
    assert (row["outcome"], row["is_stuck"], row["path"]) == ("failed", True, "vmhba1:0:7")


def test_a_path_with_retries_left_sets_the_path_but_is_not_stuck() -> None:
    [row] = final_rows(run(COUNTDOWNS, [step(0, 64), path(900, retries=40)]))
    assert (row["outcome"], row["is_stuck"], row["path"]) == ("open", False, "vmhba1:0:7")


def test_esx4_count_downs_are_separated_by_world_and_command() -> None:
    lines = [esx4_step(0, 992), esx4_step(500, 992, "2A"), esx4_step(1000, 960), progress(60_000)]
    rows = final_rows(run(COUNTDOWNS, lines))
    assert [(row["world_id"], row["opcode"], row["steps"]) for row in rows] == [
        (4121, "28", 2),
        (4121, "2a", 1),
    ]


def test_a_failure_on_esx4_is_matched_although_its_head_has_another_world() -> None:
    lines = [esx4_step(0, 32), failed(900, 4108)]
    assert ends(final_rows(run(COUNTDOWNS, lines))) == [(4121, 1, "failed")]


def test_a_line_that_quotes_a_count_down_is_ignored() -> None:
    quoted = "Task: please explain SCSI: vm 1039: 109: Sync CR at 64"
    assert not run(COUNTDOWNS, [line(0, quoted)])
    assert not run(COUNTDOWNS, [step(0, 64, program="hostd")])


def test_conflicts_of_a_host_that_has_just_booted_are_expected() -> None:
    head = "Mar  8 12:00:00 esx35-a vmkernel: 0:00:07:10.250 cpu0:1039)"
    [row] = final_rows(run(COUNTDOWNS, [step(0, 64, head=head)]))
    assert row["is_expected"]


def test_the_state_of_a_tracker_stays_small_and_expires() -> None:
    tracker = Tracker()
    for seconds in range(0, 3600):
        told(step(seconds * 1000, 64 - 16 * (seconds % 5)), tracker)
    assert sum(map(len, tracker.steps.values())) <= 1.3 * 5 * 60
    assert len(tracker.written) <= 1.3 * 5 * 60 / 5
    while (due_us := tracker.next_timer_us) is not None:
        list(tracker.advance_time(due_us))
    assert not tracker.steps and not tracker.written and not tracker.matches


def test_a_line_does_not_rewrite_other_count_downs() -> None:
    tracker = Tracker()
    written = [
        len(told(step(seconds * 1000, 64 - 16 * (seconds % 5)), tracker))
        for seconds in range(0, 600)
    ]
    assert max(written) <= 2


@st.composite
def storms(draw: st.DrawFn) -> list[Record]:
    """Lines of a few worlds, some of them missing or duplicated."""
    lines: list[Record] = []
    for world in draw(st.lists(st.sampled_from([1037, 1039, 1041]), min_size=1, max_size=3)):
        at_ms = draw(st.integers(0, 20_000))
        for _ in range(draw(st.integers(1, 3))):
            for remaining in draw(
                st.sampled_from([[64, 48, 32, 16, 0], [64, 48], [96, 64, 32, 0], [48, 16]])
            ):
                lines.append(step(at_ms, remaining, world))
                at_ms += draw(st.sampled_from([1, 950, 4000]))
            at_ms += draw(st.sampled_from([0, 500, 9000, 20_000]))
            if draw(st.booleans()):
                lines += [failed(at_ms, world), path(at_ms + 1, world=world)]
            if draw(st.booleans()):
                lines.append(failed(at_ms + 2, world, head="", thread=""))
    kept = draw(st.lists(st.sampled_from(lines), min_size=1, unique_by=id))
    return sorted(kept, key=lambda record: record["event_time_us"])


@pytest.mark.integration
@settings(max_examples=300, deadline=None)
@given(storms(), st.randoms(use_true_random=False))
def test_the_order_of_lines_does_not_change_the_rows(lines: list[Record], random: Any) -> None:
    end = progress(300_000)
    in_order = final_rows(run(COUNTDOWNS, [*lines, end]))
    shuffled = random.sample(lines, len(lines))
    assert final_rows(run(COUNTDOWNS, [*shuffled, end])) == in_order


@NEEDS_CORPUS
def test_the_published_count_downs_of_two_worlds_are_found() -> None:
    log = CORPUS / "sequences/esx35_sync_cr_two_hosts.log"
    rows = final_rows(run(COUNTDOWNS, records_of(log, "host")))
    assert [
        (row["host"], row["world_id"], row["steps"], row["outcome"], row["duration_ms"])
        for row in rows
    ] == [
        ("esx_host2", 1039, 5, "failed", 3895),
        ("esx_host2", 1039, 2, "recovered", 1024),
        ("esx_host2", 1037, 2, "recovered", 976),
    ]


@NEEDS_CORPUS
def test_the_published_count_down_without_timestamps_shows_a_stuck_lun() -> None:
    rows = final_rows(run(COUNTDOWNS, records_of(CORPUS / "vmkernel.log", "host")))
    assert len(rows) == 5
    [stuck] = [row for row in rows if row["is_stuck"]]
    assert (stuck["world_id"], stuck["steps"], stuck["outcome"], stuck["path"]) == (
        1043,
        5,
        "failed",
        "vmhba1:0:7",
    )
    assert len(stuck["evidence"]) == 8
    [esx4] = [row for row in rows if row["opcode"]]
    assert (esx4["world_id"], esx4["opcode"], esx4["first_remaining"]) == (4121, "28", 992)
