"""Mutes and acknowledgements: which messages they suppress, and which are sent nevertheless."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stunwatch.alerts.alert_state import AlertState
from stunwatch.alerts.configuration import Configuration, parse
from stunwatch.alerts.marks import Marks, Mute
from stunwatch.alerts.messages import Message
from tests.alerts.made_incidents import closed, incident

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
SEVERITIES = ["notice", "warning", "critical"]


def configuration(*receivers: dict[str, Any]) -> Configuration:
    named = receivers or ({"name": "hook", "severities": SEVERITIES},)
    return parse({"receivers": [{"url": "json://x", **each} for each in named]}, {})


def mute(host: str = "", device: str = "", datastore: str = "", *, hours: float = 1) -> Mute:
    return Mute(host, device, datastore, (NOON + hours * HOUR).timestamp())


def muted(*mutes: Mute) -> Marks:
    return Marks(mutes)


def acknowledged(name: str = "one", at: datetime = NOON) -> Marks:
    return Marks(acknowledged_at={incident(name)["event_id"]: at.timestamp()})


def told(alert_state: AlertState) -> list[tuple[str, str, str]]:
    return [
        (each.receiver, each.message.change, each.message.severity) for each in alert_state.outbox
    ]


def again(alert_state: AlertState) -> AlertState:
    """Return the alert state after a restart."""
    return AlertState.from_json(
        json.loads(orjson.dumps(alert_state.as_json(), option=orjson.OPT_NON_STR_KEYS))
    )


LUNS = {"devices": ["naa.1", "naa.2"], "datastores": ["ds-a"], "hosts": ["esx1", "esx2"]}


@pytest.mark.parametrize(
    ("scope", "mutes", "is_muted"),
    [
        ("host", [mute("esx1")], False),
        ("host", [mute("esx1"), mute("esx2")], True),
        ("host", [mute(device="naa.1"), mute(device="naa.2"), mute(datastore="ds-a")], False),
        ("device", [mute(device="naa.1")], False),
        ("device", [mute(device="naa.1"), mute(device="naa.2")], True),
        ("device", [mute(datastore="ds-a")], True),
        ("device", [mute("esx1"), mute("esx2")], False),
        ("vm", [mute(datastore="ds-a")], True),
        ("vm", [mute("esx1"), mute("esx2")], True),
        ("array", [mute(device="naa.1")], False),
        ("array", [mute(device="naa.1"), mute(device="naa.2")], True),
        # The datastore is one LUN; the other LUN's datastore is unknown.
        ("array_or_fabric", [mute(datastore="ds-a")], False),
        ("fabric", [mute("esx1"), mute("esx2")], False),
    ],
)
def test_an_incident_is_muted_only_if_all_its_names_of_one_kind_are(
    scope: str, mutes: list[Mute], is_muted: bool
) -> None:
    found = muted(*mutes).muted_until(incident(scope=scope, **LUNS), NOON)
    assert (found is not None) == is_muted


def test_an_array_is_muted_if_all_its_datastores_are() -> None:
    about = incident(scope="array", devices=["naa.1", "naa.2"], datastores=["a", "b"])
    assert muted(mute(datastore="a"), mute(datastore="b")).muted_until(about, NOON)
    assert not muted(mute(datastore="a")).muted_until(about, NOON)
    assert muted(mute(datastore="a")).muted_until(
        {**about, "devices": [], "datastores": ["a"]}, NOON
    )


def test_a_lun_known_only_by_its_path_is_muted_by_the_path() -> None:
    stuck = incident(devices=[], paths=["vmhba1:0:7"], datastores=[], scope="device")
    assert muted(mute(device="vmhba1:0:7")).muted_until(stuck, NOON)
    assert not muted(mute(device="vmhba1:0:8")).muted_until(stuck, NOON)


def test_an_incident_without_names_is_not_muted() -> None:
    nameless = {"hosts": [], "devices": [""], "datastores": []}
    for scope in ("vm", "host", "device", "array"):
        assert not muted(mute("esx1")).muted_until(incident(scope=scope, **nameless), NOON)


@pytest.mark.parametrize(
    ("said", "shown", "is_one"),
    [
        ("esx01", "esx01.lab.example", True),
        ("ESX01.lab.example", "esx01", True),
        ("esx01.lab.example", "esx01.other.example", False),
        ("esx0", "esx01", False),
    ],
)
def test_a_short_host_name_matches_the_full_name(said: str, shown: str, is_one: bool) -> None:
    assert mute(said).covers("host", shown) == is_one


def test_a_mute_of_several_names_ends_when_the_first_expires() -> None:
    about = incident(scope="host", hosts=["esx1", "esx2"])
    marks = muted(mute("esx1", hours=1), mute("esx1", hours=3), mute("esx2", hours=2))
    assert marks.muted_until(about, NOON) == (NOON + 2 * HOUR).timestamp()
    assert marks.muted_until(about, NOON + 2 * HOUR) is None


def test_a_noted_incident_sends_no_message_until_it_opens() -> None:
    alert_state, to = AlertState(), configuration()
    alert_state.take(incident(revision=1, state="noted"), to, NOON)
    alert_state.take(incident(revision=2, state="noted", severity="critical"), to, NOON)
    assert not told(alert_state)
    alert_state.take(incident(revision=3, severity="warning"), to, NOON)
    assert told(alert_state) == [("hook", "opened", "warning")]
    alert_state.take(closed(revision=4, severity="warning"), to, NOON)
    assert told(alert_state)[1:] == [("hook", "closed", "warning")]


def test_a_noted_incident_that_closes_sends_no_message() -> None:
    alert_state, to = AlertState(), configuration()
    alert_state.take(incident(revision=1, state="noted"), to, NOON)
    alert_state.take(closed(revision=2, state="noted"), to, NOON)
    alert_state.take(closed(revision=3), to, NOON)
    alert_state.take(closed(revision=4, is_deleted=1), to, NOON)
    assert not told(alert_state)


def test_an_open_incident_that_becomes_noted_is_withdrawn() -> None:
    alert_state, to = AlertState(), configuration()
    alert_state.take(incident(revision=1), to, NOON)
    alert_state.take(incident(revision=2, state="noted"), to, NOON)
    alert_state.take(incident(revision=3, state="noted"), to, NOON)
    assert [change for _, change, _ in told(alert_state)] == ["opened", "withdrawn"]
    assert "matches the usual pattern" in alert_state.outbox[1].message.body


def test_a_closed_incident_may_be_withdrawn_but_not_noted() -> None:
    alert_state, to = AlertState(), configuration()
    alert_state.take(incident(revision=1), to, NOON)
    alert_state.take(closed(revision=2), to, NOON)
    alert_state.take(closed(revision=3, state="noted"), to, NOON)
    assert len(told(alert_state)) == 2
    alert_state, to = AlertState(), configuration()
    for revision, is_deleted in ((2, 0), (3, 0), (4, 1), (5, 1)):
        alert_state.take(closed(revision=revision, is_deleted=is_deleted), to, NOON)
    assert [change for _, change, _ in told(alert_state)] == ["closed", "withdrawn"]


def test_a_muted_incident_is_sent_when_the_mute_expires() -> None:
    alert_state, to, marks = AlertState(), configuration(), muted(mute("esx01"))
    alert_state.take(incident(revision=1, severity="notice"), to, NOON, marks)
    alert_state.take(incident(revision=2, severity="warning"), to, NOON, marks)
    alert_state = again(alert_state)
    assert not alert_state.end_mutes(to, NOON + HOUR / 2, marks)
    assert not told(alert_state)
    assert alert_state.end_mutes(to, NOON + HOUR, marks)
    assert not alert_state.end_mutes(to, NOON + HOUR, marks)
    assert told(again(alert_state)) == [("hook", "opened", "warning")]
    # The opening was sent, so the end is sent as well.
    alert_state.take(closed(revision=3), to, NOON + 2 * HOUR)
    assert [change for _, change, _ in told(alert_state)] == ["opened", "closed"]


def test_a_mute_may_be_lifted_or_extended() -> None:
    alert_state, to = AlertState(), configuration()
    alert_state.take(incident(), to, NOON, muted(mute("esx01")))
    assert alert_state.end_mutes(to, NOON, muted(mute("esx01", hours=5)))
    assert not alert_state.end_mutes(to, NOON + 2 * HOUR, muted(mute("esx01", hours=5)))
    assert not told(alert_state)
    alert_state.end_mutes(to, NOON + 2 * HOUR, muted())
    assert told(alert_state) == [("hook", "opened", "critical")]


def test_an_incident_that_opens_and_closes_muted_sends_no_message() -> None:
    alert_state, to, marks = AlertState(), configuration(), muted(mute("esx01"))
    alert_state.take(incident(revision=1), to, NOON, marks)
    alert_state.take(closed(revision=2), to, NOON, marks)
    alert_state.take(closed("over at once"), to, NOON, marks)
    alert_state.end_mutes(to, NOON + 2 * HOUR, muted())
    assert not told(alert_state)


def test_a_mute_suppresses_a_rise_in_severity_but_not_the_end() -> None:
    alert_state, to, marks = AlertState(), configuration(), muted(mute("esx01"))
    alert_state.take(incident(revision=1, severity="notice"), to, NOON)
    alert_state.take(incident(revision=2, severity="critical"), to, NOON, marks)
    assert len(told(alert_state)) == 1
    alert_state.take(closed(revision=3), to, NOON, marks)
    # The severity last sent, because Alertmanager identifies the alert by it.
    assert told(alert_state) == [("hook", "opened", "notice"), ("hook", "closed", "notice")]


def test_a_rise_in_severity_during_a_mute_is_sent_afterwards() -> None:
    alert_state, to, marks = AlertState(), configuration(), muted(mute("esx01"))
    alert_state.take(incident(revision=1, severity="notice"), to, NOON)
    alert_state.take(incident(revision=2, severity="critical"), to, NOON, marks)
    alert_state.end_mutes(to, NOON + HOUR, marks)
    [_, worse] = alert_state.outbox
    assert (worse.message.change, worse.message.severity_before) == ("worse", "notice")


def test_an_incident_that_grows_beyond_its_mute_is_sent() -> None:
    alert_state, to, marks = AlertState(), configuration(), muted(mute(device="naa.6000c29f"))
    alert_state.take(incident(revision=1, scope="device"), to, NOON, marks)
    assert not told(alert_state)
    two = ["naa.6000c29f", "naa.7"]
    alert_state.take(incident(revision=2, scope="array", devices=two), to, NOON, marks)
    assert told(alert_state) == [("hook", "opened", "critical")]


def test_without_clickhouse_only_known_mutes_suppress_messages() -> None:
    alert_state, to = AlertState(), configuration()
    alert_state.take(incident("muted"), to, NOON, muted(mute("esx01")))
    assert not alert_state.end_mutes(to, NOON + HOUR / 2, None)
    alert_state.take(incident("new"), to, NOON + HOUR / 2)
    assert len(told(alert_state)) == 1
    assert alert_state.end_mutes(to, NOON + HOUR, None)
    assert len(told(alert_state)) == 2


def test_an_event_that_cannot_become_a_message_is_not_muted() -> None:
    alert_state = AlertState()
    broken = incident()
    del broken["verdict"]
    with pytest.raises(KeyError):
        alert_state.take(broken, configuration(), NOON, muted(mute("esx01")))
    assert alert_state == AlertState()


def test_an_acknowledged_incident_is_sent_again_only_if_critical_or_closed() -> None:
    alert_state, to, marks = AlertState(), configuration(), acknowledged(at=NOON + HOUR)
    alert_state.take(incident(revision=1, severity="notice"), to, NOON)
    alert_state.take(incident(revision=2, severity="warning"), to, NOON + HOUR, marks)
    assert len(told(alert_state)) == 1
    alert_state = again(alert_state)
    alert_state.take(incident(revision=3, severity="critical"), to, NOON + HOUR, marks)
    alert_state.take(incident(revision=4, severity="critical"), to, NOON + HOUR, marks)
    alert_state.take(closed(revision=5), to, NOON + HOUR, marks)
    assert told(alert_state)[1:] == [("hook", "worse", "critical"), ("hook", "closed", "critical")]
    assert alert_state.outbox[1].message.severity_before == "notice"


def test_an_acknowledgement_ends_when_the_incident_closes() -> None:
    alert_state, to, marks = AlertState(), configuration(), acknowledged(at=NOON)
    alert_state.take(incident(revision=1, severity="notice"), to, NOON)
    alert_state.take(closed(revision=2, severity="notice"), to, NOON, marks)
    alert_state.take(incident(revision=3, severity="notice"), to, NOON + HOUR, marks)
    alert_state.take(incident(revision=4, severity="warning"), to, NOON + HOUR, marks)
    assert [change for _, change, _ in told(alert_state)] == ["opened", "closed", "opened", "worse"]


def test_a_rise_of_an_acknowledged_incident_notifies_no_new_receiver() -> None:
    to = configuration({"name": "team", "severities": SEVERITIES}, {"name": "pager"})
    alert_state, marks = AlertState(), acknowledged(at=NOON)
    alert_state.take(incident(revision=1, severity="notice"), to, NOON)
    alert_state.take(incident(revision=2, severity="warning"), to, NOON, marks)
    alert_state.take(incident(revision=3, severity="warning", stun_count=9), to, NOON, marks)
    assert [receiver for receiver, *_ in told(alert_state)] == ["team"]


def test_a_receiver_of_the_wider_scope_is_notified_of_the_opening_and_the_end() -> None:
    to = configuration(
        {"name": "storage", "scopes": ["device"]}, {"name": "fabric", "scopes": ["fabric"]}
    )
    alert_state = AlertState()
    alert_state.take(incident(revision=1, scope="device", severity="warning"), to, NOON)
    alert_state.take(incident(revision=2, scope="fabric", severity="warning"), to, NOON)
    alert_state.take(incident(revision=3, scope="fabric", severity="critical"), to, NOON)
    alert_state.take(closed(revision=4, scope="fabric"), to, NOON)
    assert [(receiver, change) for receiver, change, _ in told(alert_state)] == [
        ("storage", "opened"),
        ("fabric", "opened"),
        ("storage", "worse"),
        ("fabric", "worse"),
        ("storage", "closed"),
        ("fabric", "closed"),
    ]


STORY = st.lists(
    st.one_of(
        st.tuples(
            st.just("event"),
            st.sampled_from(["open", "noted", "closed", "deleted"]),
            st.sampled_from(SEVERITIES),
            st.sampled_from(["host", "device", "fabric"]),
        ),
        st.tuples(st.just("mute"), st.booleans(), st.booleans()),
        st.tuples(st.just("ack")),
        st.tuples(st.just("clickhouse"), st.booleans()),
    ),
    max_size=25,
)
RECEIVERS = (
    {"name": "team", "severities": SEVERITIES},
    {"name": "pager", "severities": ["critical"]},
    {"name": "storage", "severities": SEVERITIES, "scopes": ["device"]},
)


@given(STORY)
def test_each_receiver_receives_every_change_once_in_any_sequence(
    story: list[tuple[Any, ...]],
) -> None:
    to, alert_state, now = configuration(*RECEIVERS), AlertState(), NOON
    mutes: tuple[Mute, ...] = ()
    acknowledged_at: dict[str, float] = {}
    is_up = True
    for revision, (what, *words) in enumerate(story, 1):
        now += timedelta(minutes=1)
        marks = Marks(mutes, acknowledged_at) if is_up else Marks()
        before = len(alert_state.outbox)
        if what == "event":
            state, severity, scope = words
            event = incident(revision=revision, severity=severity, scope=scope)
            state, event["is_deleted"] = ("closed", 1) if state == "deleted" else (state, 0)
            alert_state.take({**event, "state": state}, to, now, marks)
            if state == "open" and marks.muted_until(event, now):
                assert len(alert_state.outbox) == before
        elif what == "mute":
            names = [mute("esx01")] * words[0] + [mute(device="naa.6000c29f")] * words[1]
            mutes = tuple(Mute(m.host, m.device, m.datastore, 4e9) for m in names)
        elif what == "ack":
            acknowledged_at = {incident()["event_id"]: now.timestamp()}
        else:
            [is_up] = words
        alert_state.end_mutes(to, now, Marks(mutes, acknowledged_at) if is_up else None)
        alert_state = again(alert_state)
    alert_state.end_mutes(to, now, Marks())
    known = alert_state.incidents.get(incident()["event_id"])
    for receiver in to.receivers:
        last = heard_in_order(
            [each.message for each in alert_state.outbox if each.receiver == receiver.name]
        )
        if known is None or known.state != "open":
            assert not last
        elif not acknowledged_at and receiver.name == "team":
            assert last == known.severity


def heard_in_order(messages: list[Message]) -> str:
    """Return the last severity that the receiver received; empty after the end."""
    was = ""
    for message in messages:
        if message.change in ("closed", "withdrawn"):
            # An incident that was closed when first seen has no opening; a closed one may be
            # withdrawn.
            if message is not messages[0] and (was or message.change == "closed"):
                assert message.severity == was
            was = ""
            continue
        if was:
            assert (message.change, message.severity_before) == ("worse", was)
            assert SEVERITIES.index(message.severity) > SEVERITIES.index(was)
        was = message.severity
    return was
