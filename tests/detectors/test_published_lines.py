"""Published lines through every detector: what they tell, and no damage tells what is wrong."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from detectors.migrations import facts
from engine.owner import Owner, epoch_microseconds, feed_in_order
from ingest.replay import REJECTED, Options, Reading, plan
from tests.detectors.cases import final_rows

CORPUS = Path(os.environ.get("STUNWATCH_CORPUS") or Path(__file__).parents[3] / "shared/corpus")
pytestmark = pytest.mark.skipif(
    not (CORPUS / "INDEX.tsv").is_file(), reason="The published lines are not on this machine."
)


def records_in(*paths: Path, options: Options | None = None) -> Iterator[dict[str, Any]]:
    """The records of files, as history feeds them."""
    with plan(paths, options or Options()) as what:
        for file in what.files:
            for batch in Reading(file, "r1", options or Options()):
                for topic, key, record in batch:
                    if topic != REJECTED and record["source"] != "esxtop":
                        at_us = epoch_microseconds(record["event_time"])
                        place = record.get("offset", 0)
                        yield {
                            **record,
                            "owner": key,
                            "event_time_us": at_us,
                            "kafka_offset": place,
                        }


def rows_of(*paths: Path, options: Options | None = None) -> list[dict[str, Any]]:
    """The rows that remain of all events."""
    owners: dict[str, Owner] = {}
    first = [told for _, told in feed_in_order(owners, records_in(*paths, options=options))]
    about_migrations = [fact for topic, fact in first if topic == facts.TOPIC]
    second = [told for _, told in feed_in_order({}, about_migrations)]
    return final_rows(
        orjson.loads(orjson.dumps(event))
        for topic, event in (*first, *second)
        if topic != facts.TOPIC
    )


def test_the_published_count_downs_on_two_hosts() -> None:
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


def test_the_published_runs_give_their_stuns_and_no_other() -> None:
    rows = rows_of(*sorted(CORPUS.glob("sequences/*.log")))
    assert [
        (row["duration_us"], row["measured_by"], row["cause"])
        for row in rows
        if row["detector"] == "stuns"
    ] == [(54_433_000, "cpt_mode", "snapshot_create_memory")]


def test_the_lazy_window_ends_when_it_is_completed() -> None:
    rows = rows_of(CORPUS / "sequences/ws16_lazy_memory_snapshot_std8.log")
    [operation] = [row for row in rows if row["detector"] == "snapshot_operations"]
    assert operation["kind"] == "create_memory"
    assert operation["outcome"] == "ok"
    assert operation["lazy_io_ms"] == 1_145_601


def test_the_seed_of_lazy_snapshots() -> None:
    rows = rows_of(CORPUS / "vmware.log")
    lazy = {row["lazy_io_ms"] for row in rows if row["detector"] == "snapshot_operations"}
    assert {333_969, 83_898} <= lazy


def test_the_seed_of_the_removal_with_changed_block_tracking() -> None:
    [stun] = [row for row in rows_of(CORPUS / "vmware.log") if row.get("duration_us") == 4_233_332]
    assert (stun["cause"], stun["is_cbt"]) == ("snapshot_remove", True)


def test_the_seed_of_the_stuck_reservation() -> None:
    rows = rows_of(CORPUS / "vmkernel.log")
    runs = [row for row in rows if row["detector"] == "sync_cr_countdowns"]
    [stuck] = [row for row in runs if row["is_stuck"]]
    assert (stuck["outcome"], stuck["device"], stuck["steps"]) == ("failed", "vmhba1:0:7", 5)
    assert (stuck["first_remaining"], stuck["last_remaining"]) == (64, 0)
    [other] = [row for row in runs if row["first_remaining"] == 992]
    assert (other["world_id"], other["opcode"]) == (4121, "28")


# Their statuses, devices and volumes are whole; what was damaged lies elsewhere in the line.
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


def test_damaged_lines_tell_nothing_wrong() -> None:
    kinds = ("vmware", "vmkernel", "syslog", "vobd", "hostd")
    whole = set()
    for row in (CORPUS / "INDEX.tsv").read_text().splitlines()[1:]:
        kind, number, _, flag, _ = row.split("\t")
        if kind in kinds and flag in ("-", "seed", "hosted", "split"):
            whole.add((CORPUS / f"{kind}.log").read_text().split("\n")[int(number) - 1].strip())
    told = {
        (row["detector"], _about(row))
        for kind in kinds
        for row in rows_of(CORPUS / f"{kind}.log")
        if not whole.issuperset(line.strip() for line in row["evidence"])
    }
    assert told == TOLD_BY_DAMAGED_LINES


def _about(row: dict[str, Any]) -> str:
    if row["detector"] != "scsi_errors":
        return str(row["device"] or row["datastore"])
    status = "H:{host_status} D:{device_status} P:{plugin_status}".format_map(row)
    return f"{row['device']} {status}"
