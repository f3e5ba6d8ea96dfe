"""Every line of a file becomes a message, and the counts match."""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from jsonschema import Draft202012Validator
from trees import esxtop, hostd, tgz, vmkernel, vmware_log, write

from stunwatch.ingest.records import MAX_LINE_BYTES, generation_of
from stunwatch.ingest.replay import (
    BACKFILL,
    ESXTOP,
    REJECTED,
    Message,
    Options,
    Reading,
    plan,
    records,
)
from stunwatch.ingest.times import UptimeClock

SCHEMAS = Path(__file__).parents[2] / "schemas"
NOW = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)


def read(path: Path, **options: Any) -> tuple[Reading, list[Message]]:
    """Return the reading and the messages of a file; check counts and schemas.

    If the path does not show a VM, pass `vm`.
    """
    with plan([path], Options(**options)) as what:
        (file,) = what.files
        reading = Reading(file, "r1", Options(**options), now=lambda: NOW)
        messages = [message for batch in reading for message in batch]
    assert reading.lines_read == reading.lines_accepted + reading.lines_rejected
    for topic, _, record in messages:
        name = {BACKFILL: "log_line", ESXTOP: "esxtop_row", REJECTED: "rejected_line"}[topic]
        validator(name).validate(orjson.loads(orjson.dumps(record)))
    return reading, messages


def validator(name: str) -> Draft202012Validator:
    schema = json.loads((SCHEMAS / f"{name}.v1.schema.json").read_text(encoding="utf-8"))
    return Draft202012Validator(schema)


def test_the_last_message_of_a_log_is_its_progress_record(tmp_path: Path) -> None:
    content = vmware_log(count=2)
    path = write(tmp_path / "esx01/vmfs/volumes/ds/web01/vmware.log", content)
    reading, messages = read(tmp_path)
    assert [(topic, key, record["kind"]) for topic, key, record in messages] == [
        (BACKFILL, "ds/web01", "line"),
        (BACKFILL, "ds/web01", "line"),
        (BACKFILL, "ds/web01", "progress"),
    ]
    first, second = (record for _, _, record in messages[:2])
    line_bytes = len(content) // 2
    assert (first["offset"], first["line_bytes"]) == (0, line_bytes)
    assert (second["offset"], second["line_bytes"]) == (line_bytes, line_bytes)
    assert messages[-1][2] == {
        "event_time": "2024-05-06T07:08:01.123Z",
        "received_at": "2026-01-02T03:04:05.678000Z",
        "kind": "progress",
        "source": "vmware_log",
        "program": "vmx",
        "host": "esx01",
        "vm": "web01",
        "datastore": "ds",
        "file": str(path),
        "generation": generation_of(content.partition(b"\r\n")[0]),
        "offset": len(content),
        "run_id": "r1",
        "time_quality": "exact",
    }
    assert (reading.lines_read, reading.lines_accepted, reading.records) == (2, 2, 2)
    assert reading.bytes_read == reading.consumed_bytes == len(content)
    assert reading.problem is None


def test_vms_with_one_name_on_the_local_disks_of_two_hosts_are_two_vms(tmp_path: Path) -> None:
    for host in ("esx01", "esx02"):
        write(tmp_path / host / "vmfs/volumes/datastore1/web01/vmware.log", vmware_log(count=1))
    with plan([tmp_path], Options()) as what:
        made = [message for file in what.files for message in records(file, "r1")]
    assert {(key, record["datastore"], record["host"]) for _, key, record in made} == {
        (f"datastore1 ({host})/web01", f"datastore1 ({host})", host) for host in ("esx01", "esx02")
    }


def test_messages_can_be_iterated_one_by_one(tmp_path: Path) -> None:
    write(tmp_path / "esx01" / "vmkernel.log", vmkernel(count=2))
    with plan([tmp_path]) as what:
        kinds = [record["kind"] for _, _, record in records(what.files[0], "r1")]
    assert kinds == ["line", "line", "progress"]


def test_every_physical_line_is_counted(tmp_path: Path) -> None:
    lines = [b"", b"junk", vmkernel(count=1).rstrip(), b"", b"\tgoes on", b"--> and on", b"end"]
    reading, messages = read(write(tmp_path / "vmkernel.log", b"\n".join(lines)))
    assert (reading.lines_read, reading.lines_accepted, reading.lines_rejected) == (7, 4, 3)
    assert Counter(topic for topic, _, _ in messages) == {BACKFILL: 5, REJECTED: 3}
    offsets = [record["offset"] for _, _, record in messages[:-1]]
    assert offsets == sorted(set(offsets))
    assert messages[-1][2]["offset"] == len(b"\n".join(lines))


