"""Samples become windows in the JVM, and 10 s windows become episodes; live and replayed alike."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

import orjson
import pytest
from pyflink.common import Configuration, Row
from pyflink.datastream import StreamExecutionEnvironment

from stunwatch.detectors.catalogue import detector
from stunwatch.engine.owners import LIVE
from stunwatch.jobs.detect import SAMPLE_TYPE, windows
from stunwatch.triage.windows import Windows
from tests.detectors.cases import final_rows, run, short_window_record

pytestmark = pytest.mark.integration

START = datetime(2024, 5, 6, 7, 0, 0)
HOST = "esx01.lab.example"
COMMON = ("owner", "event_time", "kind", "host", "origin", "object_class")
MEASURES = ("davg_ms", "kavg_ms", "gavg_ms", "commands_per_second")


Found = dict[str, list[dict[str, Any]]]
"""By kind of row: its fields, and those of its message."""


def series(
    device: str, step_seconds: int, values: list[float], **more: Any
) -> list[dict[str, Any]]:
    """Return samples of one device, `step_seconds` apart."""
    return [
        {
            "owner": "esx01",
            "event_time": f"{START + timedelta(seconds=number * step_seconds):%Y-%m-%dT%H:%M:%S}Z",
            "kind": "line",
            "host": HOST,
            "object_class": "scsi_device",
            "device": device,
            "davg_ms": value,
            "kavg_ms": 0.01,
            "commands_per_second": 100.0,
            "run_id": "r1",
            **more,
        }
        for number, value in enumerate(values)
    ]


SAMPLES = [
    *series("naa.healthy", 5, [3.0] * 120),
    # two minutes at 400 ms, from the thirtieth second on
    *series("naa.slow", 5, [3.0] * 6 + [400.0] * 25 + [3.0] * 89),
    *series("naa.spike", 5, [3.0] * 20 + [90.0] + [3.0] * 99),
    # one command of 500 ms among four
    *series("naa.idle", 5, [1.0] * 20 + [100.8] + [1.0] * 99, commands_per_second=0.8),
    *series("naa.twenty", 20, [5.0] * 3 + [60.0] * 4 + [5.0] * 23),
    *series("naa.kernel", 5, [3.0] * 120, kavg_ms=7.5),
    # vCenter measures naa.slow too, every twenty seconds
    *series("naa.slow", 20, [3.0] * 2 + [300.0] * 6 + [3.0] * 22, origin="vcenter"),
]


Collect = Callable[..., Found]


@pytest.fixture
def collected(java_classes: str) -> Collect:
    """Return a function that sends samples through the JVM's windows, in their order."""
    return partial(collect, java_classes)


def in_row(samples: list[dict[str, Any]]) -> Row:
    """Return samples that differ in their objects only as a row of SampleWindows.FIELDS."""
    first = {"origin": "esxtop", **samples[0]}
    devices = [each.get("device") for each in samples]
    values = [[each.get(name) for each in samples] for name in MEASURES]
    # A row of esxtop has no list for a counter without any value.
    lists = [None if len(each) > 1 and not any(each) else each for each in values]
    return Row(*(first.get(name) for name in COMMON), devices, *lists, first.get("run_id"))


def by_row(samples: list[dict[str, Any]]) -> list[Row]:
    """Return samples that follow each other and differ in their objects only as one row."""
    same = itemgetter(*COMMON, "run_id")
    with_names = [
        {**dict.fromkeys((*COMMON, "run_id")), "origin": "esxtop", **each} for each in samples
    ]
    return [in_row([*each]) for _, each in groupby(with_names, same)]


def one_by_one(samples: list[dict[str, Any]]) -> list[Row]:
    return [in_row([each]) for each in samples]


def collect(
    java_classes: str,
    samples: list[dict[str, Any]],
    most_kept: int = 0,
    rows_of: Callable[[list[dict[str, Any]]], list[Row]] = one_by_one,
) -> Found:
    configuration = Configuration()
    configuration.set_string("python.executable", sys.executable)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    env.add_jars(java_classes)
    # One source, so that the samples arrive in this order.
    stream = env.from_collection(rows_of(samples), SAMPLE_TYPE).set_parallelism(1)
    found: Found = {}
    with windows(stream, most_kept).execute_and_collect() as results:
        for kind, owner, host, run_id, event_time, message in results:
            told = orjson.loads(message) if message else {}
            named = {"owner": owner, "host": host, "run_id": run_id, "event_time": event_time}
            found.setdefault(kind, []).append({**named, **told, "message": message})
    return found


