"""The catalogue of detectors: every folder next to this file that contains a detector.yaml."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from stunwatch.ingest import yaml_file
from stunwatch.ingest.heads import to_python


class Tracker(Protocol):
    """The state machine of one detector for one log key. Pickled between records: keep it small."""

    def feed(self, record: Mapping[str, Any]) -> Iterable[Any]:
        """Return the events (dataclasses) that follow from one record (schemas/log_line.v1).

        The record contains `event_time_us` besides its fields. `advance_time` was called with
        its time before.
        """
        ...

    def advance_time(self, event_time_us: int) -> Iterable[Any]:
        """Return the events that follow because event time has advanced to `event_time_us`."""
        ...

    def flush(self) -> Iterable[Any]:
        """Return the events held back for batching. Called when a source has ended."""
        ...

    @property
    def next_timer_us(self) -> int | None:
        """The event time at which `advance_time` has work to do; None if no state is kept."""
        ...


class Facts(Protocol):
    """The part of a detector that runs with another log key, and sends it facts.

    A detector whose lines have several log keys (the logs of two hosts, or of a host and a VM) has
    a `facts.py` with a class `Facts`. It runs with the key of each log. A fact is a record
    (schemas/log_line.v1) with `kind` and `owner`: the kind of log key of the detector, and the key.
    The tracker receives the facts of its key in the second step. Pickled between records.
    """

    def feed(self, record: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
        """Return the facts in one record."""
        ...

    def of_event(self, event: Any) -> Iterable[dict[str, Any]]:
        """Return the facts in an event that another detector has found with this log key."""
        ...

    def advance_time(self, event_time_us: int) -> Iterable[dict[str, Any]]:
        """Return the facts that follow because event time has advanced to `event_time_us`."""
        ...

    def flush(self) -> Iterable[dict[str, Any]]:
        """Return the facts held back. Called when a source has ended."""
        ...

    @property
    def next_timer_us(self) -> int | None:
        """The event time at which `advance_time` has work to do; None if no state is kept."""
        ...


@dataclass(frozen=True)
class Detector:
    """The contents of a detector.yaml. The name of a threshold ends with its unit."""

    name: str
    version: int
    """Raised when the same lines give other rows. Of rows made of the same lines, the higher
    version wins."""
    what: str
    topic: str
    owner: str
    literals: tuple[str, ...]
    patterns: dict[str, re.Pattern[str]]
    thresholds: dict[str, int]
    folder: Path
    has_facts: bool
    """True if its tracker reads facts, not the lines of one log."""

    def concerns(self, message: str) -> bool:
        """True if the message contains one of the literals."""
        # Not `any`: a generator takes three times as long.
        for literal in self.literals:  # noqa: SIM110
            if literal in message:
                return True
        return False

    def tracker(self) -> Tracker:
        """Return a new tracker without state."""
        tracker: Tracker = _module(self.name, "tracker").Tracker()
        return tracker

    def facts(self) -> Facts:
        """Return new `Facts` without state. Raise ModuleNotFoundError if it has none."""
        facts: Facts = _module(self.name, "facts").Facts()
        return facts


@cache
def _module(name: str, part: str) -> ModuleType:
    return import_module(f"stunwatch.detectors.{name}.{part}")


@cache
def detector(name: str) -> Detector:
    """Load the detector of this folder. Raise KeyError if a field is missing."""
    folder = Path(__file__).parent / name
    fields = yaml_file.read(folder / "detector.yaml")
    return Detector(
        name=fields["name"],
        version=fields["version"],
        what=fields["what"],
        topic=fields["topic"],
        owner=fields["owner"],
        literals=tuple(fields["literals"]),
        patterns={
            each: re.compile(to_python(pattern), re.ASCII)
            for each, pattern in fields["patterns"].items()
        },
        thresholds=fields["thresholds"],
        folder=folder,
        has_facts=(folder / "facts.py").exists(),
    )


@cache
def detectors() -> tuple[Detector, ...]:
    """Return all detectors, sorted by name."""
    found = sorted(Path(__file__).parent.glob("*/detector.yaml"))
    return tuple(detector(path.parent.name) for path in found)


def literals() -> tuple[str, ...]:
    """Return the prefilter's substrings: a line without any of them is not passed to Python."""
    return tuple(sorted({literal for each in detectors() for literal in each.literals}))


LONGEST_SEARCHED = 4_096
"""The longest message, in characters, that detectors read: five times the longest one known. Each
pattern of each detector may search it. A longer one is stored as a line, but the JVM's prefilter
drops it, and `quality_events` counts it (sql/materialized_views/log_lines_mv.sql)."""

WINDOWS_TOPIC = "events.latency_window"
"""Written by the JVM (jobs/detect.sql), not by a detector."""

INCIDENTS_TOPIC = "events.incident"
"""Written by the correlator (incidents/)."""


def detector_topics() -> tuple[str, ...]:
    """Return the topics that detectors write to."""
    return tuple(sorted({each.topic for each in detectors()}))


def event_topics() -> tuple[str, ...]:
    """Return all topics of events."""
    return (*detector_topics(), WINDOWS_TOPIC, INCIDENTS_TOPIC)


@cache
def detectors_of(owner: str) -> tuple[Detector, ...]:
    """Return the detectors for one kind of log key, such as `vm` or `host`."""
    return tuple(each for each in detectors() if each.owner == owner)


@cache
def detectors_with_facts() -> tuple[Detector, ...]:
    """Return the detectors of the second step, sorted by name."""
    return tuple(each for each in detectors() if each.has_facts)
