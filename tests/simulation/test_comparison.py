"""The comparison, on rows made up for it: it must see what is missing, wrong or too much."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

import orjson

from stunwatch import score
from stunwatch.simulation.truth import (
    CountDown,
    Latency,
    Quiet,
    SnapshotOperation,
    Stun,
    UnmapRun,
    text,
)

Row = dict[str, Any]
T0 = 1_600_000_000_000_000
HOST = "esx01-x.sim.example"


def at(seconds: float) -> str:
    return text(T0 + int(seconds * 1_000_000))


def stored(moment: str) -> str:
    """A time as ClickHouse writes it."""
    return moment.replace("T", " ").removesuffix("Z")


def figures(*sections: score.Section) -> dict[str, float]:
    return {each.name: each.value for section in sections for each in section.figures}


def stun(seconds: float, cause: str = "unknown", **more: Any) -> Row:
    fact = Stun(HOST, "vm", "ds", at(seconds), 5_000, "unstun", cause)
    return {**asdict(fact), **more}


def row_of(fact: Row, **more: Any) -> Row:
    moments = {name: stored(fact[name]) for name in ("started_at", "ended_at") if fact.get(name)}
    return {**fact, **moments, "evidence": ["a line"], **more}


def test_equal_stuns_are_perfect() -> None:
    true = [stun(1), stun(2, "vmotion", migration_id="7")]
    found = figures(*score.compare_stuns(true, [row_of(each) for each in true]))
    assert found["precision"] == found["recall"] == found["macro-F1"] == 1
    assert found["largest error, µs"] == found["wrong, not unknown"] == 0


def test_a_stun_missed_one_too_many_and_one_off_by_a_microsecond() -> None:
    true = [stun(1), stun(2), stun(3)]
    rows = [row_of(true[0], duration_us=5_001), row_of(true[1]), row_of(stun(9))]
    stuns, _ = score.compare_stuns(true, rows)
    found = figures(stuns)
    assert found["precision"] == found["recall"] == round(2 / 3, 6)
    assert found["largest error, µs"] == 1
    assert stuns.counts == Counter({"missed": 1, "not in the truth": 1, "duration differs": 1})
    assert not stuns.is_met


def test_what_hostd_alone_tells_is_known_by_its_migration() -> None:
    true = [stun(1, "vmotion", measured_by="hostd", migration_id="42")]
    rows = [row_of(true[0], vm="", datastore="", ended_at=stored(at(1.5)))]
    assert figures(*score.compare_stuns(true, rows))["recall"] == 1
    rows = [row_of(true[0], migration_id="43")]
    assert figures(*score.compare_stuns(true, rows))["recall"] == 0


def test_causes_wrong_are_worse_than_causes_unknown() -> None:
    true = [stun(number, "hot_add") for number in range(4)]
    rows = [row_of(each) for each in true]
    rows[0]["cause"], rows[1]["cause"] = "vmotion", "unknown"
    _, causes = score.compare_stuns(true, rows)
    found = figures(causes)
    assert found["wrong, not unknown"] == 0.25
    assert causes.confusion["hot_add"] == Counter({"hot_add": 2, "vmotion": 1, "unknown": 1})
    assert found["macro-F1"] == round(2 * 2 / (4 + 2), 6)


def snapshot(seconds: float, **more: Any) -> Row:
    fact = SnapshotOperation(HOST, "vm", "ds", "create", "a", at(seconds), at(seconds + 9), "ok")
    return {**asdict(fact), **more}


def test_snapshots_are_exact_or_not() -> None:
    true = [snapshot(1), snapshot(100, kind="remove", iterations=1, helper_sizes=[50])]
    rows = [row_of(each) for each in true]
    assert score.compare_snapshots(true, rows).is_met
    rows[1]["helper_sizes"] = [51]
    rows[0]["ended_at"] = stored(at(11))
    section = score.compare_snapshots(true, rows)
    assert section.counts == Counter({"helper_sizes differs": 1, "ended_at differs": 1})


def test_what_the_truth_does_not_know_is_not_compared() -> None:
    true = [snapshot(1, kind="remove", name=None)]
    assert score.compare_snapshots(true, [row_of(true[0], name="", iterations=0)]).is_met


def conflict(seconds: float, **more: Any) -> Row:
    fact = CountDown(
        HOST, "sync_cr", "1039", None, 64, 16, 4, at(seconds), 2_900, "recovered", "", False
    )
    return {**asdict(fact), **more}


def test_a_count_down_may_be_named_by_the_short_host_and_start_a_second_off() -> None:
    true = [conflict(1, has_exact_time=False)]
    rows = [row_of(true[0], host="esx01-x", world_id=1039, started_at=stored(at(1.9)))]
    assert score.compare_conflicts(true, rows).is_met
    assert not score.compare_conflicts([conflict(1)], rows).is_met


def test_a_wrong_outcome_or_step_count_is_seen() -> None:
    true = [conflict(1), conflict(200)]
    rows = [row_of(true[0], steps=3), row_of(true[1], outcome="failed")]
    found = figures(score.compare_conflicts(true, rows))
    assert found["steps right"] == found["outcome right"] == 0.5


def slow(seconds: float, lasting: float, **more: Any) -> Row:
    fact = Latency(
        HOST, "naa.1", "davg", "esxtop", at(seconds), at(seconds + lasting), True, 9, 400.0
    )
    return {**asdict(fact), **more}


def episode(seconds: float, lasting: float, kind: str = "sustained") -> Row:
    return row_of(slow(seconds, lasting), kind=kind, metric="davg_ms")


def test_an_incident_may_be_told_in_parts() -> None:
    rows = [episode(0, 60), episode(70, 50)]
    found = figures(score.compare_latency([slow(0, 120)], rows))
    assert found["sustained davg recall"] == found["sustained davg precision"] == 1


def test_a_lone_spike_called_sustained_is_seen() -> None:
    spike = slow(500, 0, is_sustained=False, is_lone=True)
    section = score.compare_latency([slow(0, 120), spike], [episode(0, 120), episode(490, 70)])
    found = figures(section)
    assert found["lone spikes not sustained"] == 0
    assert found["sustained davg precision"] == 0.5
    as_spike = [episode(0, 120), episode(500, 0, "spike")]
    assert score.compare_latency([slow(0, 120), spike], as_spike).is_met


def test_unmap_runs_are_exact_and_not_known_is_an_answer() -> None:
    fact = asdict(UnmapRun(HOST, "u-1", 200, 7, 1_300, at(0), at(9), None, "ok"))
    assert score.compare_unmaps([fact], [row_of(fact)]).is_met
    assert not score.compare_unmaps([fact], [row_of(fact, fell_back=False)]).is_met
    assert not score.compare_unmaps([fact], []).is_met


def test_the_quiet_list_opens_nothing_unless_expected() -> None:
    quiet = [asdict(Quiet(HOST, "mpx.vmhba0", "polls", 9))]
    row = {"host": HOST, "device": "mpx.vmhba0", "is_expected": False, "evidence": []}
    assert not score.compare_quiet(quiet, {"scsi_errors": [row]}).is_met
    assert score.compare_quiet(quiet, {"scsi_errors": [{**row, "is_expected": True}]}).is_met
    assert score.compare_quiet(quiet, {"scsi_errors": [{**row, "device": "naa.1"}]}).is_met


def test_the_report_tells_what_was_missed() -> None:
    stuns, causes = score.compare_stuns([stun(1)], [])
    made = score.report({"seed": 1}, [stuns, causes])
    assert made["is_met"] is False
    assert {each["name"] for each in made["sections"]} == {"stuns", "causes"}


def test_the_report_is_json() -> None:
    section = score.Section("causes")
    section.confusion["vmotion"] = Counter({"unknown": 2})
    section.counts["wrong"] += 1
    made = orjson.loads(orjson.dumps(score.report({"seed": 7}, [section])))
    assert made["sections"][0]["confusion"] == {"vmotion": {"unknown": 2}}
    assert made["is_met"]
