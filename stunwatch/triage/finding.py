"""Finds events and incidents in files with the pipeline's own code, in this process.

`stunwatch triage` shows the result, and `make score` compares it with the expected events.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import orjson

from stunwatch.definitions import events
from stunwatch.detectors.bounds import EVICTED
from stunwatch.detectors.catalogue import INCIDENTS_TOPIC, detector_topics, literals
from stunwatch.engine.failures import Failure
from stunwatch.engine.history import FED_TOPICS, Fed, FleetHistory, final_incidents, seen, sendable
from stunwatch.engine.owner import FACTS, Owner, Written, epoch_microseconds, feed_in_order
from stunwatch.errors import UserError
from stunwatch.incidents.correlator import SEEN_TOPIC
from stunwatch.ingest.heads import load_patterns
from stunwatch.ingest.records import to_json
from stunwatch.ingest.replay import Options, Plan
from stunwatch.ingest.replay.in_order import group_of
from stunwatch.triage.reading import RUN_ID, Numbered, Read, now, read, records_of, stretch_of

Row = dict[str, Any]

VIEWS: Final = {topic: events()[topic].view for topic in (*detector_topics(), INCIDENTS_TOPIC)}
"""The view for each topic's events."""

WORTH_PROCESSES_BYTES: Final = 16 << 20
"""Below this size, starting more processes takes longer than it saves."""

_PARTS_OF_A_PROCESS: Final = 4
_LOOK_SECONDS: Final = 0.2

_Part = TypeVar("_Part")
_Result = TypeVar("_Result")

Progress = Callable[[str, int], None]
"""Called with the current stage and the number of bytes read since the last call."""


@dataclass
class Found:
    """The result of reading the files."""

    read: Read
    rows: dict[str, list[Row]] = field(
        default_factory=lambda: {view: [] for view in VIEWS.values()}
    )
    """By view, the final rows as the pipeline would store them."""
    failures: Counter[str] = field(default_factory=Counter)
    """Number of records on which a detector failed, by reason."""
    evicted: Counter[str] = field(default_factory=Counter)
    """Number of entries that trackers dropped at a limit, by name (detectors/bounds.py)."""

    @property
    def lines(self) -> int:
        """Return the number of lines read."""
        return sum(each.lines for each in self.read.files)

    @property
    def rejected(self) -> int:
        """Return the number of lines that match no pattern."""
        return sum(each.rejected for each in self.read.files)


def find(
    what: Plan,
    options: Options,
    progress: Progress = lambda stage, done: None,
    processes: int | None = None,
) -> Found:
    """Read the plan's files and run the detectors. `processes` None: one per core."""
    files = list(enumerate(what.files))
    processes = processes or _processes(what)
    # Loaded before the fork, so that the processes share it.
    load_patterns()
    literals()
    if processes > 1:
        done = _read_in_parts(files, options, progress, processes)
    else:
        done = read(files, options, lambda count: progress("reading", count))
    found = Found(done)
    progress("detecting", 0)
    fed, best = _detected(done, found, processes)
    progress("correlating", 0)
    best |= _correlated(fed, done, found.failures)
    for topic, row in best.values():
        if not row["is_deleted"] and topic in VIEWS:
            found.rows[VIEWS[topic]].append(row)
    return found


# -- Reading, with all cores


def _processes(what: Plan) -> int:
    is_worth_it = what.size_bytes >= WORTH_PROCESSES_BYTES and len(what.files) > 1
    return (os.cpu_count() or 1) if is_worth_it else 1


def _read_in_parts(
    files: list[Numbered], options: Options, progress: Progress, processes: int
) -> Read:
    """Read parts of the files in separate processes and merge the results."""
    groups = _groups(files)
    done = Read()
    parts = list(_balanced(groups, processes * _PARTS_OF_A_PROCESS))
    results = _in_processes(
        _read_part,
        [(part, options) for part in parts],
        processes,
        lambda count: progress("reading", count),
    )
    # Uptime milliseconds are anchored at a host's first line, so read all its files together.
    anchors = Counter(host for each in results for host in each.anchored)
    shared = {host for host, count in anchors.items() if count > 1}
    if shared:
        again = [part for part, each in zip(parts, results, strict=True) if each.anchored & shared]
        results = [each for each in results if not each.anchored & shared]
        results.append(read(sorted(file for part in again for file in part), options))
    for each in results:
        done.merge(each)
    return done


def _groups(files: list[Numbered]) -> list[list[Numbered]]:
    """Group the files of one host, and those of one VM."""
    groups: dict[tuple[str, ...], list[Numbered]] = {}
    for number, file in files:
        groups.setdefault(group_of(file), []).append((number, file))
    return list(groups.values())


def _balanced(groups: list[list[Numbered]], most: int) -> Iterator[list[Numbered]]:
    """Split into at most `most` parts of about the same size, the largest first."""

    def size(part: list[Numbered]) -> int:
        return sum(file.size_bytes for _, file in part)

    parts: list[list[Numbered]] = [[] for _ in range(min(most, len(groups)))]
    sizes = [0] * len(parts)
    for group in sorted(groups, key=size, reverse=True):
        smallest = sizes.index(min(sizes))
        parts[smallest] += group
        sizes[smallest] += size(group) + 1
    for part in sorted(parts, key=size, reverse=True):
        yield sorted(part, key=lambda each: each[0])


