"""Latency episodes of one host's devices.

What esxtop or vCenter measures comes in slices of ten seconds that the JVM has counted
(jobs/samples.sql): how many samples, how many of them above the threshold (slow) and above the
closing threshold (warm).
A line of Storage I/O Control is a slice of one sample. Slow slices make a chain; it goes on while
warm ones follow soon, and ends when slices say that none does. Silence ends nothing: a file may
simply stop.

What is told is a pure function of the slices kept and of what older ones were folded into.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import orjson

from detectors.catalogue import detector
from detectors.events import (
    EVIDENCE_SHOWN,
    content_hash,
    event_id,
    timestamp,
    weighed_revision,
)
from detectors.records import is_continuation, verbatim

_DETECTOR = detector("latency")
_STORAGE_RM = _DETECTOR.patterns["storage_rm"]
_LIMITS = _DETECTOR.thresholds

_SECOND = 1_000_000
_CLOSING_US = _LIMITS["closing_after_seconds"] * _SECOND
_SUSTAINED_US = _LIMITS["sustained_seconds"] * _SECOND
_SUSTAINED_SHARE = _LIMITS["sustained_percent"] / 100
_KEEP_US = _LIMITS["keep_minutes"] * 60 * _SECOND
_FORGET_US = _LIMITS["forget_hours"] * 3600 * _SECOND

_TAKEN_BACK = weighed_revision(0, 0, 0, is_deleted=True)
"""What a revision gains when its row is taken back."""


@dataclass(frozen=True)
class Episode:
    """One row of the view `latency_episodes`, except `detected_at`. Times are UTC, six digits."""

    event_id: str
    detector: str
    revision: int
    is_deleted: int
    run_id: str
    host: str
    object_class: str
    device: str
    metric: str
    origin: Literal["esxtop", "storage_rm", "vcenter"]
    kind: Literal["spike", "sustained"]
    started_at: str
    ended_at: str | None
    threshold_ms: float
    peak_ms: float
    mean_ms: float
    baseline_ms: float | None
    samples: int
    evidence: list[str]


class Slice(NamedTuple):
    """Some seconds of one device and metric. Times in µs since 1970; sorts by its end."""

    end_us: int
    samples: int
    slow: int
    warm: int
    first_us: int
    """The first slow sample's time, where there is one; likewise the last one's."""
    last_us: int
    peak_ms: float
    sum_ms: float
    """Of the slow samples."""
    limit_ms: float
    text: str
    """The line, where it is one."""


class Series(NamedTuple):
    """What slices belong to."""

    host: str
    object_class: str
    device: str
    metric: str
    origin: str


@dataclass
class Chain:
    """An episode while slices are added to it, in order."""

    limit_ms: float
    first_us: int
    last_us: int
    warm_us: int
    """The end of the newest warm slice."""
    slow: int = 0
    samples: int = 0
    """From the first slow one to the last."""
    since: int = 0
    """Samples after the last slow one."""
    peak_ms: float = 0.0
    sum_ms: float = 0.0
    is_sustained: bool = False
    is_closed: bool = False
    recent: list[Slice] = field(default_factory=list)
    """The newest slices: twice what it takes to be sustained."""
    evidence: list[str] = field(default_factory=list)

    def goes_on_until(self, each: Slice) -> bool:
        """Whether the chain is still going on when this slice ends."""
        return each.end_us - self.warm_us <= _CLOSING_US

    def add(self, each: Slice) -> None:
        """Add the next slice."""
        if each.warm:
            self.warm_us = each.end_us
        if not each.slow:
            self.since += each.samples
        else:
            self.last_us = each.last_us
            # Where in a slice its slow samples lie is not told: of the first and the last slice
            # only they count.
            self.samples += self.since + each.slow
            self.since = each.samples - each.slow if self.slow else 0
            self.slow += each.slow
            self.peak_ms = max(self.peak_ms, each.peak_ms)
            self.sum_ms += each.sum_ms
            if each.text and len(self.evidence) < EVIDENCE_SHOWN:
                self.evidence.append(each.text)
        self.recent.append(each)
        oldest_us = each.end_us - 2 * _SUSTAINED_US
        while self.recent[0].end_us < oldest_us:
            del self.recent[0]
        if each.slow and not self.is_sustained:
            self.is_sustained = self._lasts()

    def _lasts(self) -> bool:
        """Whether a part that ends with the newest slice is long enough and slow enough.

        Of the first and the last slice only the slow samples lie within the part.
        """
        newest = self.recent[-1]
        slow = samples = newest.slow
        for each in reversed(self.recent[:-1]):
            slow += each.slow
            samples += each.samples
            inside = samples - each.samples + each.slow
            is_long = each.slow and newest.last_us - each.first_us >= _SUSTAINED_US
            if is_long and slow >= inside * _SUSTAINED_SHARE:
                return True
        return False


@dataclass
class History:
    """What is known of one series."""

    slices: list[Slice] = field(default_factory=list)
    folded_us: int = 0
    """Slices up to here are no longer kept one by one."""
    open: Chain | None = None
    """The chain that was going on then."""
    written: dict[str, Episode] = field(default_factory=dict)

    @property
    def due_us(self) -> int:
        """When a slice is folded, or the open chain forgotten."""
        dues = [each.end_us + _KEEP_US for each in self.slices[:1]]
        if self.open is not None:
            dues.append(self.open.warm_us + _FORGET_US)
        return min(dues, default=0)


@dataclass
class Tracker:
    """The latency episodes of one host."""

    event_time_us: int = 0
    run_id: str = ""
    series: dict[Series, History] = field(default_factory=dict)
    due_us: int | None = None

    def feed(self, record: Mapping[str, Any]) -> Iterator[Episode]:
        """The episodes that this slice begins, changes or ends."""
        self.run_id = record.get("run_id", "")
        for name, each in read(record):
            history = self.series.setdefault(name, History())
            place = bisect_left(history.slices, each.end_us, key=_end)
            is_known = place < len(history.slices) and history.slices[place].end_us == each.end_us
            if is_known or each.end_us <= history.folded_us:
                continue
            history.slices.insert(place, each)
            yield from self._changes(name, history)
        self._look_ahead()

    def tick(self, event_time_us: int) -> Iterator[Episode]:
        """Nothing: silence tells of no latency. What is old is folded or forgotten."""
        self.event_time_us = max(self.event_time_us, event_time_us)
        if self.due_us is not None and self.event_time_us >= self.due_us:
            for name, history in list(self.series.items()):
                self._fold(history)
                if not history.slices and history.open is None:
                    del self.series[name]
            self._look_ahead()
        return iter(())

    def flush(self) -> Iterator[Episode]:
        """Nothing: every episode is written at once."""
        return iter(())

    @property
    def next_due_us(self) -> int | None:
        """When a slice is folded or an episode forgotten; None where nothing is kept."""
        return self.due_us

    def _changes(self, name: Series, history: History) -> Iterator[Episode]:
        """What to write so that the chains told now hold."""
        now = {}
        for chain in _chains(history):
            row = _episode(name, chain, self.run_id)
            now[row.event_id] = row
        for each, before in list(history.written.items()):
            if each not in now:
                del history.written[each]
                revision = before.revision | _TAKEN_BACK
                yield replace(before, is_deleted=1, revision=revision, run_id=self.run_id)
        for each, row in now.items():
            known = history.written.get(each)
            history.written[each] = row
            if known is None or known.revision != row.revision:
                yield row

    def _fold(self, history: History) -> None:
        """Keep no slice longer than late ones may take; an open chain goes on without them."""
        until_us = self.event_time_us - _KEEP_US
        old = [each for each in history.slices if each.end_us <= until_us]
        if old:
            *_, last = [None, *_chains(replace(history, slices=old))]
            history.open = last if last is not None and not last.is_closed else None
            history.slices = history.slices[len(old) :]
            history.folded_us = old[-1].end_us
        if history.open is not None and history.open.warm_us <= self.event_time_us - _FORGET_US:
            history.open = None
        told = {_name_of_start(chain) for chain in _chains(history)}
        history.written = {
            each: row for each, row in history.written.items() if row.started_at in told
        }

    def _look_ahead(self) -> None:
        self.due_us = min((history.due_us for history in self.series.values()), default=None)


def read(record: Mapping[str, Any]) -> Iterator[tuple[Series, Slice]]:
    """The slices that a record tells: of a slice of esxtop's, one a metric."""
    host = record.get("host", "")
    if record["source"] == "esxtop":
        yield from _read_slice(host, orjson.loads(record["message"]))
        return
    found = _STORAGE_RM.search(record["message"])
    if found is None or record.get("program") != "storagerm" or is_continuation(record):
        return
    latency_ms, limit_ms = float(found["milliseconds"]), float(_LIMITS["gavg_datastore_ms"])
    at_us = record["event_time_us"]
    is_slow = _is_above(latency_ms, limit_ms, float(found["commands"]))
    is_warm = _is_above(
        latency_ms, limit_ms * _LIMITS["closing_percent"] / 100, float(found["commands"])
    )
    yield (
        Series(host, "datastore", found["datastore"], "gavg", "storage_rm"),
        Slice(
            end_us=at_us,
            samples=1,
            slow=int(is_slow),
            warm=int(is_warm),
            first_us=at_us,
            last_us=at_us,
            peak_ms=latency_ms,
            sum_ms=latency_ms if is_slow else 0.0,
            limit_ms=limit_ms,
            text=verbatim(record),
        ),
    )


