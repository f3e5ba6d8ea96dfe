"""Conversion of lines with any content to records."""

from __future__ import annotations

from datetime import UTC, datetime

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from own_lines import RECEIVED_AT, WRITTEN_AT, Case, cases, maker

from stunwatch.ingest.heads import WIRE
from stunwatch.ingest.records import (
    LONG_NAME,
    MAX_LINE_BYTES,
    LineRecords,
    Origin,
    WireRecords,
    datastore_name,
    generation_of,
    kafka_key,
    strip_terminator,
)
from stunwatch.ingest.times import utc_text

# Fields on where and how a record was read. The others come from its line.
BOOKKEEPING = {
    "received_at", "kind", "head", "peer", "file", "generation", "offset", "line_bytes", "run_id",
}  # fmt: skip
STAMPED = b"2024-05-06T07:08:09.123Z In(05) vmx - hello"


@pytest.mark.parametrize("case", cases(), ids=str)
def test_each_case_gives_the_expected_record(case: Case) -> None:
    at = datetime.fromisoformat(case.received_at) if case.families is WIRE else WRITTEN_AT
    record = maker(case.found, written_at=at).make(case.line.encode(), case.received_at)
    assert {k: v for k, v in record.items() if k not in BOOKKEEPING} == case.record
    assert record.get("head", "") + record["message"] == case.line
    assert record["received_at"] == case.received_at
    assert None not in record.values()


def test_a_record_of_a_file_has_its_fields_in_order() -> None:
    lines = maker("vmware_log", host="esx01", vm="web01", datastore="ds", file="/a/vmware.log")
    record = lines.make(STAMPED, RECEIVED_AT, 77, len(STAMPED) + 1)
    expected = {
        "event_time": "2024-05-06T07:08:09.123Z",
        "received_at": RECEIVED_AT,
        "kind": "line",
        "source": "vmware_log",
        "program": "vmx",
        "host": "esx01",
        "vm": "web01",
        "datastore": "ds",
        "severity": "info",
        "thread": "vmx",
        "head": "2024-05-06T07:08:09.123Z In(05) vmx - ",
        "message": "hello",
        "file": "/a/vmware.log",
        "generation": "00000000",
        "offset": 77,
        "line_bytes": len(STAMPED) + 1,
        "run_id": "r1",
        "time_quality": "exact",
    }
    assert record == expected
    assert list(record) == list(expected)


def test_a_rejection_contains_the_line_and_the_reason() -> None:
    lines = maker("vmware_log", host="esx01", vm="web01", datastore="ds", file="/a/vmware.log")
    assert lines.make(b"no log \xff", RECEIVED_AT, 5, 10) == {
        "received_at": RECEIVED_AT,
        "source": "vmware_log",
        "host": "esx01",
        "vm": "web01",
        "datastore": "ds",
        "file": "/a/vmware.log",
        "generation": "00000000",
        "offset": 5,
        "line_bytes": 10,
        "run_id": "r1",
        "line": "no log ÿ",
        "reason": "unknown line format",
    }
    assert lines.make(b"a\0b", RECEIVED_AT)["reason"] == "binary data"


def test_lines_without_a_timestamp_inherit_the_previous_one() -> None:
    lines = maker()
    assert lines.make(b"--> first", RECEIVED_AT)["time_quality"] == "arrival"
    lines.make(b"2018-02-03T04:05:06.789Z info hostd[1] [Originator@6876 sub=A] {", RECEIVED_AT)
    for line in (b"--> second", b"   indented", b"\tindented", b"", b"SCSI: vm 1: 2: Sync CR at 3"):
        record = lines.make(line, RECEIVED_AT)
        assert record["event_time"] == "2018-02-03T04:05:06.789Z"
        assert record["time_quality"] == "exact"
        assert record["message"] == line.decode()
        assert "head" not in record


def test_blank_and_indented_lines_without_a_previous_line_are_rejected() -> None:
    for line in (b"", b"   indented"):
        assert maker().make(line, RECEIVED_AT)["reason"] == "unknown line format"
        assert maker("wire").make(line, RECEIVED_AT)["reason"] == "unknown line format"