def progress(run_id: str = "r1", owner: str = "esx01") -> dict[str, Any]:
    return {"owner": owner, "event_time": "x", "kind": "progress", "run_id": run_id}


def shown(found: Found, kind: str) -> list[str]:
    return sorted(each["message"] for each in found[kind])


def test_samples_give_windows_and_episodes(collected: Collect) -> None:
    found = collected([*sorted(SAMPLES, key=itemgetter("event_time")), progress()])
    windows = found["window"]
    short_windows = shown(found, "short_window")
    assert [each["run_id"] for each in found["progress"]] == ["r1"]
    assert "late" not in found and "seen" not in found
    assert len({each["event_id"] for each in windows}) == len(windows) == 7 * 10
    [second] = [
        each
        for each in windows
        if each["device"] == "naa.slow"
        and each["origin"] == "esxtop"
        and each["window_start"] == "2024-05-06T07:00:00.000Z"
    ]
    # The ID from before vCenter was a second source.
    assert second["event_id"] == "ea88e56c-dbe9-1857-4f25-118034eb4016"
    assert second["samples"] == 12
    assert second["max_davg_ms"] == 400.0
    assert second["avg_davg_ms"] == pytest.approx((6 * 3 + 6 * 400) / 12)
    assert second["p95_davg_ms"] == 400.0
    assert second["commands"] == 6000.0

    # `triage` computes the same without the JVM.
    in_memory = Windows()
    for each in SAMPLES:
        if "origin" not in each:
            in_memory.add(each["owner"], each)
    own = [orjson.loads(record["message"]) for _, record in in_memory.records("live")]
    told = [each for each in map(orjson.loads, short_windows) if each["origin"] == "esxtop"]
    by_time = itemgetter("device", "metric", "short_window_end")
    assert sorted(own, key=by_time) == sorted(told, key=by_time)

    records = sorted(
        map(short_window_record, short_windows), key=lambda each: each["event_time_us"]
    )
    # Nearly all 10 s windows are dropped in the JVM: Python gets none of the healthy and idle
    # devices.
    devices = {orjson.loads(each["message"])["device"] for each in records}
    assert devices == {"naa.slow", "naa.spike", "naa.twenty", "naa.kernel"}
    rows = {
        (each["device"], each["metric"], each["origin"]): (
            each["kind"],
            each["started_at"][11:19],
            (each["ended_at"] or "")[11:19],
            each["peak_ms"],
            each["samples"],
        )
        for each in final_rows(run(detector("latency"), records))
    }
    assert rows == {
        ("naa.slow", "davg", "esxtop"): ("sustained", "07:00:30", "07:02:30", 400.0, 25),
        ("naa.slow", "davg", "vcenter"): ("sustained", "07:00:40", "07:02:20", 300.0, 6),
        ("naa.spike", "davg", "esxtop"): ("spike", "07:01:40", "07:01:40", 90.0, 1),
        ("naa.twenty", "davg", "esxtop"): ("sustained", "07:01:00", "07:02:00", 60.0, 4),
        ("naa.kernel", "kavg", "esxtop"): ("sustained", "07:00:00", "", 7.5, 120),
    }


def test_rows_with_several_objects_give_the_same(collected: Collect) -> None:
    samples = [*sorted(SAMPLES, key=itemgetter("event_time")), progress()]
    assert len(by_row(samples)) < len(samples) / 3
    together, alone = collected(samples, rows_of=by_row), collected(samples)
    assert {kind: shown(together, kind) for kind in ("window", "short_window")} == {
        kind: shown(alone, kind) for kind in ("window", "short_window")
    }


def test_a_row_whose_lists_have_different_lengths_stops_nothing(collected: Collect) -> None:
    row = by_row(series("naa.1", 5, [9.0]) + series("naa.2", 5, [9.0]))[0]
    short, long, none, no_name = (Row(*row) for _ in range(4))
    short[7], long[10], none[6], no_name[6] = [1.0], [1.0] * 3, None, [None, "naa.2"]
    found = collected([progress()], rows_of=lambda end: [short, long, none, no_name, in_row(end)])
    assert [(each["device"], each["samples"]) for each in found["window"]] == [("naa.2", 1)]


