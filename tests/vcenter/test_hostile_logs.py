"""A malformed line, timestamp or answer does not stop the collection of a whole vCenter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from stunwatch.ingest.records import FAILED, LineRecords
from stunwatch.ingest.vcenter import latency
from stunwatch.ingest.vcenter.latency import Answer, Question, Rounds
from stunwatch.ingest.vcenter.session import FilePlace, Part
from tests.vcenter.test_collecting_latency import COUNTERS, HOST, at
from tests.vcenter.test_hand_over import (
    NEW,
    OLD,
    Fleet,
    MemorySession,
    Run,
    lines,
    machine,
    told,
)

APP, SQL = machine("san-01"), replace(machine("san-01"), id="vm-2", name="sql", log_folder="sql")


@pytest.fixture(autouse=True)
def a_fleet_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stunwatch.ingest.vcenter.collectors.vmlogs.Fleet", Fleet)


class Session(MemorySession):
    """A session that raises an unexpected error for the files of one VM."""

    def read_file(self, place: FilePlace, offset: int, most: int) -> Part:
        if place.path.startswith("sql/"):
            raise ArithmeticError("of a test")
        return super().read_file(place, offset, most)


@pytest.fixture
def following() -> Iterator[tuple[MemorySession, Run]]:
    session = Session()
    run = Run(session, {})
    run.positions.take(OLD)
    run.positions.take(NEW)
    yield session, run
    run.close()


def test_an_error_with_one_log_does_not_delay_others(following: tuple[MemorySession, Run]) -> None:
    session, run = following
    session.files["san-01/app/vmware.log"] = lines(1)
    run.fleet.put({"vm-1": APP, "vm-2": SQL})
    run.until_told(told(1))

    session.files["san-01/app/vmware.log"] += lines(2)
    run.until_told(told(1, 2))
    run.until(lambda: "1 logs cannot be followed" in run.collector.status, lambda: "no word of it")


@pytest.mark.parametrize(
    "stamp",
    [
        "2026-11-21T10:00:09.000Z[+99999999999999999999.5]",
        f"2026-11-21T10:00:09.000Z[+{'9' * 5000}.5]",
        f"2026-11-21T10:00:09.{'9' * 5000}Z",
        "2026-99-99T99:99:99.000Z",
        "2026-11-21T10:00:09.000+99:99",
    ],
)
def test_a_malformed_timestamp_gives_one_rejected_line(
    following: tuple[MemorySession, Run], stamp: str
) -> None:
    session, run = following
    session.files["san-01/app/vmware.log"] = (
        lines(1) + f"{stamp} In(05) vmx - line 9\n".encode() + lines(2)
    )
    run.fleet.put({"vm-1": APP})
    run.until_told(told(1, 2))


def test_a_line_that_fails_is_rejected_and_the_next_is_shipped(
    following: tuple[MemorySession, Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    make = LineRecords._make

    def failing(*given: object) -> object:
        if b"line 2" in given[1]:  # type: ignore[operator]
            raise ArithmeticError("of a test")
        return make(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(LineRecords, "_make", failing)
    session, run = following
    session.files["san-01/app/vmware.log"] = lines(1, 2, 3)
    run.fleet.put({"vm-1": APP})
    run.until_told(told(1, 3))
    assert f"{FAILED}ArithmeticError" in run.shipper.reasons


@pytest.mark.parametrize(
    "number", ["", "-1", "-7", "slow", "NaN", "inf", "9" * 400, "9" * 5000, "1e300", "0x10"]
)
def test_a_counter_value_that_is_not_a_number_is_left_out(number: str) -> None:
    answer = Answer(HOST.moid, [at("07:08:00")], [("455", "naa.6", [number])])
    question = Question(HOST, at("07:07:00"), at("07:09:00"))
    assert list(latency.samples(answer, question, COUNTERS, "2024-05-06T07:09:00Z")) == []


def soap(steps: str) -> bytes:
    return (
        '<returnval xmlns="urn:vim25"><entity>host-21</entity>'
        f"<sampleInfoCSV>{steps}</sampleInfoCSV></returnval>"
    ).encode()


@pytest.mark.parametrize("stamp", ["", "soon", "2024-05-06T07:08:60Z", "9" * 400, "2024-05-06"])
def test_a_step_with_an_invalid_time_is_left_out(stamp: str) -> None:
    body = b"<x>" + soap(f"20,2024-05-06T07:08:00Z,20,{stamp}") + b"</x>"
    [answer] = latency.answers_in(body)
    assert answer.times == [at("07:08:00"), None]
    rounds = Rounds({})
    rounds.take(answer, at("07:09:00"))
    assert rounds.taken == {"host-21": at("07:08:00")}


def test_a_step_in_the_future_does_not_move_the_position() -> None:
    body = b"<x>" + soap("20,2199-01-01T00:00:00Z") + b"</x>"
    [answer] = latency.answers_in(body)
    rounds = Rounds({})
    rounds.take(answer, at("07:09:00"))
    assert rounds.taken == {}


def test_an_answer_that_is_not_xml_raises_the_handled_error() -> None:
    with pytest.raises(ElementTree.ParseError):
        list(latency.answers_in(b"<x>\x01</x>"))
