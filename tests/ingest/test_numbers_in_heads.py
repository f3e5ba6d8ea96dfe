"""Numbers of any length and impossible timestamps raise no error when a line is read."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from own_lines import RECEIVED_AT, cases, examples, maker

from stunwatch.ingest.heads import load_patterns
from stunwatch.ingest.records import FAILED, LineRecords, Origin
from stunwatch.ingest.replay.esxtop import EsxtopRecords
from stunwatch.ingest.replay.sources import moment
from stunwatch.ingest.replay.wrapped import WrappedRecords
from stunwatch.ingest.times import FIRST_YEAR, LAST_YEAR, Stamps, UptimeClock, names_year

WRITTEN_AT = datetime(2024, 6, 30, 12, tzinfo=UTC)
TOO_LONG = (20, 400, 4400)
"""Numbers of digits: more than a UInt64, a float and Python's `int` accept."""

EVENT_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:[0-5]\d(?:\.\d{1,18})?Z", re.ASCII)


def stamps() -> Stamps:
    return Stamps(written_at=WRITTEN_AT)


@given(st.text(), st.none() | st.text() | st.from_regex(r"\d{1,40}\.\d{1,40}", fullmatch=True))
@example("2024-05-06T07:08:09.123Z", "99999999999999999999.5")
@example("2024-05-06T07:08:09.123Z", f"{'9' * 5000}.5")
@example("2024-05-06T07:08:09.123Z", f"0.{'9' * 5000}")
@example("", None)
@example("Z", None)
@example("2024-05-06T07:08:09.123+99:99", None)
def test_no_timestamp_raises_an_error(stamp: str, burst: str | None) -> None:
    stamps().event_time(stamp, burst)
    names_year(stamp)


@given(
    st.from_regex(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:(?:[0-5]\d|60)(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)"
        r"|(?:Jan|Feb|Jun|Dec) {1,2}\d{1,2} (?:\d{4} )?\d\d:\d\d:(?:[0-5]\d|60)(?:\.\d{1,9})?",
        fullmatch=True,
    ),
    st.none() | st.from_regex(r"\d{1,6}\.\d{1,9}", fullmatch=True),
)
def test_any_timestamp_gives_an_event_time_or_none(stamp: str, burst: str | None) -> None:
    ascii_stamp = stamp.encode("ascii", "ignore").decode()
    text = stamps().event_time(ascii_stamp, burst)
    assert text is None or EVENT_TIME.fullmatch(text)


@given(st.text() | st.from_regex(r"\d{1,40}:\d\d:\d\d:\d\d\.\d{3}", fullmatch=True))
@example("9" * 5000 + ":01:02:03.004")
@example("999999999999:01:02:03.004")
def test_an_uptime_of_any_length_gives_an_event_time(uptime: str) -> None:
    text = UptimeClock().event_time("esx01", "2010-04-27T10:16:27Z", uptime)
    assert EVENT_TIME.fullmatch(text)


LINES = sorted({line for _, line in examples()} | {case.line for case in cases()})


@pytest.mark.parametrize("count", TOO_LONG)
@pytest.mark.parametrize("found", ["host", "vmware_log", "wire"])
def test_a_long_number_anywhere_in_a_head_raises_no_error(count: int, found: str) -> None:
    """Replaces each number in every example line."""
    number = "9" * count
    for line in LINES:
        for digits in re.finditer(r"\d+", line):
            hostile = line[: digits.start()] + number + line[digits.end() :]
            record = maker(found).make(hostile.encode(), RECEIVED_AT)
            assert not record.get("reason", "").startswith(FAILED), hostile
            if "reason" not in record:
                assert record.get("head", "") + record["message"] == hostile
                assert EVENT_TIME.fullmatch(record["event_time"]), hostile


def test_no_group_ends_within_a_number() -> None:
    """A pattern that stops at its maximum would match the beginning of a longer number."""
    for pattern, line in product(load_patterns(), LINES):
        for digits in re.finditer(r"\d+", line):
            for number in ("9" * 20, "9" * 400):
                hostile = line[: digits.start()] + number + line[digits.end() :]
                match = pattern.regex.match(hostile)
                for name in ("time", "burst", "uptime", "pri") if match else ():
                    end = match.end(name) if name in pattern.regex.groupindex else -1
                    assert end < 0 or not hostile[end : end + 1].isdigit(), (pattern.name, hostile)


def test_a_line_that_fails_is_rejected_and_the_next_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = LineRecords(Origin(run_id="r1", file="a", generation="0"), written_at=WRITTEN_AT)

    line = b"2024-05-06T07:08:09.123Z esx01 vmkernel: cpu1:1)NFS: 337: text"
    with monkeypatch.context() as patched:
        patched.setattr(lines, "stamps", None)
        record = lines.make(line, RECEIVED_AT, 7, 60)
    assert (record["reason"], record["offset"]) == ("the shipper failed: AttributeError", 7)
    assert record["line"] == line.decode()
    assert "reason" not in lines.make(line, RECEIVED_AT, 67, 60)


