"""Published lines through every detector: what they tell, and no damage tells what is wrong."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

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
    written = feed_in_order(owners, records_in(*paths, options=options))
    return final_rows(orjson.loads(orjson.dumps(event)) for _, (_, event) in written)


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
