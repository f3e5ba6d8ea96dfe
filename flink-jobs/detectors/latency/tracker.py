"""Latency episodes of one host's devices.

Measurements of esxtop or vCenter arrive as windows of ten seconds (`ShortWindow`), aggregated by
the JVM (SampleWindows.java): the number of samples, of those above the threshold (slow) and of
those above the closing threshold (warm). A line of Storage I/O Control is a window with one sample.
Slow windows form a chain. It continues while warm windows follow soon, and ends when later windows
show that none does. Missing windows do not end it: the file may simply end.

The result is a pure function of the windows kept and the state folded from older ones.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import orjson

from stunwatch.detectors.bounds import EVICTED
from stunwatch.detectors.catalogue import detector
from stunwatch.detectors.events import (
    EVIDENCE_SHOWN,
    changed,
    content_hash,
    event_id,
    timestamp,
    weighed_revision,
)
from stunwatch.detectors.records import is_continuation, verbatim
from stunwatch.detectors.timers import Timers, keep
from stunwatch.ingest.records import datastore_name

_DETECTOR = detector("latency")
_STORAGE_RM = _DETECTOR.patterns["storage_rm"]
_LIMITS = _DETECTOR.thresholds

_SECOND = 1_000_000
_CLOSING_US = _LIMITS["closing_after_seconds"] * _SECOND
_SUSTAINED_US = _LIMITS["sustained_seconds"] * _SECOND
_SUSTAINED_SHARE = _LIMITS["sustained_percent"] / 100
_KEEP_US = _LIMITS["keep_minutes"] * 60 * _SECOND
_FORGET_US = _LIMITS["forget_hours"] * 3600 * _SECOND

_RETRACTED = weighed_revision(0, 0, 0, 0, is_deleted=True)
"""Added to the revision of a row when it is retracted."""


@dataclass(frozen=True)
class Episode:
    """One row of the view `latency_episodes`, except `detected_at`. Times are UTC, with µs."""

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


class ShortWindow(NamedTuple):
    """A short window of one device and metric. Times in µs since 1970; sorts by its end."""

    end_us: int
    samples: int
    slow: int
    warm: int
    first_us: int
    """The time of the first slow sample, if there is one; `last_us` is that of the last one."""
    last_us: int
    peak_ms: float
    sum_ms: float
    """The sum over slow samples."""
    limit_ms: float
    text: str
    """The line, if the window is from a line."""


class Series(NamedTuple):
    """Identifies the series that windows belong to."""

    host: str
    object_class: str
    device: str
    metric: str
    origin: str


@dataclass
class Chain:
    """An episode while windows are added to it, in order."""

    limit_ms: float
    first_us: int
    last_us: int
    warm_us: int
    """The end of the newest warm window."""
    slow: int = 0
    samples: int = 0
    """Samples from the first slow one to the last."""
    since: int = 0
    """Samples after the last slow one."""
    peak_ms: float = 0.0
    sum_ms: float = 0.0
    is_sustained: bool = False
    is_closed: bool = False
    recent: list[ShortWindow] = field(default_factory=list)
    """The newest windows: twice the time after which an episode is sustained."""
    evidence: list[str] = field(default_factory=list)

    def copied(self) -> Chain:
        """Return a chain that may be changed without changing this one."""
        return replace(self, recent=[*self.recent], evidence=[*self.evidence])

    def goes_on_until(self, each: ShortWindow) -> bool:
        """True if the chain still continues at the end of this window."""
        return each.end_us - self.warm_us <= _CLOSING_US

    def add(self, each: ShortWindow) -> None:
        """Add the next window."""
        if each.warm:
            self.warm_us = each.end_us
        if not each.slow:
            self.since += each.samples
        else:
            self.last_us = each.last_us
            # The positions of slow samples in a window are unknown: of the first and the last
            # window, count only slow samples.
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
        """True if a part that ends with the newest window is long enough and slow enough.

        Of the first and the last window only the slow samples are inside the part.
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
    """The state of one series."""

    windows: list[ShortWindow] = field(default_factory=list)
    folded_us: int = 0
    """Windows up to this time are folded into `open`."""
    open: Chain | None = None
    """The chain that was open then."""
    written: dict[str, Episode] = field(default_factory=dict)

    @property
    def due_us(self) -> int:
        """When a window is folded, or the open chain expires."""
        dues = [each.end_us + _KEEP_US for each in self.windows[:1]]
        if self.open is not None:
            dues.append(self.open.warm_us + _FORGET_US)
        return min(dues, default=0)


