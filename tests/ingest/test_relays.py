"""The head of a relay is split off: host, program and time are those of the original line."""

from __future__ import annotations

import re
from datetime import datetime

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from own_lines import RECEIVED_AT, WIRE, Case, cases, examples, maker

from stunwatch.ingest.heads import PARSERS, RELAYED, Finder, load_patterns, to_python
from stunwatch.ingest.records import COLOURED, COMMAS, JSON, NO_PATTERN, TABS
from stunwatch.ingest.records import RELAYED as TWO_STAMPS

RELAYS = [
    "May 06 07:08:10 relay01 ",
    "<13>May  6 07:08:10 relay01.lab.example ",
    "May 06 2024 07:08:10 192.0.2.9 ",
    "2024-05-06T07:08:10Z relay01 ",
    "<13>2024-05-06T09:08:10.123456+02:00 [2001:db8::9] ",
    "<13>1 2024-05-06T07:08:10Z relay01 - - - - ",
    '<13>1 2024-05-06T07:08:10Z relay01 - - - [meta sequenceId="7"] \ufeff',
]
# Lines that a relay's head may precede: they begin with a timestamp and a host.
BEHIND = [
    case
    for case in cases()
    if case.found == "wire"
    and "host" in case.record
    and case.record["time_quality"] != "arrival"
    and not case.line.startswith("vmkernel.4:")
]
LINES = sorted({case.line for case in cases()} | {line for _, line in examples()})
SIGNAL = "vmkernel: cpu5:2097345)NFS: 337: Lost connection to the server nas01"


@pytest.mark.parametrize("relay", RELAYS)
@pytest.mark.parametrize("case", BEHIND, ids=str)
def test_a_relay_changes_only_the_head_of_a_record(case: Case, relay: str) -> None:
    line = relay + case.line
    arrived_at = datetime.fromisoformat(case.received_at)
    record = maker("wire", arrived_at).make(line.encode(), case.received_at)
    assert {name: record[name] for name in case.record} == case.record
    assert record["head"] + record["message"] == line


def test_two_relays_are_split_off_and_three_are_rejected() -> None:
    line = f"<181>2024-05-06T07:08:09.123Z esx01 {SIGNAL}"
    assert maker("wire").make((RELAYS[0] * 2 + line).encode(), RECEIVED_AT)["host"] == "esx01"
    for relay in RELAYS:
        record = maker("wire").make((relay * 3 + line).encode(), RECEIVED_AT)
        assert record.get("host") is None
        if "reason" in record:
            assert record["reason"] == TWO_STAMPS


@pytest.mark.parametrize("relay", RELAYS)
@pytest.mark.parametrize(
    "rest",
    [
        # Without a host, so that the relay's name could be taken for it.
        f"2024-05-06T07:08:09.123Z {SIGNAL}",
        "2024-05-06T07:08:09.123Z cpu5:2097345)NFS: 337: Lost connection to the server nas01",
        f"<181>2024-05-06T07:08:09.123Z {SIGNAL}",
        # Without a program.
        "2024-05-06T07:08:09.123Z esx01 Lost connection to the server nas01",
    ],
)
def test_the_relays_name_never_becomes_the_host(relay: str, rest: str) -> None:
    record = maker("wire").make((relay + rest).encode(), RECEIVED_AT)
    assert record.get("host") is None


@pytest.mark.parametrize(
    "before",
    [
        "<14>2024-05-06T07:08:09.123Z esx01 shell[71]: ",
        "<14>May 06 07:08:09 esx01 shell: ",
        "<14>1 2024-05-06T07:08:09.123Z esx01 shell 71 - - ",
        "<14>2024-05-06T07:08:09.123Z esx01 web01[2104567]: In(05) vcpu-0 - ",
    ],
)
@pytest.mark.parametrize("case", BEHIND, ids=str)
def test_a_host_in_the_message_text_is_ignored(case: Case, before: str) -> None:
    record = maker("wire").make((before + case.line).encode(), RECEIVED_AT)
    assert record["host"] == "esx01"


@pytest.mark.parametrize(
    ("reason", "line"),
    [
        (TWO_STAMPS, f"May 06 07:08:10 relay01 2024-05-06T07:08:09.123Z {SIGNAL}"),
        (TWO_STAMPS, "May 06 07:08:10 relay01 2024-05-06T07:08:09.123Z esx01 no program"),
        (JSON, '{"message": "<181>2024-05-06T07:08:09.123Z esx01 vmkernel: cpu1:1)x"}'),
        (JSON, '[{"message": "x"}]'),
        (JSON, "{"),
        (COLOURED, f"\x1b[35m\x1b[Kvmkernel.log\x1b[m:2024-05-06T07:08:09.123Z {SIGNAL}"),
        (TABS, f"2024-05-06 07:08:09\tLocal4.Info\t192.0.2.17\tMay 06 07:08:09 esx01 {SIGNAL}"),
        (COMMAS, f'"2024-05-06T07:08:09.123Z","esx01","{SIGNAL}"'),
        (COMMAS, f"2024-05-06T07:08:09.123Z,esx01,{SIGNAL}"),
        (NO_PATTERN, "a line without a head"),
    ],
)
@pytest.mark.parametrize("found", ["wire", "host"])
def test_the_reason_of_a_rejection_names_the_form_of_the_line(
    found: str, reason: str, line: str
) -> None:
    record = maker(found).make(line.encode(), RECEIVED_AT)
    assert record["reason"] == reason
    assert record["line"] == line


[RELAYS_REGEX] = [
    re.compile(to_python(each["regex"]).partition("(?P<line>")[0], re.ASCII)
    for each in yaml.safe_load(PARSERS.read_text())["parsers"]
    if each["name"] == RELAYED
]


def split_first(line: str) -> tuple[str, str] | None:
    """Return pattern and head as Fluent Bit does: relays first, then the patterns in order."""
    relays = RELAYS_REGEX.match(line)
    assert relays is not None
    for pattern in load_patterns():
        if pattern.name.startswith(WIRE):
            match = pattern.regex.match(line[relays.end() :])
            if match is not None:
                return pattern.name, relays[0] + match["head"]
    return None


@given(
    st.lists(st.sampled_from(["", *RELAYS]), max_size=3),
    st.sampled_from([*LINES, "vobd: no head"]),
    st.sampled_from(LINES),
)
def test_splitting_relays_off_first_or_last_gives_the_same_result(
    relays: list[str], line: str, before: str
) -> None:
    line = "".join(relays) + line
    finder = Finder(WIRE)
    finder.find(before)
    found = finder.find(line)
    assert (found and (found[0].name, found[1][0])) == split_first(line)
