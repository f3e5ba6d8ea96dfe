"""No text of an incident contradicts its row: every number, name and count is checked."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stunwatch.engine.correlating import LIVE_EVERY_US
from stunwatch.incidents.correlator import Incident
from tests.incidents.agreeing import contradictions
from tests.incidents.scenario import cases, events, final_rows, known_us, load


def rows_of(case: dict[str, Any]) -> list[Incident]:
    return final_rows(sorted(events(case), key=known_us), case["until"], LIVE_EVERY_US)


def assert_agree(rows: list[Incident]) -> None:
    found = [(row.verdict, each) for row in rows for each in contradictions(asdict(row))]
    assert found == []


@pytest.mark.parametrize("path", cases(), ids=lambda path: path.stem)
def test_verdicts_of_a_case_agree_with_their_rows(path: Path) -> None:
    assert_agree(rows_of(load(path)))


HITACHI = [f"naa.60060e8000000000000000000000000{each}" for each in "ab"]
OTHERS = ["naa.6006016000000000000000000000000c", "mpx.vmhba1:C0:T0:L0"]
STORAGE = st.sampled_from([*HITACHI, *OTHERS])
HOST = st.sampled_from(["esx1", "esx2", "esx3.lab.example"])
VM = st.sampled_from(["gold/web01", "gold/web02", "gold/web03", "silver/sql01", "bronze/web04"])
CAUSE = st.sampled_from(["snapshot_create", "snapshot_remove", "vmotion", "hot_add", "unknown"])
LOSS = st.sampled_from(["path_dead", "apd_start", "pdl", "heartbeat_timeout", "ats_miscompare"])
MINUTE, SECONDS = st.integers(10, 22), st.integers(1, 59)
MS = st.sampled_from(["26.4", "99.6", "310", "1240.4"])


def event(line: str, **parts: Any) -> st.SearchStrategy[str]:
    whole = {"minute": MINUTE, "seconds": SECONDS, "host": HOST, **parts}
    return st.fixed_dictionaries(whole).map(lambda said: line.format(**said))


DURING = "02:{minute}:00 02:{minute}:{seconds:02}"
EVENTS = st.one_of(
    event("{host} {kind} {lun} 02:{minute}:00 02:30:00 {ms}",
          kind=st.sampled_from(["slow", "slow", "slow_log", "queue"]), lun=STORAGE, ms=MS),
    event("{host} {kind} {name} 02:{minute}:00 02:30:00 {ms}",
          kind=st.sampled_from(["slow_volume", "slow_nfs", "slow_nfs_log"]),
          name=st.sampled_from(["gold", "silver", "nfs01"]), ms=MS),
    event("{host} stun {vm} " + DURING + " {cause}", vm=VM, cause=CAUSE),
    event("{host} conflict {lun} " + DURING + " {outcome}",
          lun=st.one_of(STORAGE, st.just("-"), st.just("vmhba1:0:7")),
          outcome=st.sampled_from(["failed", "recovered", "open"])),
    event("{host} stuck {lun} " + DURING, lun=st.one_of(STORAGE, st.just("vmhba1:0:7"))),
    event("{host} long_reservation {name} " + DURING, name=st.sampled_from(["gold", "bronze"])),
    event("{host} consolidation {vm} " + DURING + " {why}", vm=VM,
          why=st.sampled_from(["lock", "unknown"])),
    event("{host} path {lun} " + DURING + " {kind}", lun=STORAGE, kind=LOSS),
    event("{host} scsi {lun} " + DURING + " 40", lun=STORAGE),
    event("{host} path f0102e1f-41b7b812 " + DURING + " {kind}", kind=LOSS),
    event("{host} nfs f0102e1f-41b7b812={name} " + DURING, name=st.sampled_from(["", "nfs01"])),
    event("{host} unmap gold " + DURING),
    event("{host} seen 02:05:00"),
    event("esx9 seen 02:05:00"),
)  # fmt: skip
INVENTORY = st.fixed_dictionaries(
    {},
    optional={
        HITACHI[0]: st.just({"datastore": "gold"}),
        HITACHI[1]: st.just({"datastore": "silver"}),
        OTHERS[0]: st.just({"datastore": "bronze"}),
    },
)


@settings(max_examples=60, deadline=None)
@given(lines=st.lists(EVENTS, min_size=1, max_size=12, unique=True), inventory=INVENTORY)
def test_verdicts_of_any_events_agree_with_their_rows(
    lines: list[str], inventory: dict[str, Any]
) -> None:
    assert_agree(rows_of({"events": lines, "inventory": inventory, "until": "02:50:00"}))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"peak_ms": 9.0, "peak_davg_ms": 9.0}, "up to"),
        ({"devices": ["gold"]}, "no device"),
        ({"hosts": ["esx1", "esx2", "esx3"]}, "2 hosts"),
        ({"reporting_hosts": 7}, "3 hosts sent logs"),
        ({"vms": []}, "web"),
        ({"opened_at": "2026-03-02T02:11:00.000000Z"}, "begin"),
        ({"worst_stun_us": 5}, "worst"),
        ({"devices": []}, "LUN"),
    ],
)
def test_a_contradiction_between_text_and_row_is_found(change: dict[str, Any], found: str) -> None:
    path = next(each for each in cases() if each.stem == "one_slow_lun")
    [row] = rows_of(load(path))
    assert not list(contradictions(asdict(row)))
    assert any(found in each for each in contradictions({**asdict(row), **change}))
