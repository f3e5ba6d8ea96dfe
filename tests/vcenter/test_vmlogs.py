"""Reading a growing log, in memory: the result, and that nothing is read twice."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stunwatch.ingest.records import generation_of
from stunwatch.ingest.vcenter import vmlogs
from stunwatch.ingest.vcenter.fleet import Machine
from stunwatch.ingest.vcenter.session import Part
from stunwatch.ingest.vcenter.vmlogs import LOG, Log, Move, Position, find, poll

MACHINE = Machine(
    id="vm-42",
    name="sql01 (production)",
    host="esx01.lab.example",
    cluster="gold",
    datacenter="lab",
    datastore="san-01",
    log_folder="sql01",
    attributes={},
)
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


class MemoryFolder:
    """A datastore's folder that records every byte read from it."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.read_bytes: list[tuple[int, int]] = []
        """(number of the file since the first, offset) of every byte read."""
        self._born: dict[str, int] = {}
        self._files = 0

    def read(self, name: str, offset: int, most: int) -> Part | None:
        self.requests.append(name)
        if name not in self.files:
            return None
        data = self.files[name][offset : offset + most]
        born = self._born[name]
        self.read_bytes += [(born, at) for at in range(offset, offset + len(data))]
        return Part(data, len(self.files[name]))

    def numbers(self) -> list[int]:
        self.requests.append("")
        return [int(each[7:-4]) for each in self.files if each != LOG]

    def append(self, data: bytes) -> None:
        if LOG not in self.files:
            self._files += 1
            self._born[LOG] = self._files
        self.files[LOG] = self.files.get(LOG, b"") + data

    def rotate(self, number: int | None = None) -> None:
        if LOG not in self.files:
            return
        name = f"vmware-{number or max([0, *self.numbers()]) + 1}.log"
        self.files[name] = self.files.pop(LOG)
        self._born[name] = self._born.pop(LOG)


class Follower:
    """Polls a folder and keeps the data that was read, by file."""

    def __init__(self, folder: MemoryFolder) -> None:
        self.folder = folder
        self.position: Position | None = None
        self.told: dict[str, bytes] = {}

    def poll(self, *, look: bool = False, most_chunks: int = 1000) -> None:
        for chunk, _ in zip(
            poll(self.folder, self.position, look=look), range(most_chunks), strict=False
        ):
            content = b"".join(chunk.lines)
            assert len(self.told.get(chunk.generation, b"")) == chunk.offset
            assert not content or chunk.generation
            if content:
                self.told[chunk.generation] = self.told.get(chunk.generation, b"") + content
            self.position = chunk.position


def line(number: int, size: int = 0) -> bytes:
    text = f"2026-11-21T10:00:00.{number % 1000:03d}Z In(05) vmx - line {number} {'x' * size}"
    return text.encode() + b"\n"


def lines(numbers: Iterable[int]) -> bytes:
    return b"".join(map(line, numbers))


def generations(folder: MemoryFolder) -> dict[str, bytes]:
    """Return the data that must have been read: whole rotated files, whole lines of vmware.log."""
    wanted = {}
    for name, content in folder.files.items():
        whole = content[: content.rfind(b"\n") + 1] if name == LOG else content
        if whole:
            wanted[generation_of(whole.partition(b"\n")[0])] = whole
    return wanted


def test_a_poll_without_new_lines_is_one_request() -> None:
    folder = MemoryFolder()
    folder.append(lines(range(3)))
    follower = Follower(folder)
    follower.poll()
    folder.requests.clear()
    follower.poll()
    assert folder.requests == [LOG]


def test_new_lines_are_read_from_the_last_position() -> None:
    folder = MemoryFolder()
    folder.append(line(1))
    follower = Follower(folder)
    follower.poll()
    folder.append(line(2))
    folder.requests.clear()
    follower.poll()
    assert folder.requests == [LOG, "vmware-1.log"]
    assert follower.told == generations(folder)


