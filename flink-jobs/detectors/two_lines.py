"""Join failed commands that ESXi 7 and 8 log as two lines, command and status, to one record.

The host writes both lines from one world, the command first:

    NMP: nmp_ThrottleLogForDevice:3893: Cmd 0x2a (0x45dd57ec84c0, 2097288) to dev "naa.624a9370aa01"
        on path "vmhba3:C0:T6:L17" Failed:
    NMP: nmp_ThrottleLogForDevice:3898: H:0x0 D:0x18 P:0x0 . Act:NONE.

The patterns are those of `scsi_errors`. That detector reads the two lines itself, because it also
counts commands that throttling hides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from stunwatch.detectors.catalogue import detector
from stunwatch.detectors.records import is_continuation, verbatim

_DETECTOR = detector("scsi_errors")
_COMMAND = _DETECTOR.patterns["command_alone"]
_STATUS = _DETECTOR.patterns["status_alone"]
_LIMITS = _DETECTOR.thresholds

_SECOND = 1_000_000
_FOLLOWS_US = _LIMITS["status_follows_within_ms"] * 1000
_KEEP_US = _LIMITS["keep_minutes"] * 60 * _SECOND
_MOST_HALVES = _LIMITS["lone_halves_count"]


def world_of(thread: str) -> str:
    """Return the world of a thread such as `cpu70:2098575`. Its CPU may change."""
    return thread.rpartition(":")[2]


def is_status_of(command_us: int, status_us: int) -> bool:
    """True if, by their times, a status may belong to a command of the same world.

    Relays truncate times to whole seconds. Then the second may change between the two lines.
    """
    is_cut = command_us % _SECOND == 0 and status_us % _SECOND == 0
    return 0 <= status_us - command_us <= (_SECOND if is_cut else _FOLLOWS_US)


def joined(command: str, status: str) -> str:
    """Return the two messages as the single message that hosts before ESXi 7 write."""
    return f"{command.rstrip()} {status[status.index('H:0x') :]}"


class Half(NamedTuple):
    """One of the two lines."""

    writer: tuple[str, str]
    """Layer (NMP or HPP) and world, which are the same in both lines."""
    is_command: bool
    record: Mapping[str, Any]
    forget_at_us: int

    @property
    def at_us(self) -> int:
        """The event time, in microseconds since 1970."""
        return int(self.record["event_time_us"])


@dataclass
class TwoLines:
    """Lines of one host that wait for their other half.

    A status belongs to the oldest waiting command of its world. The halves may arrive late and in
    either order. A half without a partner produces no event.
    """

    waiting: list[Half] = field(default_factory=list)
    """In order of arrival, at most `lone_halves_count`."""
    event_time_us: int = 0

    def whole(self, record: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the record or, for a half, the joined record; None while its half is missing."""
        message = record["message"]
        found = _COMMAND.search(message)
        is_command = found is not None
        found = found or _STATUS.search(message)
        if found is None or is_continuation(record):
            return record
        half = Half(
            writer=(found["layer"], world_of(record.get("thread", ""))),
            is_command=is_command,
            record=record,
            forget_at_us=max(self.event_time_us, record["event_time_us"]) + _KEEP_US,
        )
        for other in self.waiting:
            if other.writer != half.writer:
                continue
            if other.is_command == half.is_command:
                if other.at_us == half.at_us and verbatim(other.record) == verbatim(record):
                    return None
                continue
            command, status = (half, other) if is_command else (other, half)
            if is_status_of(command.at_us, status.at_us):
                self.waiting.remove(other)
                return {
                    **status.record,
                    "message": joined(command.record["message"], status.record["message"]),
                    "verbatim": f"{verbatim(command.record)}\n{verbatim(status.record)}",
                }
        self.waiting.append(half)
        del self.waiting[:-_MOST_HALVES]
        return None

    def advance(self, event_time_us: int) -> None:
        """Forget halves that have waited too long."""
        self.event_time_us = max(self.event_time_us, event_time_us)
        if self.waiting and self.waiting[0].forget_at_us <= self.event_time_us:
            self.waiting = [each for each in self.waiting if each.forget_at_us > self.event_time_us]

    def next_timer(self, other_us: int | None) -> int | None:
        """Return the earlier of `other_us` and the time at which a half is forgotten."""
        times = [half.forget_at_us for half in self.waiting[:1]]
        return min([*times, *([] if other_us is None else [other_us])], default=None)
