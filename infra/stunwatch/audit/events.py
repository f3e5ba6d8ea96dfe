"""Compares the events that Flink found with what `sql/audit/` makes of the lines.

Each of CHECKS is one query about a span of time. It returns, per finding, how many events there are
and the first of them with what each side says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from detectors.catalogue import detector
from stunwatch.clickhouse import ClickHouse
from stunwatch.schema import SQL, statements

LINES_AT_ONCE = 20_000_000
"""A query looks at about so many lines, however long it takes: its memory does not grow."""

DIFFERENCES = ("missing", "extra", "different")
"""Findings that mean that something is wrong."""

NO_LIMIT = {"max_execution_time": "0"}

_KEPT = re.compile(r"log_lines_stored MODIFY TTL toDateTime\(received_at\) \+ (INTERVAL \d+ \w+)")


CHECKS = ("stuns", "migrations", "sync_cr_countdowns")
"""Files of `sql/audit/`, each named after the detector whose events it recomputes.

The two share the detector's thresholds: each is a parameter of the query.
"""

NOT_RECOMPUTED = (
    "the causes of stuns, the VM that a host's number of a vMotion belongs to, conflicts that are"
    " no count-down, and every other view"
)
"""What no query of `sql/audit/` works out from the lines."""


def query(name: str) -> str:
    """The one statement of a file of `sql/audit/`."""
    return statements((SQL / "audit" / f"{name}.sql").read_text())[0]


@dataclass(frozen=True)
class Difference:
    """An event that the lines and the view tell differently."""

    finding: str
    owner: str
    anchor: str
    """What names the event beside its owner: when the stun ended, when the count-down began."""
    recomputed: tuple[dict[str, str], ...]
    """What the lines tell; more than one only where one identity has several events."""
    stored: tuple[dict[str, str], ...]
    """What the view shows."""

    @property
    def fields(self) -> list[tuple[str, str, str]]:
        """(field, what the lines tell, what the view shows) of all that differ."""
        mine = self.recomputed[0] if self.recomputed else {}
        theirs = self.stored[0] if self.stored else {}
        return [
            (name, mine.get(name, ""), theirs.get(name, ""))
            for name in dict.fromkeys((*mine, *theirs))
            if mine.get(name) != theirs.get(name)
        ]


@dataclass
class Comparison:
    """What one check found in one span, or in all of them."""

    same: int = 0
    expired: int = 0
    """Events whose lines are not kept any more: nothing can be said of them."""
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(DIFFERENCES, 0))
    differences: list[Difference] = field(default_factory=list)
    """The first of them."""

    @property
    def differs(self) -> int:
        """How many events are told differently."""
        return sum(self.counts.values())

    def add(self, other: Comparison) -> None:
        """Count what was found elsewhere too."""
        self.same += other.same
        self.expired += other.expired
        for finding in DIFFERENCES:
            self.counts[finding] += other.counts[finding]
        self.differences += other.differences


@dataclass(frozen=True)
class Span:
    """A part of all events, small enough for one query: a time, and one bucket of owners."""

    first_at: str
    end_at: str
    bucket: int = 0
    buckets: int = 1


_FIRST, _END = "1900-01-01 00:00:00", "2290-01-01 00:00:00"


def spans(months: dict[str, int], lines_at_once: int = LINES_AT_ONCE) -> list[Span]:
    """All of time in spans of about `lines_at_once` lines; `months` is lines by first day."""
    found: list[Span] = []
    begin, lines = _FIRST, 0
    for month, count in sorted(months.items()):
        if lines and lines + count > lines_at_once:
            found += _cut(begin, f"{month} 00:00:00", lines, lines_at_once)
            begin, lines = f"{month} 00:00:00", 0
        lines += count
    return [*found, *_cut(begin, _END, lines, lines_at_once)]


def _cut(first_at: str, end_at: str, lines: int, lines_at_once: int) -> list[Span]:
    buckets = max(1, -(-lines // lines_at_once))
    return [Span(first_at, end_at, bucket, buckets) for bucket in range(buckets)]


def all_spans(clickhouse: ClickHouse) -> list[Span]:
    """The spans of what is stored."""
    counts = clickhouse.rows(
        "SELECT _partition_id, count() FROM log_lines_stored GROUP BY _partition_id"
    )
    return spans({f"{month[:4]}-{month[4:]}-01": lines for month, lines in counts})


def kept_since(clickhouse: ClickHouse) -> str:
    """Of events detected before, lines may be gone by now: sql/retention.sql, and a day."""
    found = _KEPT.search((SQL / "retention.sql").read_text())
    interval = found[1] if found else "INTERVAL 100 YEAR"
    return str(clickhouse.rows(f"SELECT now('UTC') - {interval} + INTERVAL 1 DAY")[0][0])


def compare(clickhouse: ClickHouse, check: str, span: Span, since: str) -> Comparison:
    """Run one check over one span; `since` is what `kept_since` says."""
    parameters: dict[str, Any] = {
        # How bad a stun is does not depend on who measured it.
        **detector("stuns").thresholds,
        **detector(check).thresholds,
        "first_at": span.first_at,
        "end_at": span.end_at,
        "bucket": span.bucket,
        "buckets": span.buckets,
        "kept_since": since,
    }
    found = Comparison()
    for finding, count, examples in clickhouse.rows(query(check), parameters, settings=NO_LIMIT):
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
