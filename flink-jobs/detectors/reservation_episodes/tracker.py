"""Reservation conflicts of one host by device, and long reservations by volume.

Since ESX 4 a refused command is a line of its own: nothing is counted down. Lines of one device
that follow each other are one episode, which is open while it goes on and over, `recovered`, once
there was silence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from detectors.catalogue import detector
from detectors.episodes import Episode, Episodes, Sighting
from detectors.events import event_id, fullest_host, timestamp
from detectors.records import is_continuation, verbatim
from detectors.reservation_conflict import ReservationConflict, host_key, uptime_ms

_DETECTOR = detector("reservation_episodes")
_PATTERNS = _DETECTOR.patterns
_LIMITS = _DETECTOR.thresholds

_SECOND = 1_000_000
_BOOTING_MS = _LIMITS["booting_minutes"] * 60_000

# Command 0x28 to device | Cmd 0x2a (0x439500a7f200, 65693) to dev | Cmd(0x412e8043ca40) 0x28, CmdSN
_OPCODE = re.compile(r"\b(?:Command|Cmd)(?:\(0x[0-9a-fA-F]+\))? 0x([0-9a-fA-F]{1,2})\b", re.ASCII)
# from world 34443 to dev | (0x439500a7f200, 65693) to dev
_WORLD = re.compile(r"(?: from world |\(0x[0-9a-fA-F]+, )([1-9]\d{0,9})\)? to dev", re.ASCII)


_Value = TypeVar("_Value")


@dataclass
class Tracker(Episodes[ReservationConflict]):
    """The conflicts of one log owner."""

    gap_us = _LIMITS["same_episode_within_seconds"] * _SECOND
    keep_us = _LIMITS["keep_minutes"] * 60 * _SECOND
    tells_end = True

    hosts: dict[str, str] = field(default_factory=dict)
    """The fullest name of each host."""

    def read(self, record: Mapping[str, Any]) -> Sighting | None:
        """A conflict of a device, or a long reservation of a volume."""
        if is_continuation(record) or not record.get("program", "vmkernel").startswith("vmk"):
            return None
        message = record["message"]
        for kind, pattern in _PATTERNS.items():
            if found := pattern.search(message):
                host = host_key(record)
                self.hosts[host] = fullest_host([self.hosts.get(host, ""), record.get("host", "")])
                dialect = "long_reservation" if kind == "long_reservation" else "device_status"
                return Sighting(
                    key=(host, dialect, found["device"]),
                    at_us=record["event_time_us"],
                    offset=record.get("offset", -1),
                    text=verbatim(record),
                )
        return None

    def row(self, key: tuple[str, ...], episode: Episode) -> ReservationConflict:
        """The conflict: `steps` is how many lines told of it."""
        host, dialect_text, device = key
        is_long = dialect_text == "long_reservation"
        dialect: Literal["long_reservation", "device_status"] = (
            "long_reservation" if is_long else "device_status"
        )
        # The line is written when the reservation is given back: it is over by then.
        held_us = _held_us(episode.evidence[0][2]) if is_long else 0
        started_us = episode.first_us - held_us
        return ReservationConflict(
            event_id=event_id(_DETECTOR.name, host, dialect, device, timestamp(episode.first_us)),
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
            device=device,
            dialect=dialect,
            is_stuck=False,
            is_expected=_is_booting(episode),
            evidence=episode.texts,
        )


def _held_us(line: str) -> int:
    message = line[line.index("FS3Misc: ") :]
    found = _PATTERNS["long_reservation"].search(message)
    return int(found["held"]) * 1000 if found else 0


def _told(pattern: re.Pattern[str], episode: Episode) -> list[str]:
    return [found[1] for text in episode.texts if (found := pattern.search(text))]


def _only(values: Iterable[_Value]) -> _Value | None:
    """What all of them agree on."""
    different = set(values)
    return different.pop() if len(different) == 1 else None


def _is_booting(episode: Episode) -> bool:
    """Whether the whole episode lies in the time after a boot."""
    since_boot_ms = uptime_ms(episode.evidence[0][2])
    if since_boot_ms is None:
        return False
    return since_boot_ms + (episode.last_us - episode.first_us) / 1000 < _BOOTING_MS
