"""What the live view asks, each question in a thread of its own.

A component that is slow or down keeps nothing else waiting: what was known stays on the screen,
with the sentence that says what is wrong.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import orjson
from confluent_kafka import Consumer, KafkaException, TopicPartition

from detectors.catalogue import WINDOWS_TOPIC, event_topics
from stunwatch.access import kafka_access
from stunwatch.clickhouse import as_user
from stunwatch.errors import UserError
from stunwatch.kafka import Kafka
from stunwatch.runtime.health import Health, examine
from stunwatch.schema import SQL, statements
from stunwatch.settings import Settings

T = TypeVar("T")
Row = dict[str, Any]

ANSWER_WITHIN_S = 10.0
RATES_OVER_S = 60.0
TAIL = 20
"""So many events of each partition are shown from before the start."""

KEPT_EVENTS = 200


@dataclass(frozen=True)
class Answer(Generic[T]):
    """The last answer (None: there was none yet) and what kept a newer one away, "" if nothing."""

    value: T | None = None
    trouble: str = ""


class Poll(Generic[T]):
    """One question. `latest` may be read from any thread."""

    def __init__(self, ask: Callable[[], T], every_seconds: float) -> None:
        self._ask = ask
        self._every_seconds = every_seconds
        self.latest: Answer[T] = Answer()

    def once(self) -> None:
        """Ask once; a failure is an answer too."""
        try:
            self.latest = Answer(self._ask())
        except (UserError, OSError, KafkaException) as error:
            self.latest = Answer(self.latest.value, str(error))

    def start(self) -> None:
        """Ask again and again until the process ends."""

        def run() -> None:
            while True:
                self.once()
                time.sleep(self._every_seconds)

        threading.Thread(target=run, daemon=True).start()


@dataclass(frozen=True)
class Event:
    """An event as its topic tells it, and when it was told (milliseconds since 1970)."""

    topic: str
    told_at_ms: int
    fields: Row


@dataclass(frozen=True)
class Flow:
    """The pipeline's health, and how many messages a second each topic took in the last minute."""

    health: Health
    per_second: dict[str, float]


class Polls:
    """All that the screen shows of one pipeline."""

    def __init__(self, settings: Settings, with_history: bool) -> None:
        self.incidents: Poll[list[Row]] = Poll(
            lambda: _rows(settings, "open_incidents", {"with_history": with_history}), 1
        )
        self.blind_spots: Poll[list[Row]] = Poll(lambda: _rows(settings, "blind_spots", {}), 30)
        self.flow: Poll[Flow] = Poll(FlowMeter(settings).measure, 2)
        self.events: Poll[list[Event]] = Poll(EventFeed(settings, with_history).latest, 0.2)

    def each(self) -> tuple[Poll[Any], ...]:
        """Every poll."""
        return (self.incidents, self.blind_spots, self.flow, self.events)


def _rows(settings: Settings, name: str, parameters: Row) -> list[Row]:
    """The rows of `sql/watch/<name>.sql`. Raises UserError."""
    reader = as_user(settings, "reader", timeout_s=ANSWER_WITHIN_S)
    query = statements((SQL / "watch" / f"{name}.sql").read_text())[0]
    return reader.named_rows(query, parameters)


class FlowMeter:
    """Compares what topics hold now with what they held up to a minute ago."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._seen: deque[tuple[float, dict[str, int]]] = deque()

    def measure(self) -> Flow:
        """Look once. Where nothing can be compared yet, the rates are the keeper's."""
        health, now = examine(self._settings), time.monotonic()
        held = {each.name: each.messages for each in health.topics}
        if held:
            self._seen.append((now, held))
        while len(self._seen) > 2 and self._seen[1][0] < now - RATES_OVER_S:
            self._seen.popleft()
        if len(self._seen) < 2:
            measured = {each.name: each.per_second or 0.0 for each in health.topics}
            return Flow(health, measured)
        first_at, first = self._seen[0]
        last_at, last = self._seen[-1]
        return Flow(
            health,
            {name: max(0, last[name] - first.get(name, 0)) / (last_at - first_at) for name in last},
        )


class EventFeed:
    """The newest events of every topic but latency windows, which come by the minute."""

    def __init__(self, settings: Settings, with_history: bool) -> None:
        self._settings = settings
        self._with_history = with_history
        self._consumer: Consumer | None = None
        self._events: dict[str, Event] = {}

    def latest(self) -> list[Event]:
        """The newest first; each event once, as it was last told. Raises UserError."""
        if self._consumer is None:
            self._consumer = self._connected()
        # What is there is taken at once; new events are waited for shortly.
        while messages := self._consumer.consume(500, timeout=0.5):
            for message in messages:
                if message.error():
                    raise KafkaException(message.error())
                self._take(message.topic(), message.timestamp()[1], orjson.loads(message.value()))
        newest = sorted(self._events.values(), key=lambda each: -each.told_at_ms)
        self._events = {each.fields["event_id"]: each for each in newest[:KEPT_EVENTS]}
        return newest[:KEPT_EVENTS]

    def _connected(self) -> Consumer:
        topics = sorted({*event_topics()} - {WINDOWS_TOPIC})
        access = kafka_access(self._settings, "replay")
        ends = Kafka(access, patience_seconds=0).ends(topics)
        consumer = Consumer(
            access
            | {
                # Assigned by hand and never committed: the group is a name only.
                "group.id": "stunwatch-watch",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "reconnect.backoff.max.ms": 1000,
                "log_level": 0,
            }
        )
        consumer.assign(
            [
                TopicPartition(topic, partition, max(0, end - TAIL))
                for (topic, partition), end in ends.items()
            ]
        )
        return consumer

    def _take(self, topic: str, told_at_ms: int, event: Row) -> None:
        if event.get("is_deleted"):
            self._events.pop(event["event_id"], None)
        elif self._with_history or event.get("run_id") == "live":
            self._events[event["event_id"]] = Event(topic, told_at_ms, event)
