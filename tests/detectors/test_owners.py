"""The live job keeps the state of a limited number of log keys, whatever hosts lines name."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from stunwatch.detectors.bounds import EVICTED
from stunwatch.engine import tracking
from stunwatch.engine.owner import Owner, epoch_microseconds
from stunwatch.engine.owners import LIVE, MOST_IN_BUCKET, REPLAY_KEPT_MS, Owners, bucket_of_owner
from stunwatch.engine.tracking import STARTED_MS, Trackers, to_json
from tests.detectors.cases import records_of_lines
from tests.detectors.test_failures import NOW_MS, TAKEN, UNSTUN, Task, record

CONFLICT = (
    "2024-05-06T07:01:08.{0:03}Z esx01 vmkernel: cpu3:2097500)ScsiDeviceIO: 4176: Cmd(0x45d9) 0x28,"
    ' CmdSN 0x1 from world 2100 to dev "naa.{0}" failed H:0x0 D:0x18 P:0x0'
)


def stuns(found: list[Any]) -> list[dict[str, Any]]:
    return [json.loads(row[2]) for row in found if row[0] == "events.stun"]


def test_lines_dated_2199_evict_no_recently_used_log_key() -> None:
    live = Task()
    future = UNSTUN.format(1).replace("2024", "2199")
    for number in range(200):
        live.feed(to_json(record(owner=f"made-up/{number}")))
        live.feed(to_json(record(future, owner=f"made-up/{number}")))
    assert len(live.owners().places) == MOST_IN_BUCKET
    assert live.evicted == 200 - MOST_IN_BUCKET
    live.feed(to_json(record(TAKEN.replace("07:08:10", "07:01:09"))))
    for number in range(MOST_IN_BUCKET - 1):
        live.feed(to_json(record(owner=f"made-up-again/{number}")))
    found = live.feed(to_json(record()))
    assert [each["cause"] for each in stuns(found)] == ["snapshot_create"]


def test_a_line_dated_in_the_future_leaves_no_state() -> None:
    live = Task()
    found = live.feed(to_json(record(UNSTUN.format(1).replace("2024", "2199"))))
    assert {each["ended_at"][:4] for each in stuns(found)} == {"2199"}
    assert not live.owners().places
    assert not live.timers
    # The next line at the present time finds no state of it.
    live.feed(to_json(record()))
    [place] = live.owners().places.values()
    assert place.owner.event_time_us == epoch_microseconds("2024-05-06T07:01:09.123Z")


def test_every_log_key_of_a_bucket_has_its_own_timer() -> None:
    owners = Owners()
    first, second = (LIVE, "a", ""), (LIVE, "b", "")
    for name, due_us in ((first, 5_000_000), (second, 60_000_000)):
        owners.keep(name, Owner(), due_us, NOW_MS)
    assert owners.next_due_ms == NOW_MS + 5_001
    assert [name for name, _ in owners.due(NOW_MS + 5_001)] == [first]
    owners.keep(first, Owner(), None, NOW_MS)
    assert owners.next_due_ms == NOW_MS + 60_001
    assert list(owners.places) == [second]


def replayed(line: str, **more: str) -> str:
    return to_json({**record(line), "run_id": "r1", **more})


def test_a_replay_has_state_of_its_own_until_its_progress_record() -> None:
    flink = Task()
    flink.feed(replayed(TAKEN.replace("07:08:10", "07:01:09")))
    [live] = stuns(flink.feed(to_json(record())))
    assert live["cause"] == "unknown"
    [stun] = stuns(flink.feed(replayed(UNSTUN.format(1))))
    assert (stun["cause"], stun["run_id"]) == ("snapshot_create", "r1")
    flink.feed(replayed(UNSTUN.format(2), kind="progress"))
    assert {name[0] for name in flink.owners().places} == {LIVE}
    [later] = stuns(flink.feed(replayed(UNSTUN.format(3))))
    assert later["cause"] == "unknown"


def test_the_wall_clock_ends_nothing_of_a_replay() -> None:
    flink = Task()
    flink.feed(replayed(TAKEN))
    assert flink.timers == [NOW_MS + REPLAY_KEPT_MS]
    # An interrupted replay sends no progress record. Its state is dropped, and no row is made up.
    assert not flink.fire()
    assert not flink.owners().places


def test_replayed_lines_of_any_date_are_in_order() -> None:
    flink = Task()
    taken, unstun = (each.replace("2024", "2199") for each in (TAKEN, UNSTUN.format(8)))
    flink.feed(replayed(taken.replace("07:08:10", "07:08:09")))
    assert [each["cause"] for each in stuns(flink.feed(replayed(unstun)))] == ["snapshot_create"]


def test_replays_evict_no_live_log_key() -> None:
    live = {bucket_of_owner(f"esx{number}") for number in range(1000)}
    assert not live & {bucket_of_owner(f"esx{number}", "r1") for number in range(1000)}


def test_log_keys_are_spread_over_buckets() -> None:
    buckets = {bucket_of_owner(f"ds-{number}/vm") for number in range(20_000)}
    assert 4000 < len(buckets) <= 4096


def test_a_restored_bucket_continues() -> None:
    live = Task()
    live.feed(to_json(record(TAKEN.replace("07:08:10", "07:01:09"))))
    state = live.trackers.pickled(live.bucket)
    assert state is not None
    restored = Task()
    restored.trackers.load(restored.bucket, state)
    [stun] = stuns(restored.feed(to_json(record())))
    assert stun["cause"] == "snapshot_create"


def with_a_stop() -> Task:
    """Return a job that has read two changes of mode, but no line that reports the stun."""
    live = Task()
    for second, modes in ((1, "1, requesting 2"), (3, "2, requesting 6")):
        head = f"2024-05-06T07:01:0{second}.123Z In(05) vcpu-0 -"
        live.feed(to_json(record(f"{head} CPT current = {modes}")))
    return live


def test_an_interruption_of_the_job_is_not_taken_for_silence() -> None:
    live = with_a_stop()
    state = live.trackers.pickled(live.bucket)
    assert state is not None
    # The job was down for an hour. The end line of the stun is in Kafka, not read yet.
    restored = Task()
    restored.now_ms += 3_600_000
    restored.trackers = Trackers(lambda: restored.now_ms)
    restored.trackers.load(restored.bucket, state)
    restored.timers = [restored.now_ms]
    assert restored.fire() == []
    assert restored.timers[-1] > restored.now_ms
    end = "2024-05-06T07:01:03.200Z In(05) vcpu-0 - Checkpoint_Unstun: vm stopped for 2077000 us"
    [stun] = stuns(restored.feed(to_json(record(end))))
    assert stun["measured_by"] == "unstun"
    restored.timers.append(restored.now_ms + 60_000)
    assert stuns(restored.fire()) == []


def test_silence_after_a_restart_ends_a_stop() -> None:
    live = with_a_stop()
    restored = Task()
    restored.trackers = Trackers(lambda: restored.now_ms)
    restored.trackers.load(restored.bucket, live.trackers.pickled(live.bucket) or b"")
    restored.timers = [NOW_MS + 500]
    assert restored.fire() == []
    assert restored.timers[-1] <= NOW_MS + STARTED_MS + 1_000
    assert [each["measured_by"] for each in stuns(restored.fire())] == ["cpt_mode"]


def test_a_dropped_bucket_leaves_nothing() -> None:
    live = Task()
    live.feed(to_json(record(TAKEN)))
    live.trackers.drop(live.bucket)
    assert live.trackers.pickled(live.bucket) is None


def test_timers_of_a_bucket_are_half_a_second_apart() -> None:
    live = Task()
    for number in range(100):
        live.now_ms += 10
        live.feed(to_json(record(UNSTUN.format(number % 10))))
    assert len(live.timers) <= 3


def conflict(host: str, device: int) -> str:
    [line] = records_of_lines([CONFLICT.format(device).encode()], "host")
    return to_json({**line, "owner": host, "run_id": LIVE, "kafka_offset": device})


def devices_of(state: bytes) -> int:
    """Return of how many devices of a bucket's only host conflicts are kept."""
    [place] = pickle.loads(state).places.values()
    return len(place.owner._trackers["reservation_episodes"].used().episodes)


