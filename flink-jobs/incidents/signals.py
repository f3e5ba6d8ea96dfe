"""Signals: events reduced to the fields that incidents need."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from stunwatch.detectors.reservation_conflict import DEVICE_NAMES
from stunwatch.incidents.configuration import (
    BAD_STUN_US,
    LOG_LATENCY_MS,
    LOG_LATENCY_US,
    LOSS_US,
    MINUTE_US,
)

Event = Mapping[str, Any]
"""One row of an event topic (schemas/*.v1), with its `event_id`."""

MOVES = frozenset({"vmotion", "storage_vmotion", "hot_add", "suspend_resume"})
"""Causes of intended stuns: they do not point to the storage."""

SNAPSHOTS = frozenset({"snapshot_create", "snapshot_create_memory", "snapshot_remove"})
"""Causes of stuns by snapshots."""

ENDS = frozenset({"path_on", "apd_end", "heartbeat_reclaimed"})
"""Path events that only end another one."""

LOSSES = frozenset({"apd_start", "apd_timeout", "pdl", "lost_access", "nfs_lost"})
"""Path events after which a device or volume cannot be reached."""

_FAILURES = {
    "lock": re.compile(r"Failed to lock the file"),
    "space": re.compile(r"No space left on device|consolidate complete: .{0,200}\(13\)\.?\s*$"),
    "cancel": re.compile(r"SnapshotVMX_ConsolidateCancel: Requesting "),
}
"""Lines that prove why the removal of a snapshot failed, by reason."""

# An NFS volume has only the first two parts of a UUID: f0102e1f-41b7b812.
_NFS_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{8}")
_QUOTED = re.compile(r"'.*'")
"""The name of a snapshot may contain any text, quotes too."""

_SHOWN_LINES = 2
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

_METRICS = frozenset({"davg", "gavg", "kavg"})
_DEFAULT_METRICS = {"queue": "kavg"}
"""The metric of signals from an older version, by kind; of the others it is DAVG."""


class BrokenEventError(ValueError):
    """An event that breaks its schema: any producer may write to a topic."""


@contextmanager
def reading() -> Iterator[None]:
    """A context for code that only reads an event. Raises BrokenEventError for invalid fields.

    Keep other code outside: an error while incidents are calculated is a bug, which the adapter
    rejects and counts (engine/failures.py).
    """
    try:
        yield
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise BrokenEventError(f"{type(error).__name__}: {error}") from error


@dataclass(frozen=True, kw_only=True)
class Signal:
    """One event, with the fields that all kinds share. Times in µs since 1970."""

    event_id: str
    kind: str
    """`slow` (sustained DAVG), `slow_log` (latency in the host's log), `queue` (sustained KAVG),
    `conflict`, `stun`, `consolidation`, `scsi`, `path`, `unmap` or `hole` (lines are missing)."""
    detail: str
    """The cause of a stun, outcome of a conflict, kind of a path event, or status of an error."""
    at_us: int
    until_us: int | None
    """None while it is open."""
    known_us: int
    """The event time at which its lines first showed it."""
    host: str = ""
    vm: str = ""
    datastore: str = ""
    device: str = ""
    path: str = ""
    """The path to a LUN, `vmhba1:C0:T0:L1`; before ESX 4 also the name of the LUN, `vmhba1:0:1`."""
    size: float = 0
    """Stun: µs; latency: peak ms; conflict: steps; error: count."""
    metric: str = "davg"
    """The metric of a latency: `davg`, `gavg` or `kavg`."""
    origin: str = ""
    """The source of a latency: `esxtop`, `vmkernel`, `vcenter` or `storage_rm`."""
    dialect: str = ""
    """The type of log message of a conflict."""
    is_stuck: bool = False
    is_cbt: bool = False
    is_quiesced: bool = False
    is_nfs: bool = False
    """True if an NFS volume is slow or lost."""
    volume: str = ""
    """The name of the NFS volume that `datastore` names by its UUID."""
    is_usual: bool = False
    """True if a stun is in the usual pattern (incidents.seasonal_baseline)."""
    reasons: tuple[str, ...] = ()
    """Proven reasons of a failed consolidation: `lock`, `space`, `cancel`."""
    place: str = ""
    """Its place in the topology, set by incidents.grouping."""
    weight: int = 1
    """The amount of information; it grows with the event."""
    evidence: tuple[str, ...] = ()

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Load state; that of an older version lacks fields."""
        vars(self).update({"metric": _DEFAULT_METRICS.get(state["kind"], "davg")} | dict(state))


def signal_of(topic: str, event: Event) -> Signal | None:
    """The signal of an event of this topic; None if it does not matter to incidents.

    Raises KeyError, TypeError or ValueError if the event breaks its schema.
    """
    read = _READERS.get(topic)
    signal = read(event) if read else None
    if signal:
        _check(signal)
    return signal


def _check(signal: Signal) -> None:
    """Check the types of numbers and strings: grouping compares them. Raises TypeError."""
    texts = (
        *(signal.event_id, signal.detail, signal.dialect, *signal.evidence),
        *(signal.host, signal.vm, signal.datastore, signal.volume, signal.device, signal.path),
    )
    if set(map(type, texts)) != {str}:
        raise TypeError(f"a name in {texts} is not a string")
    if not isinstance(signal.size, int | float):
        raise TypeError(f"{signal.size!r} is not a number")


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
        reasons=_reasons(event["evidence"]) if event["outcome"] == "failed" else (),
    )


def _reasons(lines: Iterable[str]) -> tuple[str, ...]:
    said = [_QUOTED.sub("", each) for each in lines]
    return tuple(name for name, proof in _FAILURES.items() if any(map(proof.search, said)))


def _reservation(event: Event) -> Signal | None:
    if event["is_expected"]:
        return None
    ended_us = microseconds(event["ended_at"])
    return Signal(
        **_common(event, "conflict", event["outcome"], event["steps"]),
        until_us=ended_us,
        known_us=ended_us,
        **_storage(event),
        size=event["steps"],
        dialect=event["dialect"],
        is_stuck=event["is_stuck"],
    )


def _latency(event: Event) -> Signal | None:
    started_us, ended_us = microseconds(event["started_at"]), _end(event)
    is_nfs = event["object_class"] == "nfs_volume"
    is_named_datastore = is_nfs or event["object_class"] == "datastore"
    if event["origin"] == "vmkernel":
        if event["peak_ms"] < LOG_LATENCY_MS:
            return None
        # The host logs when latency gets worse; without an end, nothing else is known.
        latest_us = started_us + LOG_LATENCY_US
        return Signal(
            **_common(event, "slow_log", event["metric"], event["samples"]),
            until_us=latest_us if ended_us is None else ended_us,
            known_us=started_us,
            **({"datastore": event["device"]} if is_named_datastore else _storage(event)),
            size=_peak_ms(event),
            metric=_metric(event),
            origin=event["origin"],
            is_nfs=is_nfs,
        )
    if event["kind"] != "sustained" or event["object_class"] in ("virtual_disk", "path"):
        return None
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
        **({"datastore": event["device"]} if is_named_datastore else {}),
        **(_storage(event) if is_device else {}),
        size=_peak_ms(event),
        metric=_metric(event),
        origin=event["origin"],
        is_nfs=is_nfs,
    )


def _scsi(event: Event) -> Signal | None:
    if event["is_expected"]:
        return None
    status = (event["host_status"], event["device_status"], event["plugin_status"])
    return Signal(
        **_common(event, "scsi", "H:{} D:{} P:{}".format(*status), event["count"]),
        until_us=microseconds(event["ended_at"]),
        known_us=microseconds(event["started_at"]),
        **_storage(event),
        size=event["count"],
    )


def _path(event: Event) -> Signal | None:
    if event["kind"] in ENDS:
        return None
    started_us, ended_us = microseconds(event["started_at"]), _end(event)
    # A LUN lost on one path may be reachable on others: only that path is dead.
    is_path_alone = event["kind"] == "pdl" and not event["device"]
    storage = _storage(event)
    return Signal(
        **_common(event, "path", "path_dead" if is_path_alone else event["kind"]),
        until_us=started_us + LOSS_US if ended_us is None else ended_us,
        known_us=started_us,
        **storage,
        size=1,
        is_nfs=_NFS_UUID.fullmatch(storage["datastore"]) is not None,
    )


def _nfs(event: Event) -> Signal:
    started_us, ended_us = microseconds(event["started_at"]), _end(event)
    return Signal(
        **_common(event, "path", "nfs_lost"),
        until_us=started_us + LOSS_US if ended_us is None else ended_us,
        known_us=started_us,
        datastore=event["datastore_uuid"],
        volume=event["datastore"],
        size=1,
        is_nfs=True,
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
    "events.nfs": _nfs,
    "events.unmap": _unmap,
    "events.quality": _quality,
}

TOPICS = tuple(_READERS)
"""The event topics that incidents are made of."""


def microseconds(moment: str) -> int:
    """`2012-03-23T16:22:51.876Z` as microseconds since 1970. Raises ValueError."""
    at = datetime.fromisoformat(moment)
    if at.tzinfo is None:
        raise ValueError(f"{moment!r} has no time zone")
    return (at - _EPOCH) // _MICROSECOND


def _storage(event: Event) -> dict[str, Any]:
    """The LUN, path and datastore of an event. Raises TypeError.

    A `device` that is not the name of a device is another name of a LUN: a path. Conflicts of older
    versions have the name of a volume there.
    """
    name, path, datastore = event["device"], event.get("path", ""), event.get("datastore", "")
    if not isinstance(name, str):
        raise TypeError(f"the device {name!r} is not a string")
    if event.get("dialect") == "long_reservation" and not datastore:
        return {"datastore": name}
    if name.startswith(DEVICE_NAMES):
        return {"device": name, "path": path, "datastore": datastore}
    return {"path": path or name, "datastore": datastore}


def _peak_ms(event: Event) -> Any:
    """The peak of a latency, as a float if it is a number.

    ClickHouse returns `600` for the `600.0` of a detector. A row's revision depends on its JSON, so
    both must give the same.
    """
    peak_ms = event["peak_ms"]
    return float(peak_ms) if isinstance(peak_ms, int) else peak_ms


def _metric(event: Event) -> str:
    """The metric of a latency. Raises ValueError if it is unknown."""
    metric = str(event["metric"])
    if metric not in _METRICS:
        raise ValueError(f"the metric {metric!r} is unknown")
    return metric


def _end(event: Event) -> int | None:
    return None if event["ended_at"] is None else microseconds(event["ended_at"])


def _common(event: Event, kind: str, detail: str, grown: int = 0) -> dict[str, Any]:
    """The fields of every event; `grown` is a count that grows while the event is open."""
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
