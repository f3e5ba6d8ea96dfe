"""Who is told of what and when, with a clock that stands still."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stunwatch.alerts.book import Book, Delivery, backoff_s
from stunwatch.alerts.configuration import Configuration, parse
from tests.alerts.made_incidents import closed, incident

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NIGHT = datetime(2026, 3, 1, 23, tzinfo=UTC)


def configuration(*receivers: dict[str, Any], **more: Any) -> Configuration:
    named = receivers or ({"name": "hook", "severities": ["notice", "warning", "critical"]},)
    return parse({"receivers": [{"url": "json://x", **each} for each in named], **more}, {})


def told(
    events: list[dict[str, Any]], to: Configuration | None = None, now: datetime = NOON
) -> list[tuple[str, str]]:
    """(receiver, change) of all that is to be delivered."""
    book, to = Book(), to or configuration()
    for event in events:
        book.take(event, to, now)
    return [(each.receiver, each.message.change) for each in book.outbox]


def test_once_per_change_of_state() -> None:
    events = [
        incident(revision=1, severity="notice"),
        incident(revision=2, severity="notice", stun_count=9),
        incident(revision=3, severity="warning"),
        incident(revision=4, severity="warning", stun_count=99),
        incident(revision=5, severity="notice"),
        closed(revision=6, severity="notice"),
        closed(revision=7, severity="notice"),
    ]
    expected = ["opened", "worse", "closed"]
    assert told(events) == [("hook", change) for change in expected]
    assert told([*events, *events]) == [("hook", change) for change in expected]


def test_what_a_replay_finds_alarms_nobody() -> None:
    assert not told([incident(run_id="2026-03-01T00-00-00-abcd")])


def test_what_is_taken_back_is_withdrawn_once() -> None:
    events = [incident(revision=1), incident(revision=2, is_deleted=1)]
    assert told([*events, incident(revision=3, is_deleted=1)])[1:] == [("hook", "withdrawn")]
    assert not told(events[1:])


def test_an_incident_may_open_again() -> None:
    events = [incident(revision=1), closed(revision=2), incident(revision=3)]
    assert [change for _, change in told(events)] == ["opened", "closed", "opened"]
    calm = [*events[:2], incident(revision=3, severity="notice")]
    assert len(told(calm, configuration({"name": "pager", "severities": ["critical"]}))) == 2


def test_receivers_are_told_by_severity_scope_and_change() -> None:
    to = configuration(
        {"name": "pager", "severities": ["critical"], "changes": ["opened", "worse"]},
        {"name": "fabric", "severities": ["critical"], "scopes": ["fabric"]},
        {"name": "team"},
    )
    events = [
        incident(revision=1, severity="warning"),
        incident(revision=2, severity="critical"),
        closed(revision=3, severity="warning"),
    ]
    assert told(events, to) == [
        ("team", "opened"),
        ("pager", "worse"),
        ("team", "worse"),
        ("team", "closed"),
    ]


def test_who_heard_of_it_hears_of_its_end_though_it_had_calmed_down() -> None:
    to = configuration({"name": "pager", "severities": ["critical"]})
    events = [incident(revision=1), closed(revision=2, severity="notice")]
    assert told(events, to) == [("pager", "opened"), ("pager", "closed")]


QUIET = {"quiet_hours": {"from": "22:00", "to": "06:00"}}
TEAM = {"name": "team", "severities": ["notice", "warning", "critical"], "is_quiet_at_night": True}


def test_notices_wait_for_the_end_of_the_quiet_hours_and_come_as_one() -> None:
    to, book = configuration(TEAM, **QUIET), Book()
    for number in range(3):
        book.take(incident(str(number), severity="notice"), to, NIGHT)
    book.take(closed("0", severity="notice"), to, NIGHT)
    book.end_quiet_hours(to, NIGHT + timedelta(hours=1))
    assert not book.outbox
    book.end_quiet_hours(to, NIGHT + timedelta(hours=7))
    [digest] = book.outbox
    assert digest.message.title == "4 messages of the quiet hours"
    assert len(digest.incidents) == 3
    assert not book.held


def test_critical_and_warning_pass_in_quiet_hours() -> None:
    to = configuration(TEAM, **QUIET)
    events = [incident("a", severity="warning"), incident("b", severity="critical")]
    assert len(told(events, to, NIGHT)) == 2


def test_what_grows_critical_in_the_night_passes() -> None:
    to = configuration(TEAM, **QUIET)
    events = [incident(revision=1, severity="notice"), incident(revision=2, severity="critical")]
    assert told(events, to, NIGHT) == [("team", "worse")]


def test_who_keeps_no_quiet_hours_is_told_at_night() -> None:
    to = configuration({"name": "hook", "severities": ["notice"]}, **QUIET)
    assert told([incident(severity="notice")], to, NIGHT)


def test_what_is_held_is_told_when_quiet_hours_are_abolished() -> None:
    to, book = configuration(TEAM, **QUIET), Book()
    book.take(incident(severity="notice"), to, NIGHT)
    book.end_quiet_hours(configuration(TEAM), NIGHT)
    assert len(book.outbox) == 1


def deliver(book: Book, to: Configuration, now: datetime, *refuse: str) -> list[str]:
    """Attempt what is due; receivers of `refuse` do not accept. What was accepted, in order."""
    accepted = []
    for each in book.due(now):
        if each.receiver in refuse or each.incidents[0] in refuse:
            book.failed(each, "it is down", to, now)
        else:
            book.delivered(each)
            accepted.append(f"{each.receiver} {each.message.change}")
    return accepted


def test_waits_double_up_to_the_longest() -> None:
    to = configuration(retry={"first_seconds": 1, "longest_seconds": 60})
    waits = [backoff_s(attempt, to) for attempt in range(1, 9)]
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    assert backoff_s(100_000, to) == 60


def test_a_receiver_that_is_down_is_tried_for_ever_and_loses_nothing() -> None:
    to, book = configuration(), Book()
    for number in range(5):
        book.take(incident(str(number)), to, NOON)
    now, attempts = NOON, 0
    while now < NOON + timedelta(days=3):
        attempts += len(book.due(now))
        assert not deliver(book, to, now, "hook")
        now += timedelta(seconds=30)
    # Not every thirty seconds, but every five minutes.
    assert attempts < 1_000
    assert len(book.outbox) == 5
    assert "hook did not accept" in next(book.troubles())
    accepted = []
    for _ in range(6):
        now += timedelta(minutes=6)
        accepted += deliver(book, to, now)
    assert len(accepted) == 5
    assert not book.outbox
    assert not list(book.troubles())


def test_one_receiver_does_not_wait_for_another() -> None:
    to, book = configuration({"name": "up"}, {"name": "down"}), Book()
    book.take(incident(), to, NOON)
    assert deliver(book, to, NOON, "down") == ["up opened"]


def test_one_incidents_messages_keep_their_order() -> None:
    to, book = configuration(), Book()
    book.take(incident(revision=1), to, NOON)
    book.take(closed(revision=2), to, NOON)
    assert not deliver(book, to, NOON, "hook")
    later = NOON + timedelta(minutes=10)
    assert deliver(book, to, later) == ["hook opened"]
    assert deliver(book, to, later) == ["hook closed"]


def test_a_message_that_nobody_wants_does_not_hold_up_other_incidents() -> None:
    to, book = configuration(), Book()
    bad = incident("bad")
    book.take(bad, to, NOON)
    book.take(closed("bad"), to, NOON)
    book.take(incident("good"), to, NOON)
    accepted, now = [], NOON
    for _ in range(10):
        accepted += deliver(book, to, now, bad["event_id"])
        now += timedelta(minutes=6)
    assert accepted == ["hook opened"]
    assert [each.incidents[0] for each in book.outbox] == [bad["event_id"]] * 2


def test_what_a_removed_receiver_waited_for_is_dropped_and_told() -> None:
    to, book = configuration({"name": "old"}, {"name": "new"}), Book()
    book.take(incident(), to, NOON)
    assert book.forget(configuration({"name": "new"}), NOON) == ["old"]
    assert [each.receiver for each in book.outbox] == ["new"]


def test_incidents_that_are_long_over_are_forgotten() -> None:
    to, book = configuration(), Book()
    book.take(incident("open"), to, NOON)
    book.take(closed("over"), to, NOON)
    book.forget(to, NOON + timedelta(days=9))
    assert [each.state for each in book.incidents.values()] == ["open"]


def test_the_book_comes_back_as_it_was_saved() -> None:
    to, book = configuration(TEAM, **QUIET), Book(offsets={0: 7, 1: 9})
    book.take(incident("a", severity="notice"), to, NIGHT)
    book.take(incident("b"), to, NIGHT)
    deliver(book, to, NIGHT, "team")
    saved = orjson.dumps(book.as_json(), option=orjson.OPT_NON_STR_KEYS)
    assert Book.from_json(json.loads(saved)) == book


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b"]),
            st.sampled_from(["notice", "warning", "critical"]),
            st.sampled_from(["open", "closed", "deleted"]),
        ),
        max_size=12,
    ),
    st.sets(st.integers(0, 40)),
)
def test_whatever_fails_each_change_arrives_once_and_in_order(
    story: list[tuple[str, str, str]], failing: set[int]
) -> None:
    to, book = configuration(), Book()
    expected: list[Delivery] = []
    accepted: list[Delivery] = []
    now = NOON
    for revision, (name, severity, state) in enumerate(story, 1):
        event = incident(name, revision, severity=severity, is_deleted=int(state == "deleted"))
        before = book.last_number
        book.take({**event, "state": "closed" if state == "closed" else "open"}, to, now)
        expected += [each for each in book.outbox if each.number > before]
        # A crash at any moment: what was saved is all that is known.
        book = Book.from_json(
            json.loads(orjson.dumps(book.as_json(), option=orjson.OPT_NON_STR_KEYS))
        )
    for attempt in range(60):
        for each in book.due(now):
            if attempt in failing:
                book.failed(each, "no", to, now)
            else:
                book.delivered(each)
                accepted.append(each)
        now += timedelta(minutes=6)
    assert not book.outbox
    for name in ("a", "b"):
        identity = incident(name)["event_id"]
        mine = [each.message for each in accepted if each.incidents == [identity]]
        assert mine == [each.message for each in expected if each.incidents == [identity]]
    assert len(accepted) == len(expected)


@pytest.mark.parametrize("broken", [{}, {"run_id": "live"}, {"run_id": "live", "event_id": "x"}])
def test_what_is_no_incident_raises_and_changes_nothing(broken: dict[str, Any]) -> None:
    book = Book()
    if broken.get("run_id"):
        with pytest.raises(KeyError):
            book.take(broken, configuration(), NOON)
    else:
        book.take(broken, configuration(), NOON)
    assert book == Book()
