"""Assigns rows of a view to expected events (truths), one to one.

A truth and a row are plain dictionaries with the fields of a view. Their times are text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

Row = dict[str, Any]
Key = Callable[[Row], object]
Distance = Callable[[Row, Row], "int | None"]
"""Distance between a row and a truth, in µs; None if they do not belong together."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NO_END_US = 1 << 62


class Matched(NamedTuple):
    """Every truth is in `pairs` or `missed`. Every row is in `pairs`, `fragments` or `extra`."""

    pairs: list[tuple[Row, Row]]
    missed: list[Row]
    fragments: list[Row]
    """Rows that belong to a truth that another row matches better: duplicates and parts."""
    extra: list[Row]
    """Rows that belong to no truth."""

    def __add__(self, other: tuple[Any, ...]) -> Matched:
        """Return the union of two comparisons of one view."""
        return Matched(*(one + another for one, another in zip(self, other, strict=True)))


def microseconds(text: str | None) -> int | None:
    """Parse `2021-01-04T20:00:00.123456Z` or ClickHouse's format to microseconds since 1970."""
    if not text:
        return None
    moment = datetime.fromisoformat(text.removesuffix("Z").replace(" ", "T")[:26])
    return round((moment.replace(tzinfo=UTC) - _EPOCH) / _MICROSECOND)


def at(row: Row, name: str) -> int:
    """Return a time that is never null, in µs since 1970."""
    found = microseconds(row[name])
    assert found is not None
    return found


def label(host: str) -> str:
    """Return a host's name without its domain: a line may contain either form."""
    return host.partition(".")[0].lower()


def match(true: Sequence[Row], found: Sequence[Row], key: Key, distance: Distance) -> Matched:
    """Match rows to truths with the same key.

    The nearest pairs are matched first. A pair is changed if that allows one more match.
    """
    by_key: dict[object, list[tuple[int, Row]]] = {}
    for number, row in enumerate(found):
        by_key.setdefault(key(row), []).append((number, row))
    rows_near: list[list[tuple[int, int]]] = []
    for fact in true:
        far = ((distance(fact, row), number) for number, row in by_key.get(key(fact), []))
        rows_near.append(sorted((each, number) for each, number in far if each is not None))
    row_of, fact_of = _one_to_one(rows_near)
    near = {number for rows in rows_near for _, number in rows}
    return Matched(
        [(true[number], found[row_of[number]]) for number in sorted(row_of)],
        [fact for number, fact in enumerate(true) if number not in row_of],
        [found[number] for number in sorted(near - fact_of.keys())],
        [row for number, row in enumerate(found) if number not in near],
    )


def _one_to_one(
    rows_near: Sequence[Sequence[tuple[int, int]]],
) -> tuple[dict[int, int], dict[int, int]]:
    """From each truth's (distance, row)s, return each truth's row and each row's truth."""
    row_of: dict[int, int] = {}
    fact_of: dict[int, int] = {}
    pairs = sorted((far, fact, row) for fact, rows in enumerate(rows_near) for far, row in rows)
    for _, fact, row in pairs:
        if fact not in row_of and row not in fact_of:
            row_of[fact], fact_of[row] = row, fact

    def find_row(fact: int, seen: set[int]) -> bool:
        """Take a free row, or one whose truth has another row to take."""
        for _, row in rows_near[fact]:
            if row in seen:
                continue
            seen.add(row)
            if row not in fact_of or find_row(fact_of[row], seen):
                row_of[fact], fact_of[row] = row, fact
                return True
        return False

    for fact in range(len(rows_near)):
        if fact not in row_of:
            find_row(fact, set())
    return row_of, fact_of


def same(fact: Row, row: Row) -> int:
    """Return 0: only the key decides."""
    return 0


def near(name: str, most_us: Callable[[Row], int]) -> Distance:
    """Return a distance by a time field. `most_us` is the limit, which may depend on the truth."""

    def distance(fact: Row, row: Row) -> int | None:
        far = abs(at(fact, name) - at(row, name))
        return far if far <= most_us(fact) else None

    return distance


def overlapping(slack_us: int = 0) -> Distance:
    """Return a distance for spans that overlap or nearly do. Without `ended_at`, a span is open.

    The distance is the sum of the distances of the starts and of the ends.
    """

    def distance(fact: Row, row: Row) -> int | None:
        fact_start, row_start = at(fact, "started_at"), at(row, "started_at")
        fact_end = microseconds(fact["ended_at"]) or _NO_END_US
        row_end = microseconds(row["ended_at"]) or _NO_END_US
        if fact_start > row_end + slack_us or row_start > fact_end + slack_us:
            return None
        return abs(fact_start - row_start) + abs(fact_end - row_end)

    return distance
