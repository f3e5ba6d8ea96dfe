"""The head of every release is matched by its own pattern, and other text by none."""

from __future__ import annotations

import re
import time
from itertools import product

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from own_lines import FAMILIES, Case, cases, examples

from stunwatch.ingest.heads import (
    ANY_TEXT,
    FIELDS,
    HOST_FILE,
    LOOSE,
    PARSERS,
    RELAYED,
    VAGUE,
    WIRE,
    Finder,
    load_patterns,
)

LINES = sorted({case.line for case in cases()} | {line for _, line in examples()})
PATTERNS = {pattern.name: pattern for pattern in load_patterns()}


@pytest.mark.parametrize("case", cases(), ids=str)
def test_each_case_matches_its_pattern(case: Case) -> None:
    found = Finder(case.families).find(case.line)
    assert found is not None
    assert found[0].name == case.pattern


@pytest.mark.parametrize(("name", "line"), [each for each in examples() if each[0] != RELAYED])
def test_each_pattern_matches_its_example(name: str, line: str) -> None:
    family = next(family for family in FAMILIES.values() if name.startswith(family))
    found = Finder(family).find(line)
    assert found is not None
    assert found[0].name == name


LEVEL = re.compile(r"(?<= )(?:Em|Al|Cr|Er|Wa|No|In|Db)(?=\()")
"""The level that ESXi 8 writes: `In(182)`."""


@pytest.mark.parametrize("level", ["Em", "Al", "Cr", "Er", "Wa", "No", "In", "Db"])
def test_every_level_of_esxi_8_matches_the_same_pattern(level: str) -> None:
    leveled = [case for case in cases() if LEVEL.search(case.line)]
    assert len({case.pattern for case in leveled}) > 5
    for case in leveled:
        found = Finder(case.families).find(LEVEL.sub(level, case.line, count=1))
        assert found is not None
        assert found[0].name == case.pattern
        assert found[1][FIELDS.index("level")] == level


def test_every_pattern_has_an_example_and_a_case() -> None:
    assert [name for name, _ in examples() if name != RELAYED] == list(PATTERNS)
    assert set(PATTERNS) == {case.pattern for case in cases()}


def test_regexes_use_only_syntax_that_fluent_bit_java_and_python_share() -> None:
    for parser in yaml.safe_load(PARSERS.read_text(encoding="utf-8"))["parsers"]:
        assert parser.keys() == {"name", "format", "regex"}
        assert parser["format"] == "regex"
        groups = re.findall(r"\(\?<([^=!>]*)>", parser["regex"])
        if parser["name"] == RELAYED:
            assert re.fullmatch(r"\\A\(\?<relay>.*\)\(\?<line>\(\?m:\.\*\)\)\\z", parser["regex"])
            assert groups == ["relay", "line"]
            continue
        assert re.fullmatch(r"\\A\(\?<head>.*\)\(\?<message>.*\)\$", parser["regex"])
        assert set(groups) <= set(FIELDS)
        assert len(groups) == len(set(groups))
        # syntax that not all three support
        assert not re.search(r"\(\?[P#>a-z]|\\[ZzhHRp]|[*+?}]\+", parser["regex"])


def test_the_names_of_loose_and_vague_patterns_exist() -> None:
    assert set(PATTERNS) >= LOOSE >= VAGUE | ANY_TEXT


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_the_previous_line_does_not_change_the_matching_pattern(family: tuple[str, ...]) -> None:
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
def test_head_and_message_together_are_the_line(beginning: str, end: str) -> None:
    line = (beginning + end).replace("\n", "")
    found = Finder(HOST_FILE).find(line)
    if found is not None:
        head, message = found[1][:2]
        assert head is not None and message is not None
        assert head + message == line


HEX2, HEX4 = (st.from_regex(rf"[0-9a-f]{{{size}}}", fullmatch=True) for size in (2, 4))
HEX8 = st.from_regex(r"[0-9a-f]{8}", fullmatch=True)
CLIENTS = st.sampled_from(
    [
        "vim-cmd",
        "esxcli",
        "esxui-3b7d",
        "k1x9fa2b-5571-auto-14c-h5:70001203",
        "HB-host-31@77-5c0d1e2f",
        "SWI-1d2c3b4a",
        "sps-Main-8450-41",
        "WFU-0a1b2c3d",
        "4f2a9d1c-77aa-41de-8d9c-0f1e2d3c4b5a",
    ]
)
OP_IDS = HEX8 | st.builds(
    "-".join, st.tuples(CLIENTS, HEX2, HEX4) | st.tuples(CLIENTS, HEX2, HEX2, HEX4)
)
COLUMNS = [
    "2024-05-06T07:08:09.123Z In(05) vmx {} Log for VMware",
    "<14>2024-05-06T07:08:09.123Z esx01 web01[21]: In(05) vmx {} Log for VMware",
    "<14>2024-05-06T07:08:09.2Z esx01 w[21]: 2024-05-06T07:08:09.123Z In(05) vmx {} Log for VMware",
    "<14>1 2024-05-06T07:08:09.123Z esx01 web01 21 - - vmx {} Log for VMware",
]


@given(st.sampled_from(COLUMNS), OP_IDS)
def test_the_operation_is_never_part_of_the_message(column: str, op_id: str) -> None:
    found = Finder(HOST_FILE).find(column.format(op_id))
    assert found is not None
    fields = dict(zip(FIELDS, found[1], strict=True))
    assert (found[0].source, fields["op_id"]) == ("vmware_log", op_id)
    assert fields["message"] == "Log for VMware"


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
def test_prose_and_lines_without_a_head_match_no_pattern(line: str) -> None:
    assert Finder(HOST_FILE).find(line) is None
    assert Finder(WIRE).find(line) is None


FILLERS = ["[", "]", "(", "a", "A", "1", " ", ":", "'", '"', "\\", "-", "|", "<", ".", "[a]", "a:"]
FILLERS += ["x[1] ", "vmx| ", '["', '"a"', "1:", "] [", '=" ', " '"]


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(LINES), st.integers(0, 80), st.sampled_from(FILLERS))
def test_matching_the_longest_line_takes_linear_time(line: str, at: int, filler: str) -> None:
    longest = line[:at] + filler * ((256 << 10) // len(filler))
    started = time.perf_counter()
    Finder(HOST_FILE).find(longest)
    # About 50 patterns. One with quadratic backtracking would take minutes.
    assert time.perf_counter() - started < 2
