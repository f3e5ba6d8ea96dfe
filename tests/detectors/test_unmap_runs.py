"""Runs of space reclamation: behaviour that the cases, with final rows only, do not cover."""

import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stunwatch.detectors.catalogue import detector
from stunwatch.detectors.unmap_runs.tracker import Tracker
from tests.detectors.cases import Event, Record, final_rows, run

RUNS = detector("unmap_runs")
NOON_US = 1_520_510_400_000_000  # 2018-03-08T12:00:00Z
MINUTE_MS = 60_000
VOLUME = "5a1b2c3d-4e5f6071-8293-a4b5c6d7e8f9"


def line(after_ms: int, message: str, operation: str = "", **fields: Any) -> Record:
    """Return a record of one host's hostd, `after_ms` after noon."""
    head = f"2018-03-08T12:00:00.000Z info hostd[9B1C2D70] [Originator@6876 sub=Libs{operation}] "
    return {
        "kind": "line",
        "source": "syslog",
        "program": "hostd",
        "host": "esx01.lab.example",
        "head": head,
        "message": message,
        "offset": after_ms,
        "run_id": "case",
        "event_time_us": NOON_US + after_ms * 1000,
        "time_quality": "exact",
        **fields,
    }


def step(after_ms: int, blocks: int, operation: str = "", volume: str = VOLUME) -> Record:
    opid = f" opID={operation}" if operation else ""
    return line(after_ms, f"Unmap: Async Unmapped {blocks} blocks from volume {volume}", opid)


def done(after_ms: int, total: int, volume: str = VOLUME) -> Record:
    return line(after_ms, f"Unmap: Done : Total Unmapped blocks from volume {volume} : {total}")


def progress(after_ms: int) -> Record:
    return {**line(after_ms, ""), "kind": "progress"}


def rows_of(lines: list[Record]) -> list[Event]:
    return final_rows(run(RUNS, lines))


def sizes(rows: list[Event]) -> list[tuple[int, int, int, str]]:
    return [
        (row["block_count"], row["iterations"], row["blocks_total"], row["outcome"]) for row in rows
    ]


def steps(*blocks: int) -> list[Record]:
    """Return one step every 100 ms."""
    return [step(place * 100, each) for place, each in enumerate(blocks)]


@pytest.mark.parametrize(
    ("blocks", "is_done", "fell_back"),
    [
        ([200, 200, 200], True, None),
        ([200, 200, 90], True, None),
        ([120], True, None),
        ([800, 800, 800], True, False),
        ([800, 800, 90], True, False),
        ([800, 800, 200], True, False),
        ([800, 800, 200, 90], True, True),
        ([800, 800, 200, 200], True, True),
        ([800, 200, 800, 90], True, True),
        ([800, 800], False, None),
        ([800, 200], False, None),
        ([800, 200, 200], False, True),
    ],
)
def test_a_fall_back_is_distinguished_from_a_short_last_step(
    blocks: list[int], is_done: bool, fell_back: bool | None
) -> None:
    end = [done(len(blocks) * 100, sum(blocks))] if is_done else []
    [row] = rows_of([*steps(*blocks), *end])
    assert row["fell_back"] is fell_back
    assert sizes([row]) == [(blocks[0], len(blocks), sum(blocks), "ok" if is_done else "open")]


def test_a_step_after_a_done_line_starts_another_run() -> None:
    lines = [*steps(200, 200), done(250, 400), step(300, 200), done(350, 200)]
    assert sizes(rows_of(lines)) == [(200, 2, 400, "ok"), (200, 1, 200, "ok")]


def test_a_step_after_a_long_pause_starts_another_run() -> None:
    near = rows_of([step(0, 200), step(10 * MINUTE_MS, 200)])
    far = rows_of([step(0, 200), step(10 * MINUTE_MS + 1, 200)])
    assert sizes(near) == [(200, 2, 400, "open")]
    assert sizes(far) == [(200, 1, 200, "open"), (200, 1, 200, "open")]


def test_a_step_larger_than_requested_starts_another_run() -> None:
    assert sizes(rows_of(steps(200, 200, 800, 800))) == [
        (200, 2, 400, "open"),
        (800, 2, 1600, "open"),
    ]


def test_a_step_of_another_operation_starts_another_run() -> None:
    lines = [step(0, 200, "a"), step(100, 200, "a"), step(200, 200, "b"), step(300, 200, "b")]
    assert sizes(rows_of(lines)) == [(200, 2, 400, "open"), (200, 2, 400, "open")]


