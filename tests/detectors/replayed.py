"""Replay files in memory: from a folder, as `stunwatch replay` reads it, to the final rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from stunwatch.engine.owner import FACTS, Owner, epoch_microseconds, feed_in_order
from stunwatch.ingest.replay import REJECTED, Options, Reading, plan
from tests.detectors.cases import final_rows, owner_of


def records_in(*paths: Path, options: Options | None = None) -> Iterator[dict[str, Any]]:
    """Yield the records of files, in the order of history mode."""
    with plan(paths, options or Options()) as what:
        for file in what.files:
            for batch in Reading(file, "r1", options or Options()):
                for topic, key, record in batch:
                    if topic != REJECTED and record["source"] != "esxtop":
                        at_us = epoch_microseconds(record["event_time"])
                        place = record.get("offset", 0)
                        yield {
                            **record,
                            "owner": owner_of({"message": "", **record, "owner": key}),
                            "event_time_us": at_us,
                            "kafka_offset": place,
                        }


def rows_of(*paths: Path, options: Options | None = None) -> list[dict[str, Any]]:
    """Return the final rows of all events."""
    owners: dict[str, Owner] = {}
    first = [told for _, told in feed_in_order(owners, records_in(*paths, options=options))]
    about_migrations = [fact for topic, fact in first if topic == FACTS]
    second = [told for _, told in feed_in_order({}, about_migrations)]
    return final_rows(
        orjson.loads(orjson.dumps(event)) for topic, event in (*first, *second) if topic != FACTS
    )
