"""What one host lost on its way to storage, and what it got back.

The kernel, vobd's own observations (`vob.`), the events that vobd makes of them (`esx.problem.`,
`esx.clear.`) and hostd all tell the same facts, each in its own words and a little later. So each
of the four is read by itself, from beginning to end of what it tells, and what they tell at the
same time is one event.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from typing import Any, ClassVar, Literal, NamedTuple

from detectors.catalogue import detector
from detectors.events import event_id, fullest_host, timestamp
from detectors.ledger import Fact, Found, Ledger
from detectors.records import is_continuation, verbatim
from ingest.records import owner_key

_DETECTOR = detector("path_events")
_PATTERNS = _DETECTOR.patterns
_LIMITS = _DETECTOR.thresholds

_SECOND = 1_000_000
_MINUTE = 60 * _SECOND
_SAME_US = _LIMITS["same_fact_within_seconds"] * _SECOND
_SAME_MISCOMPARE_US = _LIMITS["same_miscompare_within_seconds"] * _SECOND
_TOLD_AGAIN_US = _LIMITS["told_again_within_minutes"] * _MINUTE
_KEEP_OPEN_US = _LIMITS["keep_open_days"] * 24 * 60 * _MINUTE
_REPEATED_US = _LIMITS["repeated_within_seconds"] * _SECOND
_MOST_LINES = _LIMITS["most_lines_count"]

_EVIDENCE = 10
"""A storm makes thousands of events: each shows its first lines."""

Kind = Literal[
    "path_dead",
    "path_on",
    "apd_start",
    "apd_timeout",
    "apd_end",
    "pdl",
    "pdl_end",
    "lost_access",
    "restored_access",
    "heartbeat_timeout",
    "heartbeat_reclaimed",
    "ats_miscompare",
]

_KINDS: dict[str, Kind] = {
    "path_dead": "path_dead",
    "path_on": "path_on",
    "apd_start": "apd_start",
    "apd_timeout": "apd_timeout",
    "apd_end": "apd_end",
    "pdl": "pdl",
    "pdl_end": "pdl_end",
    "access_lost": "lost_access",
    "access_restored": "restored_access",
    "heartbeat_waiting": "heartbeat_timeout",
    "heartbeat_reclaimed": "heartbeat_reclaimed",
    "ats_miscompare": "ats_miscompare",
}
"""The first words of a pattern's name, and the kind of what it tells."""

_ENDS: dict[Kind, Kind] = {
    "path_dead": "path_on",
    "apd_start": "apd_end",
    "apd_timeout": "apd_end",
    "pdl": "pdl_end",
    "lost_access": "restored_access",
    "heartbeat_timeout": "heartbeat_reclaimed",
}
"""What begins, and what ends it."""

_MOMENTS: tuple[Kind, ...] = ("path_on", "apd_end", "heartbeat_reclaimed", "ats_miscompare")
"""What has no end of its own. The other ends are told by the event that they end."""

_SOURCES = ("kernel", "vob", "event", "hostd")
"""Who tells it; the nearer to the fact comes first."""


@dataclass(frozen=True)
class PathEvent:
    """One row of the view `path_events`, except `detected_at`. Times are UTC with six digits."""

    event_id: str
    detector: str
    revision: int
    is_deleted: int
    run_id: str
    host: str
    path: str
    device: str
    datastore: str
    kind: Kind
    started_at: str
    ended_at: str | None
    evidence: list[str]


@dataclass(frozen=True, kw_only=True)
class PathFact(Fact):
    """A line that tells a loss or its end."""

    kind: Kind
    source: str
    about: tuple[str, str]
    """What is lost or back: lines about something else have nothing to do with this one."""
    path: str
    device: str
    datastore: str


class Span(NamedTuple):
    """From a beginning to its end, as one source tells it."""

    source: str
    facts: list[PathFact]
    is_ended: bool
    """Whether the last one tells the end."""

    @property
    def first_us(self) -> int:
        return self.facts[0].at_us

    @property
    def last_us(self) -> int:
        return self.facts[-1].at_us