def test_operation_ids_that_change_at_every_line_do_not_separate_runs() -> None:
    lines = [step(place * 100, 200, f"op{place}") for place in range(5)]
    assert sizes(rows_of(lines)) == [(200, 5, 1000, "open")]


def test_a_larger_step_of_the_same_operation_belongs_to_the_same_run() -> None:
    lines = [step(0, 200, "a"), step(100, 200, "a"), step(200, 800, "a")]
    assert sizes(rows_of(lines)) == [(200, 3, 1200, "open")]


def test_volumes_are_separate_and_a_missing_hyphen_is_restored() -> None:
    other = "5a1b2c3d4e5f6071-8293-a4b5c6d7e8f9"
    third = "5a1b2c3d-4e5f6071-8293-000000000000"
    rows = rows_of([step(0, 200), step(1, 200, volume=third), step(2, 200, volume=other)])
    assert [(row["volume"], row["iterations"]) for row in rows] == [(VOLUME, 2), (third, 1)]


def test_a_failure_line_fails_the_run_unless_a_done_line_follows() -> None:
    failure = line(150, f"Unmap: Failed to unmap blocks from volume {VOLUME} : I/O error")
    [failed] = rows_of([*steps(800, 800), failure])
    assert (failed["outcome"], failed["fell_back"]) == ("failed", False)
    [ended] = rows_of([*steps(800, 800), failure, done(300, 1600)])
    assert ended["outcome"] == "ok"


def test_a_run_of_thousands_of_steps_writes_few_rows() -> None:
    tracker = Tracker()
    written = 0
    for after_ms in range(0, 10_000, 2):
        record = step(after_ms, 800)
        written += len([*tracker.advance_time(record["event_time_us"]), *tracker.feed(record)])
    assert written <= 20
    [last] = tracker.feed(done(10_000, 4_000_000))
    assert (last.iterations, last.blocks_total, last.blocks_per_second) == (
        5000,
        4_000_000,
        400_000,
    )


@pytest.mark.integration
def test_a_very_long_run_is_counted_exactly_with_little_state() -> None:
    tracker = Tracker()
    count = 50_000
    events: list[Any] = []
    for place in range(count):
        record = step(place * 3, 8000 if place < 30_000 else 200)
        events += [*tracker.advance_time(record["event_time_us"]), *tracker.feed(record)]
    again = step(3, 8000)
    assert not list(tracker.feed(again))
    assert len(pickle.dumps(tracker)) < 500_000
    [row] = tracker.feed(done(count * 3, 244_000_000))
    assert (row.iterations, row.blocks_total, row.fell_back) == (count, 244_000_000, True)
    assert (row.outcome, row.duration_ms, row.block_count) == ("ok", 150_000, 8000)
    assert len({event.event_id for event in events}) == 1
    assert any(" 200 blocks" in text for text in row.evidence)


def test_a_volume_is_forgotten_after_an_hour() -> None:
    tracker = Tracker()
    list(tracker.feed(step(0, 200)))
    while (due_us := tracker.next_timer_us) is not None:
        list(tracker.advance_time(due_us))
    assert not tracker.lanes


@st.composite
def days(draw: st.DrawFn) -> list[Record]:
    """Lines of several runs on one volume, some of them missing."""
    lines: list[Record] = []
    at_ms = 0
    for number in range(draw(st.integers(1, 4))):
        blocks = draw(st.sampled_from([[200] * 4, [800, 800, 200, 200, 40], [800] * 3, [90]]))
        operation = draw(st.sampled_from(["", f"op{number}"]))
        for each in blocks:
            lines.append(step(at_ms, each, operation))
            at_ms += draw(st.sampled_from([1, 300, 5 * MINUTE_MS]))
        if draw(st.booleans()):
            lines.append(done(at_ms, sum(blocks)))
        at_ms += draw(st.sampled_from([1, 2000, 15 * MINUTE_MS]))
    kept = draw(st.lists(st.sampled_from(lines), min_size=1, unique_by=id))
    return sorted(kept, key=lambda record: record["event_time_us"])


@settings(max_examples=300, deadline=None)
@given(days(), st.randoms(use_true_random=False))
def test_the_order_of_lines_does_not_change_the_rows(lines: list[Record], random: Any) -> None:
    end = progress(90 * MINUTE_MS)
    in_order = rows_of([*lines, end])
    shuffled = random.sample(lines, len(lines))
    assert rows_of([*shuffled, end]) == in_order
