"""Published lines: the required ones are parsed, and no line is lost."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from stunwatch.ingest.records import decode
from stunwatch.ingest.replay import REJECTED, Options, Reading, SourceFile, plan

CORPUS = Path(os.environ.get("STUNWATCH_CORPUS") or Path(__file__).parents[3] / "shared" / "corpus")
MUST_PARSE = {"-", "seed", "hosted", "split"}
KINDS = {
    "vmware": "vmware_log",
    "vmkernel": "syslog",
    "syslog": "syslog",
    "vobd": "syslog",
    "hostd": "syslog",
    "esxtop": "esxtop",
}

pytestmark = pytest.mark.skipif(
    not (CORPUS / "INDEX.tsv").is_file(), reason="The published lines are not on this machine."
)


@pytest.fixture
def files() -> Iterator[dict[str, SourceFile]]:
    with plan([CORPUS], Options(vm="vm01")) as what:
        assert what.problems == []
        yield {
            str(Path(file.name).relative_to(CORPUS).with_suffix("")): file for file in what.files
        }


def lines_of(file: SourceFile) -> tuple[Reading, dict[int, dict[str, object]]]:
    """Return the records and rejections by line number."""
    numbers = {}
    offset = 0
    for number, raw in enumerate(file.path.read_bytes().split(b"\n"), 1):
        numbers[offset] = number
        offset += len(raw) + 1
    reading = Reading(file, "r1")
    found = {
        numbers[record["offset"]]: record
        for batch in reading
        for _, _, record in batch
        if record.get("kind") != "progress"
    }
    return reading, found


def test_the_kind_of_each_file_is_recognised(files: dict[str, SourceFile]) -> None:
    assert {name: file.kind for name, file in files.items() if name in KINDS} == KINDS


@pytest.mark.parametrize("name", sorted(set(KINDS) - {"esxtop"}))
def test_every_published_line_is_read_or_rejected_unchanged(
    files: dict[str, SourceFile], name: str
) -> None:
    rows = [row.split("\t") for row in (CORPUS / "INDEX.tsv").read_text().splitlines()[1:]]
    flags = {int(number): flag for kind, number, _, flag, _ in rows if kind == name}
    raw_lines = files[name].path.read_bytes().split(b"\n")
    reading, found = lines_of(files[name])
    assert found.keys() >= flags.keys()
    assert reading.lines_read == len(found) == len(raw_lines) - 1
    for number, record in found.items():
        if "reason" in record:
            text = str(record["line"])
            assert flags[number] not in MUST_PARSE, text
        else:
            text = str(record.get("head", "")) + str(record["message"])
        assert text == decode(raw_lines[number - 1])


def test_published_samples_in_pieces_are_all_read_or_rejected(
    files: dict[str, SourceFile],
) -> None:
    reading, found = lines_of(files["esxtop"])
    assert reading.lines_read == len(found)


@pytest.mark.parametrize(
    "name", [f"sequences/{path.stem}" for path in sorted(CORPUS.glob("sequences/*.log"))]
)
def test_published_sequences_have_no_rejected_line(files: dict[str, SourceFile], name: str) -> None:
    reading, _ = lines_of(files[name])
    assert reading.lines_rejected == 0
    assert reading.lines_read > 10


def test_the_times_of_a_count_down_span_its_real_duration(files: dict[str, SourceFile]) -> None:
    _, found = lines_of(files["sequences/esx35_sync_cr_two_hosts"])
    times = [
        datetime.fromisoformat(str(record["event_time"]))
        for record in found.values()
        if record["host"] == "esx_host2"
        and record.get("thread") in ("cpu0:1039", "cpu2:1039")
        and "Sync CR at" in str(record["message"])
    ][:5]
    assert (times[-1] - times[0]).total_seconds() == pytest.approx(3.895)


def test_a_given_year_applies_to_every_timestamp_without_one() -> None:
    options = Options(year=2011, vm="vm01")
    with plan([CORPUS / "sequences" / "ws7_memory_snapshot_bsd_ms.log"], options) as what:
        reading = Reading(what.files[0], "r1", options)
        records = [record for batch in reading for topic, _, record in batch if topic != REJECTED]
    assert records[0]["event_time"] == "2011-02-06T19:11:34.331Z"
    assert {record["time_quality"] for record in records} == {"year_inferred"}
