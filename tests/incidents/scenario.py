"""Load test cases of incidents: cases/<what_happens>.yaml, one event per line, and the incidents.

    esx1 slow naa.a 02:10:00 02:30:00 1200        sustained DAVG, with a peak in ms
    esx1 queue naa.a 02:10:00 02:30:00 12         sustained KAVG
    esx1 slow_log naa.a 02:10:00 02:12:00 400     latency in the host's own log
    esx1 slow_volume gold 02:10:00 02:30:00 80    a datastore, by Storage I/O Control
    esx1 slow_nfs nfs01 02:10:00 02:30:00 80      an NFS volume: GAVG
    esx1 slow_nfs_log nfs01 02:10:00 02:12:00 80  an NFS volume, in the host's own log
    esx1 stun gold/web01 02:10:00 02:10:08 snapshot_remove
    esx1 conflict naa.a 02:10:00 02:10:04 failed
    esx1 stuck vmhba1:0:7 02:10:00 02:10:04       a conflict with its path (`-`: no device)
    esx1 long_reservation gold 02:10:00 02:10:04  a volume that was reserved too long
    esx1 consolidation gold/web01 02:10:00 -      does not converge; `-`: no end
    esx1 consolidation gold/web01 02:10:00 02:11:00 lock     failed: lock, space, cancel, unknown
    esx1 path naa.a 02:10:00 - apd_start          a device, a path or a datastore
    esx1 nfs f0102e1f-41b7b812=nas01 02:10:00 -   the connection to an NFS server
    esx1 scsi naa.a 02:10:00 02:11:00 40          D:0x8, with a count
    esx1 unmap gold 02:10:00 02:11:00
    esx1 seen 02:00:00

A time may start with a number of days after the first: `+7d/02:10:00`.

`inventory` contains what hosts listed, esx1 unless there is a `host`: a device's extent
(`datastore`), its properties, or a VM that uses it as an RDM (`vm`). A word after the name
distinguishes items of the same device. `lists_raw_mappings` contains the hosts that listed all raw
device mappings of their VMs.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from stunwatch.detectors.events import event_id
from stunwatch.detectors.reservation_conflict import DEVICE_NAMES
from stunwatch.engine.owners import LIVE
from stunwatch.incidents.correlator import INVENTORY_TOPIC, SEEN_TOPIC, Correlator, Incident
from stunwatch.incidents.seasonal_baseline import Hours
from stunwatch.incidents.signals import microseconds, signal_of
from stunwatch.incidents.topology import Topology

CASES = Path(__file__).parent / "cases"
EXTENTS, RAW_MAPPINGS = "vmfs extent list", "vmkfstools -q"
REMOVALS = {
    "lock": "DISK: Failed to open disk for consolidate '/vmfs/volumes/gold/a.vmdk' : Failed to lock"
    " the file (16392) 5345",
    "space": "ConsolidateEnd: Snapshot consolidate complete: There is not enough space (13).",
    "cancel": "SnapshotVMX_ConsolidateCancel: Requesting snapshot consolidate cancel.",
    "unknown": "ConsolidateEnd: Snapshot consolidate complete: 'Failed to lock the file' (5).",
}
"""The line that proves why a removal failed. A quoted name proves nothing."""

_LATENCIES = {
    "slow": ("scsi_device", "davg", "esxtop"),
    "queue": ("scsi_device", "kavg", "esxtop"),
    "slow_log": ("scsi_device", "davg", "vmkernel"),
    "slow_volume": ("datastore", "gavg", "storage_rm"),
    "slow_nfs": ("nfs_volume", "gavg", "esxtop"),
    "slow_nfs_log": ("nfs_volume", "gavg", "vmkernel"),
}
"""Class, metric and origin of a latency."""

MIDNIGHT = datetime(2026, 3, 2, tzinfo=UTC)

Fed = tuple[str, dict[str, Any]]
"""A topic, and one event of it."""


def cases() -> list[Path]:
    return sorted(CASES.glob("*.yaml"))


def load(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(path.read_text())
    return loaded


def events(case: dict[str, Any]) -> list[Fed]:
    inventory = case.get("inventory", {})
    listings = [
        *{
            (each.get("host", "esx1"), EXTENTS)
            for each in inventory.values()
            if "datastore" in each
        },
        *((host, RAW_MAPPINGS) for host in case.get("lists_raw_mappings", ())),
    ]
    return [
        *(
            _item("", {"kind": "listing", "host": host, "told_by": told_by})
            for host, told_by in sorted(listings)
        ),
        *(_item(name, said) for name, said in inventory.items()),
        *(each for line in case["events"] for each in _events(line)),
    ]


def until_us(case: dict[str, Any]) -> int:
    return _us(case["until"])


def known_us(fed: Fed) -> int:
    topic, event = fed
    if topic == SEEN_TOPIC:
        return int(event["seen_us"])
    signal = signal_of(topic, event)
    return signal.known_us if signal else 0


def final_rows(fed: list[Fed], until: str, every_us: int) -> list[Incident]:
    """Return the final rows of the view."""
    correlator, bands, topology = Correlator("case", every_us), dict[str, Hours](), Topology()
    best: dict[str, Incident] = {}

    def take(rows: Iterator[Incident]) -> None:
        for row in rows:
            known = best.get(row.event_id)
            if known is None or row.revision >= known.revision:
                best[row.event_id] = row

    for topic, event in fed:
        take(correlator.feed(topic, event, bands, topology))
    take(correlator.advance_time(_us(until), topology))
    take(correlator.look(topology))
    rows = [row for row in best.values() if not row.is_deleted]
    return sorted(rows, key=lambda row: (row.opened_at, row.event_id))


def _us(text: str) -> int:
    return microseconds(_time(text))


def _time(text: str) -> str:
    days, _, clock = text.rpartition("d/")
    at = MIDNIGHT + timedelta(days=int(days or 0))
    hours, minutes, seconds = clock.split(":")
    at += timedelta(hours=int(hours), minutes=int(minutes), seconds=float(seconds))
    return f"{at:%Y-%m-%dT%H:%M:%S.%f}Z"


def _item(name: str, said: dict[str, Any]) -> Fed:
    """Return an extent if there is a datastore, and the properties of the device."""
    kind = "extent" if "datastore" in said else "raw_device_mapping" if "vm" in said else "device"
    return INVENTORY_TOPIC, {
        "kind": kind,
        "is_deleted": 0,
        "host": "esx1",
        "told_by": RAW_MAPPINGS if kind == "raw_device_mapping" else EXTENTS,
        "observed_at": _time("00:00:00"),
        "device": name.partition(" ")[0],
        "datastore_uuid": "",
        **said,
    }


def _events(line: str) -> Iterator[Fed]:
    host, kind, *rest = line.split()
    if kind == "seen":
        yield SEEN_TOPIC, {"host": host, "seen_us": _us(rest[0])}
        return
    what, started, ended, *more = rest
    started_at, ended_at = _time(started), None if ended == "-" else _time(ended)
    datastore, _, vm = what.rpartition("/")
    common = {
        "event_id": event_id("case", line),
        "revision": 1,
        "is_deleted": 0,
        "run_id": LIVE,
        "host": host,
        "started_at": started_at,
        "ended_at": ended_at,
        "evidence": [f"the line of {line}"],
    }
    of_a_vm = {"vm": vm, "datastore": datastore}
    match kind:
        case "slow" | "queue" | "slow_log" | "slow_volume" | "slow_nfs" | "slow_nfs_log":
            object_class, metric, origin = _LATENCIES[kind]
            yield (
                "events.latency",
                {
                    **common,
                    "object_class": object_class,
                    "device": what,
                    "metric": metric,
                    "origin": origin,
                    "kind": "sustained",
                    "peak_ms": float(more[0]),
                    "samples": 12,
                },
            )
        case "stun":
            duration_us = microseconds(str(ended_at)) - microseconds(started_at)
            cause = {"cause": more[0], "duration_us": duration_us}
            yield (
                "events.stun",
                {**common, **of_a_vm, **cause, "is_cbt": None, "is_quiesced": None},
            )
        case "consolidation":
            said = {"kind": "remove", "is_converging": False, "outcome": "open", "iterations": 4}
            if more:
                line = f"2026-03-02T02:10:00.000Z| vcpu-0| I120: {REMOVALS[more[0]]}"
                said |= {"is_converging": None, "outcome": "failed", "evidence": [line]}
            yield "events.snapshot", {**common, **of_a_vm, **said}
        case "conflict" | "stuck" | "long_reservation":
            is_long = kind == "long_reservation"
            is_path = what.startswith("vmhba")
            said = {
                "device": "" if is_long or is_path else what.strip("-"),
                "path": what if is_path else "",
                "datastore": what if is_long else "",
                "outcome": "recovered" if is_long else more[0] if more else "failed",
                "steps": 5,
                "dialect": "long_reservation" if is_long else "sync_cr",
                "is_stuck": kind == "stuck",
                "is_expected": False,
            }
            yield "events.reservation", {**common, **said}
        case "path":
            is_lun = what.startswith((*DEVICE_NAMES, "vmhba"))
            named = {
                "device": what if is_lun else "",
                "datastore": "" if is_lun else what,
                "kind": more[0],
            }
            yield "events.path", {**common, **named}
        case "nfs":
            uuid, _, name = what.partition("=")
            yield "events.nfs", {**common, "datastore_uuid": uuid, "datastore": name}
        case "scsi":
            said = {
                "device": what,
                "host_status": "0x0",
                "device_status": "0x8",
                "plugin_status": "0x0",
                "is_expected": False,
                "count": int(more[0]),
            }
            yield "events.scsi", {**common, **said}
        case "unmap":
            said = {"volume": what, "fell_back": True, "outcome": "ok", "block_count": 8000}
            yield "events.unmap", {**common, **said}
        case _:
            raise ValueError(line)