def _is_above(latency_ms: float, limit_ms: float, commands: float) -> bool:
    """Whether so many commands a second are slow; jobs/samples.sql asks the same."""
    if latency_ms <= limit_ms:
        return False
    waiting = commands * (latency_ms / limit_ms - 1)
    return (
        commands >= _LIMITS["enough_commands_per_second_count"]
        or waiting >= _LIMITS["slow_commands_per_second_count"]
    )


def _read_slice(host: str, told: dict[str, Any]) -> Iterator[tuple[Series, Slice]]:
    end_us = _microseconds(told["slice_end"])
    origin = told.get("origin", "esxtop")
    for metric, prefix, limit_ms in (
        (told["metric"], "", told["limit_ms"]),
        ("kavg", "kavg_", _LIMITS["kavg_ms"]),
    ):
        yield (
            Series(host, told["object_class"], told["device"], metric, origin),
            Slice(
                end_us=end_us,
                samples=told["samples"],
                slow=told[f"{prefix}slow"],
                warm=told[f"{prefix}warm"],
                first_us=_microseconds(told[f"{prefix}first"]),
                last_us=_microseconds(told[f"{prefix}last"]),
                peak_ms=told[f"{prefix}peak_ms"] or 0.0,
                sum_ms=told[f"{prefix}sum_ms"],
                limit_ms=float(limit_ms),
                text="",
            ),
        )


