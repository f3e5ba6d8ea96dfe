"""Changes are noted, and SQL tells whether they helped: known rows, known verdicts."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import orjson
import pytest

from stunwatch.commands.demo import INCIDENT
from tests.end_to_end.conftest import Pipeline
from tests.end_to_end.made import DAY, HOUR, MINUTE, conflict, line, moment, sample, store, stun

# Events without lines, and lines without the events that they would be.
pytestmark = pytest.mark.made_up

Verdicts = dict[str, dict[str, Any]]


def note(pipeline: Pipeline, kind: str, at: str, title: str, *more: str) -> str:
    done = pipeline.run("change", "add", "--kind", kind, "--at", at, "--title", title, *more)
    found = re.search(r"change=([0-9a-f-]{36})", done.stderr)
    assert found, done.stderr
    return found[1]


def verdicts(pipeline: Pipeline, **parameters: str | int) -> Verdicts:
    words = [f"--param={name}={value}" for name, value in parameters.items()]
    done = pipeline.run("sql", "before_and_after_change", *words, "--format", "JSONEachRow")
    return {row["measure"]: row for row in map(orjson.loads, done.stdout.splitlines())}


def said(rows: Verdicts) -> dict[str, str]:
    return {measure: row["verdict"] for measure, row in rows.items()}


def test_a_firmware_ended_stuns_of_minutes(pipeline: Pipeline) -> None:
    """237 s at worst, then 4.2 s: the firmware, the build and free pool space (the demo's)."""
    pipeline.run("replay", INCIDENT)
    change = note(
        pipeline, "firmware", "2012-05-01 06:00", "array 5.2.1", "--datastore", "eql-pool-1"
    )
    rows = verdicts(pipeline, change=change)
    worst = rows["stun_duration_p99_s"]
    assert worst["verdict"] == "better"
    assert (worst["samples_before"], worst["samples_after"]) == (16, 8)
    assert worst["value_before"] > 230
    assert worst["value_after"] < 5
    assert worst["p_value"] < 0.001
    assert worst["looked_at"] == "the datastores concerned"
    # Short stuns of snapshots that are created were and are short, and nightly.
    assert said(rows)["stun_duration_p50_s"] == "no difference"
    assert said(rows)["stuns_per_day"] == "no difference"
    assert said(rows)["davg_p50_ms"] == "too little data"
    # The VM beside it on a local disk, whose logs end before the change.
    beside = said(verdicts(pipeline, change=change, datastore="local-esx01"))
    assert {beside[each] for each in beside if "stun" in each} == {"too little data"}


def test_round_robin_ended_latency_and_conflicts_within_minutes(pipeline: Pipeline) -> None:
    """DAVG above a second and Sync CR all the time; both gone 8 minutes after the change."""
    changed_at, host, lun, other = moment("2013-05-06 10:00"), "esx21", "naa.rr01", "naa.rr02"
    gone_at = changed_at + 8 * MINUTE
    first_at, last_at = changed_at - 2 * HOUR, changed_at + 2 * HOUR
    made = [line(host, first_at), line(host, changed_at - MINUTE), line(host, last_at)]
    made += [line(host, changed_at + 20 * MINUTE)]
    at = first_at
    while at < last_at:
        minute = int((at - first_at) / MINUTE)
        is_bad = at < gone_at
        made.append(sample(host, lun, at, 1000.0 + minute % 7 if is_bad else 4.0 + minute % 3))
        made.append(sample(host, other, at, 1000.0 + minute % 5))
        if is_bad and minute % 2:
            made.append(conflict(host, at))
        at += MINUTE
    store(pipeline, made)
    change = note(
        pipeline,
        "path_policy",
        "2013-05-06T12:00+02:00",
        "Round Robin",
        *("--host", host, "--device", lun),
    )
    rows = verdicts(pipeline, change=change)
    assert said(rows) == {
        "stuns_per_day": "too little data",
        "stun_duration_p50_s": "too little data",
        "stun_duration_p99_s": "too little data",
        "conflict_episodes_per_day": "better",
        "davg_p50_ms": "better",
        "davg_p99_ms": "better",
    }
    davg, conflicts = rows["davg_p50_ms"], rows["conflict_episodes_per_day"]
    assert davg["value_before"] == pytest.approx(1003, abs=1)
    assert davg["value_after"] == pytest.approx(5, abs=0.5)
    # Five-minute means: 24 before; after, those of two hours less the ten minutes to settle.
    assert (davg["samples_before"], davg["samples_after"]) == (24, 22)
    assert conflicts["value_before"] == pytest.approx(60 / 119 * 1440, rel=0.02)
    assert conflicts["value_after"] == 0
    # With no time to settle, the first minutes after the change count against it.
    assert verdicts(pipeline, change=change, settle_minutes=0)["davg_p99_ms"]["value_after"] > 900
    # The LUN beside it was not touched and did not change.
    assert said(verdicts(pipeline, at="2013-05-06 10:00", device=other, host=host))[
        "davg_p50_ms"
    ] == ("no difference")


def nightly(vm: str, first: str, nights: int, *durations_s: float) -> list[dict[str, Any]]:
    """A night's stuns at two in the morning; the log begins an hour before."""
    made = []
    for night in range(nights):
        at = moment(first) + night * DAY + 2 * HOUR
        made.append(line("esx22", at - HOUR, vm=vm, datastore="ds-nightly"))
        for number, duration_s in enumerate(durations_s):
            ended_at = at + timedelta(minutes=7 * number, microseconds=1000 * night)
            made.append(stun("esx22", "ds-nightly", vm, ended_at, duration_s + night % 3 / 10))
    made.append(line("esx22", at + HOUR, vm=vm, datastore="ds-nightly"))
    return made


def test_what_did_not_change_is_no_difference_and_what_got_worse_is_worse(
    pipeline: Pipeline,
) -> None:
    made = nightly("same01", "2014-01-01", 20, 2.0, 0.5)
    made += nightly("worse01", "2014-01-01", 10, 0.5)
    made += nightly("worse01", "2014-01-11", 10, 0.5, 4.0, 6.0)
    store(pipeline, made)
    same = verdicts(pipeline, at="2014-01-11", vm="same01")
    assert {said(same)[each] for each in ("stuns_per_day", "stun_duration_p99_s")} == {
        "no difference"
    }
    assert (same["stuns_per_day"]["value_before"], same["stuns_per_day"]["value_after"]) == (2, 2)
    worse = verdicts(pipeline, at="2014-01-11", vm="worse01")
    assert said(worse)["stuns_per_day"] == "worse"
    assert (worse["stuns_per_day"]["value_before"], worse["stuns_per_day"]["value_after"]) == (1, 3)
    assert said(worse)["stun_duration_p50_s"] == "worse"
    assert said(worse)["stun_duration_p99_s"] == "worse"


def test_stuns_that_ended_altogether_are_fewer_and_have_no_length(pipeline: Pipeline) -> None:
    made = nightly("cured01", "2014-03-01", 10, 9.0) + nightly("cured01", "2014-03-11", 10)
    store(pipeline, made)
    rows = verdicts(pipeline, at="2014-03-11", vm="cured01")
    assert said(rows)["stuns_per_day"] == "better"
    assert rows["stuns_per_day"]["value_after"] == 0
    assert said(rows)["stun_duration_p50_s"] == "too little data"
    assert rows["stun_duration_p50_s"]["value_after"] is None


def test_silence_is_not_taken_for_an_end(pipeline: Pipeline) -> None:
    """The logs end with the change: no stuns are known, and none are known to be missing."""
    store(pipeline, nightly("silent01", "2014-05-01", 10, 9.0))
    rows = verdicts(pipeline, at="2014-05-11", vm="silent01")
    assert said(rows)["stuns_per_day"] == "too little data"
    assert rows["stuns_per_day"]["samples_after"] == 0


def test_a_handful_is_too_little(pipeline: Pipeline) -> None:
    made = nightly("few01", "2014-07-01", 2, 90.0) + nightly("few01", "2014-07-03", 2, 1.0)
    store(pipeline, made)
    rows = verdicts(pipeline, at="2014-07-03", vm="few01")
    assert said(rows)["stun_duration_p50_s"] == "too little data"
    assert rows["stun_duration_p50_s"]["samples_before"] == 2
    assert rows["stun_duration_p50_s"]["p_value"] is None
    assert rows["stun_duration_p50_s"]["value_before"] > rows["stun_duration_p50_s"]["value_after"]


def test_changes_are_noted_once_listed_and_taken_back(pipeline: Pipeline) -> None:
    title = 'the "new" array \\ 5.2\'s\n  Überbau'
    first = note(pipeline, "array", "2015-01-01 10:00", title, "--host", "esx23")
    assert note(pipeline, "array", "2015-01-01T11:00+01:00", title, "--host", "esx23") == first
    assert pipeline.rows(
        f"SELECT changed_at, kind, title, host FROM changes WHERE change_id = '{first}'"
    ) == [("2015-01-01 10:00:00.000", "array", 'the "new" array \\ 5.2\'s Überbau', "esx23")]
    assert first in pipeline.run("change", "list").stdout.replace("\n", "")
    pipeline.run("change", "remove", first)
    assert pipeline.one(f"SELECT count() FROM changes WHERE change_id = '{first}'") == 0
    assert note(pipeline, "array", "2015-01-01 10:00", title, "--host", "esx23") == first
    assert pipeline.one(f"SELECT count() FROM changes WHERE change_id = '{first}'") == 1
    pipeline.run("change", "remove", first)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("add", "--kind", "magic", "--title", "x"), "path_policy"),
        (("add", "--kind", "array", "--title", "  "), "--title"),
        (("add", "--kind", "array", "--title", "x", "--at", "yesterday"), "2024-05-06T07:08"),
        (("add", "--kind", "array", "--title", "x", "--at", "2999-01-01"), "future"),
        (("remove", "17"), "change list"),
        (("remove", "00000000-0000-5000-8000-000000000000"), "no change"),
    ],
)
def test_what_is_wrong_with_a_change_is_one_sentence(
    pipeline: Pipeline, words: tuple[str, ...], told: str
) -> None:
    done = pipeline.run("change", *words, code=2)
    assert told in done.stderr
    assert "Traceback" not in done.stderr
