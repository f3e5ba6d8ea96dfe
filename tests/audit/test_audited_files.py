"""Finds missing bytes of files, and the ranges to send again."""

from __future__ import annotations

import bz2
import gzip
import lzma
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stunwatch.audit.events import CHECKS, Slots, spans
from stunwatch.audit.files import Finder, StoredFile
from stunwatch.audit.repair import MARGIN_US, QUIET_US, Lines, Part, lines_of, ranges_around
from stunwatch.ingest.records import generation_of
from stunwatch.ingest.replay import Options, Reading, plan
from stunwatch.ingest.times import UptimeClock

SECOND_US = 1_000_000
HOUR_US = 3600 * SECOND_US
TEXT = "".join(
    f"2018-06-01T{hour:02}:{minute:02}:00.000Z| vmx| I120: note {hour} {minute}\n"
    for hour in range(12)
    for minute in range(60)
)


def stored(path: Path, bytes_to: int, text: str = TEXT) -> StoredFile:
    generation = generation_of(text.encode().partition(b"\n")[0])
    return StoredFile(generation, str(path), "", "", "", "", bytes_to, ())


def test_a_complete_file_has_no_gaps(tmp_path: Path) -> None:
    path = tmp_path / "vmware.log"
    path.write_text(TEXT)
    found = Finder().measure(stored(path, len(TEXT)))
    assert (found.path, found.size, found.gaps) == (path, len(TEXT), ())


def test_bytes_after_the_last_stored_line_are_missing(tmp_path: Path) -> None:
    path = tmp_path / "vmware.log"
    path.write_text(TEXT + "a line that is still being wr")
    found = Finder().measure(stored(path, 500))
    assert found.gaps == ((500, len(TEXT)),)
    assert found.gap_bytes == len(TEXT) - 500


def test_a_line_that_is_still_being_written_is_not_missing(tmp_path: Path) -> None:
    path = tmp_path / "vmware.log"
    path.write_text(TEXT + "a line that is still being wr")
    assert not Finder().measure(stored(path, len(TEXT))).gaps


PACKED = {
    "vmware-7.log": bytes,
    "vmware.log.gz": gzip.compress,
    "vmware.log.xz": lzma.compress,
    "vmware.log.bz2": bz2.compress,
    "vmware.txt": lambda text: b"\xff\xfe" + text.decode().encode("utf-16-le"),
}


@pytest.mark.parametrize("name", PACKED)
def test_a_rotated_file_is_found_by_its_first_line(tmp_path: Path, name: str) -> None:
    (tmp_path / "vmware.log").write_text("2019-01-01T00:00:00.000Z| vmx| I120: another\n")
    (tmp_path / name).write_bytes(PACKED[name](TEXT.encode()))
    found = Finder().measure(stored(tmp_path / "vmware.log", len(TEXT) - 10))
    assert found.path == tmp_path / name
    assert found.gaps == ((len(TEXT) - 10, len(TEXT)),)


def test_a_repeated_esxtop_header_is_not_missing(tmp_path: Path) -> None:
    header, row = '"(PDH-CSV 4.0) (UTC)(0)","x"\n', '"02/03/2024 04:05:06","3.5"\n'
    text = header + row * 3 + header + row * 3
    path = tmp_path / "esxtop.csv"
    path.write_text(text)
    again = len(header) + 3 * len(row)
    lost = (again + len(header), again + len(header) + len(row))
    file = replace(stored(path, len(text), text), source="esxtop", gaps=((again, lost[0]), lost))
    assert Finder().measure(file).gaps == (lost,)


def test_a_file_that_is_not_on_this_machine_is_not_measured(tmp_path: Path) -> None:
    found = Finder().measure(stored(tmp_path / "no/such/vmware.log", 10))
    assert (found.path, found.size, found.gaps) == (None, None, ())


def test_a_member_of_an_archive_is_found_in_the_archive(tmp_path: Path) -> None:
    bundle = tmp_path / "esx-esx01-2024-05-06.tgz"
    bundle.write_bytes(b"x")
    assert Finder().measure(stored(Path(f"{bundle}!var/log/vmkernel.log"), 10)).path == bundle


def every_second(count: int, pauses: dict[int, int]) -> Lines:
    """Return lines of 10 bytes, one second apart, with longer pauses (s) before some."""
    lines, at_us = Lines(end=count * 10), 0
    for number in range(count):
        at_us += pauses.get(number, 1) * SECOND_US
        lines.offsets.append(number * 10)
        lines.times.append(at_us)
    return lines


def test_a_range_has_a_margin_and_ends_at_a_silence() -> None:
    lines = every_second(40_000, {10_000: 90, 30_000: 90})
    [(start, end)] = ranges_around(lines, [(200_000, 200_010)])
    # Three hours are 10,800 lines. Both silences are nearer than that, so the range does not end
    # there.
    assert (start, end) == (0, 400_000)
    lines = every_second(60_000, {10_000: 90, 50_000: 90})
    assert ranges_around(lines, [(300_000, 300_010)]) == [(100_000, 500_000)]


