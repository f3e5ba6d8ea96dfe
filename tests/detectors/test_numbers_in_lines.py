"""Numbers of any length in any line that a detector reads raise no error in its tracker."""

from __future__ import annotations

import re
from collections.abc import Iterable
from random import Random
from typing import Any

import orjson
import pytest

from stunwatch.detectors.catalogue import Detector, detectors
from stunwatch.detectors.latency.tracker import Tracker as LatencyTracker
from stunwatch.engine.owner import FACTS, Owner, epoch_microseconds
from tests.detectors.cases import Event, Record, cases_of, records_of_lines

ALL = [pytest.param(detector, id=detector.name) for detector in detectors()]
NUMBERS = {
    "20 digits": "9" * 20,
    "4400 digits": "9" * 4400,
    "19 digits": "9" * 19,
    "negative": "-7",
    "no number": "NaN",
    "hexadecimal": "0x" + "f" * 40,
}
LARGEST = (1 << 64) - 1
FAR_US = epoch_microseconds("2199-12-31T00:00:00Z")


def lines_of(detector: Detector) -> list[str]:
    """Return the example lines above the detector's patterns."""
    text = (detector.folder / "detector.yaml").read_text()
    found = (re.search(rf"^  # (.+)\n  {name}: ", text, re.MULTILINE) for name in detector.patterns)
    return [each[1] for each in found if each]


def numbers_in(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [number for each in value.values() for number in numbers_in(each)]
    if isinstance(value, list):
        return [number for each in value for number in numbers_in(each)]
    return [value] if isinstance(value, int | float) else []


def hostile(text: str, number: str, after: int = 0) -> list[str]:
    """Return copies of the text, each with another run of digits replaced by the number."""
    return [
        text[: digits.start()] + number + text[digits.end() :]
        for digits in re.finditer(r"\d+", text)
        if digits.start() >= after
    ]


def fed(records: Iterable[Record]) -> list[Event]:
    """Return the events of all trackers of a log key, with facts also through the second step."""
    owners: dict[str, Owner] = {}
    waiting = [("", each) for each in records][::-1]
    events = []
    while waiting:
        name, record = waiting.pop()
        for topic, found in owners.setdefault(name, Owner()).feed(record):
            if topic == FACTS:
                us = epoch_microseconds(found["event_time"])
                waiting.append((found["owner"], {**found, "event_time_us": us}))
            else:
                events.append(orjson.loads(orjson.dumps(found)))
    for owner in owners.values():
        events += [found for topic, found in owner.advance_time(FAR_US) if topic != FACTS]
        events += [found for topic, found in owner.flush() if topic != FACTS]
    return [orjson.loads(orjson.dumps(each)) for each in events]


def assert_kept(events: list[Event]) -> None:
    """Check that every number fits its column in ClickHouse."""
    for event in events:
        assert all(abs(each) <= LARGEST for each in numbers_in(event)), event


@pytest.mark.parametrize("number", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize("detector", ALL)
def test_a_number_of_any_size_in_a_line_raises_no_error(detector: Detector, number: str) -> None:
    kind = detector.owner if detector.owner in ("vm", "host") else "host"
    for line in lines_of(detector):
        for text in hostile(line, number):
            assert_kept(fed(records_of_lines([text.encode()], kind)))


@pytest.mark.parametrize("number", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize("detector", ALL)
def test_a_log_full_of_large_numbers_raises_no_error(detector: Detector, number: str) -> None:
    """In each line of a case, one random number after its head is replaced."""
    rng = Random(len(number))
    kind = detector.owner if detector.owner in ("vm", "host") else "host"
    for case in cases_of(detector):
        log = (case / "input.log").read_text().splitlines()
        lines = [
            rng.choice(hostile(line, number, after=25) or [line])
            for line in log
            if not line.startswith("{")
        ]
        if lines:
            assert_kept(fed(records_of_lines([line.encode() for line in lines], kind)))


@pytest.mark.parametrize("detector", ALL)
def test_patterns_match_whole_numbers_only(detector: Detector) -> None:
    """A pattern with a limit on digits would otherwise match the beginning of a longer number."""
    kind = detector.owner if detector.owner in ("vm", "host") else "host"
    for line in lines_of(detector):
        for number in ("9" * 20, "9" * 400):
            for text in hostile(line, number):
                for record in records_of_lines([text.encode()], kind):
                    assert_whole_numbers(detector, record["message"])


def assert_whole_numbers(detector: Detector, message: str) -> None:
    for name, pattern in detector.patterns.items():
        for match in pattern.finditer(message):
            for group, value in match.groupdict().items():
                after = message[match.end(group) : match.end(group) + 1]
                is_number = bool(value) and value.isdigit()
                assert not (is_number and after.isdigit()), (name, group, message)


def test_a_migration_id_of_4400_digits_raises_no_error() -> None:
    """The line that once stopped the live job permanently."""
    line = (
        "2014-12-11T18:32:58.565Z cpu1:2098)Migrate: 100: Setting VMOTION info: Source ts = "
        + "7" * 4400
        + ", src ip = <10.20.1.11> dest ip = <10.20.1.12>"
    )
    assert fed(records_of_lines([line.encode()], "host")) == []


@pytest.mark.parametrize("number", ["Infinity", "-Infinity", "NaN", None])
def test_a_latency_that_is_not_a_finite_number_counts_as_zero(number: str | None) -> None:
    given = {
        **{"short_window_end": "2024-05-06 07:08:10.000", "object_class": "scsi_device"},
        **{"device": "naa.6000aa01", "metric": "davg", "limit_ms": 25.0, "samples": 2},
        **{"slow": 1, "warm": 1, "first": "2024-05-06 07:08:09.000"},
        **{"last": "2024-05-06 07:08:09.000", "peak_ms": number, "sum_ms": number},
        **{"kavg_slow": 0, "kavg_warm": 0, "kavg_first": None, "kavg_last": None},
        **{"kavg_peak_ms": number, "kavg_sum_ms": number},
    }
    record = {"source": "esxtop", "host": "esx01", "message": orjson.dumps(given).decode()}
    tracker = LatencyTracker()
    for _ in range(2):
        assert all(each.peak_ms == 0 for each in tracker.feed(record))