_counter: Any = None
"""In a reading process: the number of bytes that all of them have read."""


def _started(counter: Any) -> None:
    global _counter  # noqa: PLW0603 - a pool's process has no other place for it
    _counter = counter
    # Only the parent handles Ctrl-C.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _read_part(part: tuple[list[Numbered], Options]) -> Read:
    def progress(count: int) -> None:
        with _counter.get_lock():
            _counter.value += count

    return read(*part, progress)


def _in_processes(
    work: Callable[[_Part], _Result],
    parts: Sequence[_Part],
    processes: int,
    progress: Callable[[int], None] = lambda done: None,
) -> list[_Result]:
    """Return the result of `work` for each part. All processes end, also after an error."""
    # Use fork where it is supported: it is cheap.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    counter = context.Value("q", 0)
    pool = ProcessPoolExecutor(processes, context, _started, (counter,))
    try:
        futures: list[Future[_Result]] = [pool.submit(work, part) for part in parts]
        pending, told = set(futures), 0
        while pending:
            _, pending = wait(pending, _LOOK_SECONDS, FIRST_COMPLETED)
            progress(counter.value - told)
            told = counter.value
        results = [each.result() for each in futures]
    except BrokenProcessPool:
        pool.shutdown(wait=False, cancel_futures=True)
        raise UserError(
            "The system ended a process that read logs, most likely because memory ran out. Read"
            " fewer files at once."
        ) from None
    except BaseException:
        for each in multiprocessing.active_children():
            each.terminate()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()
    return results


# -- Detecting


@dataclass
class _Detected:
    """The output of the trackers."""

    events: list[Fed] = field(default_factory=list)
    facts: list[Row] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    evicted: Counter[str] = field(default_factory=Counter)


def _detected(
    done: Read, found: Found, processes: int
) -> tuple[list[Fed], dict[str, tuple[str, Row]]]:
    """Return the events for the correlator, and the final rows by id."""
    for owner, record in done.windows.records(RUN_ID):
        done.candidates.setdefault(owner, []).append(to_json(record))
    owners = sorted(done.candidates.values(), key=len, reverse=True)
    done.candidates = {}
    if processes > 1:
        first = _in_processes(_detect, [owners[each::16] for each in range(16)], processes)
    else:
        first = [_detect(owners)]
    facts: dict[str, list[bytes]] = {}
    for each in first:
        for fact in each.facts:
            facts.setdefault(fact["owner"], []).append(to_json(fact))
    fed: list[Fed] = []
    best: dict[str, tuple[str, Row]] = {}
    for each in (*first, _detect(list(facts.values()))):
        found.failures += each.failures
        found.evicted += each.evicted
        for topic, event in each.events:
            if topic in FED_TOPICS:
                fed.append((topic, event))
            known = best.get(event["event_id"])
            if known is None or event["revision"] >= known[1]["revision"]:
                best[event["event_id"]] = topic, event
    return fed, best


def _detect(owners: list[list[bytes]]) -> _Detected:
    """Run the trackers on the records of each log key (host or VM)."""
    done = _Detected()
    EVICTED.clear()
    for candidates in owners:
        kept: dict[str, Owner] = {}
        failures: list[Failure] = []
        for topic, event in sendable(
            feed_in_order(kept, records_of(candidates), failures),
            _sent,
            failures,
            lambda owner, name, kept=kept: kept[owner].reset(name),  # type: ignore[misc]
        ):
            if topic == FACTS:
                done.facts.append(event)
            else:
                done.events.append((topic, event))
        done.failures.update(each.reason for each in failures)
    done.evicted += EVICTED
    return done


def _sent(_: str, written: Written) -> tuple[str, Row]:
    """Return an event after a round trip through JSON, as correlator and ClickHouse see it."""
    topic, event = written
    if topic == FACTS:
        return topic, {name: value for name, value in event.items() if value is not None}
    return topic, orjson.loads(orjson.dumps(event))


# -- Correlating


def _correlated(fed: list[Fed], done: Read, reasons: Counter[str]) -> dict[str, tuple[str, Row]]:
    """Return the final rows of all incidents, by id."""
    for event in (*_first_seen(done.seen), *_first_seen(done.seen_samples)):
        fed.append((SEEN_TOPIC, event))
    failures: list[Failure] = []
    rows = final_incidents(FleetHistory(RUN_ID, *done.span.span_us), fed, failures)
    reasons.update(each.reason for each in failures)
    return {row["event_id"]: (INCIDENTS_TOPIC, row) for row in rows}


def _first_seen(told: list[tuple[int, str, str]]) -> Iterator[Row]:
    """Merge the first lines that each file showed, in the order of the plan."""
    newest: dict[str, str] = {}
    latest = now()
    for _, host, event_time in sorted(told, key=lambda each: each[0]):
        stretch = stretch_of(event_time, latest)
        if stretch > newest.get(host, ""):
            newest[host] = stretch
            yield seen({"host": host, "event_time_us": epoch_microseconds(event_time)})