def test_an_incomplete_line_is_completed_without_reading_it_again() -> None:
    folder = MemoryFolder()
    folder.append(line(1) + line(2)[:20])
    follower = Follower(folder)
    follower.poll()
    assert list(follower.told.values()) == [line(1)]
    folder.append(line(2)[20:])
    follower.poll()
    assert follower.told == generations(folder)
    assert len(folder.read_bytes) == len(set(folder.read_bytes))


def test_the_first_poll_does_not_read_rotated_logs() -> None:
    folder = MemoryFolder()
    folder.append(line(1))
    folder.rotate()
    folder.append(line(2))
    follower = Follower(folder)
    follower.poll()
    assert list(follower.told.values()) == [line(2)]


@pytest.mark.parametrize("look", [True, False])
def test_the_rest_of_a_rotated_log_comes_before_the_new_one(look: bool) -> None:
    folder = MemoryFolder()
    folder.append(line(1))
    follower = Follower(folder)
    follower.poll()
    folder.append(line(2))
    folder.rotate()
    folder.append(line(3))
    folder.rotate()
    folder.append(lines([4, 5, 6]))
    follower.poll(look=look)
    assert list(follower.told.values()) == [lines([1, 2]), line(3), lines([4, 5, 6])]


def test_a_new_log_larger_than_the_old_one_is_read_from_its_start() -> None:
    folder = MemoryFolder()
    folder.append(line(1))
    follower = Follower(folder)
    follower.poll()
    folder.rotate()
    folder.append(lines(range(2, 50)))
    follower.poll()
    assert follower.told == generations(folder)


def test_a_rotated_log_may_end_without_a_terminator() -> None:
    folder = MemoryFolder()
    folder.append(line(1) + b"2026-11-21T10:00:01Z| vmx| the end")
    follower = Follower(folder)
    follower.poll()
    folder.rotate()
    folder.append(line(2))
    follower.poll()
    assert follower.told == generations(folder)


def test_a_truncated_log_is_read_from_its_start() -> None:
    folder = MemoryFolder()
    folder.append(lines(range(10)))
    follower = Follower(folder)
    follower.poll()
    folder.files[LOG] = line(77)
    follower.poll()
    assert list(follower.told.values())[1:] == [line(77)]


def test_no_line_is_lost_when_the_numbers_of_logs_start_again() -> None:
    folder = MemoryFolder()
    for number in range(5):
        folder.append(line(number))
        folder.rotate()
    folder.append(lines(range(10, 14)))
    follower = Follower(folder)
    follower.poll()
    for number in range(1, 6):
        del folder.files[f"vmware-{number}.log"]
    folder.append(line(14))
    folder.rotate()
    folder.append(line(20))
    follower.poll()
    assert follower.told == generations(folder)


def test_a_missing_log_is_not_an_error() -> None:
    folder = MemoryFolder()
    follower = Follower(folder)
    follower.poll()
    assert follower.told == {}
    folder.append(line(1))
    follower.poll()
    folder.files.clear()
    follower.poll()
    folder.append(b"shorter\n")
    follower.poll()
    assert list(follower.told.values()) == [line(1), b"shorter\n"]


def test_a_log_is_continued_in_another_folder() -> None:
    old, new = MemoryFolder(), MemoryFolder()
    old.append(lines(range(3)))
    follower = Follower(old)
    follower.poll()
    assert follower.position is not None
    new.append(lines(range(4)))
    new.rotate(8)
    new.append(line(9))
    follower.folder, follower.position = new, find(new, follower.position)
    follower.poll()
    assert list(follower.told.values()) == [lines(range(4)), line(9)]