@pytest.mark.parametrize(
    ("stamp", "event_time"),
    [
        # the last leap second so far
        ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z"),
        ("2016-12-31T23:59:60.250Z", "2017-01-01T00:00:00.250Z"),
        ("2017-01-01T00:59:60.250+01:00", "2017-01-01T00:00:00.250Z"),
        ("2016-12-31T18:59:60-0500", "2017-01-01T00:00:00Z"),
        ("Dec 31 23:59:60", "2024-01-01T00:00:00Z"),
    ],
)
def test_a_leap_second_becomes_second_0_of_the_next_minute(stamp: str, event_time: str) -> None:
    assert stamps().event_time(stamp) == event_time


def test_a_line_in_a_leap_second_keeps_its_text() -> None:
    for line in (
        "<14>2024-06-29T23:59:60.250Z esx01.lab.example vobd:  [APDCorrelator] 7us: text",
        "2024-06-29T23:59:60.250Z In(05) vcpu-0 - Checkpoint_Unstun: vm stopped for 48211 us",
        "2024-06-29T23:59:60.250Z cpu17:4113)FS3Misc: 1440: text",
    ):
        found = "wire" if line[0] == "<" else "host"
        record = maker(found).make(line.encode(), RECEIVED_AT)
        assert record["event_time"] == "2024-06-30T00:00:00.250Z"
        assert record["time_quality"] == "exact"
        assert record["head"] + record["message"] == line


@pytest.mark.parametrize("stamp", ["2016-12-31T23:59:61Z", "2016-12-31T23:59:99.1Z"])
def test_a_timestamp_with_second_61_is_invalid(stamp: str) -> None:
    line = f"<14>{stamp} esx01.lab.example vobd: text"
    assert "reason" in maker("wire").make(line.encode(), RECEIVED_AT)


HEADER = r'"(PDH-CSV 4.0) (UTC)(0)","\\esx01\Physical Disk SCSI Device(naa.6)\{}"'.format(
    "Average Driver MilliSec/Command"
)


def esxtop(row: str, header: str = HEADER) -> list[dict[str, object]]:
    made = EsxtopRecords(Origin(run_id="r1", source="esxtop", file="a.csv", generation="0"))
    made.read_header(header.encode())
    return made.make(row.encode(), RECEIVED_AT, 0, len(row))


def test_a_normal_esxtop_value_becomes_a_number() -> None:
    [message] = esxtop('"05/06/2024 07:08:09","3.5"')
    assert message["measures"] == {"davg_ms": [3.5]}


@pytest.mark.parametrize(
    "value", ["9" * 400, "1e300", "-1", "-9.5", "nan", "inf", "-inf", "0x10", "", "9" * 5000]
)
def test_an_impossible_esxtop_value_is_left_out(value: str) -> None:
    [rejected] = esxtop(f'"05/06/2024 07:08:09","{value}"')
    assert rejected["reason"] == "no disk counter with a number"


@given(st.text(), st.text())
@example("99/99/9999 99:99:99", "(PDH-CSV 4.0) (UTC)(9999)")
@example("01/01/0001 00:00:00", "(PDH-CSV 4.0) (UTC)(-1439)")
@example(f"05/06/2024 07:08:09.{'9' * 5000}", "(PDH-CSV 4.0) (UTC)(0)")
def test_no_esxtop_timestamp_or_header_raises_an_error(stamp: str, first_column: str) -> None:
    esxtop(f'"{stamp}","3.5"', f'"{first_column}",{HEADER.partition(",")[2]}')


def test_a_wrapped_line_or_a_row_that_fails_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ArithmeticError

    monkeypatch.setattr(LineRecords, "_make", fail)
    monkeypatch.setattr(EsxtopRecords, "_make", fail)
    origin = Origin(run_id="r1", file="a", generation="0")
    wrapped = WrappedRecords(origin, written_at=WRITTEN_AT, zone=UTC, year=None)
    line = b'{"message": "2024-05-06T07:08:09.123Z esx01 vmkernel: cpu1:1)NFS: 337: text"}'
    record = wrapped.make(line, RECEIVED_AT)
    assert (record["reason"], record["line"]) == (f"{FAILED}ArithmeticError", line.decode())
    [row] = esxtop('"05/06/2024 07:08:09","3.5"')
    assert row["reason"] == f"{FAILED}ArithmeticError"


@given(st.floats() | st.integers())
@example(float("nan"))
@example(1e300)
@example(-(10**30))
def test_a_modification_time_is_in_the_supported_years(seconds: float) -> None:
    assert FIRST_YEAR <= moment(seconds).year <= LAST_YEAR
