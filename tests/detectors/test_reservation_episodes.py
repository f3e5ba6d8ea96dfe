"""Reservation conflicts by device: behaviour that the cases, with final rows only, do not cover."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stunwatch.detectors.catalogue import detector
from stunwatch.detectors.reservation_episodes.tracker import Tracker
from tests.detectors.cases import Record, final_rows, records_of, run

EPISODES = detector("reservation_episodes")
ROOT = Path(__file__).parents[2]
CORPUS = Path(os.environ.get("STUNWATCH_CORPUS", ROOT.parent / "shared/corpus"))
NEEDS_CORPUS = pytest.mark.skipif(
    not CORPUS.is_dir(), reason="the published log lines are not here (STUNWATCH_CORPUS)"
)
NOON_US = 1_467_979_200_000_000  # 2016-07-08T12:00:00Z
SECOND_US = 1_000_000
DEVICE = "naa.60002ac0000000000000000500007a1b"


def line(after_s: float, message: str, **fields: Any) -> Record:
    """Return a vmkernel record of one host, `after_s` after noon."""
    return {
        "kind": "line",
        "source": "syslog",
        "program": "vmkernel",
        "host": "esx01.lab.example",
        "head": "2016-07-08T12:00:00.000Z cpu9:33012)",
        "message": message,
        "offset": int(after_s * 1000),
        "run_id": "case",
        "event_time_us": NOON_US + int(after_s * SECOND_US),
        "time_quality": "exact",
        **fields,
    }


def refused(after_s: float, device: str = DEVICE, opcode: str = "2a") -> Record:
    return line(
        after_s,
        f"ScsiDeviceIO: 2595: Cmd(0x439d80a1c4c0) 0x{opcode}, CmdSN 0x1 from world 34980"
        f' to dev "{device}" failed H:0x0 D:0x18 P:0x0 Possible sense data: 0x0 0x0 0x0.',
    )


def progress(after_s: float) -> Record:
    return {**line(after_s, ""), "kind": "progress"}


def told(record: Record, tracker: Tracker) -> list[Any]:
    return [*tracker.advance_time(record["event_time_us"]), *tracker.feed(record)]


def test_an_episode_is_open_until_no_line_arrives_for_a_while() -> None:
    tracker = Tracker()
    [first] = told(refused(0), tracker)
    assert (first.outcome, first.steps) == ("open", 1)
    assert tracker.next_timer_us == NOON_US + 60 * SECOND_US + 1
    assert not list(tracker.advance_time(NOON_US + 60 * SECOND_US))
    [over] = tracker.advance_time(NOON_US + 60 * SECOND_US + 1)
    assert (over.outcome, over.event_id) == ("recovered", first.event_id)
    assert over.revision > first.revision


def test_a_late_line_reopens_an_episode() -> None:
    tracker = Tracker()
    told(refused(0), tracker)
    assert [row.outcome for row in tracker.advance_time(NOON_US + 70 * SECOND_US)] == ["recovered"]
    told(refused(50), tracker)
    [again] = tracker.advance_time(NOON_US + 71 * SECOND_US)
    assert (again.outcome, again.steps) == ("open", 2)
    [over] = tracker.advance_time(NOON_US + 111 * SECOND_US)
    assert (over.outcome, over.steps) == ("recovered", 2)
    while (due_us := tracker.next_timer_us) is not None:
        list(tracker.advance_time(due_us))
    assert not tracker.episodes


def test_a_storm_is_one_row_written_once_per_second() -> None:
    tracker = Tracker()
    rows = [row for place in range(5000) for row in told(refused(place / 500), tracker)]
    assert len(rows) <= 11
    assert [row.steps for row in tracker.flush()] == [5000]


def test_an_episode_of_different_commands_has_no_opcode() -> None:
    [row] = final_rows(run(EPISODES, [refused(0), refused(1, opcode="28")]))
    assert (row["world_id"], row["opcode"]) == (34980, None)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 400), st.sampled_from(["naa.1", "naa.2"])), min_size=1),
    st.randoms(use_true_random=False),
)
def test_the_order_of_lines_does_not_change_the_rows(
    places: list[tuple[int, str]], random: Any
) -> None:
    lines = [refused(after_s, device) for after_s, device in sorted(places)]
    end = progress(430)
    shuffled = random.sample(lines, len(lines))
    assert final_rows(run(EPISODES, [*shuffled, end])) == final_rows(run(EPISODES, [*lines, end]))


@NEEDS_CORPUS
def test_published_lines_give_the_conflicts_they_contain() -> None:
    rows = [
        row
        for name in ("vmkernel.log", "syslog.log")
        for row in final_rows(run(EPISODES, records_of(CORPUS / name, "host")))
    ]
    assert sorted(
        (row["device"] or row["path"] or row["datastore"], row["dialect"], row["duration_ms"])
        for row in rows
    ) == [
        ("Datastore", "long_reservation", 6441),
        ("datastore_name", "long_reservation", 261),
        ("datastore_name", "long_reservation", 272),
        ("naa.6006016026601d007c174a7aa292df11", "device_status", 0),
        ("naa.6006016084b02800b4a07969cd74e011", "device_status", 0),
        ("naa.60060e801603dd00000103dd00000123", "device_status", 0),
        ("scsi0 (0,0,52)", "device_status", 0),
        ("vmhba2:C0:T1:L80", "device_status", 0),
    ]