def test_an_impossible_timestamp_is_ignored() -> None:
    lines = maker("vmware_log")
    lines.make(STAMPED, RECEIVED_AT)
    record = lines.make(b"2024-02-30T07:08:09.123Z In(05) vmx - x", RECEIVED_AT)
    assert (record["event_time"], record["time_quality"]) == ("2024-05-06T07:08:09.123Z", "exact")
    assert record["message"] == "x"


def test_a_line_without_any_time_gets_the_files_modification_time() -> None:
    record = maker().make(b"SCSI: vm 1: 2: Sync CR at 3", "2026-01-01T00:00:00Z")
    assert (record["event_time"], record["time_quality"]) == ("2024-06-30T12:00:00Z", "arrival")


def test_bytes_that_are_not_utf8_are_latin1_for_the_whole_line() -> None:
    record = maker("vmware_log").make(STAMPED + " Bü".encode("latin-1"), RECEIVED_AT)
    assert record["message"] == "hello Bü"
    mixed = STAMPED + "ü".encode() + b"\xff"
    assert maker("vmware_log").make(mixed, RECEIVED_AT)["message"] == "helloÃ¼ÿ"


@pytest.mark.parametrize("letter", ["x", "ü", "日", "\N{GRINNING FACE}"])
@pytest.mark.parametrize("shift", range(4))
def test_a_long_line_is_cut_at_a_character(letter: str, shift: int) -> None:
    line = STAMPED + b"." * shift + letter.encode() * MAX_LINE_BYTES
    record = maker("vmware_log").make(line, RECEIVED_AT, 0, len(line) + 1)
    kept = (record["head"] + record["message"]).encode()
    assert line.startswith(kept)
    assert MAX_LINE_BYTES - 4 < len(kept) <= MAX_LINE_BYTES
    assert record["truncated"] is True
    assert record["line_bytes"] == len(line) + 1


def test_a_line_of_exactly_the_maximum_length_is_not_cut() -> None:
    line = STAMPED.ljust(MAX_LINE_BYTES, b".")
    assert "truncated" not in maker("vmware_log").make(line, RECEIVED_AT)


def test_a_long_rejection_is_cut_too() -> None:
    record = maker().make(b"\xff" * (MAX_LINE_BYTES + 9), RECEIVED_AT)
    assert len(record["line"]) == MAX_LINE_BYTES
    assert record["truncated"] is True


@pytest.mark.parametrize(
    ("known", "named", "shown"),
    [
        ("esx01", "esx01.lab.example", "esx01.lab.example"),
        ("esx01.lab.example", "esx01", "esx01.lab.example"),
        ("esx01.lab.example", "ESX01", "esx01.lab.example"),
        ("esx02.lab.example", "esx01", "esx01"),
        ("192.0.2.17", "192.0.2.1", "192.0.2.1"),
        (None, "esx01", "esx01"),
        ("esx02", "-", "esx02"),
    ],
)
def test_the_host_comes_from_the_line_in_its_longest_form(
    known: str | None, named: str, shown: str
) -> None:
    line = f"<14>1 2024-05-06T07:08:09Z {named} vobd - - - x"
    assert maker(host=known).make(line.encode(), RECEIVED_AT)["host"] == shown


@pytest.mark.parametrize(
    ("file", "program"),
    [
        ("esx01/hostd.log", "hostd"),
        ("b.tgz!esx-a/var/run/log/vpxa.3.gz", "vpxa"),
        ("vmkwarning", "vmkwarning"),
        ("vmkernel-0.log", "vmkernel"),
        ("hostd-probe.log", "vmkernel"),
        ("hostd/other.log", "vmkernel"),
    ],
)
def test_a_line_without_a_program_takes_it_from_the_file_name(file: str, program: str) -> None:
    record = maker(file=file).make(b"2013-04-05T06:07:08.901Z cpu1:2)x", RECEIVED_AT)
    assert record["program"] == program


@pytest.mark.parametrize(
    ("record", "key"),
    [
        ({"source": "vmware_log", "datastore": "ds", "vm": "Web 1", "host": "a"}, "ds/Web 1"),
        ({"source": "vmware_log", "vm": "web01"}, "/web01"),
        ({"source": "vmware_log"}, "/"),
        ({"source": "vmware_log", "generation": "85944171f73967e8"}, "/85944171f73967e8"),
        ({"source": "syslog", "host": "ESX01.lab.example", "peer": "192.0.2.1"}, "esx01"),
        ({"source": "syslog", "host": "192.0.2.17"}, "192.0.2.17"),
        ({"source": "syslog", "host": "2001:db8::17"}, "2001:db8::17"),
        ({"source": "syslog", "peer": "192.0.2.1"}, "192.0.2.1"),
        ({"source": "esxtop", "file": "a.csv"}, "a.csv"),
        ({"source": "unknown"}, ""),
    ],
)
def test_the_kafka_key_of_a_record(record: dict[str, str], key: str) -> None:
    assert kafka_key(record) == key


