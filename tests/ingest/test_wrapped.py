"""Replay unwraps lines in JSON, grep output, Kiwi columns and colour codes."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_reading import read
from trees import tgz, vmkernel, vmware_log, write

from stunwatch.ingest.records import JSON, NO_PATTERN, Record
from stunwatch.ingest.replay import BACKFILL, REJECTED, plan, sorting
from stunwatch.ingest.replay.documents import is_document
from stunwatch.ingest.replay.wrapped import (
    JSON_BROKEN,
    JSON_WITHOUT_HEAD,
    JSON_WITHOUT_MESSAGE,
    Unwrapper,
)
from stunwatch.ingest.times import Stamps

WIRE = [
    "<181>2024-05-06T07:08:09.123Z esx01.lab vmkernel: cpu5:2097345)NFS: 337: Lost",
    "<14>2024-05-06T07:08:10.123Z esx01 web01[71]: In(05) vcpu-0 - CPT: vm was stunned for 4821 us",
    "May 06 07:08:11 esx02 Hostd: info hostd[71] [Originator@6876 sub=Vimsvc] Event 1 : logged in",
    'May 06 07:08:12 relay01 2024-05-06T07:08:12.123Z esx03 vobd:  quotes " and \\ and ü',
]


def wrap(line: str, **fields: Any) -> str:
    return json.dumps({"@timestamp": "2024-05-06T08:00:00Z", "host": {"name": "relay01"}, **fields})


def row(*values: str, quoting: int = csv.QUOTE_ALL) -> str:
    file = io.StringIO()
    csv.writer(file, quoting=quoting, lineterminator="").writerow(values)
    return file.getvalue()


WRAPPINGS: dict[str, Callable[[str], str]] = {
    "Filebeat": lambda line: wrap(line, message=line, log={"source": {"address": "192.0.2.9:514"}}),
    "Logstash": lambda line: wrap(line, **{"@version": "1", "message": line, "host": "relay01"}),
    "Elastic Agent": lambda line: wrap(line, message="parsed", event={"original": line}),
    "Elastic, fields with dots": lambda line: wrap(line, **{"event.original": line, "message": ""}),
    "Graylog keeps the full message": lambda line: wrap(
        line, version="1.1", host="relay01", short_message="vmkernel: x", full_message=line
    ),
    "GELF": lambda line: wrap(line, version="1.1", host="relay01", short_message=line),
    "any": lambda line: json.dumps({"message": line}),
    "@message": lambda line: json.dumps({"@message": line}),
    "a container's log": lambda line: wrap(line, log=line + "\n", stream="stdout"),
    "journald": lambda line: wrap(line, MESSAGE=line, _HOSTNAME="relay01"),
    "an array of objects": lambda line: json.dumps({"message": line}) + ",",
    "Splunk's JSON": lambda line: json.dumps(
        {"preview": False, "offset": 3, "result": {"_raw": line, "_time": "2024-05-06 07:08:09"}}
    ),
    "a dump of an index": lambda line: json.dumps(
        {"_index": "esx-2024", "_id": "x", "_source": {"message": line, "tags": ["esx"]}}
    ),
    "VictoriaLogs": lambda line: json.dumps({"_time": "2024-05-06T07:08:09Z", "_msg": line}),
    "Loki": lambda line: json.dumps({"labels": {"host": "relay01"}, "line": line}),
    "Splunk's CSV": lambda line: row(line, "2024-05-06T09:08:09.000+0200", "relay01", "esxi", '""'),
    "Kibana's CSV": lambda line: row(
        "May 6, 2024 @ 09:08:09.123", "relay01", line, quoting=csv.QUOTE_MINIMAL
    ),
    "Graylog's CSV": lambda line: row("2024-05-06T07:08:09.123Z", "192.0.2.17", line),
    "one column of CSV": row,
    "Kiwi": lambda line: f"2024-05-06 09:08:09\tLocal4.Info\t192.0.2.17\t{line}",
    "grep -H": lambda line: f"all.log:{line}",
    "grep -n": lambda line: f"12:{line}",
    "grep -Hn": lambda line: f"/srv/syslog hosts/all.log.1:12:{line}",
    "findstr": lambda line: f"C:\\logs\\all.log:12:{line}",
    "docker compose": lambda line: f"syslog-1  | {line}",
    "cat -n": lambda line: f"    12\t{line}",
    "less -N": lambda line: f"     12 {line}",
    "indented": lambda line: f"  {line}",
    "quoted mail": lambda line: f"> {line}",
    "Tftpd64": lambda line: f"Mon May 06 09:08:09 2024;192.0.2.1; {line}",
    "Kiwi's standard columns": lambda line: f"05-06-2024\t09:08:09\tLocal4.Info\tesx01\t{line}",
    "grep --color": lambda line: re.sub(
        "(Lost|stunned|logged|quotes)", "\x1b[01;31m\\1\x1b[m", line
    ),
    "grep --color -H": lambda line: (
        f"\x1b[35m\x1b[Kall.log\x1b[m\x1b[K\x1b[36m\x1b[K:\x1b[m\x1b[K{line}"
    ),
}
OWN = ("event_time", "source", "program", "host", "vm", "severity", "thread", "message")


def replayed(path: Path, lines: list[str], **options: Any) -> list[Record]:
    """Return the records and rejections of the lines, without progress records."""
    content = "".join(f"{line}\n" for line in lines).encode()
    _, messages = read(write(path, content), **options)
    return [record for _, _, record in messages if record.get("kind") != "progress"]


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_a_wrapped_line_gives_the_record_of_the_line(tmp_path: Path, wrapping: str) -> None:
    plain = replayed(tmp_path / "plain.log", WIRE)
    lines = [WRAPPINGS[wrapping](line) for line in WIRE]
    wrapped = replayed(tmp_path / "wrapped.log", lines)
    assert all("reason" not in record for record in plain)
    for record, line, found in zip(plain, lines, wrapped, strict=True):
        assert {name: found.get(name) for name in OWN} == {name: record.get(name) for name in OWN}
        assert found["line_bytes"] == len(line.encode()) + 1
    offsets = [sum(len(line.encode()) + 1 for line in lines[:n]) for n in range(len(lines))]
    assert [record["offset"] for record in wrapped] == offsets


PREFIXES = [
    "Kiwi", "grep -H", "grep -n", "grep -Hn", "findstr", "docker compose", "cat -n", "less -N",
    "indented", "quoted mail", "Tftpd64", "Kiwi's standard columns",
]  # fmt: skip


@pytest.mark.parametrize("wrapping", PREFIXES)
def test_a_prefix_is_kept_in_the_head(tmp_path: Path, wrapping: str) -> None:
    lines = [WRAPPINGS[wrapping](line) for line in WIRE]
    found = replayed(tmp_path / "wrapped.log", lines)
    assert [record["head"] + record["message"] for record in found] == lines


def test_head_and_message_of_json_are_the_line_inside(tmp_path: Path) -> None:
    found = replayed(tmp_path / "a.json", [json.dumps({"message": line}) for line in WIRE])
    assert [record["head"] + record["message"] for record in found] == WIRE


@pytest.mark.parametrize(
    "wrap_line",
    [
        lambda path, line: f"{path}:12:{line}",
        lambda path, line: wrap(line, message=line, log={"file": {"path": path}, "offset": 7}),
        lambda path, line: wrap(line, message=line, **{"log.file.path": path}),
        lambda path, line: wrap(line, log=line, filename=path),
    ],
    ids=["grep", "Filebeat", "dots", "Fluent Bit"],
)
def test_vm_and_datastore_come_from_a_path_in_the_wrapping(
    tmp_path: Path, wrap_line: Callable[[str, str], str]
) -> None:
    lines = [
        wrap_line(f"/vmfs/volumes/{datastore}/{vm}/vmware.log", line)
        for datastore, vm in (("ds-gold", "web 01"), ("ds-blue", "web 01"), ("ds-gold", "db01"))
        for line in vmware_log(count=1).decode().split("\r\n")[:-1]
    ]
    content = "".join(f"{line}\n" for line in lines).encode()
    _, messages = read(write(tmp_path / "found.log", content), vm="other")
    assert sorted(key for _, key, record in messages if record["kind"] == "line") == [
        "ds-blue/web 01",
        "ds-gold/db01",
        "ds-gold/web 01",
    ]
    # Each log has its own progress record.
    assert len([record for _, _, record in messages if record["kind"] == "progress"]) == 3


def test_the_program_comes_from_a_path_in_the_wrapping(tmp_path: Path) -> None:
    line = "2021-05-06T07:08:09.123Z cpu1:2097)Vol3: 731: x"
    (record,) = replayed(tmp_path / "found.log", [f"esx01/var/log/vmkwarning.log:3:{line}"])
    assert record["program"] == "vmkwarning"
    assert "host" not in record


PARSED = [
    ("esx01.lab", "vmkernel", "cpu5:2097345)NFS: 337: Lost connection to the server nas01"),
    ("esx01.lab", "Hostd", "info hostd[71] [Originator@6876 sub=Vimsvc opID=4f2a] Event 1 : ok"),
    ("esx02", "Hostd", "[Originator@6876 sub=Vimsvc.Tasks opID=5a-c3 user=root] Task 7 is done"),
    ("192.0.2.7", "vobd", "[scsiCorrelator] 5061us: [vob.scsi.scsipath.pathstate.dead] vmhba2, ü"),
    ("esx02", "web01", "vcpu-0| I005: Checkpoint_Unstun: vm stopped for 48211 us"),
    ("esx02", "web01", "In(05) vcpu-0 - Checkpoint_Unstun: vm stopped for 48211 us"),
]
STAMP = "2024-05-06T07:08:09.123Z"

EXPORTS: dict[str, Callable[[str, str, str], str]] = {
    "Graylog": lambda host, program, text: json.dumps(
        {"timestamp": STAMP, "source": host, "application_name": program, "message": text}
    ),
    "Graylog, host and program in the message": lambda host, program, text: json.dumps(
        {"timestamp": STAMP, "source": host, "message": f"{host} {program}: {text}", "level": 6}
    ),
    "Logstash": lambda host, program, text: json.dumps(
        {"@timestamp": STAMP, "logsource": host, "program": program, "message": text,
         "host": "192.0.2.9", "timestamp": "May  6 07:08:09"}
    ),
    "Elastic": lambda host, program, text: json.dumps(
        {"@timestamp": STAMP, "host": {"name": "relay01"}, "message": text,
         "log": {"level": "info", "syslog": {"hostname": host, "appname": program}}}
    ),
    "Elastic's vSphere integration": lambda host, program, text: json.dumps(
        {"_index": "logs-vsphere", "_source": {
            "@timestamp": STAMP, "agent": {"name": "relay01"}, "process": {"name": program},
            "host": {"name": host, "hostname": "relay01"}, "message": text}}
    ),
    "syslog-ng": lambda host, program, text: json.dumps(
        {"PROGRAM": program, "PRIORITY": "info", "MESSAGE": text, "HOST": host, "ISODATE": STAMP}
    ),
    "rsyslog": lambda host, program, text: json.dumps(
        {"timereported": STAMP, "hostname": host, "syslogtag": f"{program}[71]:", "msg": f" {text}"}
    ),
    "Vector": lambda host, program, text: json.dumps(
        {"appname": program, "hostname": host, "message": text, "timestamp": STAMP,
         "source_ip": "192.0.2.9", "facility": "local4"}
    ),
    "Fluentd": lambda host, program, text: json.dumps(
        {"time": 1714979289.123, "host": host, "ident": program, "message": text}
    ),
    "Fluentd's file": lambda host, program, text: "2024-05-06 07:08:09.123 +0000\tsyslog.info\t"
    + json.dumps({"host": host, "ident": program, "message": text}),
    "Fluent Bit's file": lambda host, program, text: "syslog.0: [1714979289.123000000, "
    + json.dumps({"pri": "14", "host": host, "ident": program, "message": text}) + "]",
    "nanoseconds": lambda host, program, text: json.dumps(
        {"ts": "1714979289123000000", "host": host, "app": program, "msg": text}
    ),
    "Loki": lambda host, program, text: json.dumps(
        {"labels": {"hostname": host, "app": program}, "line": text, "timestamp": STAMP}
    ),
    "Azure": lambda host, program, text: json.dumps(
        {"TimeGenerated": "2024-05-06T07:09:00Z", "EventTime": STAMP, "HostName": host,
         "Computer": "relay01", "ProcessName": program, "SyslogMessage": text}
    ),
}  # fmt: skip
CSV_EXPORTS: dict[str, tuple[list[str], Callable[[str, str, str], list[str]]]] = {
    "Graylog": (
        ["timestamp", "source", "message"],
        lambda host, program, text: [STAMP, host, f"{program}: {text}"],
    ),
    "Kibana": (
        ["@timestamp", "host.name", "process.name", "message"],
        lambda host, program, text: ["May 6, 2024 @ 07:08:09.123", host, program, text],
    ),
    "Azure": (
        ["TimeGenerated [UTC]", "Computer", "ProcessName", "SyslogMessage"],
        lambda host, program, text: ["5/6/2024, 7:08:09.123 AM", host, program, text],
    ),
    "a database": (
        ["Host", "Program", "Time [UTC]", "Message"],
        lambda host, program, text: [host, program, "2024-05-06 07:08:09.123 +0000", text],
    ),
}


@pytest.mark.parametrize("product", EXPORTS)
def test_a_line_is_built_from_the_fields_of_an_export(tmp_path: Path, product: str) -> None:
    plain = [f"{STAMP} {host} {program}: {text}" for host, program, text in PARSED]
    expected = replayed(tmp_path / "plain.log", plain)
    found = replayed(tmp_path / "a.json", [EXPORTS[product](*each) for each in PARSED])
    for record, built in zip(expected, found, strict=True):
        assert {name: built.get(name) for name in OWN} == {name: record.get(name) for name in OWN}


@pytest.mark.parametrize("product", CSV_EXPORTS)
@pytest.mark.parametrize("is_newest_first", [False, True])
def test_a_line_is_built_from_the_columns_of_an_export(
    tmp_path: Path, product: str, is_newest_first: bool
) -> None:
    header, columns = CSV_EXPORTS[product]
    times = [f"07:{minute:02}:09.123" for minute in range(40)]
    lines = [
        (time, f"2024-05-06T{time}Z {host} {program}: {text}", row(*columns(host, program, text)))
        for time, (host, program, text) in zip(times, PARSED * 7, strict=False)
    ]
    expected = replayed(tmp_path / "plain.log", [line for _, line, _ in lines])
    rows = [each.replace("7:08:09.123", time[1:]) for time, _, each in lines]
    rows = rows[::-1] if is_newest_first else rows
    found = replayed(tmp_path / "a.csv", [row(*header), *rows])
    built = [{name: each.get(name) for name in OWN} for each in found if "reason" not in each]
    assert built == [{name: each.get(name) for name in OWN} for each in expected]


@pytest.mark.parametrize(
    "fields",
    [
        {"message": "cpu5:2097345)NFS: 337: Lost", "host": "esx01"},
        {"message": "cpu5:2097345)NFS: 337: Lost", "timestamp": STAMP},
        {"message": "cpu5:2097345)NFS: 337: Lost", "timestamp": "soon", "host": "esx01"},
        {"message": "cpu5:2097345)NFS: 337: Lost", "timestamp": 10**18 * 9, "host": "esx01"},
        {"message": "cpu5:2097345)NFS: 337: Lost", "timestamp": STAMP, "host": "two words"},
        # The only name is the agent's.
        {"message": "cpu5:2097345)NFS: 337: Lost", "timestamp": STAMP, "agent": {"name": "relay01"},
         "host": {"name": "relay01"}},
        {"message": "a text without a program", "timestamp": STAMP, "host": "esx01"},
    ],
)  # fmt: skip
def test_an_export_without_time_host_or_program_is_rejected(
    tmp_path: Path, fields: dict[str, Any]
) -> None:
    lines = [json.dumps({"message": each}) for each in WIRE]
    *_, record = replayed(tmp_path / "a.json", [*lines, json.dumps(fields)])
    assert record["reason"] == JSON_WITHOUT_HEAD


@pytest.mark.parametrize(
    ("time", "found"),
    [
        ("2024-05-06 07:08:09", "05:08:09"),
        ("2024-05-06T07:08:09.5", "05:08:09.5"),
        ("2024-05-06 07:08:09 UTC", "07:08:09"),
        ("2024-05-06 07:08:09.25 +0100", "06:08:09.25"),
        ("May 6, 2024 @ 07:08:09.123", "05:08:09.123"),
        ("5/6/2024 7:08:09 PM", "17:08:09"),
        ("1714979289", "07:08:09"),
    ],
)
def test_the_option_for_the_zone_applies_to_times_without_one(
    tmp_path: Path, time: str, found: str
) -> None:
    line = json.dumps({"timestamp": time, "source": "esx01", "message": "cpu5:2)NFS: 337: x"})
    records = replayed(tmp_path / "a.json", [line] * 3, zone=ZoneInfo("Europe/Vienna"))
    assert {each["event_time"] for each in records} == {f"2024-05-06T{found}Z"}


def test_the_program_of_an_export_is_found_in_the_message(tmp_path: Path) -> None:
    texts = [text for _, _, text in (PARSED[0], PARSED[1], PARSED[3])]
    lines = [json.dumps({"timestamp": STAMP, "source": "esx01", "message": f"  {text}"})
             for text in texts]  # fmt: skip
    found = replayed(tmp_path / "a.json", lines)
    assert [each["program"] for each in found] == ["vmkernel", "hostd", "vobd"]


def test_the_objects_of_a_json_document_are_read(tmp_path: Path) -> None:
    plain = replayed(tmp_path / "plain.log", WIRE)
    objects = [{"message": line, "id": number} for number, line in enumerate(WIRE)]
    documents: dict[str, Any] = {
        "Grafana, Azure": objects,
        "Log Insight": {"complete": True, "events": [{"text": line} for line in WIRE]},
        "Elastic": {
            "took": 5,
            "hits": {"total": 4, "hits": [{"_source": each} for each in objects]},
        },
        "Splunk": {"preview": False, "results": [{"_raw": line} for line in WIRE]},
        "Graylog": {"messages": [{"message": each, "index": "graylog_7"} for each in objects]},
        "Datadog": {"data": [{"id": "x", "attributes": each} for each in objects]},
    }
    for name, document in documents.items():
        for indent in (None, 2):
            path = tmp_path / "export.json"
            write(path, json.dumps(document, indent=indent).encode())
            _, messages = read(path)
            found = [each for _, _, each in messages if each.get("kind") == "line"]
            built = [{field: each.get(field) for field in OWN} for each in found]
            assert built == [{field: each.get(field) for field in OWN} for each in plain], name


@pytest.mark.parametrize("is_csv", [False, True])
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gz"])
def test_an_export_in_no_order_is_sorted(
    tmp_path: Path,
    is_csv: bool,
    pack: Callable[[bytes], bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sorting, "_PART_BYTES", 200_000)
    times = [
        f"07:{number // 600 % 60:02}:{number // 10 % 60:02}.{number % 10}" for number in range(6000)
    ]
    lines = [f"2024-05-06T{time}Z esx01 vmkernel: cpu5:2)NFS: 337: {time}" for time in times]
    shuffled = lines[1::3] + lines[::3] + lines[2::3]
    if is_csv:
        rows = [row("timestamp", "source", "message")]
        rows += [row(line[:22], "esx01", line[29:]) for line in shuffled]
    else:
        rows = [json.dumps({"message": line}) for line in shuffled]
    path = write(tmp_path / "export.log", pack("".join(f"{each}\n" for each in rows).encode()))
    _, messages = read(path)
    found = [each for _, _, each in messages if each.get("kind") == "line"]
    assert [each["message"] for each in found] == [line.partition(")")[2] for line in lines]
    assert [each["offset"] for each in found] == sorted(each["offset"] for each in found)


def test_a_damaged_export_in_no_order_is_sorted_and_reported(tmp_path: Path) -> None:
    lines = [
        json.dumps(
            {"message": f"2024-05-06T{hour:02}:{number // 60:02}:{number % 60:02}Z esx01 x: y"}
        )
        for hour in (9, 7)
        for number in range(3000)
    ]
    packed = gzip.compress("".join(f"{each}\n" for each in lines).encode())
    with plan([write(tmp_path / "export.log", packed[:-2000])]) as planned:
        assert [each.first_event_time for each in planned.files] == ["2024-05-06T07:00:00Z"]
        assert ["truncated" in each.sentence for each in planned.problems] == [True]


NAMES = ["message", "timestamp", "time", "host", "source", "_source", "log", "agent", "hits", "x"]
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
    | st.sampled_from([STAMP, "May  6 07:08:09", "esx01", WIRE[0], "cpu5:2097345)NFS: 337: Lost"]),
    lambda each: st.lists(each, max_size=3)
    | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=5), each, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(JSON_VALUES)
def test_any_json_is_unwrapped_without_an_error(value: Any) -> None:
    text = json.dumps(value)
    for line in (text, f"2024-05-06T07:08:09Z\ta.b\t{text}", f"a: [1714979289.1, {text}]"):
        for each in Unwrapper(Stamps(written_at=datetime(2024, 5, 6, tzinfo=UTC))).unwrap(line):
            assert "\n" not in each.line
    is_document(text.encode())


def test_a_deep_document_in_an_archive_stops_nothing(tmp_path: Path) -> None:
    deep = b'[{"message": "x", "a":' + b'{"a":' * 900 + b"1" + b"}" * 901 + b"]"
    members = {"esx01/a.json": deep, "esx01/vmkernel.log": vmkernel()}
    with plan([write(tmp_path / "a.tgz", tgz(members))]) as planned:
        assert [Path(each.name).name for each in planned.files] == ["vmkernel.log"]


def test_a_json_document_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    for content, sentence in (
        (b'{"events": [{"message": "x"}, ', "cut off or damaged"),
        (b'[{"message": "' + b"x" * 70_000_000 + b'"}]', "more than 64 MiB"),
        (b'[{"message": "x"}' + b",{}" * 1_000_000 + b"]", "1,000,000 objects"),
    ):
        path = write(tmp_path / "export.json", content)
        with plan([path]) as planned:
            assert [sentence in each.sentence for each in planned.problems] == [True]
        write(tmp_path / "folder/export.json", content)
        with plan([tmp_path / "folder"]) as planned:
            assert [(each.is_failure, sentence in each.sentence) for each in planned.problems] == [
                (False, True)
            ]


def test_a_json_document_without_log_lines_is_skipped(tmp_path: Path) -> None:
    content = b'{\n"hits": {"message": "x"}\n}'
    path = write(tmp_path / "folder/export.json", content)
    with plan([tmp_path / "folder"]) as planned:
        assert planned.skipped == [str(path)]
        assert [each.path for each in planned.problems] == [str(tmp_path / "folder")]
    with plan([path]) as planned:
        assert [each.sentence for each in planned.problems] == [
            "it is a JSON document without log lines"
        ]


def test_a_message_of_several_lines_has_one_head(tmp_path: Path) -> None:
    (record,) = replayed(tmp_path / "a.json", [json.dumps({"message": WIRE[2] + "\n--> }\n"})])
    assert record["message"] == "Event 1 : logged in\n--> }"


@pytest.mark.parametrize(
    ("reason", "line"),
    [
        (JSON_WITHOUT_MESSAGE, '{"level": "info"}'),
        (JSON_WITHOUT_MESSAGE, '{"message": ["<181>2024-05-06T07:08:09.123Z esx01 vmkernel: x"]}'),
        (JSON_WITHOUT_HEAD, '{"host": "esx01", "short_message": "cpu1:1)NFS: 337: no time"}'),
        (JSON_WITHOUT_HEAD, '{"message": "SCSI: vm 1061: 5507: Sync CR at 48"}'),
        (JSON_WITHOUT_HEAD, '{"message": "--> }"}'),
        # wrapped twice: not unwrapped
        (JSON_WITHOUT_HEAD, json.dumps({"message": json.dumps({"message": WIRE[0]})})),
        (JSON_BROKEN, '{"message": "<181>2024-05-06T07:08:09.123Z esx01 vmk'),
        (JSON_BROKEN, '{"message": "\\ud800"}'),
        (JSON_BROKEN, '{"a": ' * 5000 + "1" + "}" * 5000),
        (JSON_BROKEN, '{"a": "' + "x" * (300 << 10) + '"}'),
        (JSON_BROKEN, '[{"message": "x"}, {"message": "y"}]'),
        (NO_PATTERN, "vmkernel.log:12:no head"),
        (NO_PATTERN, "vmkernel.log:12:SCSI: vm 1061: 5507: Sync CR at 48"),
    ],
)
def test_a_line_that_cannot_be_unwrapped_is_rejected_with_a_reason(
    tmp_path: Path, reason: str, line: str
) -> None:
    lines = [json.dumps({"message": each}) for each in WIRE]
    *_, record = replayed(tmp_path / "a.json", [*lines, line])
    assert record["reason"] == reason
    assert record["line"].startswith(line[:1000])


def test_a_head_in_the_text_of_a_program_is_no_head(tmp_path: Path) -> None:
    lines = [f"syslog-1  | {each}" for each in WIRE]
    forged = (
        "06.05.2024 07:08:09 esx09 agent: 2024-05-06T07:08:09Z esx01 vmkernel: cpu5:2)NFS: 337: x"
    )
    *_, record = replayed(tmp_path / "a.log", [*lines, forged])
    assert record["line"] == forged
    record, *_ = replayed(tmp_path / "b.log", [WIRE[0] + " " + WIRE[1], *lines])
    assert record["host"] == "esx01.lab"


def test_only_a_file_of_wrapped_lines_is_unwrapped(tmp_path: Path) -> None:
    """In a VM's log, a guest may write text that looks like another VM's line."""
    forged = "/vmfs/volumes/ds/other/vmware.log:" + vmware_log(count=1).decode().strip()
    content = vmware_log() + f'{forged}\n{{"message": "{forged}"}}\n'.encode()
    path = write(tmp_path / "esx01/vmfs/volumes/ds/web01/vmware.log", content)
    _, messages = read(path)
    assert {record["vm"] for _, _, record in messages} == {"web01"}
    reasons = [record["reason"] for topic, _, record in messages if topic == REJECTED]
    assert reasons == [NO_PATTERN, JSON]
    assert len([topic for topic, _, _ in messages if topic == BACKFILL]) == 4


def test_the_depth_of_unwrapping_is_bounded() -> None:
    line = WIRE[0]
    for _ in range(5):
        line = orjson.dumps({"message": line}).decode()
    (found,) = Unwrapper(Stamps(written_at=datetime.now(UTC))).unwrap(line)
    assert found.line.startswith('{"message":')
