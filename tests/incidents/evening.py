"""Evenings as data: cases/<what_happens>.yaml, a line an event, and the incidents that they are.

    esx1 slow naa.a 02:10:00 02:30:00 1200        sustained DAVG, up to so many ms
    esx1 queue naa.a 02:10:00 02:30:00 12         sustained KAVG
    esx1 slow_log naa.a 02:10:00 02:12:00 400     the host says so itself
    esx1 stun gold/web01 02:10:00 02:10:08 snapshot_remove
    esx1 conflict naa.a 02:10:00 02:10:04 failed
    esx1 stuck vmhba1:0:7 02:10:00 02:10:04       a conflict that names its path (`-`: no device)
    esx1 consolidation gold/web01 02:10:00 -      does not converge; `-` goes on
    esx1 path naa.a 02:10:00 - apd_start
    esx1 scsi naa.a 02:10:00 02:11:00 40          D:0x8, so many times
    esx1 unmap gold 02:10:00 02:11:00
    esx1 heard 02:00:00

A time may begin with days from the first: `+7d/02:10:00`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from detectors.events import event_id
from incidents.correlator import HEARD_TOPIC, INVENTORY_TOPIC, Correlator, Incident
from incidents.places import Places
from incidents.signals import microseconds, signal_of
from incidents.usual_hours import Hours

CASES = Path(__file__).parent / "cases"
MIDNIGHT = datetime(2026, 3, 2, tzinfo=UTC)

Fed = tuple[str, dict[str, Any]]
"""A topic, and an event of it."""


def cases() -> list[Path]:
    return sorted(CASES.glob("*.yaml"))


def load(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(path.read_text())
    return loaded


def events(case: dict[str, Any]) -> list[Fed]:
    inventory = case.get("inventory", {})
    listing = {"kind": "listing", "told_by": "vmfs extent list"}
    return [
        *([_item("", listing)] if any("datastore" in each for each in inventory.values()) else []),
        *(_item(name, said) for name, said in inventory.items()),
        *(each for line in case["events"] for each in _events(line)),
    ]


def until_us(case: dict[str, Any]) -> int:
    return _us(case["until"])


def known_us(fed: Fed) -> int:
    topic, event = fed
    if topic == HEARD_TOPIC:
        return int(event["heard_us"])
    signal = signal_of(topic, event)
    return signal.known_us if signal else 0


def final_rows(fed: list[Fed], until: str, every_us: int) -> list[Incident]:
    """What stands in the view in the end."""
    correlator, bands, places = Correlator("case", every_us), dict[str, Hours](), Places()
    best: dict[str, Incident] = {}

    def take(rows: Iterator[Incident]) -> None:
        for row in rows:
            known = best.get(row.event_id)
            if known is None or row.revision >= known.revision:
                best[row.event_id] = row

    for topic, event in fed:
        take(correlator.feed(topic, event, bands, places))
    take(correlator.tick(_us(until), places))
    take(correlator.look(places))
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
    """An extent where a datastore is named, and what is said of the device."""
    kind = "extent" if "datastore" in said else "raw_device_mapping" if "vm" in said else "device"
    return INVENTORY_TOPIC, {
        "kind": kind,
        "is_deleted": 0,
        "host": "esx1",
        "told_by": "vmfs extent list",
        "observed_at": _time("00:00:00"),
        "device": name.partition(" ")[0],
        "datastore_uuid": "",
        **said,
    }


def _events(line: str) -> Iterator[Fed]:
    host, kind, *rest = line.split()
    if kind == "heard":
        yield HEARD_TOPIC, {"host": host, "heard_us": _us(rest[0])}
        return
    what, started, ended, *more = rest
    started_at, ended_at = _time(started), None if ended == "-" else _time(ended)
    datastore, _, vm = what.rpartition("/")
    common = {
        "event_id": event_id("case", line),
        "revision": 1,
        "is_deleted": 0,
        "run_id": "case",
        "host": host,
        "started_at": started_at,
        "ended_at": ended_at,
        "evidence": [f"the line of {line}"],
    }
    of_a_vm = {"vm": vm, "datastore": datastore}
    match kind:
        case "slow" | "queue" | "slow_log":
            yield (
                "events.latency",
                {
                    **common,
                    "object_class": "scsi_device",
                    "device": what,
                    "metric": "kavg" if kind == "queue" else "davg",
                    "origin": "vmkernel" if kind == "slow_log" else "esxtop",
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
            yield "events.snapshot", {**common, **of_a_vm, **said}
        case "conflict" | "stuck":
            said = {
                "device": what.strip("-"),
                "outcome": "failed" if kind == "stuck" else more[0],
                "steps": 5,
                "dialect": "sync_cr",
                "is_stuck": kind == "stuck",
                "is_expected": False,
            }
            yield "events.reservation", {**common, **said}
        case "path":
            named = {"device": what, "datastore": "", "kind": more[0]}
            yield "events.path", {**common, **named}
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
