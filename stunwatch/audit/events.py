"""Compares the events that Flink detected with those that SQL derives from the lines.

Each of CHECKS is one query of `sql/queries/audit/` over a span of time. It returns, per finding,
the number of events and the first of them, with the fields of both sides.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import accumulate, pairwise
from typing import Any

from stunwatch.clickhouse import ClickHouse
from stunwatch.definitions import definitions
from stunwatch.detectors.catalogue import detector
from stunwatch.schema import SQL, statements

ROWS_AT_ONCE = 200_000
"""Approximate number of lines and events per query, to bound its memory."""

DIFFERENCES = ("missing", "extra", "different")
"""Findings that indicate a problem."""

NO_LIMIT = {"max_execution_time": "0"}

SPILLING = NO_LIMIT | {
    "max_bytes_before_external_sort": "33554432",
    "max_bytes_before_external_group_by": "33554432",
    "join_algorithm": "grace_hash",
    "max_bytes_in_join": "33554432",
    # Data on disk is read back in blocks, one block of each part at a time.
    "max_block_size": "8192",
    "prefer_external_sort_block_bytes": "1048576",
    "max_threads": "1",
}
"""Settings to spill to disk. A burst of a single host cannot be divided, so its query may be too
large for memory.
"""


@dataclass(frozen=True)
class Slots:
    """How a check is divided into spans of time. Both numbers are in minutes."""

    slot_minutes: int
    margin_minutes: int
    """Event time read before and after a slot. It exceeds the time between an event's lines, so
    that all lines of the events of the slot are read.
    """

    @property
    def margin(self) -> int:
        """The margin, in slots."""
        return self.margin_minutes // self.slot_minutes


CHECKS = {
    "stuns": Slots(60, 120),
    "migrations": Slots(60, 120),
    # An unhealthy host writes hundreds of lines a second. Steps follow within 15 s.
    "sync_cr_countdowns": Slots(10, 30),
}
"""Files of `sql/queries/audit/`, each named after the detector whose events it recomputes.

`sizes.sql` counts the lines and events that each of them reads. The detector's thresholds are
parameters of the query.
"""

NOT_RECOMPUTED = (
    "the causes of stuns, the VM of a vMotion duration that a host reported, conflicts that are not"
    " count-downs, and all other views"
)
"""What no query of `sql/queries/audit/` derives from the lines."""


def query(name: str) -> str:
    """Return the only statement of a file of `sql/queries/audit/`."""
    return statements((SQL / "queries" / "audit" / f"{name}.sql").read_text())[0]


@dataclass(frozen=True)
class Difference:
    """An event for which the lines and the view disagree."""

    finding: str
    owner: str
    anchor: str
    """The event's key besides its owner: the end of the stun, or the start of the count-down."""
    recomputed: tuple[dict[str, str], ...]
    """The events derived from the lines; several only if one identity has several events."""
    stored: tuple[dict[str, str], ...]
    """The events in the view."""

    @property
    def fields(self) -> list[tuple[str, str, str]]:
        """Return (field, value from the lines, value in the view) of the fields that differ."""
        mine = self.recomputed[0] if self.recomputed else {}
        theirs = self.stored[0] if self.stored else {}
        return [
            (name, mine.get(name, ""), theirs.get(name, ""))
            for name in dict.fromkeys((*mine, *theirs))
            if mine.get(name) != theirs.get(name)
        ]


@dataclass
class Comparison:
    """The result of one check in one span, or the sum over all spans."""

    same: int = 0
    expired: int = 0
    """Events that cannot be checked, because their lines have expired."""
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(DIFFERENCES, 0))
    differences: list[Difference] = field(default_factory=list)
    """The first of them."""

    @property
    def differs(self) -> int:
        """Return the number of events that differ."""
        return sum(self.counts.values())

    def add(self, other: Comparison) -> None:
        """Add the result of another span."""
        self.same += other.same
        self.expired += other.expired
        for finding in DIFFERENCES:
            self.counts[finding] += other.counts[finding]
        self.differences += other.differences


@dataclass(frozen=True)
class Span:
    """A part of all events, small enough for one query: a time span and one bucket of owners."""

    first_at: str
    end_at: str
    bucket: int = 0
    buckets: int = 1


_FIRST, _END = "1900-01-01 00:00:00", "2290-01-01 00:00:00"


def spans(sizes: Mapping[int, int], slots: Slots, rows_at_once: int = ROWS_AT_ONCE) -> list[Span]:
    """Divide all of time into spans of about `rows_at_once` rows, including their margins.

    Args:
        sizes: Number of rows by slot; slots are counted from 1970.
        slots: The length of a slot, and the margin around a span.
        rows_at_once: A slot with more rows is divided by owners.
    """
    busy = sorted(sizes)
    before = [0, *accumulate(sizes[slot] for slot in busy)]

    def rows(first: int, end: int) -> int:
        found = bisect_left(busy, first - slots.margin), bisect_left(busy, end + slots.margin)
        return before[found[1]] - before[found[0]]

    edges = [busy[0] if busy else 0]
    for slot in busy[1:]:
        if rows(edges[-1], slot + 1) > rows_at_once:
            edges.append(slot)
    times = [_FIRST, *(_time(slot * slots.slot_minutes) for slot in edges[1:]), _END]
    edges.append(busy[-1] + 1 if busy else 1)
    found: list[Span] = []
    for (first_at, end_at), (first, end) in zip(pairwise(times), pairwise(edges), strict=True):
        buckets = max(1, -(-rows(first, end) // rows_at_once))
        found += [Span(first_at, end_at, bucket, buckets) for bucket in range(buckets)]
    return found


def _time(minute: int) -> str:
    return f"{datetime(1970, 1, 1, tzinfo=UTC) + timedelta(minutes=minute):%Y-%m-%d %H:%M:%S}"


def all_spans(clickhouse: ClickHouse, check: str) -> list[Span]:
    """Return the spans that cover the stored lines and events of a check."""
    slots = CHECKS[check]
    given = {"check": check, "slot_minutes": slots.slot_minutes}
    return spans(dict(clickhouse.rows(query("sizes"), given, settings=NO_LIMIT)), slots)


def kept_since(clickhouse: ClickHouse) -> str:
    """Return a time; lines of events detected before it may have expired.

    It is the retention of lines, shortened by a day.
    """
    kept = definitions()["log_line"].interval
    return str(clickhouse.rows(f"SELECT now('UTC') - INTERVAL {kept} + INTERVAL 1 DAY")[0][0])


def compare(clickhouse: ClickHouse, check: str, span: Span, since: str) -> Comparison:
    """Run one check over one span. `since` is the result of `kept_since`."""
    parameters: dict[str, Any] = {
        # Pass the thresholds of stuns to all checks: a stun's severity does not depend on its
        # source.
        **detector("stuns").thresholds,
        **detector(check).thresholds,
        "first_at": span.first_at,
        "end_at": span.end_at,
        "bucket": span.bucket,
        "buckets": span.buckets,
        "kept_since": since,
        "margin_minutes": CHECKS[check].margin_minutes,
    }
    found = Comparison()
    for finding, count, examples in clickhouse.rows(query(check), parameters, settings=SPILLING):
        if finding == "same":
            found.same = count
        elif finding == "expired":
            found.expired = count
        else:
            found.counts[finding] = count
            found.differences += _differences(finding, examples)
    return found


def _differences(finding: str, examples: list[list[Any]]) -> Iterator[Difference]:
    for owner, anchor, recomputed, stored in examples:
        yield Difference(finding, owner, anchor, tuple(recomputed), tuple(stored))
