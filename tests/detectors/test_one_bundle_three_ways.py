"""The same bundle as host files, as a relay's output and as JSON lines gives the same events."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from stunwatch.cli.demo import INCIDENT
from stunwatch.detectors.catalogue import detector
from stunwatch.ingest.replay import Options
from tests.detectors.replayed import records_in, rows_of

HOSTS = {
    "esx01.lab.example": (2012, "path_flaps_once"),
    "esx02.lab.example": (2023, "heartbeat_on_esxi8"),
}
"""Hosts of the bundled incident: the year of their lines, and a case of path events to add."""

_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\S+Z[:|]? ")
_TAGS = {"hostd": "Hostd[2098914]", "vmkernel": "vmkernel", "vobd": "vobd"}


@pytest.fixture(params=HOSTS)
def bundle(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    host = tmp_path / "bundle" / request.param
    shutil.copytree(INCIDENT / request.param, host)
    case = detector("path_events").folder / "cases" / HOSTS[request.param][1]
    shutil.copy(case / "input.log", host / "scratch/log/vobd.log")
    return host


def on_the_wire(bundle: Path) -> Iterator[tuple[datetime, str, str]]:
    """Yield time, host and the rest of the wire format of each line."""
    for record in sorted(records_in(bundle), key=lambda each: each["event_time_us"]):
        if record["kind"] == "line" and record.get("head"):
            rest = _STAMP.sub("", record["head"], count=1) + record["message"]
            tag = f"{record['vm']}[2104567]" if "vm" in record else _TAGS[record["program"]]
            at = datetime.fromisoformat(record["event_time"]).astimezone(UTC)
            yield at, record["host"], f"{tag}: {rest}"


def events_of(rows: list[dict[str, Any]]) -> list[tuple[tuple[Any, ...], str]]:
    """Return stuns, conflicts and path events as sorted (fields, time)."""
    found = []
    for row in rows:
        host, start = row["host"].partition(".")[0], row.get("started_at", "")
        match row["detector"]:
            case "stuns":
                what = row["vm"], row["duration_us"], row["cause"], row["cause_detail"]
                found.append((what, row["ended_at"]))
            case "sync_cr_countdowns" | "reservation_episodes":
                what = host, row["world_id"], row["outcome"], row["first_remaining"]
                found.append(((*what, row["steps"]), start))
            case "path_events":
                found.append(((host, row["kind"], row["path"], row["datastore"]), start))
    return sorted(found, key=str)


def test_the_bundle_has_events_of_every_compared_detector(bundle: Path) -> None:
    told = {row["detector"] for row in rows_of(bundle)}
    assert told >= {"stuns", "path_events"}
    assert "esx02" in bundle.name or "sync_cr_countdowns" in told


def test_json_lines_give_the_same_events(bundle: Path, tmp_path: Path) -> None:
    lines = [
        json.dumps({"host": {"name": "relay01"}, "message": f"<14>{at:%FT%T.%f}Z {host} {rest}"})
        for at, host, rest in on_the_wire(bundle)
    ]
    (tmp_path / "all.json").write_text("\n".join(lines) + "\n")
    assert events_of(rows_of(tmp_path / "all.json")) == events_of(rows_of(bundle))


def test_the_output_of_a_relay_gives_the_same_events_to_the_second(
    bundle: Path, tmp_path: Path
) -> None:
    year, _ = HOSTS[bundle.name]
    lines = [
        f"{at:%b %d %H:%M:%S} {host.partition('.')[0]} {rest}"
        for at, host, rest in on_the_wire(bundle)
    ]
    (tmp_path / "all.log").write_text("\n".join(lines) + "\n")
    relayed = events_of(rows_of(tmp_path / "all.log", options=Options(year=year)))
    as_files = events_of(rows_of(bundle))
    assert [what for what, _ in relayed] == [what for what, _ in as_files]
    for (what, cut), (_, exact) in zip(relayed, as_files, strict=True):
        apart = datetime.fromisoformat(exact) - datetime.fromisoformat(cut)
        assert abs(apart.total_seconds()) <= 1, what
