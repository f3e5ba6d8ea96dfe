"""Identity, revision and times of events, the same for every detector.

The identity of an event is its detector and its anchor, which never changes. Its revision depends
on its content and the detector's version only, never on a clock or an offset. So a replay can
neither overwrite a better row nor add one, and a corrected detector replaces its wrong rows.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, TypeVar
from uuid import UUID, uuid5

import orjson

EVIDENCE_SHOWN = 20
"""Most lines that an event contains as evidence."""

MOST_LINES = 0xFFFF
"""The largest number of lines that fits in `revision`."""

MOST_VERSION = 0x3F
"""The highest detector version that fits in a revision."""

_NAMESPACE = UUID("6f1b5c52-8f0e-5d0b-9d55-3c1f0a7b2e64")
_EPOCH = datetime(1970, 1, 1)
"""Without a time zone: with one, isoformat would append it."""


@lru_cache(maxsize=4_096)  # an event has several revisions
def event_id(detector: str, *anchor: str) -> str:
    """Return the UUIDv5 of a detector and the parts of its anchor."""
    return str(uuid5(_NAMESPACE, orjson.dumps([detector, *anchor]).decode()))


_Row = TypeVar("_Row")


def changed(row: _Row, **fields: Any) -> _Row:
    """Return a copy of a row with other values. Faster than `dataclasses.replace`."""
    copy = object.__new__(type(row))
    vars(copy).update(vars(row), **fields)
    return copy


def revision(rank: int, lines: int, tie: int, version: int) -> int:
    """Return a revision (uint64) that compares by evidence rank, then lines, version and `tie`.

    A higher `rank` (the better kind of evidence) wins, then more lines, then the detector's newer
    `version`, then `tie`. Each part is cut to its width: 10, 16, 6 and 32 bits.
    """
    head = min(rank, 0x3FF) << 54 | min(lines, MOST_LINES) << 38
    return head | min(version, MOST_VERSION) << 32 | tie & 0xFFFFFFFF


def weighed_revision(lines: int, rank: int, tie: int, version: int, *, is_deleted: bool) -> int:
    """Return a revision (uint64) that compares by lines, then rank, version, retraction and `tie`.

    More lines win, then the higher rank, then the detector's newer `version`, then a retraction,
    then `tie`. Each part is cut to its width: 32, 7, 6, 1 and 18 bits.
    """
    head = min(lines, 0xFFFFFFFF) << 32 | min(rank, 0x7F) << 25
    return head | min(version, MOST_VERSION) << 19 | int(is_deleted) << 18 | tie & 0x3FFFF


def content_hash(content: Any) -> int:
    """Return a 32-bit hash of JSON-serialisable content, to break ties the same way everywhere."""
    return zlib.crc32(orjson.dumps(content, option=orjson.OPT_SORT_KEYS))


def timestamp(event_time_us: int) -> str:
    """Format microseconds since 1970 as `2012-03-23T16:22:51.876000Z`."""
    moment = _EPOCH + timedelta(microseconds=event_time_us)
    return moment.isoformat(timespec="microseconds") + "Z"


def fullest_host(names: Iterable[str]) -> str:
    """Return the longest host name (rather the FQDN than the short name); empty if none."""
    return max(names, key=lambda name: (len(name), name), default="")
