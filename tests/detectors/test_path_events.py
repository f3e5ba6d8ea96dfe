"""Path events: behaviour that the cases, which contain final rows only, do not cover."""

import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from stunwatch.detectors.catalogue import detector
from stunwatch.detectors.path_events.tracker import Tracker
from tests.detectors.cases import Record, final_rows, records_of, run

PATH_EVENTS = detector("path_events")
ROOT = Path(__file__).parents[2]
CORPUS = Path(os.environ.get("STUNWATCH_CORPUS", ROOT.parent / "shared/corpus"))
NEEDS_CORPUS = pytest.mark.skipif(
    not CORPUS.is_dir(), reason="the published log lines are not here (STUNWATCH_CORPUS)"
)
NOON_US = 1_331_208_000_000_000  # 2012-03-08T12:00:00Z
DAY_US = 24 * 3_600_000_000


def line(after_ms: int, message: str, **fields: Any) -> Record:
    """Return a record of one host, `after_ms` after noon."""
    return {
        "kind": "line",
        "source": "syslog",
        "host": "esx01.lab.example",
        "head": f"{after_ms} ",
        "message": message,
        "run_id": "case",
        "event_time_us": NOON_US + after_ms * 1000,
        "time_quality": "exact",
        **fields,
    }


def path(after_ms: int, number: int, state: str, before: str) -> Record:
    name = f"vmhba{number % 4}:C0:T{number % 8}:L{number}"
    return line(
        after_ms,
        f"[scsiCorrelator] 1us: [vob.scsi.scsipath.pathstate.{state}] scsiPath {name}"
        f" changed state from {before}.",
    )


def waiting(after_ms: int) -> Record:
    return line(
        after_ms,
        f"HBX: 2313: Waiting for timed out [HB state abcdef02 offset 3964928 stampUS {after_ms}]"
        " on vol 'ds-gold'",
    )


def test_hundreds_of_paths_that_die_and_come_back_are_separate_events() -> None:
    lost = [path(number, number, "dead", "on") for number in range(500)]
    back = [path(60_000 + number, number, "on", "dead") for number in range(500)]
    rows = final_rows(run(PATH_EVENTS, [*lost, *back]))
    dead = [row for row in rows if row["kind"] == "path_dead"]
    assert len(dead) == 500
    assert all(row["ended_at"] for row in dead)
    assert len(rows) == 1000


def test_a_heartbeat_that_waits_for_hours_is_one_event_with_little_state() -> None:
    tracker, written = Tracker(), set()
    for second in range(7200):
        record = waiting(second * 1000)
        for event in (*tracker.advance_time(record["event_time_us"]), *tracker.feed(record)):
            written.add(event.event_id)
    assert len(written) == 1
    assert len(pickle.dumps(tracker)) < 300_000


def test_a_path_that_stays_dead_is_dropped_from_the_state_after_a_week() -> None:
    tracker, record = Tracker(), path(0, 1, "dead", "on")
    assert [*tracker.advance_time(record["event_time_us"]), *tracker.feed(record)]
    list(tracker.advance_time(NOON_US + 6 * DAY_US))
    assert tracker.groups
    while (due_us := tracker.next_timer_us) is not None:
        list(tracker.advance_time(due_us))
    assert not tracker.groups


def test_a_path_that_comes_back_after_days_ends_its_loss() -> None:
    lost, back = path(0, 1, "dead", "on"), path(3 * DAY_US // 1000, 1, "on", "dead")
    between = [line(hour * 3_600_000, "nothing of interest") for hour in range(1, 72)]
    rows = final_rows(run(PATH_EVENTS, [lost, *between, back]))
    assert [(row["kind"], row["ended_at"]) for row in rows] == [
        ("path_dead", "2012-03-11T12:00:00.000000Z"),
        ("path_on", "2012-03-11T12:00:00.000000Z"),
    ]


@NEEDS_CORPUS
def test_a_published_adapter_hang_stopped_a_heartbeat_for_46_seconds() -> None:
    log = CORPUS / "sequences/esxi5_hba_hang_hbx_reclaim.log"
    rows = final_rows(run(PATH_EVENTS, records_of(log, "host")))
    assert [(row["kind"], row["started_at"], row["ended_at"]) for row in rows] == [
        ("heartbeat_timeout", "2012-11-01T04:12:01.299000Z", "2012-11-01T04:12:47.511000Z"),
        ("heartbeat_reclaimed", "2012-11-01T04:12:47.511000Z", "2012-11-01T04:12:47.553000Z"),
    ]


@NEEDS_CORPUS
def test_published_lines_give_these_losses() -> None:
    kinds = {
        row["kind"]
        for name in ("vmkernel.log", "syslog.log", "hostd.log", "vobd.log")
        for row in final_rows(run(PATH_EVENTS, records_of(CORPUS / name, "host")))
    }
    assert kinds == {
        "apd_start",
        "ats_miscompare",
        "heartbeat_reclaimed",
        "heartbeat_timeout",
        "lost_access",
        "path_dead",
    }
