"""Conversion of esxtop's rows to messages with samples."""

from __future__ import annotations

import time

import pytest

from stunwatch.ingest.records import Origin, Record
from stunwatch.ingest.replay.esxtop import (
    FIELDS,
    MOST_NAME_BYTES,
    MOST_OBJECTS,
    EsxtopRecords,
    is_header,
    samples_in,
)

RECEIVED_AT = "2024-06-30T12:00:00Z"
ZONE = "(PDH-CSV 4.0) (UTC)(0)"
NAA = r"\\esx01.lab.example\Physical Disk SCSI Device(naa.6001)"


def header(*counters: str, zone: str = ZONE, quote: str = '"') -> bytes:
    return ",".join(f"{quote}{name}{quote}" for name in (zone, *counters)).encode()


def messages(head: bytes, row: bytes, host: str | None = None) -> list[Record]:
    lines = EsxtopRecords(
        Origin(run_id="r1", source="esxtop", host=host, file="a.csv", generation="00000000")
    )
    assert is_header(head)
    assert not is_header(row)
    lines.read_header(head)
    return lines.make(row, RECEIVED_AT, 100, len(row) + 1)


def made(head: bytes, row: bytes, host: str | None = None) -> list[Record]:
    """Return the samples one by one, or the rejection."""
    return [
        sample
        for message in messages(head, row, host)
        for sample in ([message] if "reason" in message else samples_in(message))
    ]


def test_a_row_becomes_one_message_per_class_of_objects() -> None:
    head = header(
        rf"{NAA}\Average Driver MilliSec/Command",
        r"\\esx01.lab.example\Physical Disk SCSI Device(naa.6002)\Commands/sec",
        r"\\esx01.lab.example\Virtual Disk(web01:scsi0:0)\Average MilliSec/Write",
        r"\\esx01.lab.example\Physical Disk SCSI Device(naa.6003)\Commands/sec",
        r"\\esx01.lab.example\Physical Disk SCSI Device(naa.6002)\Average Driver MilliSec/Command",
        r"\\esx01.lab.example\Physical Disk SCSI Device(naa.6002)\Aborts/sec",
    )
    row = b'"02/03/2024 04:05:06","27.25","120.5","1.5","","0.5",""'
    devices, virtual_disks = messages(head, row)
    expected = {
        "event_time": "2024-02-03T04:05:06Z",
        "received_at": RECEIVED_AT,
        "kind": "line",
        "source": "esxtop",
        "host": "esx01.lab.example",
        "object_class": "scsi_device",
        "devices": ["naa.6001", "naa.6002"],
        "measures": {"davg_ms": [27.25, 0.5], "commands_per_second": [None, 120.5]},
        "file": "a.csv",
        "generation": "00000000",
        "offset": 100,
        "line_bytes": len(row) + 1,
        "run_id": "r1",
        "time_quality": "exact",
    }
    assert devices == expected
    assert list(devices) == list(expected)
    assert list(devices["measures"]) == list(expected["measures"])
    assert virtual_disks["devices"] == ["web01:scsi0:0"]
    assert virtual_disks["measures"] == {"gavg_write_ms": [1.5]}


@pytest.mark.parametrize(
    "values", [b'"nan","1"', b'"1","nan"', b'"1","inf"', b'"-1","1"', b'"1","x"', b'"1","1e13"']
)
def test_one_impossible_value_does_not_affect_the_others(values: bytes) -> None:
    names = [rf"\\esx01\Physical Disk Adapter(vmhba{n})\Reads/sec" for n in range(3)]
    [message] = messages(header(*names), b'"02/03/2024 04:05:06",' + values + b',"1000000000000"')
    places = [n for n, value in enumerate(values.split(b",")) if value == b'"1"']
    assert message["devices"] == [f"vmhba{n}" for n in (*places, 2)]
    assert message["measures"] == {"reads_per_second": [1.0, 1e12]}