@pytest.mark.parametrize(
    ("name", "host", "shown"),
    [
        ("datastore1", "ESX07.lab.example", "datastore1 (esx07)"),
        ("datastore1", "192.0.2.17", "datastore1 (192.0.2.17)"),
        ("datastore1", "2001:db8::17", "datastore1 (2001:db8::17)"),
        ("datastore1", "", "datastore1"),
        ("datastore1", None, "datastore1"),
        # vCenter's name for the datastore1 of another host; another vCenter uses it too.
        ("datastore1 (2)", "esx07", "datastore1 (2) (esx07)"),
        ("datastore10", "esx07", "datastore10"),
        ("san-datastore1", "esx07", "san-datastore1"),
        ("5f2a77c1-9be0d6d2-41aa-0025b5aa00b1", "esx07", "5f2a77c1-9be0d6d2-41aa-0025b5aa00b1"),
        ("", "esx07", ""),
    ],
)
def test_the_datastore_that_every_host_has_gets_the_name_of_its_host(
    name: str, host: str | None, shown: str
) -> None:
    assert datastore_name(name, host) == shown


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\r", b"\0", b"\0\0\n", b"\r\0\n"])
def test_a_line_terminator_is_removed(end: bytes) -> None:
    assert strip_terminator(b"a \rb" + end) == b"a \rb"
    assert strip_terminator(b"\0\0a" + end) == b"a"
    assert generation_of(b"a \rb" + end) == generation_of(b"a \rb")


def test_the_fingerprint_is_fnv_1a() -> None:
    # published test vectors of the hash
    assert generation_of(b"a") == "af63dc4c8601ec8c"
    assert generation_of(b"foobar") == "85944171f73967e8"


def test_the_fingerprint_uses_the_first_1024_bytes() -> None:
    assert generation_of(b"x" * 1024 + b"y\n") == generation_of(b"x" * 1024 + b"z")
    assert len(generation_of(b"")) == 16


def test_the_record_of_a_network_message_has_its_peer() -> None:
    wire = WireRecords()
    received_at = datetime(2024, 5, 6, 7, 8, 9, 500000, tzinfo=UTC)
    record = wire.make(b"<14>2024-05-06T07:08:09Z esx01 vobd: x\r\n\0", "192.0.2.1", received_at)
    assert record == {
        "event_time": "2024-05-06T07:08:09Z",
        "received_at": "2024-05-06T07:08:09.500000Z",
        "kind": "line",
        "source": "syslog",
        "program": "vobd",
        "host": "esx01",
        "severity": "info",
        "head": "<14>2024-05-06T07:08:09Z esx01 vobd: ",
        "message": "x",
        "peer": "192.0.2.1",
        "run_id": "live",
        "time_quality": "exact",
    }
    rejected = wire.make(b"hello", "192.0.2.1", received_at)
    assert rejected == {
        "received_at": "2024-05-06T07:08:09.500000Z",
        "source": "syslog",
        "peer": "192.0.2.1",
        "run_id": "live",
        "line": "hello",
        "reason": "unknown line format",
    }


def test_a_network_line_without_a_time_gets_its_arrival() -> None:
    wire = WireRecords()
    now = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
    wire.make(b"<14>2024-05-01T07:08:09Z esx01 vobd: x", "192.0.2.1", now)
    record = wire.make(b"<164>NoneZ esx01 vobd: y", "192.0.2.1", now)
    assert (record["event_time"], record["time_quality"]) == ("2024-05-06T07:08:09Z", "arrival")


def test_a_network_timestamp_without_a_year_gets_the_year_of_its_arrival() -> None:
    wire = WireRecords()
    line = b"<14>Dec 31 23:59:59 esx01 vobd: x"
    times = [
        wire.make(line, "192.0.2.1", datetime(year, month, day, tzinfo=UTC))["event_time"]
        for year, month, day in ((2011, 12, 31), (2012, 1, 1), (2012, 12, 31))
    ]
    assert [time[:4] for time in times] == ["2011", "2011", "2012"]


