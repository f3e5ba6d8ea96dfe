"""Reservation conflicts of one host by device, and long reservations by volume.

Since ESX 4 every refused command is a line, and retries are not counted down. Consecutive lines of
one device are one episode. It is `open` until a pause is long enough, and then `recovered`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from stunwatch.detectors.catalogue import detector
from stunwatch.detectors.events import event_id, fullest_host, timestamp
from stunwatch.detectors.records import is_continuation, verbatim
from stunwatch.detectors.reservation_conflict import (
    DEVICE_NAMES,
    ReservationConflict,
    host_key,
    uptime_ms,
)
from stunwatch.detectors.sessions import Episode, Sessions, Sighting
from stunwatch.detectors.two_lines import TwoLines
from stunwatch.ingest.records import datastore_name

_DETECTOR = detector("reservation_episodes")
_PATTERNS = _DETECTOR.patterns
_LIMITS = _DETECTOR.thresholds

_SECOND = 1_000_000
_BOOTING_MS = _LIMITS["booting_minutes"] * 60_000

# Command 0x28 to device | Cmd 0x2a (0x439500a7f200, 65693) to dev | Cmd(0x412e8043ca40) 0x28, CmdSN
_OPCODE = re.compile(
    r"\b(?:Command|Cmd)(?:\(0x[0-9a-fA-F]{1,16}\))? 0x([0-9a-fA-F]{1,2})\b", re.ASCII
)
# from world 34443 to dev | (0x439500a7f200, 65693) to dev
_WORLD = re.compile(r"(?: from world |\(0x[0-9a-fA-F]{1,16}, )([1-9]\d{0,9})\)? to dev", re.ASCII)
# failed on physical path "vmhba1:C0:T0:L1" H:… | on path vmhba1:C0:T3:L0 Failed:
_PATH = re.compile(r""" on (?:physical )?path "?(vmhba[^\s",]{1,64})""", re.ASCII)

_Value = TypeVar("_Value")


@dataclass
class Tracker(Sessions[ReservationConflict]):
    """Tracks the conflicts of one log key."""

    gap_us = _LIMITS["same_episode_within_seconds"] * _SECOND
    keep_us = _LIMITS["keep_minutes"] * 60 * _SECOND
    tells_end = True

    hosts: dict[str, str] = field(default_factory=dict)
    """The longest name of each host."""
    halves: TwoLines = field(default_factory=TwoLines)

    def advance_time(self, event_time_us: int) -> Iterator[ReservationConflict]:
        """Yield changed conflicts, after waiting for further changes."""
        self.halves.advance(event_time_us)
        yield from super().advance_time(event_time_us)

    @property
    def next_timer_us(self) -> int | None:
        """When a change is due to be written or a line expires; None if none is kept."""
        return self.halves.next_timer(super().next_timer_us)

    def read(self, record: Mapping[str, Any]) -> Sighting | None:
        """Parse a conflict of a device, or a long reservation of a volume."""
        program = record.get("program", "vmkernel")
        if is_continuation(record) or not program.startswith(("vmk", "kernel")):
            return None
        whole = self.halves.whole(record)
        if whole is None:
            return None
        message = whole["message"]
        for kind, pattern in _PATTERNS.items():
            if found := pattern.search(message):
                host = host_key(record)
                self.hosts[host] = fullest_host([self.hosts.get(host, ""), record.get("host", "")])
                dialect = "long_reservation" if kind == "long_reservation" else "device_status"
                return Sighting(
                    key=(host, dialect, found["device"]),
                    at_us=whole["event_time_us"],
                    offset=whole.get("offset", -1),
                    text=verbatim(whole),
                )
        return None

    def row(self, key: tuple[str, ...], episode: Episode) -> ReservationConflict:
        """Return the conflict; `steps` is the number of lines about it."""
        host, dialect_text, name = key
        is_long = dialect_text == "long_reservation"
        dialect: Literal["long_reservation", "device_status"] = (
            "long_reservation" if is_long else "device_status"
        )
        is_device = not is_long and name.startswith(DEVICE_NAMES)
        # The line is written when the reservation is released: it is over by then.
        held_us = _held_us(episode.evidence[0][2]) if is_long else 0
        started_us = episode.first_us - held_us
        return ReservationConflict(
            event_id=event_id(_DETECTOR.name, host, dialect, name, timestamp(episode.first_us)),
            detector=_DETECTOR.name,
            revision=0,
            is_deleted=0,
            run_id="",
            host=self.hosts.get(host, ""),
            world_id=_only(int(each) for each in _told(_WORLD, episode)),
            opcode=_only(each.lower() for each in _told(_OPCODE, episode)),
            first_remaining=None,
            last_remaining=None,
            steps=episode.count,
            started_at=timestamp(started_us),
            ended_at=timestamp(episode.last_us),
            duration_ms=round((episode.last_us - started_us) / 1000),
            eta_ms=None,
            outcome="recovered" if is_long or episode.is_over else "open",
            device=name if is_device else "",
            path=(_only(_told(_PATH, episode)) or "") if is_device or is_long else name,
            datastore=datastore_name(name, self.hosts.get(host)) if is_long else "",
            dialect=dialect,
            is_stuck=False,
            is_expected=_is_booting(episode),
            evidence=[line for text in episode.texts for line in text.split("\n")],
        )


def _held_us(line: str) -> int:
    message = line[line.index("FS3Misc: ") :]
    found = _PATTERNS["long_reservation"].search(message)
    return int(found["held"]) * 1000 if found else 0


def _told(pattern: re.Pattern[str], episode: Episode) -> list[str]:
    return [found[1] for text in episode.texts if (found := pattern.search(text))]


def _only(values: Iterable[_Value]) -> _Value | None:
    """Return the value that all of them share; None if they differ."""
    different = set(values)
    return different.pop() if len(different) == 1 else None


def _is_booting(episode: Episode) -> bool:
    """True if the whole episode is shortly after a boot."""
    since_boot_ms = uptime_ms(episode.evidence[0][2])
    if since_boot_ms is None:
        return False
    return since_boot_ms + (episode.last_us - episode.first_us) / 1000 < _BOOTING_MS