def test_overlapping_ranges_are_merged() -> None:
    lines = every_second(100, {})
    assert ranges_around(lines, [(100, 110), (500, 520)]) == [(0, 1000)]


def test_a_gap_without_lines_yields_no_range() -> None:
    assert not ranges_around(every_second(10, {}), [(500, 600)])


@given(
    st.lists(st.integers(0, 7_200), min_size=1, max_size=60),
    st.integers(0, 59),
    st.integers(1, 9),
)
def test_a_range_contains_the_gap_and_ends_at_silences(
    pauses: list[int], first: int, length: int
) -> None:
    lines = every_second(len(pauses), dict(enumerate(pauses)))
    gap = (first * 10, (first + length) * 10)
    for start, end in ranges_around(lines, [gap]):
        places = [place for place, offset in enumerate(lines.offsets) if start <= offset < end]
        assert start <= gap[0]
        assert end >= min(gap[1], lines.end)
        if places[0]:
            silence_us = lines.times[places[0]] - lines.times[places[0] - 1]
            assert silence_us >= QUIET_US
            assert lines.times[places[0] - 1] < lines.times[first] - MARGIN_US
        if places[-1] + 1 < len(pauses):
            assert lines.times[places[-1] + 1] - lines.times[places[-1]] >= QUIET_US


def test_a_part_yields_the_same_records_as_the_whole_file(tmp_path: Path) -> None:
    """Only the progress differs: its time is that of the last line yielded."""
    log = tmp_path / "vmware.log"
    text = TEXT.replace("note 3 7\n", "note 3 7\n  an indented line without a stamp\n")
    log.write_text(text)
    with plan([log], Options(host="esx01", vm="vm01", datastore="ds")) as what:
        [source] = what.files
        whole = [message for messages in Reading(source, "r") for message in messages]
        start = text.index("  an indented")
        end = text.index("2018-06-01T04:00")
        part = Part(source, "r", Options(), UptimeClock(), [(start, end)])
        handed_on = [message for messages in part for message in messages]
    *lines, (_, _, progress) = handed_on
    plain = [strip(record) for _, _, record in lines]
    assert plain == [
        strip(record)
        for _, _, record in whole
        if record["kind"] == "line" and start <= record["offset"] < end
    ]
    assert lines[0][2]["event_time"] == "2018-06-01T03:07:00.000Z"
    assert progress["kind"] == "progress"
    assert progress["event_time"] == "2018-06-01T03:59:00.000Z"
    assert part.lines_read == 53
    assert part.bytes_read == len(text)


def strip(record: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in record.items() if name != "received_at"}


def test_lines_of_returns_offsets_and_times(tmp_path: Path) -> None:
    log = tmp_path / "vmware.log"
    log.write_text(TEXT)
    with plan([log], Options(vm="vm01")) as what:
        lines = lines_of(what.files[0], Options())
    assert len(lines.offsets) == len(lines.times) == 720
    assert lines.times[60] - lines.times[0] == HOUR_US
    assert lines.end == len(TEXT)


SIZES = st.dictionaries(st.integers(-20, 300_000), st.integers(1, 100), max_size=40)
HOURLY = Slots(60, 120)


@given(SIZES, st.integers(1, 200), st.sampled_from([*CHECKS.values()]))
def test_time_is_divided_into_spans_of_limited_size(
    sizes: dict[int, int], most: int, slots: Slots
) -> None:
    """The spans cover all of time once. Including its margins, none has too many rows."""
    found = spans(sizes, slots, rows_at_once=most)
    times = sorted({(each.first_at, each.end_at) for each in found})
    assert (times[0][0][:4], times[-1][1][:4]) == ("1900", "2290")
    assert all(end_at == first_at for (_, end_at), (first_at, _) in pairwise(times))
    for first_at, end_at in times:
        same = [each for each in found if each.first_at == first_at]
        assert [each.bucket for each in same] == [*range(same[0].buckets)]
        first, end = (
            datetime.fromisoformat(each).replace(tzinfo=UTC).timestamp() / 60
            for each in (first_at, end_at)
        )
        rows = sum(
            count
            for slot, count in sizes.items()
            if first - slots.margin_minutes
            <= slot * slots.slot_minutes
            < end + slots.margin_minutes
        )
        assert rows <= most * same[0].buckets


def test_years_with_few_rows_are_one_span_and_a_busy_night_is_many() -> None:
    quiet = dict.fromkeys(range(0, 24 * 3000, 24), 1)
    assert len(spans(quiet, HOURLY, rows_at_once=3000)) == 1
    assert len(spans({}, HOURLY, rows_at_once=10)) == 1
    busy = quiet | dict.fromkeys(range(50_000, 50_010), 1000)
    assert 5 <= len(spans(busy, HOURLY, rows_at_once=3000)) <= 30
