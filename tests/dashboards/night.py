"""One night of a small fleet as rows in ClickHouse: stuns with their lines, LUN and incident.

Some VMs have names that an attacker would choose. Tables and links must show them unchanged.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import NAMESPACE_DNS, UUID, uuid5

from tests.clickhouse_server import Server, insertion

DATASTORE = "san-gold-1"
DEVICE = "naa.60060160a1b02e00c4d5e6f708192a3b"
HOST = "esx01.lab.example"
FOLDER = "esx01"
"""Folder of the VMs' logs, and therefore the host of their stuns."""
WORST_VM = "sql01"
WORST_AT = datetime(2024, 5, 6, 2, 17, 57, 365000, UTC)
WORST_S = 237

HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '<a href="https://evil.example/">sql01</a>',
    "javascript:alert(1)",
    "') UNION ALL SELECT version() --",
    'it\'s 100% a&b;+"c" !(x) #1?/..\\',
    "&lt;b&gt;",
    "虚🖥" + "ü" * 40 + "x" * 158,
)
"""Names of VMs. The last one has 200 characters and nearly 255 bytes, the maximum for a name."""


def incident_id() -> UUID:
    """Return the id of the night's incident."""
    return _id("incident")


def fill(server: Server) -> None:
    """Write the night into the tables of an empty server."""
    stuns = [_stun(WORST_VM, WORST_AT, WORST_S)]
    stuns += [_stun(WORST_VM, WORST_AT - timedelta(minutes=9 * each), 2) for each in (1, 2)]
    stuns += [
        _stun(name, WORST_AT + timedelta(minutes=number), 0.4 + number / 10)
        for number, name in enumerate(HOSTILE, 1)
    ]
    _insert(server, "stuns_stored", stuns)
    kept = ("event_id", "is_deleted", "run_id", "host", "vm", "datastore", "ended_at")
    more = ("duration_us", "cause", "severity", "evidence")
    by_time = [{name: each[name] for name in (*kept, *more)} | {"version": 1} for each in stuns]
    _insert(server, "stuns_by_time_stored", by_time)
    _insert(server, "incidents_stored", [_incident(stuns)])
    _insert(server, "log_lines_stored", list(_lines(stuns)))
    _insert(
        server,
        "owners_seen_stored",
        [
            {
                "host": FOLDER if vm else HOST,
                "datastore": DATASTORE if vm else "",
                "vm": vm,
                "peer": "",
                "seen_at": _at(WORST_AT),
            }
            for vm in ("", WORST_VM, *HOSTILE)
        ],
    )
    _insert(
        server,
        "latency_hours_stored",
        [
            {
                "object_class": "scsi_device",
                "host": HOST,
                "device": DEVICE,
                "hour": f"2024-05-06 {hour:02}:00:00",
                "worst_davg_ms": 4.0 + 40 * (hour == 2),
                "peak_davg_ms": 5.0 + 99 * (hour == 2),
                "worst_kavg_ms": 0.1,
            }
            for hour in range(24)
        ],
    )
    extent = {
        "event_id": str(_id("extent")),
        "revision": 1,
        "is_deleted": 0,
        "detected_at": _at(WORST_AT)[:-3],
        "run_id": "live",
        "host": HOST,
        "kind": "extent",
        "told_by": "vmfs extent list",
        "observed_at": _at(WORST_AT - timedelta(days=1)),
        "device": DEVICE,
        "partition": 1,
        "datastore_uuid": "4f9d2c11-a1b2c3d4-e5f6-001b21aabbcc",
        "datastore": DATASTORE,
    }
    _insert(server, "inventory_stored", [extent])


def _stun(vm: str, ended_at: datetime, seconds: float) -> dict[str, Any]:
    severity = "critical" if seconds > 5 else "warning" if seconds > 1 else "notice"
    return {
        "event_id": str(_id(f"{vm} {ended_at}")),
        "revision": 1,
        "is_deleted": 0,
        "detected_at": _at(ended_at)[:-3],
        "run_id": "live",
        "host": FOLDER,
        "vm": vm,
        "datastore": DATASTORE,
        "started_at": _at(ended_at - timedelta(seconds=seconds)),
        "ended_at": _at(ended_at),
        "duration_us": int(seconds * 1e6),
        "measured_by": "unstun",
        "cause": "snapshot_remove",
        "severity": severity,
        "evidence": [_unstun(ended_at, seconds)],
    }


def _incident(stuns: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "event_id": str(incident_id()),
        "revision": 1,
        "is_deleted": 0,
        "detected_at": _at(WORST_AT)[:-3],
        "written_at": _at(WORST_AT)[:-3],
        "run_id": "live",
        "opened_at": _at(WORST_AT - timedelta(seconds=WORST_S)),
        "closed_at": _at(WORST_AT + timedelta(minutes=30)),
        "state": "closed",
        "scope": "device",
        "verdict": f"DAVG up to 44 ms on {DEVICE}; <b>{len(stuns)}</b> stuns, worst 237 s.",
        "confidence": "high",
        "next_steps": [],
        "hosts": [HOST],
        "devices": [DEVICE],
        "datastores": [DATASTORE],
        "vms": [WORST_VM, *HOSTILE],
        "reporting_hosts": 1,
        "stun_count": len(stuns),
        "worst_stun_us": WORST_S * 1_000_000,
        "conflict_count": 0,
        "peak_davg_ms": 44.0,
        "severity": "critical",
        "evidence_ids": [each["event_id"] for each in stuns],
        "evidence": [each["evidence"][0] for each in stuns[:1]],
    }


def _lines(stuns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return each stun's line in its VM's log, and a line of the host half a minute before it."""
    lines = []
    for each in stuns:
        at = datetime.fromisoformat(f"{each['ended_at']}+00:00")
        told = [
            ("vmware_log", "vmx", each["vm"], at, _unstun(at, each["duration_us"] / 1e6)),
            (
                "syslog",
                "vmkernel",
                "",
                at - timedelta(seconds=30),
                f"{_at(at - timedelta(seconds=30))} <b>H:0x0</b> D:0x28",
            ),
        ]
        for source, program, vm, logged_at, line in told:
            lines.append(
                {
                    "event_time": _at(logged_at),
                    "received_at": _at(logged_at),
                    "source": source,
                    "program": program,
                    "host": FOLDER if vm else HOST,
                    "vm": vm,
                    "datastore": DATASTORE if vm else "",
                    "message": line,
                    "run_id": "live",
                    "time_quality": "exact",
                }
            )
    return lines


def _unstun(at: datetime, seconds: float) -> str:
    written = f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"
    return f"{written}| vcpu-0| I125: Checkpoint_Unstun: vm stopped for {int(seconds * 1e6)} us"


def _insert(server: Server, table: str, rows: list[dict[str, Any]]) -> None:
    server.admin.command(insertion(table, rows))


def _at(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S.%f}"


def _id(name: str) -> UUID:
    return uuid5(NAMESPACE_DNS, name)
