"""The queries of the live view, each in its own thread.

A component that is slow or down does not delay the others: the last result stays on the screen,
with an error above it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from stunwatch import newest_line
from stunwatch.access import kafka_access
from stunwatch.clickhouse import as_user
from stunwatch.detectors.catalogue import WINDOWS_TOPIC, event_topics
from stunwatch.errors import UserError
from stunwatch.found import readable
from stunwatch.kafka import Kafka
from stunwatch.local.health import Health, examine
from stunwatch.schema import SQL, statements
from stunwatch.settings import Settings

if TYPE_CHECKING:  # of an extra: `--help` works without it
    from confluent_kafka import Consumer

T = TypeVar("T")
Row = dict[str, Any]

ANSWER_WITHIN_S = 10.0
RATES_OVER_S = 60.0
TAIL = 20
"""How many earlier events of each partition are shown."""

KEPT_EVENTS = 200


@dataclass(frozen=True)
class Answer(Generic[T]):
    """The last result (None: none yet), and why there is no newer one ("" if there is)."""

    value: T | None = None
    trouble: str = ""


class Poll(Generic[T]):
    """One query. `latest` may be read from any thread."""

    def __init__(self, ask: Callable[[], T], every_seconds: float) -> None:
        self._ask = ask
        self._every_seconds = every_seconds
        self.latest: Answer[T] = Answer()

    def once(self) -> None:
        """Run it once. An error becomes part of the result."""
        from confluent_kafka import KafkaException  # noqa: PLC0415 (of an extra)

        try:
            self.latest = Answer(self._ask())
        except (UserError, OSError, KafkaException) as error:
            self.latest = Answer(self.latest.value, str(error))
        except Exception as error:
            # If the thread ended, an old result would stay on the screen as if it were new.
            self.latest = Answer(self.latest.value, f"{type(error).__name__}: {error}")

    def start(self) -> None:
        """Run it periodically until the process ends."""

        def run() -> None:
            while True:
                self.once()
                time.sleep(self._every_seconds)

        threading.Thread(target=run, daemon=True).start()


@dataclass(frozen=True)
class Event:
    """An event from a topic, and when it was written there (milliseconds since 1970)."""

    topic: str
    told_at_ms: int
    fields: Row


@dataclass(frozen=True)
class Flow:
    """The pipeline's health, and messages per second by topic over the last minute."""

    health: Health
    per_second: dict[str, float]


class Polls:
    """The polls of one pipeline for the screen."""

    def __init__(self, settings: Settings, with_history: bool) -> None:
        self.incidents: Poll[list[Row]] = Poll(
            lambda: _rows(settings, "open_incidents", {"with_history": with_history}), 1
        )
        self.hidden_incidents: Poll[int] = Poll(
            lambda: 0 if with_history else _rows(settings, "hidden_incidents", {})[0]["hidden"], 30
        )
        self.newest_line: Poll[Row] = Poll(lambda: newest_line.ask(settings, ANSWER_WITHIN_S), 5)
        self.blind_spots: Poll[list[Row]] = Poll(lambda: _rows(settings, "blind_spots", {}), 30)
        self.flow: Poll[Flow] = Poll(FlowMeter(settings).measure, 2)
        self.events: Poll[list[Event]] = Poll(EventFeed(settings, with_history).latest, 0.2)

    def each(self) -> tuple[Poll[Any], ...]:
        """Return every poll."""
        return (
            self.incidents,
            self.hidden_incidents,
            self.newest_line,
            self.blind_spots,
            self.flow,
            self.events,
        )


def _rows(settings: Settings, name: str, parameters: Row) -> list[Row]:
    """Return the rows of `sql/queries/watch/<name>.sql`. Raises UserError."""
    reader = as_user(settings, "analyst", timeout_s=ANSWER_WITHIN_S)
    query = statements((SQL / "queries" / "watch" / f"{name}.sql").read_text())[0]
    return reader.named_rows(query, parameters)


class FlowMeter:
    """Computes message rates from the sizes of topics now and up to a minute ago."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._seen: deque[tuple[float, dict[str, int]]] = deque()

    def measure(self) -> Flow:
        """Measure once. The first rates are those of the job supervisor."""
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
    """The newest events of all topics except latency windows, which occur once per minute."""

    def __init__(self, settings: Settings, with_history: bool) -> None:
        self._settings = settings
        self._with_history = with_history
        self._consumer: Consumer | None = None
        self._events: dict[str, Event] = {}

    def latest(self) -> list[Event]:
        """Return events, the newest first, each once in its newest revision. Raises UserError."""
        from confluent_kafka import KafkaException  # noqa: PLC0415 (of an extra)

        if self._consumer is None:
            self._consumer = self._connected()
        # Events that exist arrive at once; for new ones, wait briefly.
        while messages := self._consumer.consume(500, timeout=0.5):
            for message in messages:
                if message.error():
                    raise KafkaException(message.error())
                if event := readable(message.value()):
                    self._take(message.topic(), message.timestamp()[1], event)
        newest = sorted(self._events.values(), key=lambda each: -each.told_at_ms)
        self._events = {each.fields["event_id"]: each for each in newest[:KEPT_EVENTS]}
        return newest[:KEPT_EVENTS]

    def _connected(self) -> Consumer:
        from confluent_kafka import Consumer, TopicPartition  # noqa: PLC0415 (of an extra)

        topics = sorted({*event_topics()} - {WINDOWS_TOPIC})
        access = kafka_access(self._settings, "replay")
        ends = Kafka(access, patience_seconds=0).ends(topics)
        consumer = Consumer(
            access
            | {
                # Partitions are assigned below, offsets never committed: the group is unused.
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

    def _take(self, topic: str, told_at_ms: int, event: Mapping[str, Any]) -> None:
        if event.get("is_deleted"):
            self._events.pop(event["event_id"], None)
        elif self._with_history or event.get("run_id") == "live":
            self._events[event["event_id"]] = Event(topic, told_at_ms, dict(event))
