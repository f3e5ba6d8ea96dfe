"""The comparison on test rows: every missing, wrong or extra row misses a limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import orjson
import pytest

from stunwatch.simulation.truth import (
    CountDown,
    Latency,
    PathEvent,
    Quiet,
    ScsiError,
    SnapshotOperation,
    Stun,
    Truth,
    UnmapRun,
    UnsafeStep,
    text,
)
from tools.score.figures import Section, macro_f1
from tools.score.report import report
from tools.score.sections import Comparison, advises

Row = dict[str, Any]
T0 = 1_600_000_000_000_000
HOST = "esx01-x.sim.example"


def at(seconds: float) -> str:
    return text(T0 + int(seconds * 1_000_000))


def stored(moment: str) -> str:
    """Format a time like ClickHouse."""
    return moment.replace("T", " ").removesuffix("Z")


def comparison(found: dict[str, list[Row]], **true: Any) -> Comparison:
    """`true`: the fields of the truth that are not empty."""
    truth = Truth(1, "x", at(0), at(9_000), [HOST])
    return Comparison({**asdict(truth), **true}, found)


def figures(*sections: Section) -> dict[str, float]:
    return {each.name: each.value for section in sections for each in section.figures}


def row_of(fact: Row, **more: Any) -> Row:
    moments = {name: stored(fact[name]) for name in ("started_at", "ended_at") if fact.get(name)}
    return {**fact, **moments, "evidence": ["a line"], **more}


def stun(seconds: float, cause: str = "unknown", **more: Any) -> Row:
    fact = Stun(HOST, "vm", "ds", at(seconds), 5_000, "unstun", cause)
    return {**asdict(fact), **more}


def test_equal_stuns_meet_every_limit() -> None:
    true = [stun(1), stun(2, "vmotion", migration_id="7")]
    sections = comparison({"stuns": [row_of(each) for each in true]}, stuns=true).stuns()
    assert all(each.is_met for each in sections)
    assert figures(*sections)["macro-F1"] == 1


def test_missed_extra_and_inexact_stuns_are_counted() -> None:
    true = [stun(1), stun(2), stun(3)]
    rows = [row_of(true[0], duration_us=5_001), row_of(true[1]), row_of(stun(9))]
    stuns, _ = comparison({"stuns": rows}, stuns=true).stuns()
    found = figures(stuns)
    assert found["precision"] == found["recall"] == round(2 / 3, 6)
    assert found["largest error, µs"] == 1
    assert stuns.counts == Counter({"missed": 1, "not in the truth": 1, "duration differs": 1})
    assert not stuns.is_met


def test_a_stun_found_twice_is_a_fragment() -> None:
    stuns, _ = comparison({"stuns": [row_of(stun(1))] * 2}, stuns=[stun(1)]).stuns()
    assert figures(stuns)["fragments"] == 1
    assert figures(stuns)["precision"] == 0.5


def test_a_stun_measured_only_by_hostd_is_matched_by_its_migration() -> None:
    true = [stun(1, "vmotion", measured_by="hostd", migration_id="42")]
    rows = [row_of(true[0], vm="", datastore="", ended_at=stored(at(1.5)))]
    assert figures(*comparison({"stuns": rows}, stuns=true).stuns())["recall"] == 1
    rows = [row_of(true[0], migration_id="43")]
    assert figures(*comparison({"stuns": rows}, stuns=true).stuns())["recall"] == 0


def test_a_wrong_cause_costs_more_than_an_unknown_one() -> None:
    true = [stun(number, "hot_add") for number in range(4)]
    rows = [row_of(each) for each in true]
    rows[0]["cause"], rows[1]["cause"] = "vmotion", "unknown"
    _, causes = comparison({"stuns": rows}, stuns=true).stuns()
    assert figures(causes)["wrong, not unknown"] == 0.25
    assert causes.confusion["hot_add"] == Counter({"hot_add": 2, "vmotion": 1, "unknown": 1})
    assert not causes.is_met


def test_a_found_cause_that_is_never_expected_lowers_macro_f1() -> None:
    assert macro_f1({"vmotion": Counter({"vmotion": 9})}) == 1
    assert macro_f1({"vmotion": Counter({"vmotion": 9, "hot_add": 1})}) < 0.5


def snapshot(seconds: float, **more: Any) -> Row:
    fact = SnapshotOperation(HOST, "vm", "ds", "create", "a", at(seconds), at(seconds + 9), "ok")
    return {**asdict(fact), **more}


def test_a_difference_in_any_field_of_a_snapshot_is_counted() -> None:
    true = [snapshot(1), snapshot(100, kind="remove", iterations=1, helper_sizes=[50])]
    rows = [row_of(each) for each in true]
    assert comparison({"snapshot_operations": rows}, snapshot_operations=true).snapshots().is_met
    rows[1]["helper_sizes"] = [51]
    rows[0]["ended_at"] = stored(at(11))
    section = comparison({"snapshot_operations": rows}, snapshot_operations=true).snapshots()
    assert section.counts == Counter({"helper_sizes differs": 1, "ended_at differs": 1})


def test_fields_that_the_truth_does_not_contain_are_not_compared() -> None:
    true = [snapshot(1, kind="remove", name=None)]
    rows = [row_of(true[0], name="", iterations=0)]
    assert comparison({"snapshot_operations": rows}, snapshot_operations=true).snapshots().is_met


def conflict(seconds: float, dialect: str = "sync_cr", **more: Any) -> Row:
    fact = CountDown(
        HOST, dialect, "1039", None, 64, 16, 4, at(seconds), at(seconds + 2.9), "recovered", "",
        False,
    )  # fmt: skip
    return {**asdict(fact), **more}


def conflicts(true: list[Row], rows: list[Row], **more: Any) -> Section:
    return comparison(
        {"reservation_conflicts": rows}, reservation_conflicts=true, **more
    ).conflicts()


def test_times_of_hosts_with_whole_seconds_have_a_larger_tolerance() -> None:
    true = [conflict(1)]
    rows = [
        row_of(true[0], host="esx01-x", world_id=1039, started_at=stored(at(1.9)))
    ]  # fmt: skip
    assert conflicts(true, rows, coarse_hosts=[HOST]).is_met
    assert not conflicts(true, rows).is_met


def test_a_wrong_outcome_or_step_count_misses_a_limit() -> None:
    true = [conflict(1), conflict(200)]
    rows = [row_of(true[0], steps=3), row_of(true[1], outcome="failed")]
    found = figures(conflicts(true, rows))
    assert found["steps right"] == found["outcome right"] == 0.5


@pytest.mark.parametrize("dialect", ["device_status", "long_reservation"])
def test_conflicts_found_in_parts_miss_a_limit(dialect: str) -> None:
    true = [conflict(1, dialect, ended_at=at(60))]
    whole, part = row_of(true[0]), row_of(true[0], started_at=stored(at(30)))
    assert conflicts(true, [whole]).is_met
    found = figures(conflicts(true, [whole, part]))
    assert found[f"{dialect} fragments"] == 1
    assert found[f"{dialect} precision"] == 0.5


def slow(seconds: float, lasting: float, kind: str | None = "sustained", **more: Any) -> Row:
    fact = Latency(
        HOST, "naa.1", "davg", "esxtop", kind, at(seconds), at(seconds + lasting), 9, 400.0
    )
    return {**asdict(fact), **more}


def episode(seconds: float, lasting: float, kind: str = "sustained", **more: Any) -> Row:
    return row_of(slow(seconds, lasting, kind, **more), metric="davg_ms")


def latency(true: list[Row], rows: list[Row]) -> Section:
    return comparison({"latency_episodes": rows}, latency=true).latency()


def test_a_latency_episode_found_in_parts_counts_as_fragments() -> None:
    assert latency([slow(0, 120)], [episode(0, 120)]).is_met
    section = latency([slow(0, 120)], [episode(0, 60), episode(70, 50)])
    assert figures(section)["esxtop fragments"] == 1
    assert figures(section)["esxtop precision"] == 0.5
    assert figures(section)["esxtop ended_at right"] == 0


def test_a_spike_found_as_sustained_misses_a_limit() -> None:
    true = [slow(0, 120), slow(500, 0, "spike")]
    assert latency(true, [episode(0, 120), episode(500, 0, "spike")]).is_met
    section = latency(true, [episode(0, 120), episode(500, 0)])
    assert figures(section)["esxtop kind right"] == 0.5


def test_an_episode_without_slow_samples_misses_a_limit() -> None:
    found = figures(latency([], [episode(500, 0, "spike")]))
    assert found["esxtop precision"] == 0


@pytest.mark.parametrize("origin", ["vmkernel", "storage_rm"])
def test_every_origin_has_limits(origin: str) -> None:
    true = [slow(0, 90, None, origin=origin)]
    assert not latency(true, []).is_met
    assert not latency(true, [episode(0, 90, origin=origin, peak_ms=401.0)]).is_met


def test_unmap_runs_are_compared_exactly_including_unknown_values() -> None:
    fact = asdict(UnmapRun(HOST, "u-1", 200, 7, 1_300, at(0), at(9), None, "ok"))

    def is_met(*rows: Row) -> bool:
        return comparison({"unmap_runs": [*rows]}, unmap_runs=[fact]).unmaps().is_met

    assert is_met(row_of(fact))
    assert not is_met(row_of(fact, fell_back=False))
    assert not is_met()


def scsi_error(seconds: float, **more: Any) -> Row:
    fact = ScsiError(
        HOST, "naa.1", "vmhba2:C0:T0:L1", "0x28", "0x0", "0x8", "0x0", "0x0 0x0 0x0",
        at(seconds), at(seconds + 5), 3,
    )  # fmt: skip
    return {**asdict(fact), **more}


def path_event(seconds: float, **more: Any) -> Row:
    fact = PathEvent(HOST, "apd_start", "", "naa.1", "", at(seconds), at(seconds + 99))
    return {**asdict(fact), **more}


Compare = Callable[[list[Row], list[Row]], Section]


def compare_errors(true: list[Row], rows: list[Row]) -> Section:
    return comparison({"scsi_errors": rows}, scsi_errors=true).scsi_errors()


def compare_paths(true: list[Row], rows: list[Row]) -> Section:
    return comparison({"path_events": rows}, path_events=true).path_events()


@pytest.mark.parametrize(
    ("compare", "make", "other"),
    [(compare_errors, scsi_error, {"opcode": "0x2a"}), (compare_paths, path_event, {"device": ""})],
)
def test_errors_and_path_events_are_matched_one_to_one(
    compare: Compare, make: Callable[..., Row], other: Row
) -> None:
    true = [make(0)]
    assert compare(true, [row_of(true[0])]).is_met
    assert figures(compare(true, [row_of(true[0])] * 2))["fragments"] == 1
    assert figures(compare(true, [row_of(true[0], **other)]))["recall"] == 0
    assert not compare(true, [row_of(true[0], ended_at=stored(at(50)))]).is_met


def test_the_number_of_failed_commands_is_compared() -> None:
    assert not compare_errors([scsi_error(0)], [row_of(scsi_error(0), count=4)]).is_met


def test_an_unexpected_event_on_the_quiet_list_is_counted() -> None:
    quiet = [asdict(Quiet(HOST, "mpx.vmhba0", "polls", 9))]
    row = {"host": HOST, "device": "mpx.vmhba0", "is_expected": False, "evidence": []}

    def is_met(row: Row) -> bool:
        return comparison({"scsi_errors": [row]}, quiet=quiet).quiet().is_met

    assert not is_met(row)
    assert is_met({**row, "is_expected": True})
    assert is_met({**row, "device": "naa.1"})


def incident(step: str, **more: Any) -> Row:
    steps = [{"step": step, "because": "", "kb": None, "against": None}]
    return {"hosts": ["esx01-x"], "vms": ["web01", "web02"], "devices": ["naa.1"],
            "next_steps": steps, "evidence": [], **more}  # fmt: skip


def unsafe_count(row: Row, **unsafe: str) -> float:
    names = {"host": "", "vm": "", "device": "", **unsafe}
    steps = [asdict(UnsafeStep(step=r"\breset\b", why="", **names))]
    [figure] = comparison({"incidents": [row]}, unsafe_steps=steps).advice().figures
    return figure.value


def test_an_unsafe_step_is_counted_for_the_host_or_device_it_harms() -> None:
    row = incident("Send a reset to naa.1")
    assert unsafe_count(row) == unsafe_count(row, host=HOST) == unsafe_count(row, vm="web01") == 1
    assert unsafe_count(row, host="esx02") == unsafe_count(row, device="naa.2") == 0


def test_a_step_about_another_vm_is_not_counted() -> None:
    assert unsafe_count(incident("Send a reset to web02"), vm="web01") == 0
    assert unsafe_count(incident("Send a reset to web01"), vm="web01") == 1


@pytest.mark.parametrize(
    ("step", "is_advised"),
    [
        ("Send a LUN reset to naa.1", True),
        ("Find the host that holds it; do not send a LUN reset", False),
        ("Do not wait: send a LUN reset", True),
        ("Never send a LUN reset", False),
    ],
)
def test_a_step_that_advises_against_an_action_does_not_count(step: str, is_advised: bool) -> None:
    assert advises(step, "LUN reset") == is_advised


def test_without_any_rows_every_section_misses_its_limits() -> None:
    true = {"stuns": [stun(1)], "snapshot_operations": [snapshot(1)],
            "reservation_conflicts": [conflict(1)], "latency": [slow(0, 120)],
            "scsi_errors": [scsi_error(0)], "path_events": [path_event(0)]}  # fmt: skip
    sections = comparison({}, **true).sections()
    missed = {each.name for each in sections if not each.is_met}
    assert missed == {"stuns", "snapshot operations", "reservation conflicts", "latency",
                      "SCSI errors", "path events"}  # fmt: skip


def test_the_printed_report_contains_what_was_missed() -> None:
    made = report({"seed": 1}, [*comparison({}, stuns=[stun(1)]).stuns()])
    assert made["is_met"] is False
    assert {each["name"] for each in made["sections"]} == {"stuns", "causes"}


def test_the_report_can_be_written_as_json() -> None:
    section = Section("causes")
    section.confusion["vmotion"] = Counter({"unknown": 2})
    section.counts["wrong"] += 1
    made = orjson.loads(orjson.dumps(report({"seed": 7}, [section])))
    assert made["sections"][0]["confusion"] == {"vmotion": {"unknown": 2}}
    assert made["is_met"]
