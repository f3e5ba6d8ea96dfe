"""Changes are recorded, and SQL tests whether they helped: known rows, known verdicts."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import orjson
import pytest

from tests.end_to_end.conftest import Replayed
from tests.end_to_end.made import DAY, HOUR, MINUTE, conflict, line, moment, store, stun, window
from tests.pipeline import Pipeline

# The rows include events without lines, and lines without their events.
pytestmark = pytest.mark.made_up

Verdicts = dict[str, dict[str, Any]]


def note(pipeline: Pipeline, kind: str, at: str, title: str, *more: str) -> str:
    done = pipeline.run("change", "add", "--kind", kind, "--at", at, "--title", title, *more)
    # For a name without lines: the start of the ID, with which to remove the change.
    found = re.search(r"change(?:=| remove )([0-9a-f-]{8,36})", done.stderr)
    assert found, done.stderr
    [(change_id,)] = pipeline.rows(
        f"SELECT toString(change_id) AS id FROM changes WHERE startsWith(id, '{found[1]}')"
    )
    return str(change_id)


def verdicts(pipeline: Pipeline, **parameters: str | int) -> Verdicts:
    words = [f"--param={name}={value}" for name, value in parameters.items()]
    done = pipeline.run("sql", "before_and_after_change", *words, "--format", "JSONEachRow")
    return {row["measure"]: row for row in map(orjson.loads, done.stdout.splitlines())}


def said(rows: Verdicts) -> dict[str, str]:
    return {measure: row["verdict"] for measure, row in rows.items()}


def test_a_firmware_update_that_ended_long_stuns_is_an_improvement(
    pipeline: Pipeline, replayed: Replayed
) -> None:
    """237 s at worst, then 4.2 s: the firmware, the build and free pool space (as in the demo)."""
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
    assert worst["looked_at"] == "affected datastores"
    # Short stuns from creating snapshots occur every night, before and after.
    assert said(rows)["stun_duration_p50_s"] == "no difference"
    assert said(rows)["stuns_per_day"] == "no difference"
    assert said(rows)["davg_p50_ms"] == "not tested"
    # The VM next to it on a local disk, whose logs end before the change.
    beside = said(verdicts(pipeline, change=change, datastore="local-esx01"))
    assert {beside[each] for each in beside if "stun" in each} == {"not tested"}


def test_a_path_policy_that_ended_latency_and_conflicts_is_measured(pipeline: Pipeline) -> None:
    """DAVG above a second and Sync CR all the time; both stop 8 minutes after the change."""
    changed_at, host, lun, other = moment("2013-05-06 10:00"), "esx21", "naa.rr01", "naa.rr02"
    gone_at = changed_at + 8 * MINUTE
    first_at, last_at = changed_at - 2 * HOUR, changed_at + 2 * HOUR
    made = [line(host, first_at), line(host, changed_at - MINUTE), line(host, last_at)]
    made += [line(host, changed_at + 20 * MINUTE)]
    at = first_at
    while at < last_at:
        minute = int((at - first_at) / MINUTE)
        is_bad = at < gone_at
        made.append(window(host, lun, at, 1000.0 + minute % 7 if is_bad else 4.0 + minute % 3))
        made.append(window(host, other, at, 1000.0 + minute % 5))
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
        "stuns_per_day": "not tested",
        "stun_duration_p50_s": "not tested",
        "stun_duration_p99_s": "not tested",
        # Two hours are less than five days: there is a size of the effect, but no verdict.
        "conflict_episodes_per_day": "not tested",
        "davg_p50_ms": "not tested",
        "davg_p99_ms": "not tested",
    }
    davg, conflicts = rows["davg_p50_ms"], rows["conflict_episodes_per_day"]
    # The slowest minute of each hour.
    assert (davg["value_before"], davg["value_after"]) == (1006, 6)
    assert davg["change_percent"] == -99.4
    assert (davg["p_value"], davg["p_holm"], davg["smallest_p"]) == (None, None, None)
    assert conflicts["value_before"] == pytest.approx(60 / 119 * 1440, rel=0.02)
    assert conflicts["value_after"] == 0
    # Without a settling time, the first minutes after the change count against it.
    assert verdicts(pipeline, change=change, settle_minutes=0)["davg_p99_ms"]["value_after"] > 900
    # Another LUN was not changed and stays the same.
    beside = verdicts(pipeline, at="2013-05-06 10:00", device=other, host=host)["davg_p50_ms"]
    assert abs(beside["change_percent"]) < 1


def nightly(vm: str, first: str, nights: int, *durations_s: float) -> list[dict[str, Any]]:
    """Return nightly stuns at two in the morning; the log starts an hour before."""
    made = []
    for night in range(nights):
        at = moment(first) + night * DAY + 2 * HOUR
        made.append(line("esx22", at - HOUR, vm=vm, datastore="ds-nightly"))
        for number, duration_s in enumerate(durations_s):
            ended_at = at + timedelta(minutes=7 * number, microseconds=1000 * night)
            made.append(stun("esx22", "ds-nightly", vm, ended_at, duration_s + night % 3 / 10))
    made.append(line("esx22", at + HOUR, vm=vm, datastore="ds-nightly"))
    return made


def test_unchanged_stuns_are_no_difference_and_longer_stuns_are_worse(
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


def test_stuns_that_ended_are_fewer_and_have_no_duration(pipeline: Pipeline) -> None:
    made = nightly("cured01", "2014-03-01", 10, 9.0) + nightly("cured01", "2014-03-11", 10)
    store(pipeline, made)
    rows = verdicts(pipeline, at="2014-03-11", vm="cured01")
    assert said(rows)["stuns_per_day"] == "better"
    assert rows["stuns_per_day"]["value_after"] == 0
    assert said(rows)["stun_duration_p50_s"] == "not tested"
    assert rows["stun_duration_p50_s"]["value_after"] is None


def test_missing_logs_are_not_taken_for_the_end_of_stuns(pipeline: Pipeline) -> None:
    """The logs end with the change: no stuns are known, and none are known to be absent."""
    store(pipeline, nightly("silent01", "2014-05-01", 10, 9.0))
    rows = verdicts(pipeline, at="2014-05-11", vm="silent01")
    assert said(rows)["stuns_per_day"] == "not tested"
    assert rows["stuns_per_day"]["samples_after"] == 0


def test_too_few_samples_are_not_tested(pipeline: Pipeline) -> None:
    made = nightly("few01", "2014-07-01", 2, 90.0) + nightly("few01", "2014-07-03", 2, 1.0)
    store(pipeline, made)
    rows = verdicts(pipeline, at="2014-07-03", vm="few01")
    assert said(rows)["stun_duration_p50_s"] == "not tested"
    assert rows["stun_duration_p50_s"]["samples_before"] == 2
    assert rows["stun_duration_p50_s"]["p_value"] is None
    assert rows["stun_duration_p50_s"]["value_before"] > rows["stun_duration_p50_s"]["value_after"]


def test_changes_are_recorded_once_listed_and_removed(pipeline: Pipeline) -> None:
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
        (("add", "--kind", "array", "--title", "x", "--at", "soon"), "2024-05-06T07:08"),
        (("add", "--kind", "array", "--title", "x", "--at", "2999-01-01"), "future"),
        (("remove", "no id"), "change list"),
        (("remove", "00000000-0000-5000-8000-000000000000"), "No change has an id"),
    ],
)
def test_an_invalid_change_is_reported_in_one_sentence(
    pipeline: Pipeline, words: tuple[str, ...], told: str
) -> None:
    done = pipeline.run("change", *words, code=2)
    assert told in done.stderr
    assert "Traceback" not in done.stderr
