"""SCSI errors: behaviour that the cases, which contain final rows only, do not cover."""

import os
import pickle
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stunwatch.detectors.catalogue import detector
from stunwatch.detectors.scsi_errors.tracker import Tracker
from tests.detectors.cases import Event, Record, final_rows, records_of, run

SCSI_ERRORS = detector("scsi_errors")
ROOT = Path(__file__).parents[2]
CORPUS = Path(os.environ.get("STUNWATCH_CORPUS", ROOT.parent / "shared/corpus"))
NEEDS_CORPUS = pytest.mark.skipif(
    not CORPUS.is_dir(), reason="the published log lines are not here (STUNWATCH_CORPUS)"
)
NOON_US = 1_331_208_000_000_000  # 2012-03-08T12:00:00Z


def line(after_ms: int, message: str, **fields: Any) -> Record:
    """Return a record of one host's kernel, `after_ms` after noon."""
    return {
        "kind": "line",
        "source": "syslog",
        "program": "vmkernel",
        "host": "esx01.lab.example",
        "thread": "cpu3:4099",
        "head": f"{after_ms} cpu3:4099)",
        "message": message,
        "run_id": "case",
        "event_time_us": NOON_US + after_ms * 1000,
        "time_quality": "exact",
        **fields,
    }


def on_path(after_ms: int, number: int, device: str = "naa.1", status: str = "0x8") -> Record:
    return line(
        after_ms,
        f'NMP: nmp_ThrottleLogForDevice:2318: Cmd 0x28 (0x4124{number:08x}, 12) to dev "{device}"'
        f' on path "vmhba2:C0:T0:L6" Failed: H:0x0 D:{status} P:0x0 Act:NONE',
    )


def on_device(after_ms: int, number: int, device: str = "naa.1", status: str = "0x8") -> Record:
    return line(
        after_ms,
        f"ScsiDeviceIO: 2309: Cmd(0x4124{number:08x}) 0x28, CmdSN 0x8 from world 12"
        f' to dev "{device}" failed H:0x0 D:{status} P:0x0',
    )


def statuses(rows: list[Event]) -> set[tuple[str, str]]:
    return {(row["host_status"], row["device_status"]) for row in rows}


def test_a_storm_of_errors_needs_little_state_and_writes_few_rows() -> None:
    tracker, written = Tracker(), 0
    for number in range(5000):
        for record in (on_path(number * 10, number), on_device(number * 10 + 1, number)):
            written += len([*tracker.advance_time(record["event_time_us"]), *tracker.feed(record)])
    [row] = tracker.flush()
    assert row.count == 5000
    assert written < 50
    assert len(pickle.dumps(tracker)) < 500_000


def test_a_host_whose_errors_are_over_keeps_no_state() -> None:
    tracker, record = Tracker(), on_path(0, 1)
    assert [*tracker.advance_time(record["event_time_us"]), *tracker.feed(record)]
    while (due_us := tracker.next_timer_us) is not None:
        list(tracker.advance_time(due_us))
    assert not tracker.written
    assert not tracker.machine.episodes


def test_a_storm_out_of_order_gives_the_same_counts() -> None:
    records = [
        each
        for number in range(300)
        for each in (on_path(number * 20, number), on_device(number * 20, number))
    ]
    mixed = [
        record
        for start in range(0, len(records), 30)
        for record in random.Random(start).sample(records[start : start + 30], 30)
    ]
    assert final_rows(run(SCSI_ERRORS, mixed)) == final_rows(run(SCSI_ERRORS, records))


def told(events: list[Event]) -> list[Event]:
    """Return the events without their revisions."""
    return [{**row, "revision": 0} for row in final_rows(events)]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.builds(
            lambda tell, *told: tell(*told),
            st.sampled_from([on_path, on_device]),
            st.integers(0, 700_000),
            st.integers(0, 3),
            st.sampled_from(["naa.1", "naa.2"]),
            st.sampled_from(["0x8", "0x28"]),
        ),
        min_size=1,
        max_size=12,
        unique_by=lambda record: (record["event_time_us"], record["message"]),
    ),
    st.randoms(use_true_random=False),
)
def test_the_order_of_lines_does_not_change_the_rows(records: list[Record], random: Any) -> None:
    in_order = sorted(records, key=lambda record: (record["event_time_us"], record["message"]))
    shuffled = random.sample(records, len(records))
    # Revisions may differ if a row was retracted and written again.
    assert told(run(SCSI_ERRORS, shuffled)) == told(run(SCSI_ERRORS, in_order))


@NEEDS_CORPUS
def test_a_published_adapter_hang_is_counted_once() -> None:
    rows = final_rows(
        run(SCSI_ERRORS, records_of(CORPUS / "sequences/esxi5_hba_hang_hbx_reclaim.log", "host"))
    )
    told = {(row["path"], row["opcode"], row["host_status"], row["count"]) for row in rows}
    assert told == {
        ("vmhba2:C0:T0:L6", "0x28", "0xb", 1),
        ("vmhba2:C0:T0:L6", "0x2a", "0xb", 1),
        ("", "0x2a", "0xb", 2),
        ("", "0x16", "0x5", 1),
    }


@NEEDS_CORPUS
@pytest.mark.parametrize(
    "name", ["vmkernel.log", "syslog.log", "hostd.log", "vobd.log", "more/vmkernel.log"]
)
def test_every_status_of_a_row_is_in_its_published_lines(name: str) -> None:
    rows = final_rows(run(SCSI_ERRORS, records_of(CORPUS / name, "host")))
    for row in rows:
        named = f"H:{row['host_status']} D:{row['device_status']} P:{row['plugin_status']}"
        on_esx3 = f"status = {int(row['device_status'], 16)}/{int(row['host_status'], 16)}"
        not_ready = f"error {row['host_status']}/{row['device_status']}"
        assert any(
            f"{words} " in f"{text} " or f"{words}." in text
            for words in (named, on_esx3, not_ready)
            for text in row["evidence"]
        )
        assert row["device_status"] not in ("0x18", "0x28")
        assert row["sense"] not in ("0x5 0x20 0x0", "0x5 0x24 0x0")


@NEEDS_CORPUS
def test_published_lines_give_these_failures() -> None:
    rows = final_rows(run(SCSI_ERRORS, records_of(CORPUS / "vmkernel.log", "host")))
    assert {("0x7", "0x0"), ("0x5", "0x0"), ("0x0", "0x8"), ("0x0", "0x285")} <= statuses(rows)