def test_no_hosts_clock_or_delay_affects_another_host(collected: Collect) -> None:
    """Also of two runs: the samples of a replay and of a live host with the same name."""
    alone = collected([*SAMPLES, progress()])
    mixed = []
    for number, each in enumerate(sorted(SAMPLES, key=itemgetter("event_time"))):
        fast = datetime.fromisoformat(each["event_time"]) + timedelta(days=3)
        slow = datetime.fromisoformat(each["event_time"]) - timedelta(days=3)
        for owner, moment in (("fast", fast), ("slow", slow)):
            time = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
            mixed.append({**each, "owner": owner, "host": owner, "event_time": time})
        mixed.append(each)
        live = {**each, "run_id": LIVE, "davg_ms": float(number % 7)}
        mixed.append(live)
    mixed += [progress(owner="fast"), progress(owner="slow"), progress(LIVE)]
    # The samples of a whole host arrive after those of all others.
    delayed = [{**each, "owner": "delayed", "host": "delayed"} for each in SAMPLES]
    found = collected([*mixed, progress(), *delayed, progress(owner="delayed")])
    assert not found.get("late")
    for kind in ("window", "short_window"):
        of_host = [each for each in found[kind] if (each["host"], each["run_id"]) == (HOST, "r1")]
        assert sorted(each["message"] for each in of_host) == shown(alone, kind)
        for host in ("fast", "slow", "delayed"):
            own = [each for each in found[kind] if each["host"] == host]
            assert len(own) == len(alone[kind])
    # Live windows close by the clock of their object; the last ones wait for the wall clock.
    live_minutes = [each for each in found["window"] if each["run_id"] == LIVE]
    assert {each["window_start"][14:16] for each in live_minutes} == {f"{n:02}" for n in range(9)}
    assert {each["host"] for each in found["seen"]} == {HOST}


def test_late_samples_are_told_and_a_wrong_clock_is_left_behind(collected: Collect) -> None:
    steady = series("naa.steady", 5, [3.0] * 60)
    seconds, minutes = steady[50], steady[20]
    late = [*steady, {**seconds, "davg_ms": 4.0}, {**minutes, "davg_ms": 5.0}]
    future = {**steady[0], "event_time": "2031-01-01T00:00:00Z"}
    again = [{**each, "device": "naa.reset"} for each in [*steady[:30], future, *steady[30:]]]
    found = collected([*late, *again, progress()])
    # One is late for its ten seconds only, the other for its minute too.
    assert [each["event_time"] for each in found["late"]] == [
        "2024-05-06T07:04:10.000Z",
        "2024-05-06T07:01:40.000Z",
    ]
    assert {each["device"] for each in found["late"]} == {"naa.steady"}
    samples = {
        each["window_start"]: each["samples"]
        for each in found["window"]
        if each["device"] == "naa.steady"
    }
    assert list(samples.values()) == [12, 12, 12, 12, 13]
    reset = [each for each in found["window"] if each["device"] == "naa.reset"]
    assert sum(each["samples"] for each in reset) == len(again)
    assert {each["window_start"][:4] for each in reset} == {"2024", "2031"}


BAD: list[dict[str, Any]] = [
    {"davg_ms": float("nan"), "gavg_ms": float("inf")},
    {"davg_ms": float("-inf")},
    {"kavg_ms": float("nan"), "commands_per_second": float("inf")},
    {"event_time": "x"},
    {"event_time": "+99999999-01-01T00:00:00Z"},
    {"event_time": "0001-01-01T00:00:00Z"},
    {"event_time": None},
    {"host": None},
    {"host": "a|b"},
    {"object_class": "scsi|device"},
    {"run_id": "a b"},
    {"device": None},
    {"object_class": None},
    {"kind": None},
    {"run_id": None},
    {"kind": "other"},
    {"device": 'naa."}\n\u0000'},
]


def test_bad_samples_stop_nothing(collected: Collect) -> None:
    good = series("naa.steady", 5, [3.0] * 24)
    bad = [{**each, **wrong} for each in good for wrong in BAD]
    mixed = [*good, *bad]
    random.Random(7).shuffle(bad)
    found = collected([*mixed, progress()])
    of_device = [each for each in found["window"] if each["device"] == "naa.steady"]
    assert sum(each["samples"] for each in of_device if each["host"] == HOST) >= len(good)
    assert all(b"NaN" not in each["message"].encode() for each in found["window"])


def test_the_number_of_objects_is_limited(collected: Collect) -> None:
    """Samples of further objects are refused. The end of a replay makes room."""
    wide = [
        each
        for number in range(30)
        for each in series("naa.a|b" if not number else f"naa.{number}", 5, [3.0, 4.0])
    ]
    found = collected([*wide, progress(), *wide, progress()], most_kept=20)
    kept = ["naa.a|b", *(f"naa.{number}" for number in range(1, 20))]
    assert Counter(each["device"] for each in found["window"]) == dict.fromkeys(kept, 2)
    assert {each["samples"] for each in found["window"]} == {2}
