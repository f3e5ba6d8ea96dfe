"""Sends the lines of files to Kafka, waits until their events are found, and counts the results."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import orjson
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from stunwatch import found
from stunwatch.access import kafka_access
from stunwatch.clickhouse import ClickHouse, as_user
from stunwatch.consumers import wait_until_detected, wait_until_read
from stunwatch.detectors.catalogue import event_topics
from stunwatch.errors import UserError
from stunwatch.event_span import EventSpan, HostsSent
from stunwatch.incidents_of_history import judge
from stunwatch.ingest.replay import (
    BACKFILL,
    ESXTOP,
    REJECTED,
    Options,
    Plan,
    Reading,
    SourceFile,
)
from stunwatch.ingest.replay.in_order import FileReading, InOrder
from stunwatch.ingest.times import UptimeClock, utc_text
from stunwatch.kafka import Kafka, Offsets
from stunwatch.local.intake import why_intake_is_stopped
from stunwatch.settings import Settings
from stunwatch.shipping import HISTORY_LINGER_MS, Shipper, by_topic

_COUNTED_AT_ONCE = 1000

_PLACES = """
SELECT generation, countIf(is_stored), countIf(NOT is_stored)
FROM (
    SELECT generation, offset, max(is_stored) AS is_stored
    FROM (
        SELECT generation, offset, true AS is_stored FROM log_lines_stored
        UNION ALL
        -- What Storage I/O Control says is a line too.
        SELECT generation, offset, true AS is_stored FROM latency_samples_stored
        WHERE object_class != 'datastore'
        UNION ALL
        SELECT generation, offset, false AS is_stored FROM rejected_lines_stored
    )
    WHERE generation IN {generations:Array(String)} AND offset < transform(
        generation, {generations:Array(String)}, {ends:Array(UInt64)}, toUInt64(0)
    )
    GROUP BY generation, offset
)
GROUP BY generation
"""


@dataclass
class Outcome:
    """The result of a replay: how many lines were read, and how many of them are in ClickHouse."""

    run_id: str
    read: int = 0
    stored: int = 0
    rejected: int = 0
    missing: dict[str, int] = field(default_factory=dict)
    """Lines that are neither stored nor rejected, by file."""
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0
    events_from: Offsets = field(default_factory=dict)
    events_to: Offsets = field(default_factory=dict)
    """Range of offsets in Kafka that contains the events of the replay."""

    @property
    def summary(self) -> str:
        """A text for people: read = stored + rejected, and any problems."""
        sign = "≠" if self.missing else "="
        lines = [
            f"read {self.read:,} lines {sign} stored {self.stored:,} + rejected {self.rejected:,}"
            f"  ({self.seconds:.1f} s, {self.read / max(self.seconds, 0.001):,.0f} lines/s,"
            f" run {self.run_id})"
        ]
        lines += [f"{file}: {count:,} lines are missing" for file, count in self.missing.items()]
        lines += self.problems
        return "\n".join(lines)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a replay. `summary` reports what is stored and how to continue."""

    def __init__(self, stage: str, outcome: Outcome, files: int, is_counted: bool) -> None:
        self.summary = (
            f"Interrupted while {stage}. {outcome.read:,} lines of {files:,} files were read"
            + (f"; {outcome.stored:,} of them are stored so far" if is_counted else "")
            + ". ClickHouse still stores what was sent. Events may be missing. To continue, run"
            " the same command again: it stores no line twice and finds all events."
        )
        super().__init__(self.summary)


ReadingOf = Callable[[SourceFile, str, Options, UptimeClock], FileReading]
"""Creates the reader of a file of a run; all files of a run share the clock."""


def _reading(
    source: SourceFile, run_id: str, options: Options, uptimes: UptimeClock
) -> FileReading:
    return Reading(source, run_id, options, uptimes=uptimes)


def run(
    settings: Settings,
    what: Plan,
    options: Options,
    console: Console,
    reading_of: ReadingOf = _reading,
) -> Outcome:
    """Send the plan's files, detect their events, and count the stored lines.

    Raises:
        UserError: the replay failed.
        Interrupted: the user pressed Ctrl-C.
    """
    started = time.monotonic()
    clock = datetime.now(UTC)
    run_id = f"{clock:%Y-%m-%dT%H-%M-%S}-{secrets.token_hex(2)}"
    outcome = Outcome(run_id)
    clickhouse = as_user(settings, "analyst")
    access = kafka_access(settings, "replay")
    counts: list[tuple[str, str, int, int]] = []
    with _progress(settings, console) as show:
        # First, because a new producer may need half a second until it can send.
        shipper = Shipper(access, show.waiting, HISTORY_LINGER_MS)
        # Fail early if the pipeline is not running. Later calls wait for an unreachable broker.
        Kafka(access, patience_seconds=5).ends([BACKFILL, ESXTOP])
        kafka = Kafka(access)
        outcome.events_from = kafka.ends(found.topics())
        with _interruptible(clickhouse, show, outcome, counts):
            show.stage("sending", what.size_bytes)
            uptimes = UptimeClock()
            span, hosts = EventSpan(), HostsSent()
            files = InOrder(what.files, lambda file: reading_of(file, run_id, options, uptimes))
            try:
                for messages in files:
                    span.look(messages)
                    hosts.look(messages)
                    for topic, batch in by_topic(messages):
                        shipper.send(topic, batch)
                    show.at(files.consumed_bytes)
            finally:
                for file, reading in files.begun:
                    counts.append(
                        (file.name, file.generation, reading.bytes_read, reading.lines_read)
                    )
                    outcome.read += reading.lines_read
                    if reading.problem:
                        outcome.problems.append(
                            f"{reading.problem.path}: {reading.problem.sentence}"
                        )
            shipper.flush()
            ends = kafka.ends([BACKFILL, ESXTOP])
            show.stage("detecting", None)
            wait_until_detected(
                settings, kafka, ends, lambda: _nudge(shipper, run_id, ends), show.waiting
            )
            wait_until_read(kafka, "clickhouse-events", kafka.ends(event_topics()), show.waiting)
            if not hosts.is_complete:
                _wait_until_stored(kafka, ends, show)
            # Incidents need the events, and of the lines only their hosts. So ClickHouse may still
            # be storing lines.
            show.stage("correlating", None)
            judge(settings, run_id, span.span_us, show.waiting, hosts.rows())
            _wait_until_stored(kafka, ends, show)
            outcome.events_to = kafka.ends(found.topics())
            show.stage("counting", None)
            count(clickhouse, counts, outcome)
    outcome.seconds = time.monotonic() - started
    return outcome


