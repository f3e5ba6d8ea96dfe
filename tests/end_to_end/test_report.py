"""A report of made-up incidents: numbers from the database, and queries ready to paste."""

from __future__ import annotations

import html
import re
import shlex
import time
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
import pytest

from stunwatch.detectors.events import event_id
from tests.alerts.made_incidents import incident
from tests.end_to_end.made import MINUTE, conflict, moment, stamp, store, stun
from tests.pipeline import Pipeline

# The rows of this pipeline are made up, without log lines.
pytestmark = pytest.mark.made_up

EVENING = moment("2013-05-14 21:00:00")
BAD_VM = "<script>alert(1)</script>${HOME} $x_2$"
LUN = "naa.600a0b80002a5e0000"


def path_event(host: str, started_at: Any) -> dict[str, Any]:
    return {
        "event_id": event_id("path_events", host, stamp(started_at)),
        "detector": "path_events",
        "revision": 1,
        "is_deleted": 0,
        "run_id": "made",
        "host": host,
        "path": "vmhba1:C0:T0:L7",
        "device": LUN,
        "datastore": "",
        "kind": "path_dead",
        "started_at": stamp(started_at),
        "ended_at": None,
        "evidence": ["scsiPath vmhba1:C0:T0:L7 changed state from on."],
    }


def window(host: str, started_at: Any, davg_ms: float) -> dict[str, Any]:
    return {
        "event_id": event_id("latency_windows", host, stamp(started_at)),
        "detector": "latency_windows",
        "revision": 1,
        "is_deleted": 0,
        "run_id": "made",
        "host": host,
        "object_class": "scsi_device",
        "device": LUN,
        "window_seconds": 60,
        "window_start": stamp(started_at),
        "window_end": stamp(started_at + MINUTE),
        "avg_davg_ms": davg_ms / 2,
        "p95_davg_ms": davg_ms,
        "max_davg_ms": davg_ms,
        "avg_kavg_ms": 0.1,
        "max_kavg_ms": 0.1,
        "commands": 600.0,
        "samples": 12,
    }


def episode(host: str) -> dict[str, Any]:
    return {
        "event_id": event_id("latency", host, LUN, stamp(EVENING)),
        "detector": "latency",
        "revision": 1,
        "is_deleted": 0,
        "run_id": "made",
        "host": host,
        "object_class": "scsi_device",
        "device": LUN,
        "metric": "davg",
        "origin": "esxtop",
        "kind": "sustained",
        "started_at": stamp(EVENING),
        "ended_at": stamp(EVENING + 20 * MINUTE),
        "threshold_ms": 25,
        "peak_ms": 812.5,
        "mean_ms": 400.0,
        "baseline_ms": None,
        "samples": 240,
        "evidence": [],
    }


@pytest.fixture(scope="module")
def evening(pipeline: Pipeline) -> dict[str, Any]:
    """Store an incident with its events; return its event."""
    stuns = [
        stun("esx31", "ds-31", BAD_VM if number % 9 == 0 else f"app{number % 9}", at, seconds)
        for number in range(200)
        for at, seconds in [(EVENING + number * timedelta(seconds=5.5), 0.05 + number * 0.3)]
    ]
    others = [stun("esx31", "ds-elsewhere", "quiet01", EVENING, 9)]
    conflicts = [conflict("esx31", EVENING + 3 * MINUTE)]
    paths = [path_event("esx31", EVENING + MINUTE)]
    store(pipeline, [*stuns, *others, *conflicts])
    windows = [
        window("esx31", EVENING + number * MINUTE, 812.5 if 0 <= number < 20 else 3)
        for number in range(-30, 50)
    ]
    pipeline.produce("events.path", *map(orjson.dumps, paths))
    pipeline.produce("events.latency", orjson.dumps(episode("esx31")))
    pipeline.produce("events.latency_window", *map(orjson.dumps, windows))
    told = incident(
        f"report {uuid4()}",
        run_id="made",
        state="closed",
        opened_at=stamp(EVENING),
        closed_at=stamp(EVENING + 20 * MINUTE),
        detected_at=stamp(EVENING + MINUTE),
        hosts=["esx31"],
        devices=[LUN],
        datastores=["ds-31"],
        vms=sorted({each["vm"] for each in stuns}),
        stun_count=200,
        worst_stun_us=max(each["duration_us"] for each in stuns),
        conflict_count=1,
        peak_davg_ms=812.5,
        missing=["No inventory shows the LUN of ds-31."],
        evidence_ids=[each["event_id"] for each in [*stuns, *conflicts, *paths, episode("esx31")]],
    )
    pipeline.produce("events.incident", orjson.dumps(told), key=told["event_id"])
    identity = told["event_id"]
    pipeline.wait_for(f"SELECT count() FROM incidents WHERE incident_id = '{identity}'", 1)
    pipeline.wait_for("SELECT count() FROM path_events WHERE host = 'esx31'", 1)
    pipeline.wait_for("SELECT count() FROM latency_episodes WHERE host = 'esx31'", 1)
    pipeline.wait_for("SELECT count() FROM latency_windows WHERE host = 'esx31'", len(windows))
    return told