def test_a_log_missing_in_the_new_folder_starts_at_its_beginning() -> None:
    new = MemoryFolder()
    new.append(line(9))
    new.rotate(3)
    assert find(new, Position("feed", 100, 7)) == Position(rotated=3)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.integers(1, 90)),
            st.tuples(st.just("rotate"), st.just(0)),
            st.tuples(st.just("poll"), st.integers(0, 1)),
            st.tuples(st.just("break off"), st.integers(1, 3)),
        ),
        max_size=30,
    ),
    st.integers(5, 200),
)
def test_every_line_is_read_once_in_any_sequence_of_events(
    steps: list[tuple[str, int]], chunk_bytes: int
) -> None:
    text = b"".join(line(number, number % 17) for number in range(100))
    written = 0
    folder = MemoryFolder()
    follower = Follower(folder)
    follower.poll()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vmlogs, "CHUNK_BYTES", chunk_bytes)
        for step, number in steps:
            if step == "append":
                folder.append(text[written : written + number])
                written += number
            elif step == "rotate":
                folder.rotate()
            elif step == "poll":
                follower.poll(look=bool(number))
            else:
                follower.poll(most_chunks=number)
        # A new log of exactly the old one's size looks unchanged until it grows.
        follower.poll(look=True)
    assert follower.told == generations(folder)


def messages(
    log: Log, folder: MemoryFolder, machine: Machine = MACHINE, move: Move | None = None
) -> list[dict[str, object]]:
    return [
        record
        for chunk in poll(folder, log.position)
        for _, _, record in log.messages(chunk, machine, NOW, move)
    ]


def test_a_record_has_its_vm_file_and_offset() -> None:
    folder, log = MemoryFolder(), Log()
    folder.append(line(1) + b"\tand more of it\n" + b"what is this\n")
    made = [each for chunk in poll(folder, None) for each in log.messages(chunk, MACHINE, NOW)]
    assert [(topic, key) for topic, key, _ in made] == [
        *[("esxi.vmware_log", "san-01/sql01")] * 2,
        ("esxi.rejected", "san-01/sql01"),
    ]
    first, second, third = (record for *_, record in made)
    assert first == {
        "event_time": "2026-11-21T10:00:00.001Z",
        "received_at": "2026-11-21T12:00:00Z",
        "kind": "line",
        "source": "vmware_log",
        "program": "vmx",
        "host": "esx01.lab.example",
        "vm": "sql01",
        "datastore": "san-01",
        "severity": "info",
        "thread": "vmx",
        "head": "2026-11-21T10:00:00.001Z In(05) vmx - ",
        "message": "line 1 ",
        "file": "/vmfs/volumes/san-01/sql01/vmware.log",
        "generation": generation_of(line(1)),
        "offset": 0,
        "line_bytes": len(line(1)),
        "run_id": "live",
        "time_quality": "exact",
        "vm_name": "sql01 (production)",
        "vm_id": "vm-42",
    }
    assert second["event_time"] == first["event_time"]
    assert second["offset"] == first["line_bytes"]
    assert third["reason"] == "unknown line format"


def test_a_line_without_a_time_inherits_it_from_the_last_poll() -> None:
    folder, log = MemoryFolder(), Log()
    folder.append(line(1))
    [first] = messages(log, folder)
    folder.append(b"\tand more of it\n")
    [second] = messages(log, folder)
    assert second["event_time"] == first["event_time"]


def test_after_a_vmotion_the_rotated_log_belongs_to_the_old_host() -> None:
    folder, log = MemoryFolder(), Log()
    folder.append(line(1))
    messages(log, folder)
    folder.append(line(2))
    folder.rotate()
    folder.append(line(3, 10))
    there = replace(MACHINE, host="esx02.lab.example")
    move = Move("2026-11-21T09:00:00Z", "esx01.lab.example")
    hosts = [record["host"] for record in messages(log, folder, there, move)]
    assert hosts == ["esx01.lab.example", "esx02.lab.example"]


def test_without_a_rotation_the_time_of_the_move_decides_the_host() -> None:
    folder, log = MemoryFolder(), Log()
    folder.append(line(1))
    messages(log, folder)
    folder.append(line(2) + line(4))
    there = replace(MACHINE, host="esx02.lab.example")
    move = Move("2026-11-21T10:00:00.003Z", "esx01.lab.example")
    hosts = [record["host"] for record in messages(log, folder, there, move)]
    assert hosts == ["esx01.lab.example", "esx02.lab.example"]
