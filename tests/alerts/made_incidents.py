"""Incident events for tests."""

from __future__ import annotations

from typing import Any
from uuid import NAMESPACE_URL, uuid5


def incident(name: str = "one", revision: int = 1, **fields: Any) -> dict[str, Any]:
    """Return an incident event: an open, critical incident of a host."""
    return {
        "event_id": str(uuid5(NAMESPACE_URL, name)),
        "detector": "incidents",
        "revision": revision,
        "is_deleted": 0,
        "run_id": "live",
        "detected_at": "2026-03-01T02:01:05.000000Z",
        "opened_at": "2026-03-01T02:00:00.000000Z",
        "closed_at": None,
        "state": "open",
        "scope": "host",
        "verdict": f"Host {name} loses its storage: three devices at once.",
        "confidence": "high",
        "next_steps": [
            {
                "step": "Look at the HBA of esx01",
                "because": "no other host sees it",
                "kb": "1004684",
                "against": None,
            }
        ],
        "hosts": ["esx01.lab.example"],
        "devices": ["naa.6000c29f"],
        "datastores": ["ds-gold"],
        "vms": ["sql01", "web01"],
        "reporting_hosts": 4,
        "missing": [],
        "stun_count": 7,
        "worst_stun_us": 2_345_678,
        "conflict_count": 0,
        "peak_davg_ms": 412.5,
        "severity": "critical",
        "evidence_ids": [],
        "evidence": ["2026-03-01T02:00:00.000Z cpu1:2)ScsiDeviceIO: a line"],
        **fields,
    }


def closed(name: str = "one", revision: int = 9, **fields: Any) -> dict[str, Any]:
    """Return the same incident, closed."""
    over = {"state": "closed", "closed_at": "2026-03-01T02:12:00.000000Z"}
    return incident(name, revision, **{**over, **fields})
