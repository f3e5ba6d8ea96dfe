"""Which detectors there are: every folder beside this file that holds a detector.yaml."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import yaml

from ingest.heads import to_python


class Tracker(Protocol):
    """What the adapter runs for one log owner. It is pickled between records: keep it small."""

    def feed(self, record: Mapping[str, Any]) -> Iterable[Any]:
        """The events, as dataclasses, that follow from one record (schemas/log_line.v1).

        The record has `event_time_us` besides its fields. `tick` was told its time before.
        """
        ...

    def tick(self, event_time_us: int) -> Iterable[Any]:
        """The events that follow from event time having come this far."""
        ...

    def flush(self) -> Iterable[Any]:
        """The events that were held back so as to write fewer: a source has ended."""
        ...

    @property
    def next_due_us(self) -> int | None:
        """The event time at which `tick` has something to do; None where nothing is kept."""
        ...


@dataclass(frozen=True)
class Detector:
    """A detector.yaml. Thresholds carry their unit as the last word of their name."""

    name: str
    what: str
    topic: str
    owner: str
    literals: tuple[str, ...]
    patterns: dict[str, re.Pattern[str]]
    thresholds: dict[str, int]
    folder: Path

    def concerns(self, message: str) -> bool:
        """Whether a message holds one of the literals."""
        return any(literal in message for literal in self.literals)

    def tracker(self) -> Tracker:
        """A new tracker that has seen nothing."""
        tracker: Tracker = import_module(f"detectors.{self.name}.tracker").Tracker()
        return tracker


@cache
def detector(name: str) -> Detector:
    """The detector of this folder. Raises KeyError where a field is missing."""
    folder = Path(__file__).parent / name
    fields = yaml.safe_load((folder / "detector.yaml").read_text())
    return Detector(
        name=fields["name"],
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
    )


@cache
def detectors() -> tuple[Detector, ...]:
    """All detectors, by name."""
    found = sorted(Path(__file__).parent.glob("*/detector.yaml"))
    return tuple(detector(path.parent.name) for path in found)


def literals() -> tuple[str, ...]:
    """The prefilter's substrings: a line without any of them matters to no detector."""
    return tuple(sorted({literal for each in detectors() for literal in each.literals}))


WINDOWS_TOPIC = "events.latency_window"
"""What the JVM writes there itself (jobs/detect.sql), no detector does."""

INCIDENTS_TOPIC = "events.incident"
"""What events become in the end (incidents/)."""


def detector_topics() -> tuple[str, ...]:
    """The topics that detectors write to."""
    return tuple(sorted({each.topic for each in detectors()}))


def event_topics() -> tuple[str, ...]:
    """The topics of all events that records become."""
    return (*detector_topics(), WINDOWS_TOPIC, INCIDENTS_TOPIC)


@cache
def detectors_of(owner: str) -> tuple[Detector, ...]:
    """The detectors of a kind of owner: `vm` or `host`, whose log it is, or `migration`.

    A migration is told by several logs: see `detectors.migrations.facts`.
    """
    return tuple(each for each in detectors() if each.owner == owner)
