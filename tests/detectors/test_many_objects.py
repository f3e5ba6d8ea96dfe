"""A host has thousands of devices, paths and volumes, and a sender can make up more.

The lines of a detector's cases are repeated, each time with other names and numbers. A line then
costs the same with few and with many objects, and the state is bounded. The cost is counted in
bytecode instructions, which do not depend on the machine.
"""

from __future__ import annotations

import pickle
import re
import sys
from types import FrameType
from typing import Any

import pytest

from stunwatch.detectors import sessions, timers
from stunwatch.detectors.catalogue import Detector, detectors
from stunwatch.detectors.events import timestamp
from stunwatch.detectors.scsi_errors import tracker as scsi_errors
from stunwatch.detectors.stuns import tracker as stuns
from stunwatch.detectors.sync_cr_countdowns import tracker as sync_cr_countdowns
from stunwatch.engine.owner import Owner
from tests.detectors.cases import Record, cases_of, records_of

FEW = 120
MANY = 1_200
COUNTED = 60
LIMIT = 50

_PATH = re.compile(r"vmhba\d+:C\d+:T\d+:L\d+")
_ADDRESS = re.compile(r"\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b")
_NUMBER = re.compile(r"(?<![A-Za-z])(?=[a-f]*\d)[0-9a-f]{3,}(?![A-Za-z]|-\d\d-)")
_DEVICE = re.compile(r'"naa\.\w+"')
_WINDOW = re.compile(r"[0-9]{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}")
_QUOTED = re.compile(r"'([^' ]+)'")


def with_other_names(message: str, number: int) -> str:
    """Return a line about other objects."""

    def other(found: re.Match[str]) -> str:
        base = "d" if found[0].isdigit() else "x"
        return f"{number:{base}}".rjust(len(found[0]), "1")[-len(found[0]) :]

    path = f"vmhba{number % 8}:C0:T{number // 8}:L1"
    address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    parts = re.split(f"({_PATH.pattern}|{_ADDRESS.pattern})", message)
    for at, part in enumerate(parts):
        if _PATH.fullmatch(part):
            parts[at] = path
        elif _ADDRESS.fullmatch(part):
            parts[at] = address
        else:
            parts[at] = _QUOTED.sub(rf"'\g<1>{number}'", _NUMBER.sub(other, part))
    return "".join(parts)


def lines_of(detector: Detector) -> list[Record]:
    """Return one line of each kind in the detector's cases."""
    found: dict[str, Record] = {}
    for case in cases_of(detector):
        for record in records_of(case / "input.log", detector.owner):
            if detector.concerns(record["message"]):
                found.setdefault(re.sub(r"[0-9a-f]+", "", record["message"])[:50], record)
    return list(found.values())


READERS_OF_LINES = [detector for detector in detectors() if lines_of(detector)]


class Flood:
    """Feeds a detector's lines, each about other objects."""

    def __init__(self, detector: Detector, pause_us: int) -> None:
        self._lines = lines_of(detector)
        is_sampled = self._lines[0]["source"] == "esxtop"
        self._pause_us = 10_000_000 if is_sampled else pause_us
        self._at_us = self._lines[0]["event_time_us"]
        self._number = 0
        self.owner = Owner()

    def feed(self, count: int) -> None:
        for _ in range(count):
            line = self._lines[self._number % len(self._lines)]
            self._number += 1
            self._at_us += self._pause_us
            message = with_other_names(line["message"], self._number)
            message = _DEVICE.sub(f'"naa.{self._number}"', message)
            message = _WINDOW.sub(timestamp(self._at_us).replace("T", " ")[:23], message)
            place = {"host": "esx01", "offset": self._number * 100, "head": str(self._at_us)}
            record = {**line, **place, "message": message, "event_time_us": self._at_us}
            list(self.owner.feed({**record, "owner": "esx01"}))

    def instructions(self, count: int) -> float:
        """Feed lines and return the number of bytecode instructions per line."""
        executed = 0

        def trace(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal executed
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            executed += event == "opcode"
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            self.feed(count)
        finally:
            sys.settrace(before)
        return executed / count


@pytest.mark.parametrize("detector", READERS_OF_LINES, ids=lambda detector: detector.name)
def test_a_line_costs_the_same_with_many_objects(detector: Detector) -> None:
    flood = Flood(detector, pause_us=100_000)
    flood.feed(FEW)
    few = flood.instructions(COUNTED)
    flood.feed(MANY - FEW - COUNTED)
    assert flood.instructions(COUNTED) < 2 * few


@pytest.mark.parametrize("detector", READERS_OF_LINES, ids=lambda detector: detector.name)
def test_the_state_is_bounded(detector: Detector, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (scsi_errors, timers):
        monkeypatch.setattr(module, "MOST_KEYS", LIMIT)
    monkeypatch.setattr(scsi_errors, "_REORDERED", LIMIT)
    monkeypatch.setattr(sessions, "MOST_EPISODES", LIMIT)
    monkeypatch.setattr(stuns, "_MOST_KEPT", LIMIT)
    monkeypatch.setattr(sync_cr_countdowns, "_MOST_KEYS", LIMIT)
    monkeypatch.setattr(sync_cr_countdowns, "_MOST_LINES", LIMIT)
    flood = Flood(detector, pause_us=1_000_000)
    flood.feed(MANY)
    before = len(pickle.dumps(flood.owner))
    flood.feed(MANY)
    assert len(pickle.dumps(flood.owner)) < 1.5 * before + 10_000
