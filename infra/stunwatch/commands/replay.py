"""`stunwatch replay`: files, folders, archives and vm-support bundles become rows."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from detectors.catalogue import event_topics
from engine.owner import epoch_microseconds
from ingest.replay import (
    BACKFILL,
    ESXTOP,
    REJECTED,
    Message,
    Options,
    Plan,
    Problem,
    Reading,
    SourceFile,
    plan,
)
from ingest.times import UptimeClock
from stunwatch.access import kafka_access
from stunwatch.clickhouse import ClickHouse, as_user
from stunwatch.errors import UserError
from stunwatch.history import HistoryJob, wait_until_read
from stunwatch.kafka import Kafka
from stunwatch.printable import printable
from stunwatch.runtime.intake import why_intake_is_stopped
from stunwatch.settings import Settings, load_settings
from stunwatch.shipping import Shipper, by_topic

EXIT_INCOMPLETE = 1
"""Some lines are neither stored nor rejected, or some files could not be read."""

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


def replay(
    paths: Annotated[list[Path], typer.Argument(help="Files, folders, archives.")],
    host: Annotated[str | None, typer.Option(help="The host, where no line names one.")] = None,
    vm: Annotated[str | None, typer.Option(help="The VM of a lone vmware.log.")] = None,
    datastore: Annotated[str | None, typer.Option(help="The datastore of that VM.")] = None,
    tz: Annotated[str, typer.Option(help="Zone of stamps without one: Europe/Vienna.")] = "UTC",
    year: Annotated[
        int | None, typer.Option(help="Year of the first stamp without one (ESX 3 and 4).")
    ] = None,
) -> None:
    """Ship logs and return when every line is queryable and every event found.

    Plain, .gz, .zst, .tgz and vm-support bundles; what a file is, is found by its content. The same
    files again change nothing. Exit code 0: every line read is stored or rejected with a reason.

    Examples:

        stunwatch replay ./esx-esx01-2024-05-06.tgz

        stunwatch replay vmware.log --vm mail01 --datastore ds-gold

        stunwatch replay ./old-logs --tz Europe/Vienna --year 2009
    """
    settings = load_settings()
    options = Options(host=host, vm=vm, datastore=datastore, zone=zone(tz), year=year)
    console = Console(stderr=True)
    with plan(paths, options) as what:
        for problem in what.problems:
            said = printable(f"{problem.path}: {problem.sentence}")
            console.print(said, style="yellow", markup=False, highlight=False)
        if not what.files:
            raise UserError("There is nothing to replay.")
        outcome = run(settings, what, options, console)
    console.print(outcome.summary, highlight=False)
    if outcome.missing or outcome.problems or what.problems:
        raise typer.Exit(EXIT_INCOMPLETE)


@dataclass
class Outcome:
    """What a replay read and what of it is in ClickHouse, in lines."""

    run_id: str
    read: int = 0
    stored: int = 0
    rejected: int = 0
    missing: dict[str, int] = field(default_factory=dict)
    """Lines that are neither, by file."""
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def summary(self) -> str:
        """For a person: read = stored + rejected, and what is wrong."""
        sign = "≠" if self.missing else "="
        lines = [
            f"read {self.read:,} lines {sign} stored {self.stored:,} + rejected {self.rejected:,}"
            f"  ({self.seconds:.1f} s, {self.read / max(self.seconds, 0.001):,.0f} lines/s,"
            f" run {self.run_id})"
        ]
        lines += [
            f"[red]{file}: {count:,} lines are missing" for file, count in self.missing.items()
        ]
        lines += [f"[yellow]{problem}" for problem in self.problems]
        return "\n".join(lines)


class FileReading(Protocol):
    """What `run` asks of an ingest.replay.Reading."""

    lines_read: int

    @property
    def bytes_read(self) -> int: ...
    @property
    def consumed_bytes(self) -> int: ...
    @property
    def problem(self) -> Problem | None: ...
    def __iter__(self) -> Iterator[list[Message]]: ...


ReadingOf = Callable[[SourceFile, str, Options, UptimeClock], FileReading]
"""How a file of a run is read; the clock is for all of its files."""


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
    """Ship the plan's files, detect over them and count. Raises UserError if it cannot be done."""
    started = time.monotonic()
    clock = datetime.now(UTC)
    run_id = f"{clock:%Y-%m-%dT%H-%M-%S}-{secrets.token_hex(2)}"
    outcome = Outcome(run_id)
    clickhouse = as_user(settings, "reader")
    access = kafka_access(settings, "replay")
    # Who forgot `up` should not wait; from then on a broker that is away is waited for.
    starts = Kafka(access, patience_seconds=5).ends([BACKFILL, ESXTOP])
    kafka = Kafka(access)
    with HistoryJob(settings, run_id) as job, _progress(settings, console) as show:
        shipper = Shipper(access, show.waiting)
        counts: list[tuple[str, str, int, int]] = []
        show.stage("shipping", what.size_bytes)
        shipped_bytes = 0
        uptimes = UptimeClock()
        times = _Times()
        for file in what.files:
            reading = reading_of(file, run_id, options, uptimes)
            for messages in reading:
                times.look(messages)
                for topic, batch in by_topic(messages):
                    shipper.send(topic, batch)
                show.at(shipped_bytes + reading.consumed_bytes)
            shipped_bytes += file.size_bytes
            counts.append((file.name, file.generation, reading.bytes_read, reading.lines_read))
            outcome.read += reading.lines_read
            if reading.problem:
                outcome.problems.append(f"{reading.problem.path}: {reading.problem.sentence}")
        shipper.flush()
        ends = kafka.ends([BACKFILL, ESXTOP])
        show.stage("detecting", None)
        job.run(starts, ends, times.span_us, show.waiting)
        show.stage("storing", None)
        for topic, group in ((BACKFILL, "clickhouse-records"), (ESXTOP, "clickhouse-samples")):
            of_topic = {place: end for place, end in ends.items() if place[0] == topic}
            wait_until_read(kafka, group, of_topic, show.waiting)
        # Only now: the readers of records send to it what breaks the schema.
        rejected_ends = kafka.ends([REJECTED])
        wait_until_read(kafka, "clickhouse-rejected", rejected_ends, show.waiting)
        wait_until_read(kafka, "clickhouse-events", kafka.ends(event_topics()), show.waiting)
        show.stage("counting", None)
        count(clickhouse, counts, outcome)
    outcome.seconds = time.monotonic() - started
    return outcome