def test_a_message_has_a_bounded_number_of_objects_and_bytes() -> None:
    many = [rf"\\esx01\Physical Disk Path(vmhba1:C0:T0:L{n})\Reads/sec" for n in range(250)]
    long = [rf"\\esx01\Virtual Disk({'é' * 2000}{n})\Reads/sec" for n in range(40)]
    head = header(*many, *long)
    row = b'"02/03/2024 04:05:06"' + b',"1"' * 290
    found = messages(head, row)
    assert [len(each["devices"]) for each in found[:3]] == [MOST_OBJECTS, MOST_OBJECTS, 50]
    assert all(
        len("".join(each["devices"]).encode()) <= MOST_NAME_BYTES < 5 * 4002 for each in found
    )
    names = [name for each in found for name in each["devices"]]
    assert names == [name.partition("(")[2].partition(")")[0] for name in (*many, *long)]


def test_a_row_becomes_one_sample_per_object() -> None:
    head = header(
        r"\\esx01.lab.example\Physical Cpu(0)\% Processor Time",
        rf"{NAA}\Active Commands",
        rf"{NAA}\Commands/sec",
        rf"{NAA}\Average Driver MilliSec/Command",
        rf"{NAA}\Average Kernel MilliSec/Command",
        rf"{NAA}\Average Guest MilliSec/Command",
        rf"{NAA}\Average Queue MilliSec/Command",
        r"\\esx01.lab.example\Virtual Disk(web 01:scsi0:0)\Average MilliSec/Write",
    )
    row = b'"02/03/2024 04:05:06","9","3","120.5","27.25","0.5","27.75","0.25","1.5"'
    sample, virtual_disk = made(head, row)
    assert (sample["object_class"], sample["device"]) == ("scsi_device", "naa.6001")
    assert {name: sample[name] for name in sample if name in FIELDS.values()} == {
        "davg_ms": 27.25,
        "kavg_ms": 0.5,
        "gavg_ms": 27.75,
        "qavg_ms": 0.25,
        "commands_per_second": 120.5,
        "active_commands": 3.0,
    }
    assert sample["offset"] == 100
    assert virtual_disk["object_class"] == "virtual_disk"
    assert virtual_disk["device"] == "web 01:scsi0:0"
    assert virtual_disk["gavg_write_ms"] == 1.5


@pytest.mark.parametrize(
    ("name", "object_class", "device"),
    [
        ("Physical Disk Adapter(vmhba1)", "adapter", "vmhba1"),
        ("Physical Disk Path(vmhba1:C0:T0:L0)", "path", "vmhba1:C0:T0:L0"),
        ("Physical Disk Per-Device-Per-World(naa.6001-1039)", "device_world", "naa.6001-1039"),
        ("Physical Disk NFS Volume(nfs (2))", "nfs_volume", "nfs (2)"),
        ("Physical Disk(vmhba1:0:7)", "disk", "vmhba1:0:7"),
        ("Virtual Disk(a (b):scsi0:0)", "virtual_disk", "a (b):scsi0:0"),
        ("Virtual Disk(a, b:scsi0:0)", "virtual_disk", "a, b:scsi0:0"),
    ],
)
def test_object_class_and_device_come_from_the_column_name(
    name: str, object_class: str, device: str
) -> None:
    head = header(rf"\\esx01\{name}\Reads/sec")
    (sample,) = made(head, b'"02/03/2024 04:05:06","7"')
    assert (sample["object_class"], sample["device"]) == (object_class, device)
    assert sample["reads_per_second"] == 7


def test_counters_in_another_order_give_the_same_sample() -> None:
    names = [rf"{NAA}\Reads/sec", rf"{NAA}\Writes/sec", rf"{NAA}\Average Driver MilliSec/Command"]
    (first,) = made(header(*names), b'"02/03/2024 04:05:06","1","2","3"')
    (second,) = made(header(*reversed(names)), b'"02/03/2024 04:05:06","3","2","1"')
    assert first == second
    assert list(first) == list(second)


def test_rows_saved_by_excel_without_quotes_and_seconds_are_read() -> None:
    head = header(rf"{NAA}\Reads/sec", quote="")
    (sample,) = made(head, b"2/3/2024 4:05,7.5")
    assert (sample["event_time"], sample["reads_per_second"]) == ("2024-02-03T04:05:00Z", 7.5)
    (sample,) = made(b"\xef\xbb\xbf" + head, b"2/3/2024 4:05,7.5")
    assert sample["host"] == "esx01.lab.example"


def test_a_row_with_only_some_values_quoted_is_read() -> None:
    (sample,) = made(header(rf"{NAA}\Reads/sec"), b'"2/3/2024 4:05:01",7.5')
    assert sample["event_time"] == "2024-02-03T04:05:01Z"


