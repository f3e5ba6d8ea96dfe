"""Published lines through every detector: expected events, and none from damaged parts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from stunwatch.ingest.replay import Options
from tests.detectors.replayed import rows_of

CORPUS = Path(os.environ.get("STUNWATCH_CORPUS") or Path(__file__).parents[3] / "shared/corpus")
pytestmark = pytest.mark.skipif(
    not (CORPUS / "INDEX.tsv").is_file(), reason="The published lines are not on this machine."
)
OF_A_VM = Options(vm="web01", datastore="ds-gold")
"""Their paths do not contain the VM."""


def test_the_published_count_downs_on_two_hosts_are_found() -> None:
    rows = rows_of(CORPUS / "sequences/esx35_sync_cr_two_hosts.log")
    told = [
        (row["world_id"], row["outcome"], row["steps"], row["first_remaining"])
        for row in rows
        if row["detector"] == "sync_cr_countdowns" and row["host"] == "esx_host2"
    ]
    assert told == [
        (1039, "failed", 5, 64),
        (1039, "recovered", 2, 64),
        (1037, "recovered", 2, 64),
    ]
    [failed] = [row for row in rows if row.get("outcome") == "failed"]
    assert failed["duration_ms"] == 3895


def test_the_published_sequences_give_exactly_their_stuns() -> None:
    rows = rows_of(*sorted(CORPUS.glob("sequences/*.log")), options=OF_A_VM)
    assert [
        (row["duration_us"], row["measured_by"], row["cause"])
        for row in rows
        if row["detector"] == "stuns"
    ] == [(54_433_000, "cpt_mode", "snapshot_create_memory")]


def test_a_published_lazy_window_ends_at_its_completion() -> None:
    rows = rows_of(CORPUS / "sequences/ws16_lazy_memory_snapshot_std8.log", options=OF_A_VM)
    [operation] = [row for row in rows if row["detector"] == "snapshot_operations"]
    assert operation["kind"] == "create_memory"
    assert operation["outcome"] == "ok"
    assert operation["lazy_io_ms"] == 1_145_601


def test_the_published_lazy_snapshots_have_the_expected_durations() -> None:
    rows = rows_of(CORPUS / "vmware.log", options=OF_A_VM)
    lazy = {row["lazy_io_ms"] for row in rows if row["detector"] == "snapshot_operations"}
    assert {333_969, 83_898} <= lazy


def test_the_published_removal_with_changed_block_tracking_is_found() -> None:
    [stun] = [
        row
        for row in rows_of(CORPUS / "vmware.log", options=OF_A_VM)
        if row.get("duration_us") == 4_233_332
    ]
    assert (stun["cause"], stun["is_cbt"]) == ("snapshot_remove", True)


def test_the_published_stuck_reservation_is_found() -> None:
    rows = rows_of(CORPUS / "vmkernel.log")
    runs = [row for row in rows if row["detector"] == "sync_cr_countdowns"]
    [stuck] = [row for row in runs if row["is_stuck"]]
    assert (stuck["outcome"], stuck["path"], stuck["steps"]) == ("failed", "vmhba1:0:7", 5)
    assert (stuck["first_remaining"], stuck["last_remaining"]) == (64, 0)
    [other] = [row for row in runs if row["first_remaining"] == 992]
    assert (other["world_id"], other["opcode"]) == (4121, "28")


# The damage is outside of their statuses, devices and volumes.
TOLD_BY_DAMAGED_LINES = {
    ("path_events", "8a5a1336-3d574c6d"),
    ("reservation_episodes", "naa.6006016084b02800b4a07969cd74e011"),
    ("scsi_errors", " H:0x0 D:0x285 P:0x0"),
    ("scsi_errors", "naa.######################### H:0x0 D:0x8 P:0x0"),
    ("scsi_errors", "naa.######################### H:0x5 D:0x0 P:0x0"),
    ("scsi_errors", "naa.60000970000298700131533030363941 H:0x7 D:0x0 P:0x0"),
    (
        "scsi_errors",
        "t10.ATA_____Crucial_CT1050MX300SSD4_________________________163713E82C00"
        " H:0x2 D:0x0 P:0x0",
    ),
}


# Line formats of known signals, by file and line number.
FORMS = {
    ("vmkernel.log", 18): {("reservation_episodes", "device_status", "scsi0 (0,0,52)")},
    ("vmkernel.log", 95): {("scsi_errors", "H:0x7 D:0x0", "vmhba1:0:132")},
    ("vmkernel.log", 182): {("scsi_errors", "H:0x2 D:0x0", "vmhba1:0:1:0")},
    ("more/vmkernel.log", 71): {("scsi_errors", "H:0x8 D:0x0", "vmhba0:0:1:1")},
    ("more/vmkernel.log", 72): {("scsi_errors", "H:0x1 D:0x0", "vmhba1:1:6:0")},
    ("more/vmkernel.log", 74): set(),
    ("more/vmkernel.log", 97): set(),
    ("more/vobd.log", 5): {("path_events", "path_dead", "vmhba2:C0:T19:L1")},
    ("more/hostd.log", 124): {("path_events", "apd_start", "iSCSI")},
    ("more/hostd.log", 125): {("path_events", "apd_start", "naa.60014055c425cd10a874374b415629b3")},
    ("more/hostd.log", 131): {("path_events", "apd_end", "iSCSI")},
}


@pytest.mark.parametrize(("file", "number"), FORMS, ids=[f"{name}:{at}" for name, at in FORMS])
def test_every_published_line_format_gives_its_event(
    file: str, number: int, tmp_path: Path
) -> None:
    alone = tmp_path / Path(file).name
    alone.write_text((CORPUS / file).read_text().split("\n")[number - 1] + "\n")
    told = set()
    for row in rows_of(alone):
        status = "H:{host_status} D:{device_status}" if "host_status" in row else ""
        kind = status or row.get("kind") or row["dialect"]
        about = row["device"] or row.get("path") or row["datastore"]
        told.add((row["detector"], kind.format_map(row), about))
    assert told == FORMS[file, number]


def test_damaged_lines_give_no_wrong_events() -> None:
    kinds = ("vmware", "vmkernel", "syslog", "vobd", "hostd")
    whole = set()
    for row in (CORPUS / "INDEX.tsv").read_text().splitlines()[1:]:
        kind, number, _, flag, _ = row.split("\t")
        if kind in kinds and flag in ("-", "seed", "hosted", "split"):
            whole.add((CORPUS / f"{kind}.log").read_text().split("\n")[int(number) - 1].strip())
    files = [CORPUS / f"{kind}.log" for kind in kinds]
    for row in (CORPUS / "more/INDEX.tsv").read_text().splitlines()[1:]:
        kind, number, _, flag = row.split("\t")
        files.append(CORPUS / f"more/{kind}.log")
        if flag == "-":
            whole.add(files[-1].read_text().split("\n")[int(number) - 1].strip())
    told = {
        (row["detector"], _about(row))
        for file in sorted(set(files))
        for row in rows_of(file)
        if not whole.issuperset(line.strip() for line in row["evidence"])
    }
    assert told == TOLD_BY_DAMAGED_LINES


def _about(row: dict[str, Any]) -> str:
    if row["detector"] != "scsi_errors":
        return str(row["device"] or row["path"] or row["datastore"])
    status = "H:{host_status} D:{device_status} P:{plugin_status}".format_map(row)
    return f"{row['device']} {status}"
