"""Mutes and acknowledgements: what they hold back, and what passes all the same."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stunwatch.alerts.book import Book
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


def told(book: Book) -> list[tuple[str, str, str]]:
    return [(each.receiver, each.message.change, each.message.severity) for each in book.outbox]


def again(book: Book) -> Book:
    """The book after a restart."""
    return Book.from_json(json.loads(orjson.dumps(book.as_json(), option=orjson.OPT_NON_STR_KEYS)))


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
        # A datastore is one LUN, and the other one is not known by name.
        ("array_or_fabric", [mute(datastore="ds-a")], False),
        ("fabric", [mute("esx1"), mute("esx2")], False),
    ],
)
def test_an_incident_is_muted_by_all_that_it_is_about(
    scope: str, mutes: list[Mute], is_muted: bool
) -> None:
    found = muted(*mutes).muted_until(incident(scope=scope, **LUNS), NOON)
    assert (found is not None) == is_muted


def test_an_array_is_muted_by_all_its_datastores() -> None:
    about = incident(scope="array", devices=["naa.1", "naa.2"], datastores=["a", "b"])
    assert muted(mute(datastore="a"), mute(datastore="b")).muted_until(about, NOON)
    assert not muted(mute(datastore="a")).muted_until(about, NOON)
    assert muted(mute(datastore="a")).muted_until(
        {**about, "devices": [], "datastores": ["a"]}, NOON
    )


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
def test_a_host_goes_by_its_short_name_too(said: str, shown: str, is_one: bool) -> None:
    assert mute(said).covers("host", shown) == is_one


def test_a_mute_lasts_as_long_as_the_first_of_its_names() -> None:
    about = incident(scope="host", hosts=["esx1", "esx2"])
    marks = muted(mute("esx1", hours=1), mute("esx1", hours=3), mute("esx2", hours=2))
    assert marks.muted_until(about, NOON) == (NOON + 2 * HOUR).timestamp()
    assert marks.muted_until(about, NOON + 2 * HOUR) is None


def test_what_is_noted_alarms_nobody_until_it_opens() -> None:
    book, to = Book(), configuration()
    book.take(incident(revision=1, state="noted"), to, NOON)
    book.take(incident(revision=2, state="noted", severity="critical"), to, NOON)
    assert not told(book)
    book.take(incident(revision=3, severity="warning"), to, NOON)
    assert told(book) == [("hook", "opened", "warning")]
    book.take(closed(revision=4, severity="warning"), to, NOON)
    assert told(book)[1:] == [("hook", "closed", "warning")]


def test_what_is_noted_ends_in_silence() -> None:
    book, to = Book(), configuration()
    book.take(incident(revision=1, state="noted"), to, NOON)
    book.take(closed(revision=2, state="noted"), to, NOON)
    book.take(closed(revision=3), to, NOON)
    book.take(closed(revision=4, is_deleted=1), to, NOON)
    assert not told(book)


def test_what_turns_out_to_be_usual_is_withdrawn() -> None:
    book, to = Book(), configuration()
    book.take(incident(revision=1), to, NOON)
    book.take(incident(revision=2, state="noted"), to, NOON)
    book.take(incident(revision=3, state="noted"), to, NOON)
    assert [change for _, change, _ in told(book)] == ["opened", "withdrawn"]
    assert "as every week at this hour" in book.outbox[1].message.body


def test_what_is_over_may_be_withdrawn_but_not_noted() -> None:
    book, to = Book(), configuration()
    book.take(incident(revision=1), to, NOON)
    book.take(closed(revision=2), to, NOON)
    book.take(closed(revision=3, state="noted"), to, NOON)
    assert len(told(book)) == 2
    book, to = Book(), configuration()
    for revision, is_deleted in ((2, 0), (3, 0), (4, 1), (5, 1)):
        book.take(closed(revision=revision, is_deleted=is_deleted), to, NOON)
    assert [change for _, change, _ in told(book)] == ["closed", "withdrawn"]


def test_what_is_muted_is_told_when_the_mute_expires() -> None:
    book, to, marks = Book(), configuration(), muted(mute("esx01"))
    book.take(incident(revision=1, severity="notice"), to, NOON, marks)
    book.take(incident(revision=2, severity="warning"), to, NOON, marks)
    book = again(book)
    assert not book.end_mutes(to, NOON + HOUR / 2, marks)
    assert not told(book)
    assert book.end_mutes(to, NOON + HOUR, marks)
    assert not book.end_mutes(to, NOON + HOUR, marks)
    assert told(again(book)) == [("hook", "opened", "warning")]
    # The opening is told, so the end is.
    book.take(closed(revision=3), to, NOON + 2 * HOUR)
    assert [change for _, change, _ in told(book)] == ["opened", "closed"]


def test_a_mute_that_is_lifted_or_longer_is_heeded() -> None:
    book, to = Book(), configuration()
    book.take(incident(), to, NOON, muted(mute("esx01")))
    assert book.end_mutes(to, NOON, muted(mute("esx01", hours=5)))
    assert not book.end_mutes(to, NOON + 2 * HOUR, muted(mute("esx01", hours=5)))
    assert not told(book)
    book.end_mutes(to, NOON + 2 * HOUR, muted())
    assert told(book) == [("hook", "opened", "critical")]


def test_what_begins_and_ends_muted_is_never_told() -> None:
    book, to, marks = Book(), configuration(), muted(mute("esx01"))
    book.take(incident(revision=1), to, NOON, marks)
    book.take(closed(revision=2), to, NOON, marks)
    book.take(closed("over at once"), to, NOON, marks)
    book.end_mutes(to, NOON + 2 * HOUR, muted())
    assert not told(book)


def test_a_mute_holds_back_what_gets_worse_and_not_the_end() -> None:
    book, to, marks = Book(), configuration(), muted(mute("esx01"))
    book.take(incident(revision=1, severity="notice"), to, NOON)
    book.take(incident(revision=2, severity="critical"), to, NOON, marks)
    assert len(told(book)) == 1
    book.take(closed(revision=3), to, NOON, marks)
    # As severe as it was told: Alertmanager ends the alert that it knows.
    assert told(book) == [("hook", "opened", "notice"), ("hook", "closed", "notice")]


def test_what_got_worse_while_muted_is_told_after() -> None:
    book, to, marks = Book(), configuration(), muted(mute("esx01"))
    book.take(incident(revision=1, severity="notice"), to, NOON)
    book.take(incident(revision=2, severity="critical"), to, NOON, marks)
    book.end_mutes(to, NOON + HOUR, marks)
    [_, worse] = book.outbox
    assert (worse.message.change, worse.message.severity_before) == ("worse", "notice")


def test_what_is_wider_than_the_mute_is_told() -> None:
    book, to, marks = Book(), configuration(), muted(mute(device="naa.6000c29f"))
    book.take(incident(revision=1, scope="device"), to, NOON, marks)
    assert not told(book)
    two = ["naa.6000c29f", "naa.7"]
    book.take(incident(revision=2, scope="array", devices=two), to, NOON, marks)
    assert told(book) == [("hook", "opened", "critical")]


def test_without_clickhouse_everything_is_told_but_what_is_known_to_be_muted() -> None:
    book, to = Book(), configuration()
    book.take(incident("muted"), to, NOON, muted(mute("esx01")))
    assert not book.end_mutes(to, NOON + HOUR / 2, None)
    book.take(incident("new"), to, NOON + HOUR / 2)
    assert len(told(book)) == 1
    assert book.end_mutes(to, NOON + HOUR, None)
    assert len(told(book)) == 2


def test_what_could_not_be_told_later_is_not_held_back() -> None:
    book = Book()
    broken = incident()
    del broken["verdict"]
    with pytest.raises(KeyError):
        book.take(broken, configuration(), NOON, muted(mute("esx01")))
    assert book == Book()


def test_who_sees_to_it_is_called_again_only_if_it_becomes_critical() -> None:
    book, to, marks = Book(), configuration(), acknowledged(at=NOON + HOUR)
    book.take(incident(revision=1, severity="notice"), to, NOON)
    book.take(incident(revision=2, severity="warning"), to, NOON + HOUR, marks)
    assert len(told(book)) == 1
    book = again(book)
    book.take(incident(revision=3, severity="critical"), to, NOON + HOUR, marks)
    book.take(incident(revision=4, severity="critical"), to, NOON + HOUR, marks)
    book.take(closed(revision=5), to, NOON + HOUR, marks)
    assert told(book)[1:] == [("hook", "worse", "critical"), ("hook", "closed", "critical")]
    assert book.outbox[1].message.severity_before == "notice"


def test_an_acknowledgement_ends_with_the_incident() -> None:
    book, to, marks = Book(), configuration(), acknowledged(at=NOON)
    book.take(incident(revision=1, severity="notice"), to, NOON)
    book.take(closed(revision=2, severity="notice"), to, NOON, marks)
    book.take(incident(revision=3, severity="notice"), to, NOON + HOUR, marks)
    book.take(incident(revision=4, severity="warning"), to, NOON + HOUR, marks)
    assert [change for _, change, _ in told(book)] == ["opened", "closed", "opened", "worse"]


def test_an_acknowledged_incident_is_told_to_nobody_new_by_rising() -> None:
    to = configuration({"name": "team", "severities": SEVERITIES}, {"name": "pager"})
    book, marks = Book(), acknowledged(at=NOON)
    book.take(incident(revision=1, severity="notice"), to, NOON)
    book.take(incident(revision=2, severity="warning"), to, NOON, marks)
    book.take(incident(revision=3, severity="warning", stun_count=9), to, NOON, marks)
    assert [receiver for receiver, *_ in told(book)] == ["team"]


def test_whom_it_concerns_only_since_it_grew_wider_is_told_and_hears_of_the_end() -> None:
    to = configuration(
        {"name": "storage", "scopes": ["device"]}, {"name": "fabric", "scopes": ["fabric"]}
    )
    book = Book()
    book.take(incident(revision=1, scope="device", severity="warning"), to, NOON)
    book.take(incident(revision=2, scope="fabric", severity="warning"), to, NOON)
    book.take(incident(revision=3, scope="fabric", severity="critical"), to, NOON)
    book.take(closed(revision=4, scope="fabric"), to, NOON)
    assert [(receiver, change) for receiver, change, _ in told(book)] == [
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
def test_whatever_is_said_each_receiver_hears_every_change_once(
    story: list[tuple[Any, ...]],
) -> None:
    to, book, now = configuration(*RECEIVERS), Book(), NOON
    mutes: tuple[Mute, ...] = ()
    acknowledged_at: dict[str, float] = {}
    is_up = True
    for revision, (what, *words) in enumerate(story, 1):
        now += timedelta(minutes=1)
        marks = Marks(mutes, acknowledged_at) if is_up else Marks()
        before = len(book.outbox)
        if what == "event":
            state, severity, scope = words
            event = incident(revision=revision, severity=severity, scope=scope)
            state, event["is_deleted"] = ("closed", 1) if state == "deleted" else (state, 0)
            book.take({**event, "state": state}, to, now, marks)
            if state == "open" and marks.muted_until(event, now):
                assert len(book.outbox) == before
        elif what == "mute":
            names = [mute("esx01")] * words[0] + [mute(device="naa.6000c29f")] * words[1]
            mutes = tuple(Mute(m.host, m.device, m.datastore, 4e9) for m in names)
        elif what == "ack":
            acknowledged_at = {incident()["event_id"]: now.timestamp()}
        else:
            [is_up] = words
        book.end_mutes(to, now, Marks(mutes, acknowledged_at) if is_up else None)
        book = again(book)
    book.end_mutes(to, now, Marks())
    known = book.incidents.get(incident()["event_id"])
    for receiver in to.receivers:
        last = heard_in_order(
            [each.message for each in book.outbox if each.receiver == receiver.name]
        )
        if known is None or known.state != "open":
            assert not last
        elif not acknowledged_at and receiver.name == "team":
            assert last == known.severity


def heard_in_order(messages: list[Message]) -> str:
    """The severity of what is still open to a receiver; empty where it heard of the end."""
    was = ""
    for message in messages:
        if message.change in ("closed", "withdrawn"):
            # What was over when it was first seen has no beginning; what is over may be withdrawn.
            if message is not messages[0] and (was or message.change == "closed"):
                assert message.severity == was
            was = ""
            continue
        if was:
            assert (message.change, message.severity_before) == ("worse", was)
            assert SEVERITIES.index(message.severity) > SEVERITIES.index(was)
        was = message.severity
    return was
