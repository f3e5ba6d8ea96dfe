"""A replay sends the lines of each log key in the order of their time, over all its files."""

from __future__ import annotations

import gzip
import os
import random
import resource
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stunwatch.ingest.replay import BACKFILL, ESXTOP, REJECTED, Message, Options, Reading, plan
from stunwatch.ingest.replay.in_order import HELD_BACK, MOST_HELD_BYTES, MOST_OPEN, InOrder
from stunwatch.ingest.replay.sources import SourceFile
from stunwatch.ingest.replay.streams import Problem
from stunwatch.ingest.times import UptimeClock

START = datetime(2024, 5, 6, 7, 0, tzinfo=UTC)


def moment(second: float) -> str:
    at = START + timedelta(seconds=second)
    text = at.isoformat(timespec="seconds" if second == int(second) else "milliseconds")
    return text.replace("+00:00", "Z")


def line(second: float, text: str, host: str = "esx1") -> str:
    return f"{moment(second)} In(182) vmkernel: cpu3:2097{text}){host}"


def messages_of(root: Path) -> list[Message]:
    """Read a folder; check that every file is counted once."""
    uptimes = UptimeClock()
    with plan([root], Options()) as what:
        assert not what.problems
        files = InOrder(what.files, lambda file: Reading(file, "r1", Options(), uptimes=uptimes))
        found = [message for part in files for message in part]
        assert sorted(file.name for file, _ in files.begun) == sorted(
            each.name for each in what.files
        )
        assert files.consumed_bytes == what.size_bytes
    return found


def lines_of(found: list[Message]) -> list[tuple[str, str]]:
    lines = [record for _, _, record in found if record["kind"] == "line"]
    return [(record["event_time"], record["message"]) for record in lines]


def ends_of(found: list[Message]) -> list[tuple[str, str, str]]:
    return [
        (topic, key, record["event_time"])
        for topic, key, record in found
        if record["kind"] == "progress"
    ]


def write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{each}\n" for each in lines).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


def test_rotated_files_and_logs_of_one_host_are_merged(tmp_path: Path) -> None:
    folder = tmp_path / "esx1.lab.example"
    write(folder / "vmkernel.1.gz", [line(second, "001") for second in range(0, 100, 2)])
    write(folder / "vmkernel.0.gz", [line(second, "002") for second in range(100, 200, 2)])
    write(folder / "vmkernel.log", [line(second, "003") for second in range(200, 300, 2)])
    write(folder / "vobd.log", [line(second + 0.5, "004") for second in range(1, 300, 3)])
    found = messages_of(tmp_path)
    times = [time.removesuffix("Z") for time, _ in lines_of(found)]
    assert times == sorted(times)
    assert len(times) == 250
    # A rotation ends nothing: one progress record, after the last line.
    assert ends_of(found) == [(BACKFILL, "esx1", moment(298.5))]
    assert found[-1][2]["kind"] == "progress"


@pytest.mark.parametrize("name", ["export.csv", "export.csv.gz"])
@pytest.mark.parametrize("stamp", ["", "%b %d %H:%M:%S"], ids=["with years", "without years"])
def test_an_export_that_is_newest_first_is_read_from_its_end(
    tmp_path: Path, name: str, stamp: str
) -> None:
    """As Splunk, Kibana and Graylog sort it, beside a log of the same host over a year's end."""
    newyear = datetime(2023, 1, 1, tzinfo=UTC)
    times = [newyear + timedelta(seconds=second) for second in range(-6_000, 6_000)]
    rows = ['"_raw","_time"']
    for at in reversed(times):
        shown = at.strftime(stamp) if stamp else f"{at:%Y-%m-%dT%H:%M:%S}.000Z"
        rows.append(f'"<14>{shown} esx1 vmkernel: cpu1:2)line {at:%d.%H:%M:%S}","{at:%H:%M:%S}"')
    write(tmp_path / name, rows)
    os.utime(tmp_path / name, (newyear.timestamp() + 90_000, newyear.timestamp() + 90_000))
    write(
        tmp_path / "all.log",
        [f"<14>{at:%Y-%m-%dT%H:%M:%SZ} esx1 vmkernel: cpu1:2)x" for at in times[::7]],
    )
    found = [record for _, _, record in messages_of(tmp_path) if record.get("kind") == "line"]
    found_times = [record["event_time"][:19] for record in found]
    assert found_times == sorted(found_times)
    exported = [record for record in found if record["message"] != "x"]
    assert [f"line {at:%d.%H:%M:%S}" for at in times] == [each["message"] for each in exported]
    assert [f"{at:%Y-%m-%dT%H:%M:%S}" for at in times] == [
        each["event_time"][:19] for each in exported
    ]
    offsets = [each["offset"] for each in exported]
    assert offsets == sorted(offsets)
    assert offsets[0] == 0