def _wait_until_stored(kafka: Kafka, ends: Offsets, show: _Show) -> None:
    """Return when ClickHouse has stored the lines and samples before `ends`, and all events."""
    show.stage("storing", None)
    for topic, group in ((BACKFILL, "clickhouse-records"), (ESXTOP, "clickhouse-samples")):
        of_topic = {place: end for place, end in ends.items() if place[0] == topic}
        wait_until_read(kafka, group, of_topic, show.waiting)
    # Only now: ClickHouse's record queues write to this topic the records that break the schema.
    wait_until_read(kafka, "clickhouse-rejected", kafka.ends([REJECTED]), show.waiting)
    wait_until_read(kafka, "clickhouse-events", kafka.ends(event_topics()), show.waiting)


def _nudge(shipper: Shipper, run_id: str, ends: Offsets) -> None:
    """Send a record that means nothing to each partition, so that Flink commits its offsets."""
    moment = utc_text(datetime.now(UTC))
    for topic, source in ((BACKFILL, "syslog"), (ESXTOP, "esxtop")):
        record = {
            "event_time": moment,
            "received_at": moment,
            "kind": "progress",
            "source": source,
            "run_id": run_id,
            "time_quality": "arrival",
        }
        value = orjson.dumps(record)
        partitions = [partition for name, partition in ends if name == topic]
        shipper.send(topic, [{"key": b"", "value": value, "partition": n} for n in partitions])
    shipper.flush()


@contextmanager
def _interruptible(
    clickhouse: ClickHouse, show: _Show, outcome: Outcome, counts: list[tuple[str, str, int, int]]
) -> Iterator[None]:
    """Turn Ctrl-C into Interrupted, with the lines stored so far."""
    try:
        yield
    except KeyboardInterrupt:
        try:
            count(clickhouse, counts, outcome)
            is_counted = True
        except UserError:
            is_counted = False
        raise Interrupted(show.name, outcome, len(counts), is_counted) from None


def events_of(settings: Settings, outcome: Outcome) -> dict[str, int] | None:
    """Count the events of a replay by kind (stunwatch/found.py); None if unknown."""
    if not outcome.events_to:
        return None
    access = kafka_access(settings, "replay")
    return found.count_events(
        access, outcome.events_from, outcome.events_to, outcome.run_id, lambda: None
    )


def count(clickhouse: ClickHouse, files: list[tuple[str, str, int, int]], outcome: Outcome) -> None:
    """Count the lines in ClickHouse by their offset in the file.

    The counts therefore balance for a second replay, too. An offset is counted once: a line that an
    earlier version rejected and that is stored now counts as stored.
    """
    for first in range(0, len(files), _COUNTED_AT_ONCE):
        part = files[first : first + _COUNTED_AT_ONCE]
        ends: dict[str, int] = {}
        for _, generation, end, _ in part:
            ends[generation] = max(1, end, ends.get(generation, 0))
        present = {
            generation: (stored, rejected)
            for generation, stored, rejected in clickhouse.rows(
                _PLACES, {"generations": list(ends), "ends": list(ends.values())}
            )
        }
        for name, generation, _, read in part:
            stored, rejected = present.get(generation, (0, 0))
            # A file and its shorter copy share a generation: more lines are stored than the copy
            # has.
            stored = min(read, stored)
            rejected = min(read - stored, rejected)
            outcome.stored += stored
            outcome.rejected += rejected
            if read > stored + rejected:
                outcome.missing[name] = read - stored - rejected


class _Show:
    """The progress bar. It also reports why intake is stopped."""

    def __init__(self, settings: Settings, progress: Progress, console: Console) -> None:
        self._settings = settings
        self._progress = progress
        self._console = console
        self._task: TaskID | None = None
        self._told = ""
        self._looked_at = 0.0
        self.name = "starting"

    def stage(self, name: str, total: int | None) -> None:
        self.name = name
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(name, total=total)

    def at(self, done: int) -> None:
        assert self._task is not None
        self._progress.update(self._task, completed=done)

    def waiting(self) -> None:
        """Print once why intake is stopped, if it is."""
        if time.monotonic() - self._looked_at < 1:
            return
        self._looked_at = time.monotonic()
        reason = why_intake_is_stopped(self._settings) or ""
        if reason and reason != self._told:
            self._console.print(reason, style="yellow", highlight=False)
        self._told = reason


@contextmanager
def _progress(settings: Settings, console: Console) -> Iterator[_Show]:
    columns = (
        TextColumn("{task.description:10}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield _Show(settings, progress, console)
