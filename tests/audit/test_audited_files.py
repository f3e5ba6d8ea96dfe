"""Which bytes of which file are missing, and which ranges are shipped again."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.records import generation_of
from ingest.replay import Options, Reading, plan
from ingest.times import UptimeClock
from stunwatch.audit.events import spans
from stunwatch.audit.files import Finder, StoredFile
from stunwatch.audit.repair import MARGIN_US, QUIET_US, Lines, Part, lines_of, ranges_around

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


def test_a_whole_file_lacks_nothing(tmp_path: Path) -> None:
    path = tmp_path / "vmware.log"
    path.write_text(TEXT)
    found = Finder().measure(stored(path, len(TEXT)))
    assert (found.path, found.size, found.gaps) == (path, len(TEXT), ())


def test_what_is_behind_the_last_line_stored_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "vmware.log"
    path.write_text(TEXT + "a line that is still being wr")
    found = Finder().measure(stored(path, 500))
    assert found.gaps == ((500, len(TEXT)),)
    assert found.gap_bytes == len(TEXT) - 500


def test_a_line_that_is_still_being_written_is_not_missing(tmp_path: Path) -> None:
    path = tmp_path / "vmware.log"
    path.write_text(TEXT + "a line that is still being wr")
    assert not Finder().measure(stored(path, len(TEXT))).gaps


@pytest.mark.parametrize("name", ["vmware-7.log", "vmware.log.gz"])
def test_a_rotated_file_is_known_by_how_it_begins(tmp_path: Path, name: str) -> None:
    (tmp_path / "vmware.log").write_text("2019-01-01T00:00:00.000Z| vmx| I120: another\n")
    content = TEXT.encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    found = Finder().measure(stored(tmp_path / "vmware.log", len(TEXT) - 10))
    assert found.path == tmp_path / name
    assert found.gaps == ((len(TEXT) - 10, len(TEXT)),)


def test_a_header_in_the_middle_is_not_missing(tmp_path: Path) -> None:
    header, row = '"(PDH-CSV 4.0) (UTC)(0)","x"\n', '"02/03/2024 04:05:06","3.5"\n'
    text = header + row * 3 + header + row * 3
    path = tmp_path / "esxtop.csv"
    path.write_text(text)
    again = len(header) + 3 * len(row)
    lost = (again + len(header), again + len(header) + len(row))
    file = replace(stored(path, len(text), text), source="esxtop", gaps=((again, lost[0]), lost))
    assert Finder().measure(file).gaps == (lost,)


def test_a_file_that_is_elsewhere_is_not_measured(tmp_path: Path) -> None:
    found = Finder().measure(stored(tmp_path / "no/such/vmware.log", 10))
    assert (found.path, found.size, found.gaps) == (None, None, ())


def test_an_archive_is_found_for_its_member(tmp_path: Path) -> None:
    bundle = tmp_path / "esx-esx01-2024-05-06.tgz"
    bundle.write_bytes(b"x")
    assert Finder().measure(stored(Path(f"{bundle}!var/log/vmkernel.log"), 10)).path == bundle


def every_second(count: int, pauses: dict[int, int]) -> Lines:
    """Lines of 10 bytes, a second apart, but for pauses (s) before some."""
    lines, at_us = Lines(end=count * 10), 0
    for number in range(count):
        at_us += pauses.get(number, 1) * SECOND_US
        lines.offsets.append(number * 10)
        lines.times.append(at_us)
    return lines


def test_a_range_has_a_margin_and_is_cut_where_it_was_quiet() -> None:
    lines = every_second(40_000, {10_000: 90, 30_000: 90})
    [(start, end)] = ranges_around(lines, [(200_000, 200_010)])
    # Three hours are 10 800 lines: further than both silences, which alone are no reason to stop.
    assert (start, end) == (0, 400_000)
    lines = every_second(60_000, {10_000: 90, 50_000: 90})
    assert ranges_around(lines, [(300_000, 300_010)]) == [(100_000, 500_000)]


def test_ranges_that_touch_are_one() -> None:
    lines = every_second(100, {})
    assert ranges_around(lines, [(100, 110), (500, 520)]) == [(0, 1000)]


def test_a_gap_without_a_line_is_no_range() -> None:
    assert not ranges_around(every_second(10, {}), [(500, 600)])


@given(
    st.lists(st.integers(0, 7_200), min_size=1, max_size=60),
    st.integers(0, 59),
    st.integers(1, 9),
)
def test_a_range_holds_the_gap_and_cuts_nothing_in_two(
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


def test_a_part_is_what_the_whole_reading_says_of_it(tmp_path: Path) -> None:
    """The same records; only the progress tells no more than was handed on."""
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


def test_a_file_is_surveyed_by_place_and_time(tmp_path: Path) -> None:
    log = tmp_path / "vmware.log"
    log.write_text(TEXT)
    with plan([log]) as what:
        lines = lines_of(what.files[0], Options())
    assert len(lines.offsets) == len(lines.times) == 720
    assert lines.times[60] - lines.times[0] == HOUR_US
    assert lines.end == len(TEXT)


def test_time_is_cut_into_spans_that_fit_into_memory() -> None:
    months = {"2012-03-01": 5, "2012-04-01": 6, "2012-05-01": 25}
    found = spans(months, lines_at_once=12)
    assert [(each.first_at[:7], each.end_at[:7], each.bucket, each.buckets) for each in found] == [
        ("1900-01", "2012-05", 0, 1),
        ("2012-05", "2290-01", 0, 3),
        ("2012-05", "2290-01", 1, 3),
        ("2012-05", "2290-01", 2, 3),
    ]
    assert len(spans({})) == 1
