"""Every era's head is read by its own pattern, and nothing else is taken for a line."""

from __future__ import annotations

import re
import time
from itertools import product

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from own_lines import FAMILIES, Case, cases, examples

from ingest.heads import FIELDS, HOST_FILE, LOOSE, PARSERS, VAGUE, WIRE, Finder, load_patterns

LINES = sorted({case.line for case in cases()} | {line for _, line in examples()})
PATTERNS = {pattern.name: pattern for pattern in load_patterns()}


@pytest.mark.parametrize("case", cases(), ids=str)
def test_the_pattern_of_a_line(case: Case) -> None:
    found = Finder(case.families).find(case.line)
    assert found is not None
    assert found[0].name == case.pattern


@pytest.mark.parametrize(("name", "line"), examples())
def test_each_pattern_reads_the_line_above_it(name: str, line: str) -> None:
    family = next(family for family in FAMILIES.values() if name.startswith(family))
    found = Finder(family).find(line)
    assert found is not None
    assert found[0].name == name


def test_every_pattern_has_an_example_and_a_case() -> None:
    assert [name for name, _ in examples()] == list(PATTERNS)
    assert set(PATTERNS) == {case.pattern for case in cases()}


def test_the_form_that_fluent_bit_and_java_read() -> None:
    for parser in yaml.safe_load(PARSERS.read_text(encoding="utf-8"))["parsers"]:
        assert parser.keys() == {"name", "format", "regex"}
        assert parser["format"] == "regex"
        assert re.fullmatch(r"\\A\(\?<head>.*\)\(\?<message>.*\)\$", parser["regex"])
        groups = re.findall(r"\(\?<([^=!>]*)>", parser["regex"])
        assert set(groups) <= set(FIELDS)
        assert len(groups) == len(set(groups))
        # what only one of the three reads
        assert not re.search(r"\(\?[P#>a-z]|\\[ZzhHRp]|[*+?}]\+", parser["regex"])


def test_loose_and_vague_patterns_exist() -> None:
    assert set(PATTERNS) >= LOOSE >= VAGUE


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_the_line_before_does_not_change_the_pattern(family: tuple[str, ...]) -> None:
    alone = {}
    for line in LINES:
        found = Finder(family).find(line)
        alone[line] = found and found[0].name
    for before, line in product(LINES, LINES):
        finder = Finder(family)
        finder.find(before)
        found = finder.find(line)
        assert (found and found[0].name) == alone[line], (before, line)


@given(st.text(max_size=200) | st.sampled_from(LINES), st.text(max_size=50))
def test_head_and_message_are_the_line(beginning: str, end: str) -> None:
    line = (beginning + end).replace("\n", "")
    found = Finder(HOST_FILE).find(line)
    if found is not None:
        head, message = found[1][:2]
        assert head is not None and message is not None
        assert head + message == line


PROSE = """\
On Monday the array was slow, and by 16:22:51 every host complained.
Note: the second path came back at 12:00. Nothing else was changed.
2012 was the year in which it began
1. take a snapshot
WARNING: do not do this at home
Error: 42 is no answer
See vmware.log| for more
Mar 04 is a Sunday
{"event_time": "2024-05-06T07:08:09.123Z", "message": "json"}
2024-05-06,7,0.25
<181>not a stamp esx01 vmkernel: cpu1:1)x
vmx| a line whose head was cut off
YYYY-MM-DD HH-MM In(05) vcpu-0 - a line whose stamp was taken off
"""


@pytest.mark.parametrize("line", PROSE.splitlines())
def test_prose_and_headless_lines_are_no_log(line: str) -> None:
    assert Finder(HOST_FILE).find(line) is None
    assert Finder(WIRE).find(line) is None


FILLERS = ["[", "]", "(", "a", "A", "1", " ", ":", "'", '"', "\\", "-", "|", "<", ".", "[a]", "a:"]
FILLERS += ["x[1] ", "vmx| ", '["', '"a"', "1:", "] [", '=" ', " '"]


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(LINES), st.integers(0, 80), st.sampled_from(FILLERS))
def test_the_longest_line_costs_no_more_than_its_length(line: str, at: int, filler: str) -> None:
    longest = line[:at] + filler * ((256 << 10) // len(filler))
    started = time.perf_counter()
    Finder(HOST_FILE).find(longest)
    # 32 patterns; one that backtracks twice over would take minutes
    assert time.perf_counter() - started < 2
