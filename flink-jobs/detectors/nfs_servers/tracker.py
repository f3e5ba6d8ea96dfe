"""Outages of NFS servers as one host sees them, by mounted share.

The kernel, vobd's observations (`vob.`), the events that vobd derives from them (`esx.`), hostd and
a vCenter that sends its events all report the same loss and the same return. Their lines on one
mount are merged; of the sources that report a return, the nearest to the kernel decides.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from stunwatch.detectors.catalogue import detector
from stunwatch.detectors.events import EVIDENCE_SHOWN, event_id, fullest_host, timestamp
from stunwatch.detectors.host_events import copied, host_of
from stunwatch.detectors.point_events import Fact, Found, PointEvents
from stunwatch.detectors.records import is_continuation, verbatim
from stunwatch.ingest.records import owner_key

_DETECTOR = detector("nfs_servers")
_LIMITS = _DETECTOR.thresholds

_SECOND = 1_000_000
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_SAME_US = _LIMITS["same_fact_within_seconds"] * _SECOND
_TOLD_AGAIN_US = _LIMITS["told_again_within_minutes"] * _MINUTE
_KEEP_OPEN_US = _LIMITS["keep_open_days"] * 24 * _HOUR
_REPEATED_US = _LIMITS["repeated_within_minutes"] * _MINUTE
_MOST_LINES = _LIMITS["most_lines_count"]

_SOURCES = (*_DETECTOR.patterns, "vcenter")
"""The sources, those nearest to the fact first."""


@dataclass(frozen=True)
class NfsServer:
    """One row of the view `nfs_servers`, except `detected_at`. Times are UTC with microseconds."""

    event_id: str
    detector: str
    revision: int
    is_deleted: int
    run_id: str
    host: str
    server: str
    share: str
    datastore_uuid: str
    datastore: str
    started_at: str
    ended_at: str | None
    duration_ms: int | None
    evidence: list[str]


@dataclass(frozen=True, kw_only=True)
class Change(Fact):
    """A line that reports a lost or a restored connection."""

    key: str
    """The log key of the host."""
    source: str
    is_lost: bool
    server: str
    share: str
    datastore_uuid: str
    datastore: str
    """The name; empty if the line was cut before its end."""


@dataclass
class Tracker(PointEvents[Change, NfsServer]):
    """Tracks the outages of one host."""

    keep_us: ClassVar[int] = _LIMITS["keep_hours"] * _HOUR
    most_facts: ClassVar[int] = _MOST_LINES

    def read(self, record: Mapping[str, Any]) -> Change | None:
        """Parse a record. Return None if it is irrelevant, or a repetition in a storm."""
        change = read(record)
        group = self.groups.get(self.group_of(change)) if change else None
        if change and group and len(group.facts) >= _MOST_LINES and _repeats(change, group.facts):
            return None
        return change

    def group_of(self, fact: Change) -> Hashable:
        """Group by host and mount."""
        return fact.key, fact.datastore_uuid

    def rows(self, facts: Sequence[Change], event_time_us: int) -> Iterator[Found[NfsServer]]:
        """Yield the outages of one mount."""
        outages = list(_outages(facts))
        for lines in outages:
            first_us, end = lines[0].at_us, _end(lines)
            # A line of the day before may show that an outage before this one had ended, and any
            # later line may be about the end of this one: all count.
            counted_from_us = first_us - self.keep_us
            is_fresh = event_time_us - first_us < _KEEP_OPEN_US
            yield Found(
                row=_row(lines, end),
                first_us=counted_from_us,
                last_us=lines[-1].at_us,
                is_open=end is None and lines is outages[-1] and is_fresh,
                lines=len(facts) - bisect_left(facts, counted_from_us, key=_at),
                held=len(lines),
            )


def read(record: Mapping[str, Any]) -> Change | None:
    """Parse a record. Return None if it reports neither a lost nor a restored connection."""
    if is_continuation(record):
        return None
    copy = copied(record)
    # A copy contains hostd's wording after the name of the host.
    message = f"Event 0 : {copy.text}" if copy else record["message"]
    for source, pattern in _DETECTOR.patterns.items():
        found = pattern.search(message)
        if found is None:
            continue
        host = host_of(record, copy)
        return Change(
            at_us=copy.at_us if copy else record["event_time_us"],
            offset=record.get("offset", -1),
            text=verbatim(record),
            host=host,
            key=owner_key(host) if host else str(record.get("owner", "")),
            source=copy.by if copy else source,
            is_lost=found["change"] in ("Lost", "disconnect"),
            server=found["server"],
            share=found["share"],
            datastore_uuid=found["uuid"],
            datastore=found["datastore"] or "",
        )
    return None


def _outages(facts: Sequence[Change]) -> Iterator[list[Change]]:
    """Yield the lines of each outage. A return without a loss before it starts none."""
    lines: list[Change] = []
    for fact in facts:
        waited_us = fact.at_us - lines[-1].at_us if lines else 0
        is_over = waited_us > _SAME_US and _end(lines) is not None
        if is_over or (fact.is_lost and waited_us > _TOLD_AGAIN_US):
            yield lines
            lines = []
        if lines or fact.is_lost:
            lines.append(fact)
    if lines:
        yield lines


def _end(lines: Sequence[Change]) -> Change | None:
    """Return the first line about the end of an outage; None if it continues.

    Of the sources that report a return, the nearest decides: another one may report the loss later.
    """
    reporting = {line.source for line in lines if not line.is_lost}
    nearest = next((source for source in _SOURCES if source in reporting), None)
    end = None
    for line in lines:
        if line.source == nearest:
            end = None if line.is_lost else end or line
    return end


def _row(lines: Sequence[Change], end: Change | None) -> NfsServer:
    first = lines[0]
    started_at = timestamp(first.at_us)
    shown = [*lines[: EVIDENCE_SHOWN - 1], end or lines[-1]]
    return NfsServer(
        event_id=event_id(_DETECTOR.name, first.key, first.datastore_uuid, started_at),
        detector=_DETECTOR.name,
        revision=0,
        is_deleted=0,
        run_id="",
        host=fullest_host(line.host for line in lines),
        server=first.server,
        share=first.share,
        datastore_uuid=first.datastore_uuid,
        datastore=next((line.datastore for line in lines if line.datastore), ""),
        started_at=started_at,
        ended_at=timestamp(end.at_us) if end else None,
        duration_ms=round((end.at_us - first.at_us) / 1000) if end else None,
        evidence=list(dict.fromkeys(line.text for line in shown)),
    )


def _repeats(change: Change, facts: Sequence[Change]) -> bool:
    """True if the previous line of the same source reports the same, not long before."""
    before = [each for each in facts[-len(_SOURCES) :] if each.source == change.source]
    return (
        bool(before)
        and before[-1].is_lost == change.is_lost
        and 0 <= change.at_us - before[-1].at_us <= _REPEATED_US
    )


def _at(fact: Change) -> int:
    return fact.at_us