@dataclass
class Tracker:
    """Tracks the latency episodes of one host."""

    event_time_us: int = 0
    run_id: str = ""
    series: dict[Series, History] = field(default_factory=dict)
    timers: Timers[Series] = field(default_factory=Timers)

    def feed(self, record: Mapping[str, Any]) -> Iterator[Episode]:
        """Yield the episodes that this window starts, changes or ends."""
        self.run_id = record.get("run_id", "")
        for name, each in read(record):
            history = self.series.get(name) or History()
            if keep(self.series, name, history, self.timers):
                EVICTED["series"] += 1
            place = bisect_left(history.windows, each.end_us, key=_end)
            is_known = place < len(history.windows) and history.windows[place].end_us == each.end_us
            if is_known or each.end_us <= history.folded_us:
                continue
            history.windows.insert(place, each)
            yield from self._changes(name, history)
            self.timers.set(name, history.due_us)

    def advance_time(self, event_time_us: int) -> Iterator[Episode]:
        """Yield nothing: without windows the latency is unknown. Fold or drop old state."""
        self.event_time_us = max(self.event_time_us, event_time_us)
        for name in self.timers.take(self.event_time_us):
            history = self.series[name]
            self._fold(history)
            if history.windows or history.open is not None:
                self.timers.set(name, history.due_us)
            else:
                del self.series[name]
        return iter(())

    def flush(self) -> Iterator[Episode]:
        """Yield nothing: every episode is written at once."""
        return iter(())

    @property
    def next_timer_us(self) -> int | None:
        """When a window is folded or an episode expires; None if no state is kept."""
        return self.timers.next_us

    def _changes(self, name: Series, history: History) -> Iterator[Episode]:
        """Yield the rows that replace those written before with the current chains."""
        now = {}
        for chain in _chains(history):
            row = _episode(name, chain, self.run_id)
            now[row.event_id] = row
        for each, before in list(history.written.items()):
            if each not in now:
                del history.written[each]
                revision = before.revision | _RETRACTED
                yield changed(before, is_deleted=1, revision=revision, run_id=self.run_id)
        for each, row in now.items():
            known = history.written.get(each)
            history.written[each] = row
            if known is None or known.revision != row.revision:
                yield row

    def _fold(self, history: History) -> None:
        """Fold windows that no late one can precede any more. An open chain continues."""
        until_us = self.event_time_us - _KEEP_US
        old = [each for each in history.windows if each.end_us <= until_us]
        if old:
            *_, last = [None, *_chains(replace(history, windows=old))]
            history.open = last if last is not None and not last.is_closed else None
            history.windows = history.windows[len(old) :]
            history.folded_us = old[-1].end_us
        if history.open is not None and history.open.warm_us <= self.event_time_us - _FORGET_US:
            history.open = None
        told = {_name_of_start(chain) for chain in _chains(history)}
        history.written = {
            each: row for each, row in history.written.items() if row.started_at in told
        }


def read(record: Mapping[str, Any]) -> Iterator[tuple[Series, ShortWindow]]:
    """Parse a record to windows; a window of esxtop gives one per metric."""
    host = record.get("host", "")
    if record["source"] == "esxtop":
        yield from _read_short_window(host, orjson.loads(record["message"]))
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
        Series(host, "datastore", datastore_name(found["datastore"], host), "gavg", "storage_rm"),
        ShortWindow(
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
    """True if a sample counts as above the limit. The same rule as in SampleWindows.java."""
    if latency_ms <= limit_ms:
        return False
    waiting = commands * (latency_ms / limit_ms - 1)
    return (
        commands >= _LIMITS["enough_commands_per_second_count"]
        or waiting >= _LIMITS["slow_commands_per_second_count"]
    )


def _read_short_window(host: str, told: dict[str, Any]) -> Iterator[tuple[Series, ShortWindow]]:
    end_us = _microseconds(told["short_window_end"])
    origin = told.get("origin", "esxtop")
    for metric, prefix, limit_ms in (
        (told["metric"], "", told["limit_ms"]),
        ("kavg", "kavg_", _LIMITS["kavg_ms"]),
    ):
        yield (
            Series(host, told["object_class"], told["device"], metric, origin),
            ShortWindow(
                end_us=end_us,
                samples=told["samples"],
                slow=told[f"{prefix}slow"],
                warm=told[f"{prefix}warm"],
                first_us=_microseconds(told[f"{prefix}first"]),
                last_us=_microseconds(told[f"{prefix}last"]),
                peak_ms=_finite(told[f"{prefix}peak_ms"]),
                sum_ms=_finite(told[f"{prefix}sum_ms"]),
                limit_ms=float(limit_ms),
                text="",
            ),
        )


def _finite(told: float | str | None) -> float:
    """Return a number; 0 if missing or not finite, which Flink writes as a string."""
    return 0.0 if told is None or isinstance(told, str) else told


def _microseconds(text: str | None) -> int:
    """Parse `2024-05-06 07:08:09.123` (UTC) to microseconds since 1970; 0 for None."""
    if text is None:
        return 0
    moment = datetime.fromisoformat(text).replace(tzinfo=UTC)
    return int(moment.timestamp()) * _SECOND + moment.microsecond


def _chains(history: History) -> Iterator[Chain]:
    """Yield the chains of the windows, in order, first the one that was open before them."""
    chain = history.open.copied() if history.open else None
    for each in history.windows:
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
    revision = weighed_revision(
        known, int(chain.is_closed), content_hash(row), _DETECTOR.version, is_deleted=False
    )
    return changed(row, revision=revision, run_id=run_id)


def _end(each: ShortWindow) -> int:
    return each.end_us
