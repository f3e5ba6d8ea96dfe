"""Losses and recoveries of one host's access to storage.

The kernel, vobd's observations (`vob.`), the events that vobd derives from them (`esx.problem.`,
`esx.clear.`), hostd and a vCenter that sends its events all report the same facts, each in its own
wording and a little later. So each of the five sources is evaluated separately, from loss to
recovery, and reports of the same time are merged to one event.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, zip_longest
from typing import Any, ClassVar, Literal, NamedTuple

from stunwatch.detectors.catalogue import detector
from stunwatch.detectors.events import event_id, fullest_host, timestamp
from stunwatch.detectors.host_events import copied, host_of
from stunwatch.detectors.point_events import Fact, Found, PointEvents
from stunwatch.detectors.records import is_continuation, verbatim
from stunwatch.detectors.two_lines import TwoLines
from stunwatch.ingest.records import datastore_name, owner_key

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
"""Most lines of evidence, the first of an event: a storm causes thousands of events."""

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
    "path_gone": "pdl",
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
"""The kind of fact by the first words of a pattern's name."""

_ENDS: dict[Kind, tuple[Kind, ...]] = {
    "path_dead": ("path_on",),
    "apd_start": ("apd_end",),
    "apd_timeout": ("apd_end",),
    "pdl": ("pdl_end", "path_on"),
    "lost_access": ("restored_access",),
    "heartbeat_timeout": ("heartbeat_reclaimed",),
}
"""Losses, and the kinds that end them. A device and a path are never in the same group."""

_MOMENTS: tuple[Kind, ...] = ("path_on", "apd_end", "heartbeat_reclaimed", "ats_miscompare")
"""Kinds without an end. Other ends are part of the event that they end."""

_SOURCES = ("kernel", "vob", "event", "hostd", "vcenter")
"""The sources, those nearest to the fact first."""


@dataclass(frozen=True)
class PathEvent:
    """One row of the view `path_events`, except `detected_at`. Times are UTC with microseconds."""

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
    """A line about a loss or its end."""

    kind: Kind
    source: str
    about: tuple[str, str]
    """The object that is lost or back. Lines about different objects are independent."""
    path: str
    device: str
    datastore: str


class Span(NamedTuple):
    """The facts from one source, from a loss to its end."""

    source: str
    facts: list[PathFact]
    is_ended: bool
    """True if the last fact is the end."""

    @property
    def first_us(self) -> int:
        return self.facts[0].at_us

    @property
    def last_us(self) -> int:
        return self.facts[-1].at_us


@dataclass
class Tracker(PointEvents[PathFact, PathEvent]):
    """Tracks the path events of one host."""

    keep_us: ClassVar[int] = _LIMITS["keep_minutes"] * _MINUTE
    most_facts: ClassVar[int] = _MOST_LINES

    owner: str = ""
    halves: TwoLines = field(default_factory=TwoLines)

    def advance_time(self, event_time_us: int) -> Iterator[PathEvent]:
        """Yield the rows that change because time has passed."""
        self.halves.advance(event_time_us)
        yield from super().advance_time(event_time_us)

    @property
    def next_timer_us(self) -> int | None:
        """When the passage of time changes a row or expires a line; None if no state is kept."""
        return self.halves.next_timer(super().next_timer_us)

    def read(self, record: Mapping[str, Any]) -> PathFact | None:
        """Parse a record. Return None if it is irrelevant, or a repetition in a storm."""
        whole = self.halves.whole(record)
        fact = read(whole) if whole else None
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
        """Return the group of a fact. Groups are independent."""
        return fact.about

    def rows(self, facts: Sequence[PathFact], event_time_us: int) -> Iterator[Found[PathEvent]]:
        """Yield the losses with their ends, and the events without an end."""
        kinds = {fact.kind for fact in facts}
        for kind, ending in _ENDS.items():
            if kind not in kinds:
                continue
            ends = [fact for fact in facts if fact.kind in ending]
            losses = list(_at_the_same_time(_spans(facts, kind, ending)))
            for loss, after in zip_longest(losses, losses[1:]):
                before_us = after[0].first_us if after else None
                ended = _ended(loss, ends, before_us)
                told = sorted({fact for span in loss for fact in span.facts} | {*ended}, key=_order)
                found = self._found(kind, told, facts, ended[0].at_us if ended else None)
                is_fresh = event_time_us - found.first_us < _KEEP_OPEN_US
                yield found._replace(is_open=not ended and after is None and is_fresh)
        for kind in _MOMENTS:
            if kind not in kinds:
                continue
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
            evidence=list(dict.fromkeys(each for fact in told for each in fact.text.split("\n")))[
                :_EVIDENCE
            ],
        )
        # Lines shortly before may be about the same loss, and any later one about its end: all
        # count.
        bears_from_us = first_us - _TOLD_AGAIN_US - _SAME_US
        lines = len(facts) - bisect_left(facts, bears_from_us, key=_at)
        return Found(row, bears_from_us, told[-1].at_us, lines=lines, held=len(told))


def read(record: Mapping[str, Any]) -> PathFact | None:
    """Parse a record. Return None if it is not about paths, devices or volumes."""
    if is_continuation(record):
        return None
    copy = copied(record)
    # A copy contains hostd's wording after the name of the host.
    message = f"Event 0 : {copy.text}" if copy else record["message"]
    for name, pattern in _PATTERNS.items():
        found = pattern.search(message)
        if found is None:
            continue
        words, _, source = name.rpartition("_")
        source = copy.by if copy else source
        told = {key: value or "" for key, value in found.groupdict().items()}
        ident = told.get("ident", "")
        # The identifier of a file system has no dot; that of a device starts with its type and a
        # dot.
        device = told.get("device", "") or (ident if "." in ident else "")
        host = host_of(record, copy)
        datastore = told.get("datastore", "") or (ident if "." not in ident else "")
        path = told.get("path", "")
        kind = _KINDS[words]
        return PathFact(
            at_us=copy.at_us if copy else record["event_time_us"],
            offset=record.get("offset", -1),
            text=verbatim(record),
            host=host,
            kind=kind,
            source=source if source in _SOURCES else "kernel",
            about=(words.partition("_")[0], path or ident or told.get("device") or datastore),
            path=path,
            device=device,
            datastore=datastore_name(datastore, host),
        )
    return None


def _spans(facts: Sequence[PathFact], kind: Kind, ending: tuple[Kind, ...]) -> Iterator[Span]:
    """Yield the spans of each source from a loss to its end."""
    by_source = sorted(facts, key=lambda fact: _SOURCES.index(fact.source))
    for source, told in groupby(by_source, key=lambda fact: fact.source):
        begun: list[PathFact] = []
        for fact in told:
            if fact.kind in ending and begun:
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
    """Group spans that overlap, or nearly do: they are one event."""
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
    """Return the lines about the end of a loss, the earliest first; none if it continues.

    Use the nearest source that reports ends. If no source that reported the loss also reports its
    end, use the next end from any other source.
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