def test_a_network_time_far_from_arrival_is_replaced_by_the_arrival() -> None:
    wire = WireRecords()
    now = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
    for year in range(1970, 2200):
        line = f"<14>{year}-05-06T07:08:09.123Z esx01 vmkernel: 1:00:00:00.123 cpu0:1)x"
        record = wire.make(line.encode(), "192.0.2.1", now)
        is_near = year == 2024
        assert record["event_time"] == ("2024-05-06T07:08:09.123Z" if is_near else utc_text(now))
        assert record["time_quality"] == ("exact" if is_near else "arrival")
        assert record.get("stamped_at", "")[:4] == ("" if is_near else str(year))
        assert record["head"] + record["message"] == line


def test_lines_of_files_keep_times_of_any_date() -> None:
    for year in (1970, 2019, 2199):
        record = maker().make(f"{year}-05-06T07:08:09.123Z cpu0:1)x".encode(), RECEIVED_AT)
        assert (record["event_time"][:4], record["time_quality"]) == (str(year), "exact")
        assert "stamped_at" not in record


@pytest.mark.parametrize("found", ["wire", "host"])
@pytest.mark.parametrize("name", ["h" * 255, "h" * 256, "é" * 127, "é" * 128, "h" * 9000])
def test_a_name_has_at_most_255_bytes(found: str, name: str) -> None:
    line = f"<14>2024-06-30T12:00:00Z {name} vobd: x"
    record = maker(found).make(line.encode(), RECEIVED_AT)
    if len(name.encode()) <= 255:
        assert record["host"] == name
        return
    assert record["reason"] == LONG_NAME
    assert record["line"] == line
    assert "host" not in record


def test_a_flood_of_host_names_uses_limited_memory() -> None:
    lines = maker("wire")
    for number in range(3000):
        lines.make(f"<14>2024-06-30T12:00:00Z esx{number} vobd: x".encode(), RECEIVED_AT)
    assert len(lines._hosts) <= 1024
    record = lines.make(b"<14>2024-06-30T12:00:00Z [fe80::1] vobd: x", RECEIVED_AT)
    assert record["host"] == "fe80::1"


def test_a_message_with_a_line_feed_is_rejected_and_not_cut() -> None:
    record = maker("wire").make(b"<14>2024-05-06T07:08:09Z esx01 vobd: x\ny", RECEIVED_AT)
    assert record["reason"] == "unknown line format"


@given(st.binary(max_size=300), st.sampled_from(["vmware_log", "host", "wire"]))
@example(STAMPED, "vmware_log")
@example(b"\xef\xbb\xbf", "vmware_log")
def test_any_bytes_are_kept_in_a_record_or_rejection(raw: bytes, found: str) -> None:
    lines = maker(found)
    lines.make(STAMPED, RECEIVED_AT)
    record = lines.make(raw, RECEIVED_AT, 0, len(raw))
    text = record["line"] if "reason" in record else record.get("head", "") + record["message"]
    # A byte order mark is not kept.
    kept = {raw, raw.removeprefix(b"\xef\xbb\xbf")}
    assert kept & {text.encode(), text.encode("latin-1", "replace")}
    orjson.dumps(record)


@given(st.sampled_from(cases()), st.integers(0, 120), st.text(max_size=5))
@example(cases()[0], 0, "\ufeff")
def test_no_damaged_line_raises_an_error(case: Case, at: int, damage: str) -> None:
    line = (case.line[:at] + damage + case.line[at + 1 :]).replace("\n", "")
    record = maker(case.found).make(line.encode(), RECEIVED_AT)
    text = record["line"] if "reason" in record else record.get("head", "") + record["message"]
    assert text == line.removeprefix("\ufeff")


def test_records_of_a_file_do_not_depend_on_the_clock() -> None:
    origin = Origin(run_id="r1", file="a.log", generation="0")
    lines = [b"Mar 04 05:06:07 a vmkernel: 1:00:00:00.123 cpu0:1)x", b"", b"-->", b"junk"]
    first, second = (
        [LineRecords(origin, written_at=WRITTEN_AT).make(line, RECEIVED_AT) for line in lines]
        for _ in range(2)
    )
    assert first == second