def test_a_flood_of_made_up_names_costs_no_other_log_key_its_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tracking, "MOST_STATE_BYTES", 500_000)
    before = EVICTED["states"]
    trackers = Trackers(lambda: NOW_MS)
    sizes = list[int]()
    for number in range(2_000):
        trackers.feed("flooded", None, None, conflict("esx01", number))
        if number < 200:
            trackers.feed("busy", None, None, conflict("esx02", number % 50))
        if number % 50 == 49:
            stored = {bucket: trackers.pickled(bucket) or b"" for bucket in ("busy", "flooded")}
            sizes.append(sum(len(state) for state in stored.values()))
    assert EVICTED["states"] > before
    assert max(sizes) < 500_000
    assert devices_of(stored["busy"]) == 50


def test_many_floods_at_once_are_limited_in_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracking, "MOST_STATE_BYTES", 500_000)
    trackers = Trackers(lambda: NOW_MS)
    stored = dict[str, int]()
    for host in range(20):  # one after the other: the state of the earlier ones stays in Flink
        for number in range(200):
            trackers.feed(f"{host}", None, None, conflict(f"esx{host}", number))
            if number % 20 == 19:
                stored[f"{host}"] = len(trackers.pickled(f"{host}") or b"")
        assert sum(stored.values()) < 1.4 * 500_000