def test_the_progress_record_has_the_latest_time_not_the_last(tmp_path: Path) -> None:
    content = vmware_log(day=9, count=2) + vmware_log(day=3, count=1)
    _, messages = read(write(tmp_path / "x.log", content), vm="web01")
    assert messages[-1][2]["event_time"] == "2024-05-09T07:08:01.123Z"


def test_a_file_without_times_gets_its_modification_time(tmp_path: Path) -> None:
    path = write(tmp_path / "vmkernel.log", b"vmkernel: 1:02:03:04.567 cpu0:1)x\n")
    _, messages = read(path)
    found = [(record["event_time"], record["time_quality"]) for _, _, record in messages]
    assert found == [("2024-06-30T12:00:00Z", "arrival")] * 2


def test_a_file_with_only_rejected_lines_has_a_progress_record(tmp_path: Path) -> None:
    _, messages = read(write(tmp_path / "a.log", b"prose\n"))
    assert [record.get("kind") for _, _, record in messages] == [None, "progress"]


def test_each_host_and_vm_in_a_syslog_servers_file_has_a_progress_record(tmp_path: Path) -> None:
    line = b"<14>2024-05-06T07:08:0%dZ %s vobd: x\n"
    vm = b"<14>2024-05-06T07:08:05Z esx01 web01: vcpu-0 - Checkpoint_Unstun: vm stopped for 9 us\n"
    content = line % (1, b"esx01") + line % (2, b"esx02") + line % (3, b"esx01") + vm
    _, messages = read(write(tmp_path / "all.log", content))
    ends = [(key, record) for _, key, record in messages if record["kind"] == "progress"]
    assert [key for key, _ in ends] == ["esx01", "esx02", "/web01"]
    assert {record["event_time"] for _, record in ends} == {"2024-05-06T07:08:05Z"}
    assert ends[2][1]["source"] == "vmware_log"
    assert (ends[2][1]["host"], ends[2][1]["vm"]) == ("esx01", "web01")


def test_an_esxtop_file_gives_samples_and_rejections_with_counts(tmp_path: Path) -> None:
    content = esxtop(rows=2) + b'"05/06/2021 07:08:10"\n' + esxtop("esx02", rows=1)
    reading, messages = read(write(tmp_path / "run.csv", content))
    assert [(topic, key) for topic, key, _ in messages] == [
        (ESXTOP, "esx01"),
        (ESXTOP, "esx01"),
        (REJECTED, "esx01"),
        (ESXTOP, "esx02"),
    ]
    # A header does not count as a line.
    assert (reading.lines_read, reading.lines_rejected, reading.records) == (4, 1, 3)
    first = messages[0][2]
    row = content.split(b"\n")[1]
    assert content[first["offset"] :].startswith(row + b"\n")
    assert first["line_bytes"] == len(row) + 1


def test_options_reach_the_records(tmp_path: Path) -> None:
    path = write(tmp_path / "a.log", b"Dec 31 23:00:00.000: vmx| a\nJan 01 01:00:00.000: vmx| b\n")
    _, messages = read(path, year=2009, vm="web01", datastore="ds")
    assert [record["event_time"][:4] for _, _, record in messages] == ["2009", "2010", "2010"]
    assert {key for _, key, _ in messages} == {"ds/web01"}
    _, messages = read(path, vm="web01")
    assert [record["event_time"][:4] for _, _, record in messages] == ["2023", "2024", "2024"]
    assert {record["time_quality"] for _, _, record in messages} == {"year_inferred"}


def test_a_bundle_and_its_folder_give_the_same_lines(tmp_path: Path) -> None:
    members = {
        "esx01/vmkernel.log": vmkernel(),
        "esx01/hostd.0.gz": gzip.compress(hostd()),
        "esx01/vmfs/volumes/ds/web01/vmware.log": vmware_log(),
    }
    for name, content in members.items():
        write(tmp_path / "folder" / name, content)
    write(tmp_path / "bundle.tgz", tgz(members))
    found = []
    for path in (tmp_path / "folder", tmp_path / "bundle.tgz"):
        with plan([path]) as what:
            found.append(
                [
                    (
                        topic,
                        key,
                        {k: v for k, v in record.items() if k not in {"file", "received_at"}},
                    )
                    for file in what.files
                    for topic, key, record in records(file, "r1")
                ]
            )
            assert all("tgz!" in file.name or path.is_dir() for file in what.files)
    assert found[0] == found[1]


# Invalid input


def test_a_binary_file_becomes_one_rejection(tmp_path: Path) -> None:
    content = b"\x7fELF\x02\x01\0\0" + os.urandom(99_999)
    reading, messages = read(write(tmp_path / "a.bin", content))
    ((topic, _, record),) = messages
    assert (topic, record["reason"], record["source"]) == (REJECTED, "binary data", "unknown")
    assert record["line"] == content[:1024].decode("latin-1")
    assert record["line_bytes"] == len(content)
    assert reading.lines_read == reading.lines_rejected == 1


