"""Messages that one host's syslog daemon reports as lost."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from stunwatch.detectors.catalogue import detector
from stunwatch.detectors.events import EVIDENCE_SHOWN, event_id, fullest_host, timestamp
from stunwatch.detectors.host_events import copied, host_of
from stunwatch.detectors.log_losses import LogLoss
from stunwatch.detectors.point_events import Fact, Found, PointEvents
from stunwatch.detectors.records import is_continuation, verbatim
from stunwatch.ingest.records import owner_key

_DETECTOR = detector("lost_syslog")
_LIMITS = _DETECTOR.thresholds
_MINUTE = 60_000_000
_GAP_US = _LIMITS["gap_minutes"] * _MINUTE
_MOST_LINES = _LIMITS["most_lines_count"]


@dataclass(frozen=True, kw_only=True)
class Report(Fact):
    """A line that reports the number of lost messages."""

    key: str
    """The log key of the host."""
    logger: str
    count: int
    by: str
    """`host`, or the program that repeats the host's event."""


@dataclass
class Tracker(PointEvents[Report, LogLoss]):
    """Tracks the losses of one host, by destination server."""

    keep_us: ClassVar[int] = _LIMITS["keep_minutes"] * _MINUTE

    def read(self, record: Mapping[str, Any]) -> Report | None:
        """Parse a report of lost messages."""
        copy = copied(record)
        found = _DETECTOR.patterns["lost"].search(copy.text if copy else record["message"])
        if found is None or is_continuation(record) or int(found["count"]) == 0:
            return None
        host = host_of(record, copy)
        report = Report(
            at_us=copy.at_us if copy else record["event_time_us"],
            offset=record.get("offset", -1),
            text=verbatim(record),
            host=host,
            key=owner_key(host),
            logger=found["logger"],
            count=int(found["count"]),
            by=copy.by if copy else "host",
        )
        group = self.groups.get(self.group_of(report))
        return None if group is not None and len(group.facts) >= _MOST_LINES else report

    def group_of(self, fact: Report) -> Hashable:
        """Group by host and destination server."""
        return fact.key, fact.logger

    def rows(self, facts: Sequence[Report], event_time_us: int) -> Iterator[Found[LogLoss]]:
        """Yield one loss for consecutive reports."""
        run: list[Report] = []
        for fact in facts:
            if run and fact.at_us - run[-1].at_us > _GAP_US:
                yield _found(run)
                run = []
            run.append(fact)
        if run:
            yield _found(run)


def _found(run: Sequence[Report]) -> Found[LogLoss]:
    """Return the row of consecutive reports; `count` is the number of lost messages.

    Each program repeats all or some of the host's reports, so counts of different programs are not
    added.
    """
    counts: dict[str, int] = {}
    for report in run:
        counts[report.by] = counts.get(report.by, 0) + report.count
    started_at = timestamp(run[0].at_us)
    row = LogLoss(
        event_id=event_id(_DETECTOR.name, run[0].key, run[0].logger, started_at),
        detector=_DETECTOR.name,
        revision=0,
        is_deleted=0,
        run_id="",
        kind="gap",
        host=fullest_host(report.host for report in run),
        source="syslog",
        vm="",
        datastore="",
        started_at=started_at,
        ended_at=timestamp(run[-1].at_us),
        count=max(counts.values()),
        evidence=list(dict.fromkeys(report.text for report in run))[:EVIDENCE_SHOWN],
    )
    return Found(row, run[0].at_us, run[-1].at_us)
