"""Hostile lines through parser, trackers and correlator: no exception, and little time for each.

STUNWATCH_FUZZ_SECONDS makes the long test longer, STUNWATCH_FUZZ_SEED changes its lines.
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import islice

import pytest

from stunwatch.engine.owner import FACTS, Owner, epoch_microseconds
from stunwatch.incidents.correlator import Correlator
from stunwatch.incidents.seasonal_baseline import Hours
from stunwatch.incidents.signals import signal_of
from stunwatch.incidents.topology import Topology
from stunwatch.ingest.records import LineRecords, Origin, WireRecords
from tests.hostile.lines import TAILS, dated_lines, literal_lines, messages, mutants

ARRIVAL = datetime(2026, 1, 1, tzinfo=UTC)
RECEIVED = "2026-01-01T00:00:00.000Z"
LINE_SECONDS = 1.0
"""CPU seconds for one line of up to 16 KiB in parser and trackers."""

LINES_OF_AN_OWNER = 1_000
LARGEST_STATE = 4 << 20
"""The most bytes of state of one log key after this many lines."""


class Line:
    """One pipeline in memory. An exception is reported with the line that caused it."""

    def __init__(self) -> None:
        self.records = self.events = self.incidents = 0
        self._seen = 0
        self._wire = WireRecords()
        self._files = {
            source: LineRecords(
                Origin("live", source, "esx66", "vm66", "ds", "/vmfs/volumes/ds/vm66/f", "0" * 16),
                written_at=ARRIVAL,
            )
            for source in ("vmware_log", "syslog")
        }
        self._correlator = Correlator("live", 900_000_000)
        self._places = Topology()
        self._bands: dict[str, Hours] = {}
        self._start()

    def _start(self) -> None:
        self._owners = {name: Owner() for name in ("vmware_log", "syslog", "shared")}

    def wire(self, line: bytes) -> None:
        self._check(line, "")

    def file(self, source: str, line: bytes) -> None:
        self._check(line, source)

    def _check(self, line: bytes, source: str) -> None:
        before = time.thread_time()
        try:
            self._take(line, source)
        except Exception as error:
            error.add_note(f"line ({source or 'wire'}): {line[:2000]!r} of {len(line)} bytes")
            raise
        taken = time.thread_time() - before
        assert taken < LINE_SECONDS, f"{taken:.2f} s for {line[:2000]!r} of {len(line)} bytes"

    def _take(self, line: bytes, source: str) -> None:
        if source:
            record = self._files[source].make(line, RECEIVED, 0, len(line) + 1)
        else:
            record = self._wire.make(line, "192.0.2.9", ARRIVAL)
        if "reason" in record:
            return
        self.records += 1
        self._feed(record["source"], record)
        self._seen += 1
        if self._seen % LINES_OF_AN_OWNER == 0:
            assert len(pickle.dumps(self._owners)) < LARGEST_STATE
            self._start()

    def _feed(self, owner: str, record: dict[str, object]) -> None:
        at_us = epoch_microseconds(str(record["event_time"]))
        record = {"offset": -1, **record, "owner": "66", "event_time_us": at_us}
        for topic, written in self._owners[owner].feed(record):
            if topic == FACTS:
                self._feed("shared", dict(written))
                continue
            self.events += 1
            event = written if isinstance(written, dict) else asdict(written)
            signal = signal_of(topic, event)
            if signal is not None:
                found = self._correlator.feed(
                    topic, event, self._bands, self._places, signal.known_us
                )
                self.incidents += sum(1 for _ in found)

    def look(self) -> None:
        self.incidents += sum(1 for _ in self._correlator.look(self._places))


def through(lines: Iterable[bytes]) -> Line:
    line = Line()
    for each in lines:
        line.wire(each)
    line.look()
    return line


def test_the_ten_hostile_tails_contain_no_line_feed() -> None:
    assert len(TAILS) == 10
    assert not any(b"\n" in each for each in TAILS.values())


def test_the_same_seed_gives_the_same_lines() -> None:
    assert list(islice(messages(7), 50)) == list(islice(messages(7), 50))


def test_every_literal_with_every_tail_raises_no_error() -> None:
    done = through(literal_lines())
    assert done.records > 1_000


def test_dates_from_1970_to_2199_raise_no_error() -> None:
    done = through(islice(dated_lines(), 0, None, 7))
    assert done.events > 100


def test_mutants_of_known_lines_raise_no_error() -> None:
    line = Line()
    for source, each in islice(mutants(17), 1_500):
        line.file(source, each)
        line.wire(each)
    line.look()
    assert line.events > 50


@pytest.mark.slow
def test_random_mutants_raise_no_error() -> None:
    seconds = float(os.environ.get("STUNWATCH_FUZZ_SECONDS", "20"))
    seed = int(os.environ.get("STUNWATCH_FUZZ_SEED", "1"))
    end = time.monotonic() + seconds
    line = Line()
    for message, (source, mutant) in zip(messages(seed), mutants(seed + 1), strict=False):
        line.wire(message)
        line.file(source, mutant)
        if time.monotonic() > end:
            break
    line.look()
    assert line.events > 100
