"""Which receivers are notified of which changes, and when. The tests set the time."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stunwatch.alerts.alert_state import (
    LATE_WAIT_S,
    NO_MARKS,
    AlertState,
    Delivery,
    backoff_s,
)
from stunwatch.alerts.configuration import Configuration, parse
from tests.alerts.made_incidents import closed, incident

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NIGHT = datetime(2026, 3, 1, 23, tzinfo=UTC)
NIGHT_BEFORE = datetime(2026, 3, 1, 2, 2, tzinfo=UTC)


def configuration(*receivers: dict[str, Any], **more: Any) -> Configuration:
    named = receivers or ({"name": "hook", "severities": ["notice", "warning", "critical"]},)
    return parse({"receivers": [{"url": "json://x", **each} for each in named], **more}, {})


def told(
    events: list[dict[str, Any]], to: Configuration | None = None, now: datetime = NOON
) -> list[tuple[str, str]]:
    """Return (receiver, change) of all messages to deliver."""
    alert_state, to = AlertState(), to or configuration()
    for event in events:
        alert_state.take(event, to, now)
    return [(each.receiver, each.message.change) for each in alert_state.outbox]


def test_each_change_of_state_sends_one_message() -> None:
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


def test_incidents_of_a_replay_send_no_messages() -> None:
    assert not told([incident(run_id="2026-03-01T00-00-00-abcd")])


def test_a_retracted_incident_is_withdrawn_once() -> None:
    events = [incident(revision=1), incident(revision=2, is_deleted=1)]
    assert told([*events, incident(revision=3, is_deleted=1)])[1:] == [("hook", "withdrawn")]
    assert not told(events[1:])


def test_a_closed_incident_may_open_again() -> None:
    events = [incident(revision=1), closed(revision=2), incident(revision=3)]
    assert [change for _, change in told(events)] == ["opened", "closed", "opened"]
    calm = [*events[:2], incident(revision=3, severity="notice")]
    assert len(told(calm, configuration({"name": "pager", "severities": ["critical"]}))) == 2


def test_messages_are_filtered_by_severity_scope_and_change() -> None:
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


def test_a_receiver_of_the_opening_receives_the_end_despite_a_lower_severity() -> None:
    to = configuration({"name": "pager", "severities": ["critical"]})
    events = [incident(revision=1), closed(revision=2, severity="notice")]
    assert told(events, to) == [("pager", "opened"), ("pager", "closed")]


QUIET = {"quiet_hours": {"from": "22:00", "to": "06:00"}}
TEAM = {"name": "team", "severities": ["notice", "warning", "critical"], "is_quiet_at_night": True}


def test_notices_in_quiet_hours_are_combined_into_one_message() -> None:
    to, alert_state = configuration(TEAM, **QUIET), AlertState()
    for number in range(3):
        alert_state.take(incident(str(number), severity="notice"), to, NIGHT)
    alert_state.take(closed("0", severity="notice"), to, NIGHT)
    alert_state.end_quiet_hours(to, NIGHT + timedelta(hours=1))
    assert not alert_state.outbox
    alert_state.end_quiet_hours(to, NIGHT + timedelta(hours=7))
    [digest] = alert_state.outbox
    assert digest.message.title == "4 messages from quiet hours"
    assert len(digest.incidents) == 3
    assert not alert_state.held


def test_warning_and_critical_are_sent_in_quiet_hours() -> None:
    to = configuration(TEAM, **QUIET)
    events = [incident("a", severity="warning"), incident("b", severity="critical")]
    assert len(told(events, to, NIGHT)) == 2


def test_a_rise_to_critical_is_sent_in_quiet_hours() -> None:
    to = configuration(TEAM, **QUIET)
    events = [incident(revision=1, severity="notice"), incident(revision=2, severity="critical")]
    assert told(events, to, NIGHT) == [("team", "worse")]


def test_a_receiver_without_quiet_hours_is_notified_at_night() -> None:
    to = configuration({"name": "hook", "severities": ["notice"]}, **QUIET)
    assert told([incident(severity="notice")], to, NIGHT)


def test_held_messages_are_sent_when_quiet_hours_are_removed() -> None:
    to, alert_state = configuration(TEAM, **QUIET), AlertState()
    alert_state.take(incident(severity="notice"), to, NIGHT)
    alert_state.end_quiet_hours(configuration(TEAM), NIGHT)
    assert len(alert_state.outbox) == 1


def deliver(alert_state: AlertState, to: Configuration, now: datetime, *refuse: str) -> list[str]:
    """Attempt due deliveries; those in `refuse` fail. Return the accepted ones, in order."""
    accepted = []
    for each in alert_state.due(now):
        if each.receiver in refuse or each.incidents[0] in refuse:
            alert_state.failed(each, "it is down", to, now)
        else:
            alert_state.delivered(each)
            accepted.append(f"{each.receiver} {each.message.change}")
    return accepted


def test_the_retry_pause_doubles_up_to_the_maximum() -> None:
    to = configuration(retry={"first_seconds": 1, "longest_seconds": 60})
    waits = [backoff_s(attempt, to) for attempt in range(1, 9)]
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    assert backoff_s(100_000, to) == 60


def test_a_receiver_that_is_down_is_retried_for_ever_without_loss() -> None:
    to, alert_state = configuration(), AlertState()
    for number in range(5):
        alert_state.take(incident(str(number)), to, NOON)
    now, attempts = NOON, 0
    while now < NOON + timedelta(days=3):
        attempts += len(alert_state.due(now))
        assert not deliver(alert_state, to, now, "hook")
        now += timedelta(seconds=30)
    # One attempt every five minutes, not every thirty seconds.
    assert attempts < 1_000
    assert len(alert_state.outbox) == 5
    assert "hook did not accept" in next(alert_state.troubles())
    accepted = []
    for _ in range(6):
        now += timedelta(minutes=6)
        accepted += deliver(alert_state, to, now)
    assert len(accepted) == 5
    assert not alert_state.outbox
    assert not list(alert_state.troubles())


def test_receivers_do_not_wait_for_each_other() -> None:
    to, alert_state = configuration({"name": "up"}, {"name": "down"}), AlertState()
    alert_state.take(incident(), to, NOON)
    assert deliver(alert_state, to, NOON, "down") == ["up opened"]


def test_messages_about_one_incident_keep_their_order() -> None:
    to, alert_state = configuration(), AlertState()
    alert_state.take(incident(revision=1), to, NOON)
    alert_state.take(closed(revision=2), to, NOON)
    assert not deliver(alert_state, to, NOON, "hook")
    later = NOON + timedelta(minutes=10)
    assert deliver(alert_state, to, later) == ["hook opened"]
    assert deliver(alert_state, to, later) == ["hook closed"]


def test_a_rejected_message_does_not_delay_other_incidents() -> None:
    to, alert_state = configuration(), AlertState()
    bad = incident("bad")
    alert_state.take(bad, to, NOON)
    alert_state.take(closed("bad"), to, NOON)
    alert_state.take(incident("good"), to, NOON)
    accepted, now = [], NOON
    for _ in range(10):
        accepted += deliver(alert_state, to, now, bad["event_id"])
        now += timedelta(minutes=6)
    assert accepted == ["hook opened"]
    assert [each.incidents[0] for each in alert_state.outbox] == [bad["event_id"]] * 2


def test_messages_of_a_removed_receiver_are_dropped_and_reported() -> None:
    to, alert_state = configuration({"name": "old"}, {"name": "new"}), AlertState()
    alert_state.take(incident(), to, NOON)
    assert alert_state.forget(configuration({"name": "new"}), NOON) == ["old"]
    assert [each.receiver for each in alert_state.outbox] == ["new"]


def test_incidents_closed_long_ago_are_dropped() -> None:
    to, alert_state = configuration(), AlertState()
    alert_state.take(incident("open"), to, NOON)
    alert_state.take(closed("over"), to, NOON)
    alert_state.forget(to, NOON + timedelta(days=9))
    assert [each.state for each in alert_state.incidents.values()] == ["open"]


def test_the_saved_state_is_restored_unchanged() -> None:
    to, alert_state = configuration(TEAM, **QUIET), AlertState(offsets={0: 7, 1: 9})
    alert_state.take(incident("a", severity="notice"), to, NIGHT)
    alert_state.take(incident("b"), to, NIGHT)
    deliver(alert_state, to, NIGHT, "team")
    saved = orjson.dumps(alert_state.as_json(), option=orjson.OPT_NON_STR_KEYS)
    assert AlertState.from_json(json.loads(saved)) == alert_state


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
def test_each_change_arrives_once_and_in_order_despite_failures(
    story: list[tuple[str, str, str]], failing: set[int]
) -> None:
    to, alert_state = configuration(), AlertState()
    expected: list[Delivery] = []
    accepted: list[Delivery] = []
    now = NOON
    for revision, (name, severity, state) in enumerate(story, 1):
        event = incident(name, revision, severity=severity, is_deleted=int(state == "deleted"))
        before = alert_state.last_number
        alert_state.take({**event, "state": "closed" if state == "closed" else "open"}, to, now)
        expected += [each for each in alert_state.outbox if each.number > before]
        # A crash may happen at any time: only the saved state remains.
        alert_state = AlertState.from_json(
            json.loads(orjson.dumps(alert_state.as_json(), option=orjson.OPT_NON_STR_KEYS))
        )
    for attempt in range(60):
        for each in alert_state.due(now):
            if attempt in failing:
                alert_state.failed(each, "no", to, now)
            else:
                alert_state.delivered(each)
                accepted.append(each)
        now += timedelta(minutes=6)
    assert not alert_state.outbox
    for name in ("a", "b"):
        identity = incident(name)["event_id"]
        mine = [each.message for each in accepted if each.incidents == [identity]]
        assert mine == [each.message for each in expected if each.incidents == [identity]]
    assert len(accepted) == len(expected)


@pytest.mark.parametrize("broken", [{}, {"run_id": "live"}, {"run_id": "live", "event_id": "x"}])
def test_an_event_that_is_not_an_incident_changes_nothing(broken: dict[str, Any]) -> None:
    alert_state = AlertState()
    if broken.get("run_id"):
        with pytest.raises(KeyError):
            alert_state.take(broken, configuration(), NOON)
    else:
        alert_state.take(broken, configuration(), NOON)
    assert alert_state == AlertState()


@pytest.mark.parametrize("state", ["open", "closed"])
@pytest.mark.parametrize("opened_at", ["1970-01-01", "2019-04-05", "2026-02-28"])
def test_incidents_in_old_files_send_no_messages(state: str, opened_at: str) -> None:
    old = {"opened_at": f"{opened_at}T02:00:00Z", "detected_at": f"{opened_at}T02:01:05.000000Z"}
    first = incident(**old) if state == "open" else closed(revision=1, **old)
    worse = incident(revision=2, severity="critical", **old)
    alert_state = AlertState()
    for event in (first, worse, closed(revision=3, **old)):
        alert_state.take(event, configuration(), NOON, written_at=NOON)
    assert not alert_state.outbox


def test_events_written_while_the_service_was_down_are_sent() -> None:
    alert_state, event = AlertState(), incident()
    alert_state.take(event, configuration(), NOON + timedelta(days=3), written_at=NIGHT_BEFORE)
    assert [each.message.change for each in alert_state.outbox] == ["opened"]


def late(*written: dict[str, Any], end: bool = True) -> list[str]:
    """Return the changes that are sent about incidents of a backlog that is read at noon."""
    alert_state, to = AlertState(), configuration()
    for event in written:
        alert_state.take(event, to, NOON, written_at=NOON)
    if end:
        assert not alert_state.outbox
        restored = AlertState.from_json(json.loads(orjson.dumps(alert_state.as_json())))
        assert not restored.has_late(NOON)
        assert restored.has_late(NOON + timedelta(seconds=LATE_WAIT_S))
        assert restored.end_waits(to, NOON + timedelta(seconds=LATE_WAIT_S), NO_MARKS)
        restored.take(closed(revision=9), to, NOON + timedelta(minutes=9), written_at=NOON)
        alert_state = restored
    return [each.message.change for each in alert_state.outbox]


def test_an_incident_that_began_and_ended_in_a_backlog_sends_no_message() -> None:
    assert not late(incident(), incident(revision=2, stun_count=9), closed(), end=False)
    assert not late(closed(), end=False)
    assert not late(incident(), incident(revision=2, is_deleted=1), end=False)


def test_an_incident_of_a_backlog_that_goes_on_sends_its_messages_after_a_wait() -> None:
    assert late(incident(), incident(revision=2, severity="critical")) == ["opened", "closed"]
