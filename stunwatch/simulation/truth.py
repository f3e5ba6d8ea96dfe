"""The expected events of a simulation, with the fields of the views; written as truth.json."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

FILE = "truth.json"

SAME_EPISODE = timedelta(minutes=5)
"""Failures that are further apart are separate episodes."""


def text(time_us: int) -> str:
    """Format microseconds since 1970 as `YYYY-MM-DDTHH:MM:SS.ffffffZ`."""
    moment = _EPOCH + timedelta(microseconds=time_us)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond:06}Z"


def _moment(time: str) -> datetime:
    return datetime.fromisoformat(time)


@dataclass(slots=True)
class Stun:
    """A stun of a VM. `migration_id` is None if there was no migration."""

    host: str
    vm: str
    datastore: str
    ended_at: str
    duration_us: int
    measured_by: str
    cause: str
    migration_id: str | None = None
    why: str = ""
    """The story that it belongs to, for people who examine a mismatch."""
    op_id: str | None = None
    """The operation of its cause; None: not compared."""
    asked_by: str | None = None
    """The user who requested that operation, if hostd logs one."""


@dataclass(slots=True)
class SnapshotOperation:
    """A snapshot was created or removed. None means that the log does not show it."""

    host: str
    vm: str
    datastore: str
    kind: str
    name: str | None
    started_at: str
    ended_at: str | None
    outcome: str
    iterations: int | None = None
    """The number of log lines about helper snapshots after the first one."""
    helper_sizes: list[int] = field(default_factory=list)
    is_converging: bool | None = None
    pages: int | None = None
    lazy_io_ms: int | None = None
    why: str = ""
    op_id: str | None = None


@dataclass(slots=True)
class CountDown:
    """A count-down of Sync CR lines of one world, or a reservation conflict in another form."""

    host: str
    dialect: str
    world_id: str | None
    opcode: str | None
    first_remaining: int | None
    last_remaining: int | None
    steps: int
    """The number of its lines."""
    started_at: str
    ended_at: str
    outcome: str
    device: str
    is_stuck: bool
    is_expected: bool = False


@dataclass(slots=True)
class Latency:
    """A device was slow, from the first slow sample to the last."""

    host: str
    device: str
    metric: str
    origin: str
    kind: str | None
    """`sustained` or `spike`; None if the origin does not measure continuously."""
    started_at: str
    ended_at: str | None
    samples: int
    """The number of slow samples."""
    peak_ms: float


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
    """None: 200 blocks from the first step, which is also the default."""
    outcome: str


@dataclass(slots=True)
class PathEvent:
    """A path, a device or a volume was lost or came back."""

    host: str
    kind: str
    path: str
    device: str
    datastore: str
    started_at: str
    ended_at: str | None
    """None: the loss continues."""


@dataclass(slots=True)
class ScsiError:
    """Commands to a device failed in the same way, each shortly after the one before."""

    host: str
    device: str
    path: str
    opcode: str
    host_status: str
    device_status: str
    plugin_status: str
    sense: str
    started_at: str
    ended_at: str
    count: int
    is_expected: bool = False


@dataclass(slots=True)
class Quiet:
    """Messages that must not open an incident for this host and device."""

    host: str
    device: str
    what: str
    lines: int


@dataclass(slots=True)
class UnsafeStep:
    """A next step that would harm this host, VM or device; empty names match any."""

    host: str
    vm: str
    device: str
    step: str
    """A regular expression, searched in the step ignoring case."""
    why: str


@dataclass(slots=True)
class Names:
    """Names that an incident must have (`least`), and further ones that it may have (`more`)."""

    least: list[str] = field(default_factory=list)
    more: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Incident:
    """Events that belong to one problem, and the location of its cause."""

    title: str
    """For people who examine a mismatch."""
    scopes: list[str]
    """Any of these is correct."""
    hosts: Names
    devices: Names
    datastores: Names
    vms: Names
    first_line_at: str
    """The time of the first line or sample that could show it."""
    cause_started_at: str
    cause_ended_at: str
    is_note: bool = False
    """It happens every night at this hour, so it is noted without an alert."""
    is_optional: bool = False
    """Reporting it is as correct as not reporting it."""
    next_steps: list[str] = field(default_factory=list)
    """Regular expressions. Each must match some step, ignoring case."""
    no_next_steps: list[str] = field(default_factory=list)
    """Regular expressions that must not match any step."""


@dataclass(slots=True)
class Change:
    """A change that users made meanwhile, for `stunwatch change add`."""

    kind: str
    changed_at: str
    title: str


@dataclass(slots=True)
class Truth:
    """All expected events of a simulation."""

    seed: int
    name: str
    started_at: str
    ended_at: str
    hosts: list[str] = field(default_factory=list)
    coarse_hosts: list[str] = field(default_factory=list)
    """Hosts whose timestamps have whole seconds."""
    vms: int = 0
    lines: int = 0
    mattering_lines: int = 0
    """Lines that are evidence of an event below; all others are noise or context."""
    samples: int = 0
    stuns: list[Stun] = field(default_factory=list)
    snapshot_operations: list[SnapshotOperation] = field(default_factory=list)
    reservation_conflicts: list[CountDown] = field(default_factory=list)
    latency: list[Latency] = field(default_factory=list)
    unmap_runs: list[UnmapRun] = field(default_factory=list)
    path_events: list[PathEvent] = field(default_factory=list)
    scsi_errors: list[ScsiError] = field(default_factory=list)
    quiet: list[Quiet] = field(default_factory=list)
    unsafe_steps: list[UnsafeStep] = field(default_factory=list)
    evening: str = ""
    """The name of the scenario; empty for a night with random events."""
    incidents: list[Incident] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)

    def command_failed(self, error: ScsiError) -> None:
        """Add failures to the episode that they follow closely, or as a new one."""
        names = ("host", "device", "path", "opcode", "host_status", "device_status",
                 "plugin_status", "sense", "is_expected")  # fmt: skip
        began = _moment(error.started_at)
        for known in reversed(self.scsi_errors):
            if (
                all(getattr(known, each) == getattr(error, each) for each in names)
                and timedelta() <= began - _moment(known.ended_at) <= SAME_EPISODE
            ):
                known.ended_at = error.ended_at
                known.count += error.count
                return
        self.scsi_errors.append(error)

    def json(self) -> bytes:
        """Return truth.json, always in the same order."""
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
    """Parse truth.json to plain dictionaries."""
    found: dict[str, Any] = orjson.loads(data)
    return found