def _microseconds(text: str | None) -> int:
    """`2024-05-06 07:08:09.123` (UTC) in microseconds since 1970; 0 where there is none."""
    if text is None:
        return 0
    moment = datetime.fromisoformat(text).replace(tzinfo=UTC)
    return int(moment.timestamp()) * _SECOND + moment.microsecond


def _chains(history: History) -> Iterator[Chain]:
    """The chains of the slices, in order, the one first that was going on before them."""
    chain = deepcopy(history.open)
    for each in history.slices:
        if chain is not None and not chain.goes_on_until(each):
            chain.is_closed = True
            yield chain
            chain = None
        if chain is None and each.slow:
            chain = Chain(each.limit_ms, each.first_us, each.last_us, each.end_us)
        if chain is not None:
            chain.add(each)
    if chain is not None:
        yield chain


def _name_of_start(chain: Chain) -> str:
    return timestamp(chain.first_us)


def _episode(name: Series, chain: Chain, run_id: str) -> Episode:
    started_at = _name_of_start(chain)
    row = Episode(
        event_id=event_id(_DETECTOR.name, *name, started_at),
        detector=_DETECTOR.name,
        revision=0,
        is_deleted=0,
        run_id="",
        host=name.host,
        object_class=name.object_class,
        device=name.device,
        metric=name.metric,
        origin=name.origin,  # type: ignore[arg-type]
        kind="sustained" if chain.is_sustained else "spike",
        started_at=started_at,
        ended_at=timestamp(chain.last_us) if chain.is_closed else None,
        threshold_ms=chain.limit_ms,
        peak_ms=round(chain.peak_ms, 3),
        mean_ms=round(chain.sum_ms / chain.slow, 3),
        baseline_ms=None,
        samples=chain.samples,
        evidence=chain.evidence,
    )
    known = chain.samples + chain.since
    revision = weighed_revision(known, int(chain.is_closed), content_hash(row), is_deleted=False)
    return replace(row, revision=revision, run_id=run_id)


def _end(each: Slice) -> int:
    return each.end_us