def test_an_export_that_is_cut_off_is_read_from_its_end(tmp_path: Path) -> None:
    seconds = range(9_000, 0, -1)
    write(tmp_path / "export.log.gz", [line(second, f"{second}") for second in seconds])
    whole = (tmp_path / "export.log.gz").read_bytes()
    (tmp_path / "export.log.gz").write_bytes(whole[: len(whole) // 2])
    with plan([tmp_path], Options()) as what:
        [file] = what.files
        reading = Reading(file, "r1", Options())
        found = [message for part in reading for message in part]
    times = [time.removesuffix("Z") for time, _ in lines_of(found)]
    assert times == sorted(times)
    assert len(times) > 1_000
    assert reading.problem is not None
    assert "is truncated" in reading.problem.sentence


def test_files_of_a_relay_mix_hosts(tmp_path: Path) -> None:
    for day in (2, 1):
        lines = [
            f"<14>{moment(day * 1000 + second)} esx{second % 5}.lab.example vmkernel: cpu1:2)x"
            for second in range(50)
        ]
        write(tmp_path / f"remote-{'ab'[day % 2]}.log", lines)
    found = messages_of(tmp_path)
    times = [time for time, _ in lines_of(found)]
    assert times == sorted(times)
    assert {key for _, key, _ in ends_of(found)} == {f"esx{number}" for number in range(5)}
    assert len(ends_of(found)) == 5


def test_the_end_of_a_hosts_samples_is_told(tmp_path: Path) -> None:
    counter = r"\\esx1\Physical Disk SCSI Device(naa.1)\Average Driver MilliSec/Command"
    header = f'"(PDH-CSV 4.0) (UTC)(0)","{counter}"'
    for name, first in (("b.csv", 100), ("a.csv", 0)):
        rows = [
            f'"{START + timedelta(seconds=first + 5 * number):%m/%d/%Y %H:%M:%S}","3.0"'
            for number in range(10)
        ]
        write(tmp_path / "esx1" / name, [header, *rows])
    found = messages_of(tmp_path)
    samples = [record["event_time"] for topic, _, record in found[:-1] if topic == ESXTOP]
    assert samples == sorted(samples)
    assert len(samples) == 20
    topic, key, end = found[-1]
    assert (topic, key, end["kind"], end["event_time"]) == (ESXTOP, "esx1", "progress", samples[-1])
    assert end["source"] == "esxtop"


def test_thousands_of_files_of_one_host_do_not_exhaust_file_descriptors(tmp_path: Path) -> None:
    hours = list(range(600))
    random.Random(3).shuffle(hours)
    for number, hour in enumerate(hours):
        lines = [line(hour * 3600 + second, "001") for second in (0, 1)]
        write(tmp_path / "esx1" / f"vmkernel-{number}.log.gz", lines)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, limits[1]))
    try:
        found = messages_of(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    times = [time for time, _ in lines_of(found)]
    assert times == sorted(times)
    assert len(times) == 1200


def test_long_lines_are_not_read_far_ahead(tmp_path: Path) -> None:
    files, each_file, long = 3, 300, 60_000
    for number in range(files):
        lines = [line(second + number / 4, "x" * long) for second in range(each_file)]
        write(tmp_path / "esx1" / f"vmkernel.{number}.log", lines)
    delivered, times = 0, []
    with plan([tmp_path], Options()) as what:
        in_order = InOrder(what.files, lambda file: Reading(file, "r1"))
        for part in in_order:
            part_bytes = sum(len(record.get("message", "")) for _, _, record in part)
            assert part_bytes < (files + 2) * MOST_HELD_BYTES
            delivered += part_bytes
            ahead = sum(reading.bytes_read for _, reading in in_order.begun) - delivered
            assert ahead < files * 1.5 * MOST_HELD_BYTES
            times += [record["event_time"] for _, _, record in part if record["kind"] == "line"]
    assert len(times) == files * each_file
    assert [_without_zone(each) for each in times] == sorted(map(_without_zone, times))


# -- Any files


@dataclass
class Made:
    """A reading of made-up messages."""

    batches: list[list[Message]]
    lines_read: int = 0
    bytes_read: int = 0
    consumed_bytes: int = 0
    problem: Problem | None = None

    def __iter__(self) -> Iterator[list[Message]]:
        for batch in self.batches:
            self.bytes_read += len(batch)
            yield batch


def source(name: str, host: str | None, first: str) -> SourceFile:
    return SourceFile(
        path=Path(name),
        name=name,
        kind="syslog",
        host=host,
        vm=None,
        datastore=None,
        generation=name,
        size_bytes=1,
        written_at=START,
        first_event_time=first,
    )


def batches_of(name: str, seconds: list[int]) -> list[list[Message]]:
    messages: list[Message] = []
    for number, second in enumerate(seconds):
        text = f"{name}:{number}"
        if second % 7 == 0:
            messages.append((REJECTED, "esx1", {"kind": "line", "message": text, "reason": "x"}))
            continue
        record = {"kind": "line", "message": text, "event_time": moment(second / 4)}
        messages.append((BACKFILL, f"esx{second % 2}", record))
    parts = [messages[at : at + 5] for at in range(0, len(messages), 5)]
    last = moment(max(seconds) / 4)
    keys = {key for topic, key, _ in messages if topic == BACKFILL}
    ends = [(BACKFILL, key, {"kind": "progress", "event_time": last}) for key in sorted(keys)]
    return [*parts, ends]


@given(
    st.lists(st.lists(st.integers(0, 400), min_size=1, max_size=40), min_size=1, max_size=6),
    st.sampled_from([1, 7, HELD_BACK]),
    st.sampled_from([1, 3, MOST_OPEN]),
    st.sampled_from([1, 20, MOST_HELD_BYTES]),
)
def test_no_message_is_lost_and_lines_are_in_order(
    contents: list[list[int]], held_back: int, most_open: int, held_bytes: int
) -> None:
    made = {f"f{number}": batches_of(f"f{number}", each) for number, each in enumerate(contents)}
    files = [
        source(name, None, moment(contents[number][0] / 4)) for number, name in enumerate(made)
    ]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("stunwatch.ingest.replay.in_order.HELD_BACK", held_back)
        patched.setattr("stunwatch.ingest.replay.in_order.MOST_OPEN", most_open)
        patched.setattr("stunwatch.ingest.replay.in_order.MOST_HELD_BYTES", held_bytes)
        found = [
            message
            for part in InOrder(files, lambda file: Made(made[file.name]))
            for message in part
        ]
    sent = [message for batches in made.values() for part in batches[:-1] for message in part]
    count = len(sent)
    told = Counter(record["message"] for _, _, record in found[:count])
    assert told == Counter(record["message"] for _, _, record in sent)
    # One progress record for each log key, after all lines, with its newest time.
    newest: dict[str, str] = {}
    for batches in made.values():
        for _, key, record in batches[-1]:
            newest[key] = max(newest.get(key, ""), record["event_time"], key=_without_zone)
    ends = {key: record["event_time"] for _, key, record in found[count:]}
    assert len(found) == count + len(ends)
    assert ends == newest
    limits = most_open, held_back, held_bytes
    if limits == (MOST_OPEN, HELD_BACK, MOST_HELD_BYTES) and _starts_are_first(contents):
        lines = [record for _, _, record in found[:count] if "event_time" in record]
        times = [_without_zone(record["event_time"]) for record in lines]
        assert times == sorted(times)


def _without_zone(time: str) -> str:
    return time.removesuffix("Z")


def _starts_are_first(contents: list[list[int]]) -> bool:
    """True if each file begins with its oldest line, so that it is opened in time."""
    return all(each[0] == min(each) and each[0] % 7 for each in contents)
