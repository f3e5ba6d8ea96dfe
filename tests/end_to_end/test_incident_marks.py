"""`stunwatch incident` on known incidents: what it shows, stores and scores."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from tests.alerts.made_incidents import incident
from tests.pipeline import Pipeline

STEP = {
    "step": "Spread the snapshot load",
    "because": "six VMs are backed up at once",
    "kb": "1015180",
    "against": "the window is short",
    "precondition": "no backup job runs",
    "risk_level": "low",
    "risk": "backups end later",
}
MARKED = {
    "marked_open": {"severity": "warning", "missing": ["No line of esx04 was heard."]},
    "marked_noted": {"state": "noted", "severity": "notice"},
    "marked_over": {"state": "closed", "closed_at": "2026-03-01T02:12:00.000000Z"},
    "marked_wide": {"scope": "array", "confidence": "low", "next_steps": [STEP]},
}


def identity(name: str) -> str:
    return str(incident(name)["event_id"])


def publish(pipeline: Pipeline, name: str, revision: int, **fields: Any) -> None:
    event = incident(name, revision, **fields)
    pipeline.produce("events.incident", orjson.dumps(event), key=event["event_id"])


@pytest.fixture(scope="module")
def marked(pipeline: Pipeline) -> Pipeline:
    """The pipeline with four incidents of the past."""
    for name, fields in MARKED.items():
        publish(pipeline, name, 1, **fields)
    ids = ", ".join(f"'{identity(name)}'" for name in MARKED)
    pipeline.wait_for(f"SELECT count() FROM incidents WHERE incident_id IN ({ids})", len(MARKED))
    return pipeline


@pytest.fixture
def unmuted(pipeline: Pipeline) -> Iterator[None]:
    """Remove mutes after a test."""
    yield
    for (mute_id,) in pipeline.rows("SELECT toString(mute_id) FROM mutes WHERE is_active"):
        pipeline.run("incident", "unmute", mute_id)


def line_of(shown: str, name: str) -> str:
    """Return the line of `incident list` with this incident."""
    return next(line for line in shown.splitlines() if line.startswith(identity(name)[:8]))


def marks_of(pipeline: Pipeline, name: str, *columns: str) -> list[tuple[Any, ...]]:
    return pipeline.rows(
        f"SELECT {', '.join(columns)} FROM incident_marks"
        f" WHERE incident_id = '{identity(name)}' ORDER BY incident_marks.marked_at"
    )


def test_open_incidents_are_listed_first_and_old_ones_only_on_demand(
    marked: Pipeline,
) -> None:
    shown = marked.run("incident", "list", "--all").stdout
    places = [shown.index(identity(name)[:8]) for name in MARKED]
    is_open, is_noted, is_over, is_wide = places
    assert max(is_open, is_wide) < is_noted < is_over
    assert line_of(shown, "marked_open").split() == [
        *(identity("marked_open")[:8], "open", "warning", "host"),
        *("since", "2026-03-01", "02:00:00", "UTC"),
    ]
    assert "until 2026-03-01 02:12:00" in line_of(shown, "marked_over")
    assert "Host marked_open loses its storage: three devices at once." in shown
    recent = marked.run("incident", "list").stdout
    assert identity("marked_wide")[:8] in recent
    assert identity("marked_over")[:8] not in recent


def test_show_prints_every_field_of_an_incident(marked: Pipeline) -> None:
    shown = marked.run("incident", "show", identity("marked_wide")[:8].upper()).stdout
    for said in (
        "open, critical, since 2026-03-01 02:00:00 UTC",
        "Scope: array; confidence: low.",
        "4 hosts sent logs; 3 unaffected.",
        "VMs: sql01, web01",
        "1. Spread the snapshot load [KB 1015180]",
        "because six VMs are backed up at once",
        "against it: the window is short",
        "first make sure: no backup job runs",
        "risk (low): backups end later",
        "2026-03-01T02:00:00.000Z cpu1:2)ScsiDeviceIO: a line",
        identity("marked_wide"),
        "found by run: live",
    ):
        assert said in shown
    shown = marked.run("incident", "show", identity("marked_open")).stdout
    assert "Missing data:\n  No line of esx04 was heard." in shown


def test_an_acknowledgement_is_stored_and_shown(marked: Pipeline) -> None:
    note = 'the array\'s "vendor" \\ is\n called'
    marked.run("incident", "ack", identity("marked_open"), "--note", note)
    said = 'the array\'s "vendor" \\ is called'
    user = getpass.getuser()
    [row] = marks_of(marked, "marked_open", "kind", "marked_by", "note", "scope", "is_last")
    assert row == ("ack", user, said, "host", 1)
    listed = marked.run("incident", "list").stdout
    assert f"acknowledged by {user}" in line_of(listed, "marked_open")
    assert (
        f"ack by {user}: {said}" in marked.run("incident", "show", identity("marked_open")).stdout
    )
    assert (
        "nothing to acknowledge"
        in marked.run("incident", "ack", identity("marked_over"), code=2).stderr
    )


def test_the_last_judgement_counts_for_the_verdict_at_its_time(marked: Pipeline) -> None:
    def scores() -> dict[tuple[str, str], tuple[Any, ...]]:
        rows = marked.rows(
            "SELECT scope, confidence, judged_count, right_count, wrong_count, share_right"
            " FROM verdict_scores"
        )
        return {(scope, confidence): tuple(rest) for scope, confidence, *rest in rows}

    marked.run("incident", "wrong", identity("marked_wide"), "--note", "the backup")
    done = marked.run("incident", "right", identity("marked_over"))
    assert "scope host and high confidence: 1 right, 0 wrong" in done.stderr
    marked.run("incident", "wrong", identity("marked_noted"))
    marked.run("incident", "right", identity("marked_noted"))
    marked.run("incident", "wrong", identity("marked_noted"))
    assert scores() == {("array", "low"): (1, 0, 1, 0.0), ("host", "high"): (2, 1, 1, 0.5)}
    assert marks_of(marked, "marked_noted", "kind", "is_last") == [
        ("wrong", 0),
        ("right", 0),
        ("wrong", 1),
    ]
    # The annotation was made while the suspect was an array.
    publish(marked, "marked_wide", 2, scope="fabric")
    marked.wait_for(
        f"SELECT scope FROM incidents WHERE incident_id = '{identity('marked_wide')}'", "fabric"
    )
    assert scores()["array", "low"] == (1, 0, 1, 0.0)
    # An acknowledgement does not count as a judgement.
    marked.run("incident", "ack", identity("marked_wide"))
    assert scores()["array", "low"] == (1, 0, 1, 0.0)
    shown = marked.run("incident", "show", identity("marked_wide")).stdout
    assert "wrong by " in shown
    assert "the backup" in shown


def test_a_mute_expires_is_lifted_once_and_shown(marked: Pipeline, unmuted: None) -> None:
    words = ("--for", "1d12h", "--reason", "a new\n HBA")
    done = marked.run("incident", "mute", "--host", "ESX01", "--device", "naa.no_such", *words)
    assert "has the LUN or path naa.no_such" in " ".join(done.stderr.split())
    assert "host ESX01" not in done.stderr
    [(mute_id, host, device, datastore, reason, by, length_s, is_active)] = marked.rows(
        "SELECT toString(mute_id), host, device, datastore, reason, muted_by,"
        " dateDiff('second', muted_at, expires_at), is_active FROM mutes WHERE is_active"
    )
    assert (host, device, datastore, reason) == ("ESX01", "naa.no_such", "", "a new HBA")
    assert (by, length_s, is_active) == (getpass.getuser(), 36 * 3600, 1)
    shown = marked.run("incident", "list").stdout
    until = f"{datetime.now(UTC) + timedelta(hours=36):%Y-%m-%d %H:}"
    assert f"muted until {until}" in line_of(shown, "marked_open")
    # The incident's scope is not the host, and noted incidents cause no alert anyway.
    assert "muted" not in line_of(shown, "marked_wide")
    assert "muted" not in line_of(shown, "marked_noted")
    assert f"(mute {mute_id[:8]})" in shown
    assert "Muted until" in marked.run("incident", "show", identity("marked_open")).stdout

    marked.run("incident", "unmute", mute_id[:6])
    assert "muted" not in marked.run("incident", "list").stdout
    assert marked.rows(
        "SELECT is_active, isNotNull(lifted_at), lifted_by, reason FROM mutes"
        f" WHERE mute_id = '{mute_id}'"
    ) == [(0, 1, getpass.getuser(), "a new HBA")]
    assert "it was lifted" in marked.run("incident", "unmute", mute_id, code=2).stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("show", "fffffffff"), "begins with fffffffff"),
        (("show", "[/no-id]"), "'[/no-id]' is not an id of an incident"),
        (("ack", "0000000000"), "No incident has an id that begins with 0000000000"),
        (("unmute", "0000000000"), "No mute has an id that begins with 0000000000"),
        (("mute", "--for", "4h", "--reason", "x"), "--host, --device or --datastore"),
        (("mute", "--host", "a", "--for", "4h", "--reason", " "), "--reason is empty"),
        (("mute", "--host", "a", "--for", "4x", "--reason", "x"), "is not a duration"),
        (("mute", "--host", "a", "--for", "", "--reason", "x"), "is not a duration"),
        (("mute", "--host", "a", "--for", "0h", "--reason", "x"), "is zero"),
        (("mute", "--host", "a", "--for", "31d", "--reason", "x"), "30 days at most"),
        (("mute", "--host", "a", "--for", "30d1m", "--reason", "x"), "30 days at most"),
        (("mute", "--host", "a", "--reason", "x"), "--for"),
        (("mute", "--host", "a", "--for", "4h"), "--reason"),
    ],
)
def test_an_invalid_incident_command_fails_with_one_sentence(
    marked: Pipeline, words: tuple[str, ...], told: str
) -> None:
    done = marked.run("incident", *words, code=2)
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_an_ambiguous_prefix_of_an_id_lists_its_matches(marked: Pipeline) -> None:
    beginnings: dict[str, list[str]] = {}
    for number in range(1_000):
        beginnings.setdefault(identity(f"twin{number}")[:4], []).append(f"twin{number}")
    start, twins = next((start, names) for start, names in beginnings.items() if len(names) > 1)
    for name in twins:
        publish(marked, name, 1)
    marked.wait_for(
        f"SELECT count() FROM incidents WHERE startsWith(toString(incident_id), '{start}')",
        len(twins),
    )
    said = " ".join(marked.run("incident", "show", start, code=2).stderr.split())
    assert f"{len(twins)} incidents have an id that begins with {start}" in said
    for name in twins:
        assert identity(name)[:8] in said
