"""What a detector should find, in the words of the views; written beside the logs as truth.json."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

FILE = "truth.json"


def text(time_us: int) -> str:
    """Microseconds since 1970 as `YYYY-MM-DDTHH:MM:SS.ffffffZ`."""
    moment = _EPOCH + timedelta(microseconds=time_us)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond:06}Z"


@dataclass(slots=True)
class Stun:
    """A VM stood still. `migration_id` is None where no migration was under way."""

    host: str
    vm: str
    datastore: str
    ended_at: str
    duration_us: int
    measured_by: str
    cause: str
    migration_id: str | None = None
    why: str = ""
    """The story that it belongs to, for the person who looks into a mismatch."""


@dataclass(slots=True)
class SnapshotOperation:
    """A snapshot was made or removed. None is what the log does not tell."""

    host: str
    vm: str
    datastore: str
    kind: str
    name: str | None
    started_at: str
    ended_at: str | None
    outcome: str
    iterations: int | None = None
    """Helper snapshots that had to follow the first: lines that say so."""
    helper_sizes: list[int] = field(default_factory=list)
    is_converging: bool | None = None
    pages: int | None = None
    lazy_io_ms: int | None = None
    why: str = ""


@dataclass(slots=True)
class CountDown:
    """A run of Sync CR lines of one world, or another dialect's reservation conflict."""

    host: str
    dialect: str
    world_id: str | None
    opcode: str | None
    first_remaining: int | None
    last_remaining: int | None
    steps: int
    """Lines of the run."""
    started_at: str
    duration_ms: int
    outcome: str
    device: str
    is_stuck: bool
    is_expected: bool = False
    has_exact_time: bool = True
    """False: the stamps have whole seconds, so the start is known to a second only."""


@dataclass(slots=True)
class Latency:
    """A device was slow. `is_sustained` is None where the origin cannot tell."""

    host: str
    device: str
    metric: str
    origin: str
    started_at: str
    ended_at: str | None
    is_sustained: bool | None
    samples: int
    """Above the threshold."""
    peak_ms: float
    is_lone: bool = False
    """A single sample among fast ones."""


@dataclass(slots=True)
class UnmapRun:
    """One run of `esxcli storage vmfs unmap`."""

    host: str
    volume: str
    block_count: int
    iterations: int
    blocks_total: int
    started_at: str
    ended_at: str
    fell_back: bool | None
    """None: at 200 from its first step, which is the default too."""
    outcome: str


@dataclass(slots=True)
class PathEvent:
    """A path, a device or a volume was lost or found again."""

    host: str
    kind: str
    path: str
    device: str
    datastore: str
    started_at: str


@dataclass(slots=True)
class ScsiError:
    """Commands to a device failed in the same way."""

    host: str
    device: str
    host_status: str
    device_status: str
    plugin_status: str
    started_at: str
    count: int


@dataclass(slots=True)
class Quiet:
    """What must open nothing on this host and device."""

    host: str
    device: str
    what: str
    lines: int


@dataclass(slots=True)
class Names:
    """Which names an incident must have, and which it may have besides."""

    least: list[str] = field(default_factory=list)
    more: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Incident:
    """What belongs together, and where the fault lies."""

    title: str
    """For the person who looks into a mismatch."""
    scopes: list[str]
    """Any of them is right."""
    hosts: Names
    devices: Names
    datastores: Names
    vms: Names
    first_line_at: str
    """Of the first line or sample that could show it."""
    cause_started_at: str
    cause_ended_at: str
    is_note: bool = False
    """As every night at this hour."""
    is_optional: bool = False
    """Nobody would blame a reader who tells it, or one who does not."""
    next_steps: list[str] = field(default_factory=list)
    """Regular expressions: each is found in some step, however it is written."""
    no_next_steps: list[str] = field(default_factory=list)
    """Found in none."""


@dataclass(slots=True)
class Change:
    """What people did meanwhile: `stunwatch change add`."""

    kind: str
    changed_at: str
    title: str


@dataclass(slots=True)
class Truth:
    """All of it."""

    seed: int
    name: str
    started_at: str
    ended_at: str
    hosts: list[str] = field(default_factory=list)
    vms: int = 0
    lines: int = 0
    mattering_lines: int = 0
    """Lines that tell a fact below; the others are noise, or context that alone says nothing."""
    samples: int = 0
    stuns: list[Stun] = field(default_factory=list)
    snapshot_operations: list[SnapshotOperation] = field(default_factory=list)
    reservation_conflicts: list[CountDown] = field(default_factory=list)
    latency: list[Latency] = field(default_factory=list)
    unmap_runs: list[UnmapRun] = field(default_factory=list)
    path_events: list[PathEvent] = field(default_factory=list)
    scsi_errors: list[ScsiError] = field(default_factory=list)
    quiet: list[Quiet] = field(default_factory=list)
    evening: str = ""
    """Which of the evenings it is; empty: a night in which anything happens."""
    incidents: list[Incident] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)

    def json(self) -> bytes:
        """In the same order every time."""
        for facts, key in (
            (self.stuns, lambda each: (each.ended_at, each.vm)),
            (self.snapshot_operations, lambda each: (each.started_at, each.vm)),
            (self.reservation_conflicts, lambda each: (each.started_at, each.host)),
            (self.latency, lambda each: (each.started_at, each.host, each.device)),
            (self.unmap_runs, lambda each: (each.started_at, each.host)),
            (self.path_events, lambda each: (each.started_at, each.host)),
            (self.scsi_errors, lambda each: (each.started_at, each.host)),
        ):
            facts.sort(key=key)
        return orjson.dumps(asdict(self), option=orjson.OPT_INDENT_2) + b"\n"


def load(data: bytes) -> dict[str, Any]:
    """truth.json as plain dictionaries."""
    found: dict[str, Any] = orjson.loads(data)
    return found