@pytest.mark.parametrize(
    ("zone", "event_time"),
    [
        (ZONE, "2024-02-03T04:05:06Z"),
        ("(PDH-CSV 4.0) (Pacific Daylight Time)(-420)", "2024-02-03T11:05:06Z"),
        ("(PDH-CSV 4.0) (Central European Time)(60)", "2024-02-03T03:05:06Z"),
        ("(PDH-CSV 4.0)", "2024-02-03T04:05:06Z"),
        ("(PDH-CSV 4.0) (Nowhere)(9999)", "2024-02-03T04:05:06Z"),
    ],
)
def test_the_zone_in_the_header_is_applied(zone: str, event_time: str) -> None:
    (sample,) = made(header(rf"{NAA}\Reads/sec", zone=zone), b'"02/03/2024 04:05:06","1"')
    assert sample["event_time"] == event_time


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (b'"02/03/2024 04:05:06"', "1 column, but the header has 2"),
        (b'"02/03/2024 04:05:06","1","2"', "3 columns, but the header has 2"),
        (b"", "1 column, but the header has 2"),
        (b'"02/30/2024 04:05:06","1"', "the first column is not a time"),
        (b'"soon","1"', "the first column is not a time"),
        (b'"02/03/0000 04:05:06","1"', "the first column is not a time"),
        (b'"02/03/2024 04:05:06","n/a"', "no disk counter with a number"),
        (b'"02/03/2024 04:05:06","nan"', "no disk counter with a number"),
        (b"\xff\xfe", "1 column, but the header has 2"),
    ],
)
def test_a_row_that_cannot_be_read_is_rejected(row: bytes, reason: str) -> None:
    (rejected,) = made(header(rf"{NAA}\Reads/sec"), row)
    assert rejected["reason"] == reason
    assert rejected["source"] == "esxtop"
    assert rejected["host"] == "esx01.lab.example"
    assert (rejected["offset"], rejected["line_bytes"]) == (100, len(row) + 1)


def test_a_row_below_a_header_without_disks_is_rejected_with_that_reason() -> None:
    head = header(r"\\esx01\Memory\Memory Overcommit (1 Minute Avg)")
    (rejected,) = made(head, b'"02/03/2024 04:05:06","1"')
    assert rejected["reason"] == "no disk counter with a number"


@pytest.mark.parametrize("header_host", ["local", "localhost"])
def test_a_host_named_local_gets_the_name_of_the_folder(header_host: str) -> None:
    head = header(rf"\\{header_host}\Physical Disk Adapter(vmhba1)\Reads/sec")
    assert made(head, b'"02/03/2024 04:05:06","1"', host="esx01")[0]["host"] == "esx01"
    assert "host" not in made(head, b'"02/03/2024 04:05:06","1"')[0]


def test_the_host_of_the_header_is_used_unless_the_folder_has_a_longer_name() -> None:
    head = header(r"\\esx01\Physical Disk Adapter(vmhba1)\Reads/sec")
    row = b'"02/03/2024 04:05:06","1"'
    assert made(head, row, host="esx02")[0]["host"] == "esx01"
    assert made(head, row, host="esx01.lab.example")[0]["host"] == "esx01.lab.example"


def test_a_row_of_fifty_thousand_columns_is_read_fast() -> None:
    names = [
        rf"\\esx01\Physical Disk SCSI Device(naa.{number})\{counter}"
        for number in range(51_000 // 6)
        for counter in (
            "Active Commands",
            "Commands/sec",
            "Average Driver MilliSec/Command",
            "Average Kernel MilliSec/Command",
            "Queue Depth",
            "% Used",
        )
    ]
    head = header(*names)
    row = b'"02/03/2024 04:05:06"' + b',"12.34"' * len(names)
    lines = EsxtopRecords(Origin(run_id="r1", source="esxtop", file="a.csv", generation="0"))
    started = time.perf_counter()
    lines.read_header(head)
    header_read = time.perf_counter()
    made = lines.make(row, RECEIVED_AT, 0, len(row))
    row_read = time.perf_counter()
    assert sum(len(message["devices"]) for message in made) == 8500
    assert all(len(message["measures"]) == 4 for message in made)
    # esxtop writes a row every 3 s at most; this limit is many times faster
    assert row_read - header_read < 0.5
    assert header_read - started < 3
