"""Identity, revision and times of events: the same for every detector.

An event's identity is its detector and its anchor, which never changes. Its revision comes from
content alone, never from a clock or an offset, so that a replay can neither overwrite a better row
nor add one.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid5

import orjson

EVIDENCE_SHOWN = 20
"""An event carries at most this many lines."""

MOST_LINES = 0xFFFF
"""The largest number of lines that a revision can tell."""

_NAMESPACE = UUID("6f1b5c52-8f0e-5d0b-9d55-3c1f0a7b2e64")
_EPOCH = datetime(1970, 1, 1)
"""Without a zone: with one, isoformat would add it."""


def event_id(detector: str, *anchor: str) -> str:
    """The UUIDv5 of a detector and its anchor's parts."""
    return str(uuid5(_NAMESPACE, orjson.dumps([detector, *anchor]).decode()))


def revision(rank: int, lines: int, tie: int) -> int:
    """A revision (uint64): the better kind of evidence wins, then more lines, then `tie`.

    Each part is cut to its width: 16, 16 and 32 bits.
    """
    return min(rank, 0xFFFF) << 48 | min(lines, MOST_LINES) << 32 | tie & 0xFFFFFFFF


def weighed_revision(lines: int, rank: int, tie: int, is_deleted: bool) -> int:
    """A revision (uint64): more lines win, then the higher rank, then taking back, then `tie`.

    Each part is cut to its width: 32, 7, 1 and 24 bits.
    """
    head = min(lines, 0xFFFFFFFF) << 32 | min(rank, 0x7F) << 25 | int(is_deleted) << 24
    return head | tie & 0xFFFFFF


def content_hash(content: Any) -> int:
    """32 bits of what JSON can hold, to break a tie the same way everywhere."""
    return zlib.crc32(orjson.dumps(content, option=orjson.OPT_SORT_KEYS))


def timestamp(event_time_us: int) -> str:
    """Microseconds since 1970 as `2012-03-23T16:22:51.876000Z`."""
    moment = _EPOCH + timedelta(microseconds=event_time_us)
    return moment.isoformat(timespec="microseconds") + "Z"


def fullest_host(names: Iterable[str]) -> str:
    """Of `esx1` and `esx1.lab.example` the fuller; empty where no line names a host."""
    return max(names, key=lambda name: (len(name), name), default="")