def test_a_line_of_ten_megabytes_is_truncated(tmp_path: Path) -> None:
    content = vmware_log(count=1)[:-2] + b"x" * 10_000_000 + b"\n" + vmware_log(day=7, count=1)
    reading, messages = read(write(tmp_path / "a.log", content), vm="web01")
    long, after = (record for _, _, record in messages[:2])
    assert len(long["head"] + long["message"]) == MAX_LINE_BYTES
    assert long["truncated"] is True
    assert after["offset"] == long["line_bytes"] == content.index(b"\n") + 1
    assert reading.lines_accepted == 2


def test_an_unknown_line_of_ten_megabytes_is_rejected_and_truncated(tmp_path: Path) -> None:
    reading, messages = read(
        write(tmp_path / "a.log", vmkernel(count=1) + b"x" * 10_000_000 + b"\n" + vmkernel(count=1))
    )
    assert (reading.lines_accepted, reading.lines_rejected) == (2, 1)
    rejected = next(record for topic, _, record in messages if topic == REJECTED)
    assert rejected["truncated"] is True
    assert rejected["line_bytes"] == 10_000_001


def test_a_line_that_is_not_utf8_is_read_as_latin1(tmp_path: Path) -> None:
    content = vmware_log(count=1).rstrip() + b" B\xfcro\n" + b"\xff\xfe\n"
    _, messages = read(write(tmp_path / "a.log", content), vm="web01")
    assert messages[0][2]["message"].endswith(" Büro")
    assert messages[1][2]["line"] == "ÿþ"


def test_a_truncated_gzip_is_read_up_to_the_cut(tmp_path: Path) -> None:
    packed = gzip.compress(vmkernel(count=60) + os.urandom(50_000).hex().encode())
    reading, messages = read(write(tmp_path / "vmkernel.1.gz", packed[:-20_000]))
    assert reading.lines_accepted == 60
    assert reading.problem is not None
    assert "truncated" in reading.problem.sentence
    assert messages[-1][2]["kind"] == "progress"
    assert messages[-1][2]["offset"] == reading.bytes_read


def test_a_file_deleted_after_planning_is_reported(tmp_path: Path) -> None:
    path = write(tmp_path / "vmkernel.log", vmkernel())
    with plan([path]) as what:
        path.unlink()
        reading = Reading(what.files[0], "r1")
        assert [record["kind"] for batch in reading for _, _, record in batch] == ["progress"]
    assert reading.problem is not None
    assert reading.problem.sentence == "it cannot be read: no such file or directory"


@pytest.mark.parametrize("nuls", [1, 4_096, 300_000, 3_000_000])
def test_nuls_around_a_line_do_not_belong_to_it(tmp_path: Path, nuls: int) -> None:
    """A log that was copied and truncated while it was written begins with NULs."""
    line = vmkernel(count=1)
    content = b"\0" * nuls + line.rstrip() + b"\0" * 100 + b"\n" + b"\0" * nuls + line
    reading, messages = read(write(tmp_path / "vmkernel.log", content))
    lines = [message for _, _, message in messages if message["kind"] == "line"]
    assert [each["message"] for each in lines] == ["Vol3: 731: line 0"] * 2
    first_bytes = nuls + len(line) + 100
    assert [(each["offset"], each["line_bytes"]) for each in lines] == [
        (0, first_bytes),
        (first_bytes, nuls + len(line)),
    ]
    assert reading.bytes_read == len(content)
    assert {each["generation"] for each in lines} == {generation_of(line)}


def test_files_of_one_host_share_an_uptime_anchor(tmp_path: Path) -> None:
    folder = tmp_path / "esx01"
    folder.mkdir()
    # Timestamp and uptime do not change their second at the same moment.
    (folder / "vmkernel.1").write_text(
        "Apr 27 10:16:27 esx01 vmkernel: 110:04:49:19.318 cpu0:1039)SCSI: vm 1039: 9: a\n"
    )
    (folder / "vmkernel").write_text(
        "Apr 27 10:16:28 esx01 vmkernel: 110:04:49:19.918 cpu0:1039)SCSI: vm 1039: 9: b\n"
    )
    uptimes = UptimeClock()
    with plan([folder], Options(year=2010)) as what:
        times = [
            record["event_time"]
            for file in what.files
            for batch in Reading(file, "r1", Options(year=2010), uptimes=uptimes)
            for _, _, record in batch
            if record["kind"] == "line"
        ]
    assert times == ["2010-04-27T10:16:27.318Z", "2010-04-27T10:16:27.918Z"]
