"""Test data for reports: rows as the database would return them."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

from stunwatch.report.contents import MARGIN, QUESTIONS, Contents
from stunwatch.report.questions import Answer, Row

OPENED_AT = datetime(2012, 3, 19, 2, 10, tzinfo=UTC)
ENDED_AT = OPENED_AT + timedelta(minutes=42)
MINUTE = timedelta(minutes=1)

INCIDENT: Row = {
    "incident_id": "1f0a3a51-6a52-5a57-8d7c-0a1e7a9f2b11",
    "opened_at": OPENED_AT,
    "closed_at": ENDED_AT,
    "detected_at": OPENED_AT + timedelta(seconds=65),
    "last_event_at": ENDED_AT,
    "state": "closed",
    "scope": "array_or_fabric",
    "verdict": "Since 2026-03-02 02:10 UTC, esxtop DAVG up to 1,000 ms on 6 LUNs from 9 hosts:"
    " several LUNs and hosts affected, suspect the array or the fabric; 14 VMs stunned,"
    " worst 237 s; 3 reservation conflicts cleared.",
    "confidence": "high",
    "severity": "critical",
    "next_steps": [
        {
            "step": "Check the path policy of these LUNs",
            "because": "the inventory does not show the path policy",
            "kb": "1011340",
            "against": None,
        },
        {
            "step": "Reset naa.60060160a1b02e00c4d5e6f708192a3b",
            "because": "2 conflicts: all retries failed",
            "kb": "1021187",
            "against": "An RDM may use the LUN",
            "precondition": "No physical backup server uses the LUN",
            "risk_level": "high",
            "risk": "It aborts the I/O of every host",
        },
    ],
    "hosts": ["esx01.lab.example", "esx02.lab.example"],
    "reporting_hosts": 12,
    "missing": ["No inventory shows the LUN of ds-bronze."],
    "stun_count": 120,
    "worst_stun_us": 237_087_978,
    "conflict_count": 3,
    "peak_davg_ms": 1204.5,
    "evidence": [
        "2012-03-19T02:17:57.365Z| vcpu-0| Checkpoint_Unstun: vm stopped for 237087978 us"
    ],
    "run_id": "live",
}

FIGURES: dict[str, Row] = {
    "stun_figures": {
        "stuns": 120,
        "stunned_vms": 14,
        "worst_us": 237_087_978,
        "worst_vm": "sql01",
    },
    "conflict_figures": {"conflicts": 3, "failed": 1, "recovered": 2},
    "latency_figures": {
        "episodes": 9,
        "slow_devices": 6,
        "highest_ms": 1204.5,
        "peak_device": "naa.60060160a1b02e00c4d5e6f708192a3b",
        "peak_host": "esx01.lab.example",
    },
    "host_figures": {
        "reporting_hosts": 12,
        "affected_hosts": 2,
        "affected_devices": 2,
        "affected_datastores": 1,
        "affected_vms": 60,
    },
}
NO_FIGURES: dict[str, Row] = {
    "stun_figures": {"stuns": 0, "stunned_vms": 0, "worst_us": 0, "worst_vm": ""},
    "conflict_figures": {"conflicts": 0, "failed": 0, "recovered": 0},
    "latency_figures": {
        "episodes": 0,
        "slow_devices": 0,
        "highest_ms": 0,
        "peak_device": "",
        "peak_host": "",
    },
    "host_figures": {
        "reporting_hosts": 4,
        "affected_hosts": 0,
        "affected_devices": 0,
        "affected_datastores": 0,
        "affected_vms": 0,
    },
}


def spot(at: datetime, duration_us: int, cause: str, vm: str = "web01", **more: Any) -> Row:
    """Return a spot of the drawing with one stun."""
    return {
        "shown_cause": cause,
        "belongs": 1,
        "first_at": at - timedelta(microseconds=duration_us),
        "last_at": at,
        "longest_us": duration_us,
        "longest_vm": vm,
        "stuns": 1,
        **more,
    }


def causes_of(spots: list[Row]) -> list[Row]:
    """Count the stuns of the drawing by cause."""
    counts = Counter(each["shown_cause"] for each in spots)
    return [{"cause": cause, "stuns": count} for cause, count in counts.most_common()]


def latency(devices: int) -> list[Row]:
    """Return a row per minute and device. Devices are slow during the incident."""
    rows = []
    for number in range(devices):
        for minute in range(102):
            at = OPENED_AT - MARGIN + minute * MINUTE
            is_slow = OPENED_AT <= at <= ENDED_AT and number < 6
            peak_ms = (1200 / (1 + number)) if is_slow else 4 + number % 3
            rows.append(
                {
                    "device": f"naa.60060160a1b02e00c4d5e6f7081900{number:02x}",
                    "minute_at": at,
                    "davg_ms": peak_ms * random.Random(f"{number} {minute}").uniform(0.6, 1),
                    "hosts": 9,
                }
            )
    # A gap without measurements.
    return [each for each in rows if not 20 <= (each["minute_at"] - OPENED_AT) / MINUTE < 24]


def evening(stuns: int = 120) -> dict[str, list[Row]]:
    """Return the rows of an incident of an array."""
    chance = random.Random("evening")
    causes = ["snapshot_remove"] * 5 + ["snapshot_create", "vmotion", "unknown", "storage_vmotion"]
    spots = [
        spot(
            OPENED_AT + chance.random() * (ENDED_AT - OPENED_AT),
            int(10 ** chance.uniform(4.2, 7.5)),
            chance.choice(causes),
            f"web{number:02}",
        )
        for number in range(stuns - 1)
    ]
    spots += [
        spot(OPENED_AT - 12 * MINUTE, 90_000, "snapshot_create_memory", belongs=0),
        spot(OPENED_AT - 20 * MINUTE, 150_000, "hot_add", belongs=0),
        spot(OPENED_AT + 8 * MINUTE, 237_087_978, "snapshot_remove", "sql01"),
    ]
    started_at = OPENED_AT + 5 * MINUTE
    countdowns = [
        {
            "outcome": outcome,
            "belongs": 1,
            "first_remaining": 64,
            "last_remaining": last,
            "first_at": started_at + minute * MINUTE,
            "last_at": started_at + minute * MINUTE + timedelta(seconds=4),
            "countdowns": 1,
        }
        for outcome, last, minute in (("recovered", 16, 0), ("failed", 0, 7), ("recovered", 48, 21))
    ]
    marks = [
        {
            "what": what,
            "is_failure": is_failure,
            "belongs": belongs,
            "first_at": OPENED_AT + after * MINUTE,
            "last_at": OPENED_AT + (after + lasts) * MINUTE,
            "events": events,
        }
        for what, is_failure, belongs, after, lasts, events in (
            ("snapshot removed", 0, 1, 1, 9, 1),
            ("snapshot removed", 1, 1, 12, 26, 2),
            ("snapshot created", 0, 0, -22, 0.2, 1),
            ("path dead", 1, 1, 0.5, 4, 3),
            ("path on", 0, 1, 4.5, 0, 3),
            ("SCSI errors", 1, 1, 2, 0, 21),
            ("SCSI errors", 1, 1, 15, 0, 7),
            ("lost access", 1, 1, 6, 0.3, 2),
        )
    ]
    return {
        "timeline_stuns": spots,
        "stun_causes": causes_of(spots),
        "timeline_latency": latency(9),
        "timeline_episodes": [
            {
                "device": "naa.60060160a1b02e00c4d5e6f708190000",
                "origin": "vmkernel",
                "belongs": 1,
                "first_at": OPENED_AT + MINUTE,
                "last_at": OPENED_AT + 30 * MINUTE,
                "highest_ms": 331.7,
                "limit_ms": None,
                "episodes": 1,
            }
        ],
        "timeline_countdowns": countdowns,
        "timeline_marks": marks,
        "changes": [
            {
                "change_id": "0b6f3f0e-6f5c-5b0e-9a3e-2f6f0c1d2e3f",
                "changed_at": ENDED_AT - 4 * MINUTE,
                "told_by": "noted",
                "kind": "path_policy",
                "title": "Round Robin",
                "concerns": "",
            },
            {
                "change_id": "1b6f3f0e-6f5c-5b0e-9a3e-2f6f0c1d2e3f",
                "changed_at": OPENED_AT - timedelta(hours=30),
                "told_by": "noted",
                "kind": "firmware",
                "title": "array 5.2.1",
                "concerns": "ds-gold",
            },
        ],
        "affected_hosts": [
            {
                "host": name,
                "stuns": 60,
                "conflicts": 2,
                "latency_episodes": 4,
                "path_events": 3,
                "scsi_errors": 1,
            }
            for name in INCIDENT["hosts"]
        ],
        "affected_devices": [
            {
                "device": "naa.60060160a1b02e00c4d5e6f708190000",
                "peak_davg_ms": 1204.5,
                "slow_on": ["esx01.lab.example", "esx02.lab.example"],
            },
            {"device": "naa.60060160a1b02e00c4d5e6f708190001", "peak_davg_ms": 0, "slow_on": []},
        ],
        "affected_datastores": [
            {"datastore": "ds-gold", "devices": [], "stuns": 120, "worst_us": 237_087_978}
        ],
        "affected_vms": [
            {"vm": f"web{number:02}", "datastore": "ds-gold", "stuns": 2, "worst_us": 4_000_000}
            for number in range(40)
        ],
        "longest_stuns": [
            {
                "vm": each["longest_vm"],
                "datastore": "ds-gold",
                "host": "esx01.lab.example",
                "started_at": each["first_at"],
                "ended_at": each["last_at"],
                "duration_us": each["longest_us"],
                "cause": each["shown_cause"],
                "severity": "critical",
            }
            for each in sorted(spots, key=lambda each: -each["longest_us"])[:20]
        ],
        "evidence": [
            {
                "place": 2,
                "kind": "reservation conflicts",
                "line": "Mar 19 02:15:01 esx01 vmkernel: 21:10:09:11.602 cpu3:1051)SCSI: vm 1051:"
                " 117: Sync CR at 0",
            }
        ],
    }


def contents(
    rows: dict[str, list[Row]] | None = None,
    figures: dict[str, Row] | None = None,
    **incident: Any,
) -> Contents:
    """Return a report's contents: empty except for these rows and fields of the incident."""
    told = {**INCIDENT, **incident}
    answers = {
        **{name: [] for name in QUESTIONS},
        **{name: [row] for name, row in (figures or FIGURES).items()},
        **(rows or {}),
        "incident": [told],
    }
    ended_at = told["closed_at"] or told["last_event_at"]
    return Contents(
        incident=told,
        opened_at=told["opened_at"],
        ended_at=ended_at,
        from_at=told["opened_at"] - MARGIN,
        until_at=ended_at + MARGIN,
        made_at=ended_at,
        answers={
            name: Answer(name, f"What of {name}?", f"SELECT *\nFROM {name}\nWHERE a < 'b';", found)
            for name, found in answers.items()
        },
    )
