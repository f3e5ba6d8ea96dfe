"""The live job keeps the state of a limited number of log keys, whatever hosts lines name."""

from __future__ import annotations

import json
from typing import Any

from pyflink.common import Row

from stunwatch.engine.owner import Owner, epoch_microseconds
from stunwatch.engine.owners import MOST_IN_BUCKET, Owners, bucket_of_owner
from stunwatch.engine.tracking import TrackLive, to_record_row
from tests.detectors.test_failures import NOW_MS, TAKEN, UNSTUN, Flink, record


def stuns(found: list[Row]) -> list[dict[str, Any]]:
    return [json.loads(row[2]) for row in found if row[0] == "events.stun"]


def owners_of(live: Flink) -> Owners:
    kept = live.states["owners"].kept
    return kept.value if kept else Owners()


def test_lines_dated_2199_evict_no_recently_used_log_key() -> None:
    live = Flink(TrackLive())
    future = UNSTUN.format(1).replace("2024", "2199")
    for number in range(200):
        live.feed(to_record_row(record(owner=f"made-up/{number}")))
        live.feed(to_record_row(record(future, owner=f"made-up/{number}")))
    assert len(owners_of(live).places) == MOST_IN_BUCKET
    assert live.counted["owners_evicted"] == 200 - MOST_IN_BUCKET
    live.feed(to_record_row(record(TAKEN.replace("07:08:10", "07:01:09"))))
    for number in range(MOST_IN_BUCKET - 1):
        live.feed(to_record_row(record(owner=f"made-up-again/{number}")))
    found = live.feed(to_record_row(record()))
    assert [each["cause"] for each in stuns(found)] == ["snapshot_create"]


def test_a_line_dated_in_the_future_leaves_no_state() -> None:
    live = Flink(TrackLive())
    found = live.feed(to_record_row(record(UNSTUN.format(1).replace("2024", "2199"))))
    assert {each["ended_at"][:4] for each in stuns(found)} == {"2199"}
    assert not owners_of(live).places
    assert not live.timers
    # The next line at the present time finds no state of it.
    live.feed(to_record_row(record()))
    [place] = owners_of(live).places.values()
    assert place.owner.event_time_us == epoch_microseconds("2024-05-06T07:01:09.123Z")


def test_every_log_key_of_a_bucket_has_its_own_timer() -> None:
    owners = Owners()
    for name, due_us in (("a", 5_000_000), ("b", 60_000_000)):
        owners.keep(name, Owner(), due_us, NOW_MS)
    assert owners.next_due_ms == NOW_MS + 5_001
    assert [name for name, _ in owners.due(NOW_MS + 5_001)] == ["a"]
    owners.keep("a", Owner(), None, NOW_MS)
    assert owners.next_due_ms == NOW_MS + 60_001
    assert list(owners.places) == ["b"]


def test_log_keys_are_spread_over_buckets() -> None:
    buckets = {bucket_of_owner(f"ds-{number}/vm") for number in range(20_000)}
    assert 4000 < len(buckets) <= 4096
