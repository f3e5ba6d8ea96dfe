"""Commands and statuses on two lines: behaviour that the cases do not cover."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from stunwatch.detectors.path_events.tracker import Tracker as PathEvents
from stunwatch.detectors.reservation_episodes.tracker import Tracker as Reservations
from stunwatch.detectors.two_lines import TwoLines
from tests.detectors.cases import Record

NOON_US = 1_741_435_200_000_000  # 2025-03-08T12:00:00Z


def line(at_us: int, message: str, world: int = 2098575) -> Record:
    return {
        "kind": "line",
        "source": "syslog",
        "program": "vmkernel",
        "host": "esx01.lab.example",
        "thread": f"cpu{at_us % 7}:{world}",
        "head": f"{at_us} ",
        "message": message,
        "run_id": "case",
        "event_time_us": NOON_US + at_us,
        "time_quality": "exact",
    }


def command(at_us: int, device: str = "naa.1", **fields: Any) -> Record:
    return line(
        at_us,
        f'NMP: nmp_ThrottleLogForDevice:3893: Cmd 0x28 (0x45dd57ec84c0, 12) to dev "{device}"'
        ' on path "vmhba3:C0:T6:L17" Failed:',
        **fields,
    )


def status(at_us: int, triple: str = "H:0x0 D:0x18 P:0x0", **fields: Any) -> Record:
    return line(at_us, f"NMP: nmp_ThrottleLogForDevice:3898: {triple} . Act:NONE.", **fields)


@pytest.mark.parametrize("is_late", [False, True])
def test_two_halves_become_one_record_in_either_order(is_late: bool) -> None:
    halves = [command(1), status(3)]
    two_lines = TwoLines()
    first, second = halves[::-1] if is_late else halves
    assert two_lines.whole(first) is None
    whole = two_lines.whole(second)
    assert whole is not None
    assert whole["message"].endswith("Failed: H:0x0 D:0x18 P:0x0 . Act:NONE.")
    assert whole["event_time_us"] == NOON_US + 3
    assert whole["verbatim"].count("\n") == 1
    assert not two_lines.waiting


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(status(3, world=2098576), id="another world"),
        pytest.param(status(6_001), id="too late"),
        pytest.param(status(0), id="before its command"),
        pytest.param(status(1_000_000), id="a second later"),
    ],
)
def test_halves_that_do_not_match_give_no_record(other: Record) -> None:
    two_lines = TwoLines()
    assert two_lines.whole(command(1)) is None
    assert two_lines.whole(other) is None


def test_statuses_are_matched_to_commands_in_order() -> None:
    two_lines = TwoLines()
    for number in range(3):
        assert two_lines.whole(command(number, f"naa.{number}")) is None
    wholes = [two_lines.whole(status(10 + number)) for number in range(3)]
    assert ['"naa.0"' in str(wholes[0]), '"naa.2"' in str(wholes[2])] == [True, True]


def test_a_copy_of_a_waiting_half_is_ignored() -> None:
    two_lines = TwoLines()
    assert two_lines.whole(command(1)) is None
    assert two_lines.whole(command(1)) is None
    assert two_lines.whole(status(2)) is not None
    assert not two_lines.waiting


@pytest.mark.parametrize("tracker", [Reservations(), PathEvents()], ids=["reservation", "path"])
def test_lone_halves_are_limited_and_expire(tracker: Any) -> None:
    for number in range(5_000):
        record = command(number * 100_000, f"naa.{number}")
        assert not [*tracker.advance_time(record["event_time_us"]), *tracker.feed(record)]
    assert len(tracker.halves.waiting) == 50
    assert len(pickle.dumps(tracker)) < 100_000
    while (due_us := tracker.next_timer_us) is not None:
        assert not list(tracker.advance_time(due_us))
    assert not tracker.halves.waiting
