"""Events of a replay are counted by kind, each once, and shown with the command that lists them."""

from __future__ import annotations

import re
from typing import Any

import orjson
import pytest
from confluent_kafka import Producer

from stunwatch.definitions import events
from stunwatch.detectors.catalogue import WINDOWS_TOPIC, detectors, event_topics
from stunwatch.found import KINDS, Found, count_events, in_words, topics
from stunwatch.kafka import Kafka
from tests.documentation.test_written import parse


def event(name: str, **fields: Any) -> dict[str, Any]:
    return {"event_id": name, "revision": 1, "is_deleted": 0, "run_id": "mine", **fields}


def test_an_event_is_counted_once_with_its_highest_revision() -> None:
    found = Found("mine")
    found.take("events.stun", event("a"))
    found.take("events.stun", event("a", revision=2))
    found.take("events.stun", event("b", revision=3, is_deleted=1))
    found.take("events.stun", event("b", revision=2))
    found.take("events.stun", event("c", run_id="live"))
    found.take("events.reservation", event("d", detector="sync_cr_countdowns"))
    found.take("events.reservation", event("e", detector="reservation_episodes"))
    found.take(WINDOWS_TOPIC, event("f"))
    counts = {name: count for name, count in found.counts().items() if count}
    assert counts == {"stuns": 1, "countdowns": 1, "reservation_conflicts": 1}
    assert found.counts()["incidents"] == 0


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"not JSON",
        b"\xff\xfe",
        b'["a list"]',
        b"17",
        b"null",
        orjson.dumps({"run_id": "mine", "revision": 1}),
        orjson.dumps({"run_id": "mine", "event_id": "a"}),
        orjson.dumps(event("a", revision="2")),
        orjson.dumps(event("a", revision=None)),
        orjson.dumps(event("a", event_id={"x": 1})),
    ],
)
def test_a_message_that_is_not_an_event_is_skipped_and_counted(value: bytes | None) -> None:
    found = Found("mine")
    found.read("events.stun", value)
    found.read("events.stun", orjson.dumps(event("b")))
    counts = found.counts()
    assert (counts["stuns"], counts["unreadable_messages"]) == (1, 1)
    assert in_words(counts)[-1] == "Skipped 1 message of event topics: not an event"


def test_each_kind_is_shown_with_the_command_that_lists_it() -> None:
    lines = in_words({"incidents": 1, "stuns": 1234, "countdowns": 0})
    assert [line.split() for line in lines] == [
        ["Found:"],
        [*("1", "incident"), *("stunwatch", "incident", "list", "--all")],
        [*("1,234", "stuns"), *("stunwatch", "sql", "longest_stuns")],
    ]


def test_an_empty_result_is_a_sentence() -> None:
    assert in_words(dict.fromkeys((each.name for each in KINDS.values()), 0)) == [
        "Found no stuns, conflicts, latency or other events in these logs."
    ]


def test_every_topic_of_a_detector_is_counted() -> None:
    assert {*event_topics()} - {WINDOWS_TOPIC, "events.inventory"} == {*topics()}
    assert all(KINDS[topic].name == events()[topic].view for topic in topics())
    assert {each for each in KINDS if not each.startswith("events.")} <= {
        each.name for each in detectors()
    }


def test_events_are_read_from_kafka_up_to_the_end_of_the_run() -> None:
    """librdkafka has a mock broker for tests, which starts no process."""
    producer = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 0})
    [broker] = producer.list_topics(timeout=60).brokers.values()
    access = {"bootstrap.servers": f"{broker.host}:{broker.port}"}

    def send(topic: str, *events: dict[str, Any]) -> None:
        for each in events:
            producer.produce(topic, orjson.dumps(each))
        assert producer.flush(60) == 0

    for topic in topics():
        send(topic, event("before"))
    starts = Kafka(access).ends(topics())
    send("events.stun", *(event(str(number)) for number in range(2500)))
    send("events.stun", event("other", run_id="live"))
    producer.produce("events.stun", None, key=b"a tombstone")
    producer.produce("events.stun", b"not JSON")
    assert producer.flush(60) == 0
    ends = Kafka(access).ends(topics())
    send("events.stun", event("after"))
    counts = count_events(access, starts, ends, "mine", lambda: None)
    assert counts is not None
    assert {name: count for name, count in counts.items() if count} == {
        "stuns": 2500,
        "unreadable_messages": 2,
    }
    assert count_events(access, ends, ends, "mine", lambda: None) == dict.fromkeys(counts, 0)


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_every_suggested_command_is_valid(kind: Any) -> None:
    words = re.findall(r'"[^"]+"|\S+', kind.command)
    parse(tuple(word.strip('"') for word in words), is_whole=True)
