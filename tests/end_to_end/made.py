"""Made-up rows for tests: they reach the views through Kafka, without Flink."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from stunwatch.definitions import events
from stunwatch.detectors.events import event_id
from tests.pipeline import Pipeline

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def stamp(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%S.%f}Z"


def line(host: str, at: datetime, **more: Any) -> dict[str, Any]:
    """Return a vmkernel line, or a VM's line if `vm` and `datastore` are given."""
    program = "vmx" if "vm" in more else "vmkernel"
    return {
        "event_time": stamp(at),
        "received_at": stamp(datetime.now(UTC)),
        "kind": "line",
        "source": "vmware_log" if "vm" in more else "syslog",
        "program": program,
        "host": host,
        "head": f"{stamp(at)} ",
        "message": f"{program} is heard",
        "run_id": "made",
        "time_quality": "exact",
        **more,
    }


def sample(host: str, device: str, at: datetime, davg_ms: float, **more: Any) -> dict[str, Any]:
    return {
        "event_time": stamp(at),
        "received_at": stamp(datetime.now(UTC)),
        "kind": "line",
        "source": "esxtop",
        "host": host,
        "object_class": "scsi_device",
        "device": device,
        "davg_ms": davg_ms,
        "kavg_ms": 0.1,
        "commands_per_second": 100.0,
        "run_id": "made",
        "time_quality": "exact",
        **more,
    }


def window(host: str, device: str, at: datetime, davg_ms: float) -> dict[str, Any]:
    """Return the one-minute window of a sample, as Flink creates it."""
    return {
        "event_id": event_id("latency_windows", host, device, stamp(at)),
        "detector": "latency_windows",
        "revision": 1,
        "is_deleted": 0,
        "run_id": "made",
        "host": host,
        "object_class": "scsi_device",
        "device": device,
        "window_seconds": 60,
        "window_start": stamp(at),
        "window_end": stamp(at + MINUTE),
        "avg_davg_ms": davg_ms,
        "p95_davg_ms": davg_ms,
        "max_davg_ms": davg_ms,
        "avg_kavg_ms": 0.1,
        "max_kavg_ms": 0.1,
        "commands": 6000.0,
        "samples": 12,
    }


def stun(host: str, datastore: str, vm: str, at: datetime, duration_s: float) -> dict[str, Any]:
    """Return a stun that ended at a given time."""
    return {
        "event_id": event_id("stuns", datastore, vm, stamp(at)),
        "detector": "stuns",
        "revision": 1,
        "is_deleted": 0,
        "run_id": "made",
        "host": host,
        "vm": vm,
        "datastore": datastore,
        "started_at": stamp(at - timedelta(seconds=duration_s)),
        "ended_at": stamp(at),
        "duration_us": round(duration_s * 1e6),
        "reported_us": None,
        "measured_by": "unstun",
        "cause": "unknown",
        "cause_detail": "",
        "migration_id": None,
        "switchover_us": None,
        "is_quiesced": None,
        "is_cbt": None,
        "severity": "critical",
        "evidence": ["made"],
    }


def conflict(host: str, at: datetime, device: str = "") -> dict[str, Any]:
    """Return a countdown of four seconds."""
    return {
        "event_id": event_id("sync_cr_countdowns", host, stamp(at)),
        "detector": "sync_cr_countdowns",
        "revision": 1,
        "is_deleted": 0,
        "run_id": "made",
        "host": host,
        "world_id": 1039,
        "opcode": None,
        "first_remaining": 64,
        "last_remaining": 16,
        "steps": 4,
        "started_at": stamp(at),
        "ended_at": stamp(at + timedelta(seconds=4)),
        "duration_ms": 4000,
        "eta_ms": None,
        "outcome": "recovered",
        "device": device,
        "dialect": "sync_cr",
        "is_stuck": False,
        "is_expected": False,
        "evidence": ["made"],
    }


TOPICS = {
    "vmware_log": "esxi.backfill",
    "syslog": "esxi.backfill",
    "esxtop": "esxi.esxtop",
    **{detector: topic for topic, event in events().items() for detector in event.identity},
}
COUNTED = {
    "esxi.backfill": "log_lines",
    "esxi.esxtop": "latency_samples",
    **{topic: event.view for topic, event in events().items()},
}


def store(pipeline: Pipeline, rows: list[dict[str, Any]]) -> None:
    """Send rows and wait until all of them are in their views. They must be new."""
    by_topic: dict[str, list[bytes]] = {}
    for row in rows:
        topic = TOPICS[row.get("source") or row["detector"]]
        by_topic.setdefault(topic, []).append(orjson.dumps(row))
    before = {
        topic: pipeline.one(f"SELECT count() FROM {COUNTED[topic]} WHERE run_id = 'made'")
        for topic in by_topic
    }
    for topic, values in by_topic.items():
        pipeline.produce(topic, *values)
    for topic, values in by_topic.items():
        pipeline.wait_for(
            f"SELECT count() FROM {COUNTED[topic]} WHERE run_id = 'made'",
            before[topic] + len(values),
        )
