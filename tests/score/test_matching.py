"""Matching of rows to expected events (truths)."""

from __future__ import annotations

from typing import Any

import pytest

from stunwatch.simulation.truth import text
from tools.score.matching import (
    label,
    match,
    microseconds,
    near,
    overlapping,
    same,
)

Row = dict[str, Any]
SECOND = 1_000_000
T0 = 1_600_000_000 * SECOND


def span(first: float, last: float | None, name: str = "a") -> Row:
    ended_at = None if last is None else text(T0 + int(last * SECOND))
    return {"started_at": text(T0 + int(first * SECOND)), "ended_at": ended_at, "name": name}


def key(row: Row) -> str:
    return str(row["name"])


def counts(true: list[Row], found: list[Row]) -> tuple[int, int, int, int]:
    """Return the numbers of (pairs, missed, fragments, extra)."""
    pairs, missed, fragments, extra = match(true, found, key, overlapping())
    return len(pairs), len(missed), len(fragments), len(extra)


def test_a_row_matches_only_one_truth() -> None:
    assert counts([span(0, 10), span(20, 30)], [span(0, 30)]) == (1, 1, 0, 0)


def test_a_truth_found_in_parts_has_one_row_and_fragments() -> None:
    assert counts([span(0, 30)], [span(0, 9), span(11, 19), span(21, 30)]) == (1, 0, 2, 0)


def test_a_duplicate_is_a_fragment() -> None:
    assert counts([span(0, 30)], [span(0, 30), span(0, 30)]) == (1, 0, 1, 0)


def test_a_row_without_a_truth_is_extra() -> None:
    assert counts([span(0, 10)], [span(0, 10), span(50, 60)]) == (1, 0, 0, 1)
    assert counts([span(0, 10)], [span(0, 10, "b")]) == (0, 1, 0, 1)


def test_the_nearest_pair_is_matched_first_in_any_order() -> None:
    true = [span(0, 10), span(8, 20)]
    found = [span(8, 20), span(1, 10)]
    for rows in (found, found[::-1]):
        pairs = match(true, rows, key, overlapping()).pairs
        assert [(fact["started_at"], row["started_at"]) for fact, row in pairs] == [
            (true[0]["started_at"], found[1]["started_at"]),
            (true[1]["started_at"], found[0]["started_at"]),
        ]


def test_a_pair_is_changed_if_that_matches_one_more_truth() -> None:
    # Both rows are 0.8 s late; the first row is nearer to the second truth.
    true, found = [span(0, 1), span(1.5, 2)], [span(0.8, 1), span(2.3, 3)]
    distance = near("started_at", lambda _: SECOND)
    pairs, missed, fragments, _ = match(true, found, key, distance)
    assert [row for _, row in pairs] == found
    assert not missed
    assert not fragments


def test_a_span_without_an_end_is_open() -> None:
    assert counts([span(0, None)], [span(100, 110)]) == (1, 0, 0, 0)
    assert counts([span(50, 60)], [span(0, None)]) == (1, 0, 0, 0)


def test_spans_that_nearly_touch_match_only_with_slack() -> None:
    true, found = [span(0, 10)], [span(12, 20)]
    assert not match(true, found, key, overlapping()).pairs
    assert match(true, found, key, overlapping(2 * SECOND)).pairs


def test_starts_too_far_apart_do_not_match() -> None:
    def distance_s(seconds: float) -> int:
        distance = near("started_at", lambda _: SECOND)
        return len(match([span(0, 1)], [span(seconds, 9)], key, distance).pairs)

    assert (distance_s(1), distance_s(1.1)) == (1, 0)


def test_two_comparisons_are_added() -> None:
    one = match([span(0, 1)], [], key, same)
    other = match([], [span(0, 1)], key, same)
    assert [len(each) for each in one + other] == [0, 1, 0, 1]


@pytest.mark.parametrize(
    "shown",
    [
        "2021-01-04T20:00:00.123456Z",
        "2021-01-04 20:00:00.123456",
        "2021-01-04 20:00:00.123456000",
    ],
)
def test_times_in_both_formats_are_equal(shown: str) -> None:
    assert microseconds(shown) == 1_609_790_400_123_456


def test_a_hosts_label_is_its_name_without_the_domain() -> None:
    assert label("ESX01.lab.example") == label("esx01") == "esx01"