def test_a_page_contains_the_numbers_and_no_scripts(
    pipeline: Pipeline, evening: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    began = time.monotonic()
    done = pipeline.run("report", evening["event_id"][:13], "--out", path)
    assert time.monotonic() - began < 30
    assert done.stdout.strip() == str(path)
    page = path.read_text()
    assert len(page) < 2_000_000
    assert "<script" not in page
    assert html.escape(BAD_VM) in page
    for said in (
        evening["verdict"],
        "No inventory shows the LUN of ds-31.",
        "59.750 s",
        "200",
        "812.5 ms",
        "path dead (1)",
        "retries left",
        "1 of 4",
    ):
        assert said in page, said
    assert "quiet01" not in page
    assert "in the verdict;" not in page
    # No external resource is loaded: the only URLs are XML namespaces.
    assert not re.findall(r"(?:src|href)=\"(?!#)", page)


def test_every_query_of_the_page_can_be_pasted_into_a_shell(
    pipeline: Pipeline, evening: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    pipeline.run("report", evening["event_id"], "--out", path)
    queries = {
        html.unescape(each)
        for each in re.findall(r"<pre>(stunwatch sql .*?)</pre>", path.read_text(), re.S)
    }
    assert len(queries) == 18
    for each in queries:
        command, *words = shlex.split(each)
        assert command == "stunwatch"
        # An interactive bash leaves `!=` unchanged, too.
        assert not re.search(r"[$`\\]|!(?!=)", words[1])
        assert pipeline.run(*words).returncode == 0
    [stuns] = [each for each in queries if "stunned_vms" in each]
    shown = pipeline.run(*shlex.split(stuns)[1:], "--format", "CSV").stdout
    assert shown.startswith("200,9,59750000,")


def test_an_unknown_or_invalid_id_is_reported_in_one_sentence(
    pipeline: Pipeline, evening: dict[str, Any], tmp_path: Path
) -> None:
    for wanted in ("ffffffff-0000", "x'; --"):
        done = pipeline.run("report", wanted, code=2)
        assert "stunwatch incident list" in done.stderr
        assert done.stderr.count("\n") == 1
    twins = [
        incident(name, run_id="made", event_id=f"0badcafe-0000-5000-8000-00000000000{number}")
        for number, name in enumerate(("one", "two"))
    ]
    pipeline.produce("events.incident", *map(orjson.dumps, twins))
    pipeline.wait_for(
        "SELECT count() FROM incidents WHERE startsWith(toString(incident_id), '0badcafe')", 2
    )
    done = pipeline.run("report", "0badcafe", code=2)
    assert "2 incidents have an id that begins with 0badcafe" in done.stderr
    missing = tmp_path / "no" / "folder.html"
    done = pipeline.run("report", evening["event_id"], "--out", missing, code=2)
    assert "Cannot write" in done.stderr
    assert "not a time zone" in pipeline.run("report", "0badcafe", "--zone", "Mars", code=2).stderr
