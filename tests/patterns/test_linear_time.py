"""The matching time of a pattern grows no faster than the text, whatever the text is.

The engines of Python, Java and Fluent Bit backtrack. If two quantifiers of a pattern can match the
same characters, a text that the pattern does not match takes quadratic time or worse: one line of
64 KB then stops a detector for half a minute.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest

from stunwatch.detectors.catalogue import Detector, detectors
from tests.patterns.found import Applied, patterns
from tests.patterns.pumps import PLAIN_PUMPS, REFUSED, Text, is_reached, texts

pytestmark = pytest.mark.integration

EXPONENTIAL_AT = (24, 256)
"""Tried first, for patterns so slow that none of the sizes below is possible."""
SIZES = (2_048, 4_096, 8_192, 16_384)
QUICK_SECONDS = 0.001
"""At 4 KB. Most linear patterns take less; quadratic ones take 4 ms and more."""
FLOOR_SECONDS = 0.004
"""Shorter times at 16 KB are noise: a quadratic pattern takes 50 ms and more."""
HOPELESS_SECONDS = 0.1
"""After this time no larger size is tried. No linear pattern takes as long for these sizes."""
MOST_GROWTH = 3 * SIZES[-1] / SIZES[0]
"""Linear is 8 times, quadratic 64 times. The factor in between allows for a busy machine."""


def seconds(run: Callable[[str], object], text: str, times: int = 1) -> float:
    """Return the least CPU time of several runs."""
    taken = []
    for _ in range(times):
        before = time.process_time()
        run(text)
        taken.append(time.process_time() - before)
    return min(taken)


def growth(run: Callable[[str], object], text: Text) -> str | None:
    """Return how the time grows with the text, if faster than linearly."""
    taken: dict[int, float] = {}
    for size in (*EXPONENTIAL_AT, SIZES[1]):
        taken[size] = seconds(run, text.of(size))
        if taken[size] > HOPELESS_SECONDS:
            return f"{taken} s for {text}"
    if taken[SIZES[1]] < QUICK_SECONDS:
        return None
    for size in SIZES:
        taken[size] = seconds(run, text.of(size), times=3)
        if taken[size] > HOPELESS_SECONDS:
            return f"{taken} s for {text}"
    first, last = taken[SIZES[0]], taken[SIZES[-1]]
    is_linear = last < FLOOR_SECONDS or last < MOST_GROWTH * first
    return None if is_linear else f"{taken} s for {text}"


@pytest.mark.parametrize(
    ("regex", "message"),
    [
        # The patterns that caused this test, as they were.
        (r"^\s*(?P<datastore>\S.*?)\s*$", Text("x", " ", "\n!")),
        (r"^(?P<datastore>\S.*?)(?:\) was sent .*)?\s*$", Text("x", ") was sent ", "\n!")),
        (r"^mid=<(?P<a>.*?)> to=<(?P<b>.*?)> mid=", Text("mid=<", "> to=<", "")),
        (r"^\w*Consolidate\w*: ", Text("", "Consolidate", "")),
        (r"^Cmd \((?P<command>0x[0-9a-f]+)[^)]*\) to", Text("Cmd (0x", "0", "")),
        (r"^a:(?! *\d{4}-) *(?P<message>.*)$", Text("a:", " ", "\n!")),
        # Similar patterns.
        (r"\d+: Sync CR", Text("", "1", "")),
        (r"^(?:\w+ ?)*$", Text("", "a", "!")),
    ],
)
def test_a_pattern_that_is_not_linear_is_found(regex: str, message: Text) -> None:
    found = Applied("example", re.compile(regex, re.ASCII), ("search",))
    assert growth(found.run, message)
    assert any(growth(found.run, each) for each in texts(found.regex))


def test_the_time_of_every_pattern_grows_linearly_with_the_text() -> None:
    slow = {}
    for each in patterns():
        found = (grown for text in texts(each.regex) if (grown := growth(each.run, text)))
        if first := next(found, None):
            slow[each.name] = first
    assert not slow


def test_every_part_of_every_pattern_is_reached_by_a_text() -> None:
    """Otherwise the test above would pump a part that the pattern never reaches."""
    assert not [each.name for each in patterns() if not is_reached(each.regex)]


@pytest.mark.parametrize("detector", detectors(), ids=lambda detector: detector.name)
def test_the_time_of_a_detector_grows_linearly_with_the_message(detector: Detector) -> None:
    """Includes what a detector does with a match: a literal, followed by an attacker's text."""
    if detector.owner not in ("vm", "host"):
        return  # processes the results of other detectors

    def fed(message: str) -> list[object]:
        source = "vmware_log" if detector.owner == "vm" else "syslog"
        record = {
            **{"kind": "line", "source": source, "head": "", "message": message, "owner": "esx01"},
            **{"event_time_us": 1_331_208_000_000_000, "time_quality": "exact", "offset": -1},
        }
        tracker = detector.tracker()
        return [*tracker.advance_time(record["event_time_us"]), *tracker.feed(record)]

    hostile = (
        Text(prefix, pump, REFUSED)
        for literal in detector.literals
        for prefix in (literal, "")
        for pump in (*PLAIN_PUMPS, literal, f"{literal} 1 ")
    )
    assert not [grown for text in hostile if (grown := growth(fed, text))]