@dataclass
class Tracker(Ledger[PathFact, PathEvent]):
    """The path events of one host."""

    keep_us: ClassVar[int] = _LIMITS["keep_minutes"] * _MINUTE

    owner: str = ""

    def read(self, record: Mapping[str, Any]) -> PathFact | None:
        """What a record tells; None where nothing, or nothing new in a storm of repetitions."""
        fact = read(record)
        if fact is None:
            return None
        self.owner = owner_key(fact.host) if fact.host else record.get("owner", "")
        group = self.groups.get(self.group_of(fact))
        if group is not None and len(group.facts) >= _MOST_LINES:
            before = [each for each in group.facts[-4:] if each.source == fact.source]
            is_repeated = (
                bool(before)
                and before[-1].kind == fact.kind
                and 0 <= fact.at_us - before[-1].at_us <= _REPEATED_US
            )
            if is_repeated:
                return None
        return fact

    def group_of(self, fact: PathFact) -> Hashable:
        """Facts of different groups have nothing to do with each other."""
        return fact.about

    def rows(self, facts: Sequence[PathFact], event_time_us: int) -> Iterator[Found[PathEvent]]:
        """The losses with their ends, and the moments."""
        for kind, end in _ENDS.items():
            ends = [fact for fact in facts if fact.kind == end]
            losses = list(_at_the_same_time(_spans(facts, kind, end)))
            for loss, after in zip_longest(losses, losses[1:]):
                before_us = after[0].first_us if after else None
                ended = _ended(loss, ends, before_us)
                told = sorted({fact for span in loss for fact in span.facts} | {*ended}, key=_order)
                found = self._found(kind, told, facts, ended[0].at_us if ended else None)
                is_fresh = event_time_us - found.first_us < _KEEP_OPEN_US
                yield found._replace(is_open=not ended and after is None and is_fresh)
        for kind in _MOMENTS:
            tolerance_us = _SAME_MISCOMPARE_US if kind == "ats_miscompare" else _SAME_US
            told = [fact for fact in facts if fact.kind == kind]
            for moment in _near_each_other(told, tolerance_us):
                yield self._found(kind, moment, facts, moment[-1].at_us)

    def _found(
        self,
        kind: Kind,
        told: Sequence[PathFact],
        facts: Sequence[PathFact],
        ended_us: int | None,
    ) -> Found[PathEvent]:
        first_us = told[0].at_us
        started_at = timestamp(first_us)
        row = PathEvent(
            event_id=event_id(_DETECTOR.name, self.owner, kind, *told[0].about, started_at),
            detector=_DETECTOR.name,
            revision=0,
            is_deleted=0,
            run_id="",
            host=fullest_host(fact.host for fact in told),
            path=next((fact.path for fact in told if fact.path), ""),
            device=next((fact.device for fact in told if fact.device), ""),
            datastore=next((fact.datastore for fact in told if fact.datastore), ""),
            kind=kind,
            started_at=started_at,
            ended_at=None if ended_us is None else timestamp(ended_us),
            evidence=list(dict.fromkeys(fact.text for fact in told))[:_EVIDENCE],
        )
        # Lines shortly before may be the same loss, and any later one its end: they all bear on it.
        bears_from_us = first_us - _TOLD_AGAIN_US - _SAME_US
        lines = len(facts) - bisect_left(facts, bears_from_us, key=_at)
        return Found(row, bears_from_us, told[-1].at_us, lines=lines)


def read(record: Mapping[str, Any]) -> PathFact | None:
    """What a record tells of paths, devices and volumes; None where nothing."""
    if is_continuation(record):
        return None
    message = record["message"]
    for name, pattern in _PATTERNS.items():
        found = pattern.search(message)
        if found is None:
            continue
        words, _, source = name.rpartition("_")
        told = {key: value or "" for key, value in found.groupdict().items()}
        ident = told.get("ident", "")
        # A file system's identifier has no dot in it; a device's begins with its kind.
        device = told.get("device", "") or (ident if "." in ident else "")
        datastore = told.get("datastore", "") or (ident if "." not in ident else "")
        path = told.get("path", "")
        kind = _KINDS[words]
        return PathFact(
            at_us=record["event_time_us"],
            offset=record.get("offset", -1),
            text=verbatim(record),
            host=record.get("host", ""),
            kind=kind,
            source=source if source in _SOURCES else "kernel",
            about=(words.partition("_")[0], path or ident or told.get("device") or datastore),
            path=path,
            device=device,
            datastore=datastore,
        )
    return None


def _spans(facts: Sequence[PathFact], kind: Kind, end: Kind) -> Iterator[Span]:
    """What each source tells from beginning to end."""
    by_source = sorted(facts, key=lambda fact: _SOURCES.index(fact.source))
    for source, told in groupby(by_source, key=lambda fact: fact.source):
        begun: list[PathFact] = []
        for fact in told:
            if fact.kind == end and begun:
                yield Span(source, [*begun, fact], is_ended=True)
                begun = []
            elif fact.kind == kind:
                if begun and fact.at_us - begun[-1].at_us > _TOLD_AGAIN_US:
                    yield Span(source, begun, is_ended=False)
                    begun = []
                begun.append(fact)
        if begun:
            yield Span(source, begun, is_ended=False)


def _at_the_same_time(spans: Iterable[Span]) -> Iterator[list[Span]]:
    """Spans that overlap, or nearly do: they tell one event."""
    near: list[Span] = []
    last_us = 0
    for span in sorted(spans, key=lambda span: (span.first_us, _SOURCES.index(span.source))):
        if near and span.first_us > last_us + _SAME_US:
            yield near
            near = []
        last_us = max(last_us, span.last_us) if near else span.last_us
        near.append(span)
    if near:
        yield near


def _ended(loss: list[Span], ends: Sequence[PathFact], before_us: int | None) -> list[PathFact]:
    """The lines that tell a loss's end, the first one first; none where it goes on.

    The nearest source that tells ends decides. Where none of those that told the beginning does,
    the next one of any other.
    """
    for source in _SOURCES:
        told = [span for span in loss if span.source == source]
        if not any(span.is_ended for span in told):
            continue
        if not told[-1].is_ended:
            return []
        begun_us, ended_us = told[-1].facts[-2].at_us, told[-1].last_us
        return [end for end in ends if begun_us <= end.at_us <= ended_us]
    last_us = max(span.last_us for span in loss)
    return [
        end for end in ends if end.at_us >= last_us and (before_us is None or end.at_us < before_us)
    ][:1]


def _near_each_other(facts: Sequence[PathFact], tolerance_us: int) -> Iterator[list[PathFact]]:
    near: list[PathFact] = []
    for fact in facts:
        if near and fact.at_us - near[-1].at_us > tolerance_us:
            yield near
            near = []
        near.append(fact)
    if near:
        yield near


def _at(fact: PathFact) -> int:
    return fact.at_us


def _order(fact: PathFact) -> tuple[int, int, str]:
    return fact.order
