"""An event, as far as it matters to an incident."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from incidents.configuration import (
    BAD_STUN_US,
    LOG_LATENCY_MS,
    LOG_LATENCY_US,
    LOSS_US,
    MINUTE_US,
)

Event = Mapping[str, Any]
"""One row of an event topic (schemas/*.v1), whose `event_id` names it."""

MOVES = frozenset({"vmotion", "storage_vmotion", "hot_add", "suspend_resume"})
"""Stuns by these are somebody's wish, not the storage's fault."""

ENDS = frozenset({"path_on", "apd_end", "heartbeat_reclaimed"})
"""Path events that only tell the end of another."""

LOSSES = frozenset({"apd_start", "apd_timeout", "pdl", "lost_access"})
"""Path events after which a device or volume cannot be reached."""

_SHOWN_LINES = 2


class BrokenEventError(ValueError):
    """An event that breaks its schema: anybody may write to a topic."""


@contextmanager
def reading() -> Iterator[None]:
    """Around what only reads an event. Raises BrokenEventError for what its fields raise.

    Nothing else is put inside: what fails while incidents are worked out is a fault of ours and
    has to be seen.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise BrokenEventError(f"{type(error).__name__}: {error}") from error


@dataclass(frozen=True, kw_only=True)
class Signal:
    """What one event says, in the words that all kinds share. Times in µs since 1970."""

    event_id: str
    kind: str
    """`slow` (sustained DAVG), `slow_log` (the host says so), `queue` (sustained KAVG), `conflict`,
    `stun`, `consolidation`, `scsi`, `path`, `unmap` or `hole` (lines are missing)."""
    detail: str
    """Which: a stun's cause, a conflict's outcome, a path event's kind, the status of an error."""
    at_us: int
    until_us: int | None
    """Null while it goes on."""
    known_us: int
    """When the lines so far could first show it."""
    host: str = ""
    vm: str = ""
    datastore: str = ""
    device: str = ""
    size: float = 0
    """Stun: µs; latency: peak ms; conflict: steps; error: count."""
    dialect: str = ""
    """Of a conflict."""
    is_stuck: bool = False
    is_cbt: bool = False
    is_quiesced: bool = False
    is_usual: bool = False
    """A stun as every week at this hour."""
    place: str = ""
    """Where it belongs, once that is known: see incidents.grouping."""
    weight: int = 1
    """How much is known: it grows as the event does."""
    evidence: tuple[str, ...] = ()


def signal_of(topic: str, event: Event) -> Signal | None:
    """What an event of this topic says; None where it does not matter to incidents.

    Raises KeyError, TypeError or ValueError where the event breaks its schema.
    """
    read = _READERS.get(topic)
    signal = read(event) if read else None
    if signal:
        _check(signal)
    return signal


def _check(signal: Signal) -> None:
    """Numbers and texts are what they should be: grouping compares them. Raises TypeError."""
    texts = (
        *(signal.event_id, signal.detail, signal.dialect, *signal.evidence),
        *(signal.host, signal.vm, signal.datastore, signal.device),
    )
    if not all(isinstance(each, str) for each in texts):
        raise TypeError(f"a name in {texts} is no text")
    if not isinstance(signal.size, int | float):
        raise TypeError(f"{signal.size!r} is no number")


def _stun(event: Event) -> Signal | None:
    if event["duration_us"] < BAD_STUN_US:
        return None
    ended_us = microseconds(event["ended_at"])
    return Signal(
        **_common(event, "stun", event["cause"]),
        until_us=ended_us,
        known_us=ended_us,
        vm=event["vm"],
        datastore=event["datastore"],
        size=event["duration_us"],
        is_cbt=bool(event["is_cbt"]),
        is_quiesced=bool(event["is_quiesced"]),
    )


def _snapshot(event: Event) -> Signal | None:
    is_stubborn = event["is_converging"] is False
    if event["kind"] != "remove" or not (is_stubborn or event["outcome"] == "failed"):
        return None
    started_us, ended_us = microseconds(event["started_at"]), _end(event)
    return Signal(
        **_common(event, "consolidation", "not_converging" if is_stubborn else "failed"),
        until_us=ended_us,
        known_us=ended_us or started_us,
        vm=event["vm"],
        datastore=event["datastore"],
        size=event["iterations"],
    )


def _reservation(event: Event) -> Signal | None:
    if event["is_expected"]:
        return None
    ended_us = microseconds(event["ended_at"])
    return Signal(
        **_common(event, "conflict", event["outcome"], event["steps"]),
        until_us=ended_us,
        known_us=ended_us,
        device=event["device"],
        size=event["steps"],
        dialect=event["dialect"],
        is_stuck=event["is_stuck"],
    )


def _latency(event: Event) -> Signal | None:
    started_us, ended_us = microseconds(event["started_at"]), _end(event)
    if event["origin"] == "vmkernel":
        if event["peak_ms"] < LOG_LATENCY_MS:
            return None
        # The host writes when it gets worse: without an end, no more is known than that.
        latest_us = started_us + LOG_LATENCY_US
        return Signal(
            **_common(event, "slow_log", event["metric"], event["samples"]),
            until_us=latest_us if ended_us is None else ended_us,
            known_us=started_us,
            device=event["device"],
            size=event["peak_ms"],
        )
    if event["kind"] != "sustained" or event["object_class"] in ("virtual_disk", "path"):
        return None
    is_named_datastore = event["object_class"] in ("datastore", "nfs_volume")
    is_device = event["object_class"] in ("scsi_device", "disk")
    return Signal(
        **_common(
            event,
            "queue" if event["metric"] == "kavg" else "slow",
            event["origin"],
            event["samples"],
        ),
        until_us=ended_us,
        known_us=started_us + MINUTE_US,
        datastore=event["device"] if is_named_datastore else "",
        device=event["device"] if is_device else "",
        size=event["peak_ms"],
    )


def _scsi(event: Event) -> Signal | None:
    if event["is_expected"]:
        return None
    status = (event["host_status"], event["device_status"], event["plugin_status"])
    return Signal(
        **_common(event, "scsi", "H:{} D:{} P:{}".format(*status), event["count"]),
        until_us=microseconds(event["ended_at"]),
        known_us=microseconds(event["started_at"]),
        device=event["device"],
        size=event["count"],
    )


def _path(event: Event) -> Signal | None:
    if event["kind"] in ENDS:
        return None
    started_us, ended_us = microseconds(event["started_at"]), _end(event)
    return Signal(
        **_common(event, "path", event["kind"]),
        until_us=started_us + LOSS_US if ended_us is None else ended_us,
        known_us=started_us,
        device=event["device"],
        datastore=event["datastore"],
        size=1,
    )


def _unmap(event: Event) -> Signal | None:
    return Signal(
        **_common(event, "unmap", "fell_back" if event["fell_back"] else event["outcome"]),
        until_us=microseconds(event["ended_at"]),
        known_us=microseconds(event["started_at"]),
        datastore=event["volume"],
        size=event["block_count"],
    )


def _quality(event: Event) -> Signal | None:
    return Signal(
        **_common(event, "hole", event["kind"]),
        until_us=microseconds(event["ended_at"]),
        known_us=microseconds(event["ended_at"]),
        vm=event["vm"],
        datastore=event["datastore"],
        size=event["count"],
    )


_READERS: dict[str, Callable[[Event], Signal | None]] = {
    "events.stun": _stun,
    "events.snapshot": _snapshot,
    "events.reservation": _reservation,
    "events.latency": _latency,
    "events.scsi": _scsi,
    "events.path": _path,
    "events.unmap": _unmap,
    "events.quality": _quality,
}

TOPICS = tuple(_READERS)
"""The event topics that incidents are made of."""


def microseconds(moment: str) -> int:
    """`2012-03-23T16:22:51.876Z` as microseconds since 1970. Raises ValueError."""
    at = datetime.fromisoformat(moment).astimezone(UTC)
    return int(at.replace(microsecond=0).timestamp()) * 1_000_000 + at.microsecond


def _end(event: Event) -> int | None:
    return None if event["ended_at"] is None else microseconds(event["ended_at"])


def _common(event: Event, kind: str, detail: str, grown: int = 0) -> dict[str, Any]:
    """What every event has; `grown` is a count that only grows while it goes on."""
    evidence = event["evidence"]
    return {
        "event_id": event["event_id"],
        "kind": kind,
        "detail": detail,
        "at_us": microseconds(event["started_at"]),
        "host": event["host"],
        "weight": 1 + (event["ended_at"] is not None) + len(evidence) + grown,
        "evidence": tuple(evidence[:1] + evidence[-1:])[: min(len(evidence), _SHOWN_LINES)],
    }