class _Times:
    """The first and the last event time of what is shipped, near enough: files are in order."""

    def __init__(self) -> None:
        self._first = ""
        self._last = ""

    def look(self, messages: list[Message]) -> None:
        """Take in the ends of a list; rejected lines have no time."""
        for _, _, record in (*messages[:1], *messages[-1:]):
            if moment := record.get("event_time"):
                self._first = min(self._first or moment, moment)
                self._last = max(self._last, moment)

    @property
    def span_us(self) -> tuple[int, int]:
        """In µs since 1970; (0, 0) where nothing had a time."""
        if not self._first:
            return 0, 0
        return epoch_microseconds(self._first), epoch_microseconds(self._last)


def count(clickhouse: ClickHouse, files: list[tuple[str, str, int, int]], outcome: Outcome) -> None:
    """Count the lines present, by the place in their file: a second replay balances too.

    A place counts once: what was rejected by an earlier version and is stored now is stored.
    """
    for first in range(0, len(files), _COUNTED_AT_ONCE):
        part = files[first : first + _COUNTED_AT_ONCE]
        ends: dict[str, int] = {}
        for _, generation, end, _ in part:
            ends[generation] = max(1, end, ends.get(generation, 0))
        present = {
            generation: (stored, rejected)
            for generation, stored, rejected in clickhouse.rows(
                _PLACES, {"generations": _array(ends), "ends": list(ends.values())}
            )
        }
        for name, generation, _, read in part:
            stored, rejected = present.get(generation, (0, 0))
            # Of a file and its shorter copy the shorter has fewer lines than are present.
            stored = min(read, stored)
            rejected = min(read - stored, rejected)
            outcome.stored += stored
            outcome.rejected += rejected
            if read > stored + rejected:
                outcome.missing[name] = read - stored - rejected


def _array(names: dict[str, int]) -> str:
    """Fingerprints as ClickHouse's array literal; they are hexadecimal."""
    return "[" + ",".join(f"'{name}'" for name in names) + "]"


def zone(name: str) -> ZoneInfo:
    """The time zone of this name. Raises UserError."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise UserError(f"There is no time zone {name!r}; Europe/Vienna is one.") from None


class _Show:
    """The progress bar, and what keeps it from moving."""

    def __init__(self, settings: Settings, progress: Progress, console: Console) -> None:
        self._settings = settings
        self._progress = progress
        self._console = console
        self._task: TaskID | None = None
        self._told = ""
        self._looked_at = 0.0

    def stage(self, name: str, total: int | None) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(name, total=total)

    def at(self, done: int) -> None:
        assert self._task is not None
        self._progress.update(self._task, completed=done)

    def waiting(self) -> None:
        """Say once why intake is stopped, if it is."""
        if time.monotonic() - self._looked_at < 1:
            return
        self._looked_at = time.monotonic()
        reason = why_intake_is_stopped(self._settings) or ""
        if reason and reason != self._told:
            self._console.print(f"[yellow]{reason}", highlight=False)
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
