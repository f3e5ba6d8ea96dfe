"""The alert service: reads `events.incident`, keeps the alert state, delivers messages.

python -m stunwatch.alerts.service
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
from confluent_kafka import Consumer, KafkaException, TopicPartition

from stunwatch.access import kafka_access
from stunwatch.alerts.alert_state import NO_MARKS, AlertState, Delivery, utc_now
from stunwatch.alerts.configuration import Configuration, Receiver, load
from stunwatch.alerts.marks import Marks, read_marks
from stunwatch.alerts.messages import Message
from stunwatch.alerts.reports import write_report
from stunwatch.alerts.sending import send
from stunwatch.errors import UserError
from stunwatch.kafka import Kafka
from stunwatch.printable import echo
from stunwatch.settings import Settings, load_settings

TOPIC = "events.incident"
PRINCIPAL = "alerts"
GROUP = "stunwatch-alerts"
"""Its offsets are only for `stunwatch status`; the alert state has the valid ones."""

AT_ONCE = 500
POLL_S = 0.5
LOOKS_FOR_PARTITIONS_S = 60.0
FORGETS_S = 3600.0
READS_MARKS_S = 2.0
"""Interval at which a removed mute, or the return of ClickHouse, is noticed."""

WAITS_FOR_MARKS_S = 60.0
"""Timeout for ClickHouse at the start. Without its data, muted incidents would send messages."""


def state_path(settings: Settings) -> Path:
    """Return the path of the alert state."""
    return settings.home / "alerts" / "book.json"


def read_state(settings: Settings) -> AlertState | None:
    """Read the alert state; None before the first run of the service."""
    try:
        return AlertState.from_json(json.loads(state_path(settings).read_text()))
    except FileNotFoundError:
        return None


def save(path: Path, value: Any) -> None:
    """Write a JSON file atomically: after a crash, it has the old or the new content."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_suffix(".partial")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS))
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)


class Dispatcher:
    """The dispatcher: updates the alert state and delivers messages that are due."""

    def __init__(
        self,
        settings: Settings,
        alert_state: AlertState,
        configuration: Configuration,
        sender: Callable[[Receiver, Message], str] = send,
    ) -> None:
        self.alert_state = alert_state
        self.configuration = configuration
        self._settings = settings
        self._sender = sender

    def take(
        self,
        events: list[tuple[int, int, bytes, datetime]],
        now: datetime,
        marks: Marks = NO_MARKS,
    ) -> None:
        """Apply events of the topic, (partition, offset, value, when written); save the state."""
        for partition, offset, value, written_at in events:
            try:
                event = orjson.loads(value)
                self.alert_state.take(event, self.configuration, now, marks, written_at)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                # ClickHouse reads the same event and stores it in rejected_lines with the reason.
                say(f"{TOPIC}/{partition}@{offset} is not an incident: {error!r}")
            self.alert_state.offsets[partition] = offset + 1
        self.save()

    def end_mutes(self, now: datetime, marks: Marks | None) -> None:
        """Create messages for incidents whose mutes ended. `marks`: None if they are unknown."""
        if self.alert_state.end_mutes(self.configuration, now, marks):
            self.save()

    def end_waits(self, now: datetime, marks: Marks) -> None:
        """Create messages for late incidents that are still open."""
        if self.alert_state.end_waits(self.configuration, now, marks):
            self.save()

    def deliver(self, now: datetime) -> int:
        """Attempt deliveries that are due; return how many were accepted."""
        held = sum(map(len, self.alert_state.held.values()))
        self.alert_state.end_quiet_hours(self.configuration, now)
        if held != sum(map(len, self.alert_state.held.values())):
            self.save()
        accepted = 0
        receivers = {each.name: each for each in self.configuration.receivers}
        for each in self.alert_state.due(now):
            receiver = receivers.get(each.receiver)
            if receiver is None:
                continue
            accepted += self._attempt(each, receiver, now)
            self.save()
        return accepted

    def _attempt(self, delivery: Delivery, receiver: Receiver, now: datetime) -> bool:
        problem = self._sender(receiver, delivery.message)
        if problem:
            wait_s = self.alert_state.failed(delivery, problem, self.configuration, now)
            say(
                f"{receiver.name} did not accept message {delivery.number}: {problem};"
                f" next attempt in {wait_s:.0f} s"
            )
            return False
        self.alert_state.delivered(delivery)
        say(f"{receiver.name} accepted message {delivery.number}: {delivery.message.title}")
        return True

    def save(self) -> None:
        """Save the alert state."""
        save(state_path(self._settings), self.alert_state.as_json())


class MarksReader:
    """Reads mutes and acknowledgements, and logs once if ClickHouse does not answer."""

    def __init__(self, read: Callable[[], Marks]) -> None:
        self.problem = "Mutes are not loaded yet."
        """Why the last read failed; empty if it succeeded."""
        self._read = read
        self._began = time.monotonic()
        self._read_at = float("-inf")

    @property
    def is_due(self) -> bool:
        """True if the last read is old enough to repeat it."""
        return time.monotonic() - self._read_at > READS_MARKS_S

    @property
    def is_ready(self) -> bool:
        """True if the marks were read, or the wait for them timed out."""
        return not self.problem or time.monotonic() - self._began > WAITS_FOR_MARKS_S

    def read(self) -> Marks | None:
        """Return the current marks; None if ClickHouse does not answer."""
        before, marks = self.problem, None
        try:
            marks = self._read()
            self.problem = ""
        except UserError as error:
            self.problem = f"Mutes are unknown: {error}"
        self._read_at = time.monotonic()
        if self.problem and self.problem != before:
            say(f"{self.problem} All messages are sent.")
        elif before and not self.problem:
            say("mutes are loaded")
        return marks


class Reader:
    """Reads the topic from the offsets of the alert state."""

    def __init__(self, settings: Settings, alert_state: AlertState) -> None:
        self._settings = settings
        self._alert_state = alert_state
        self._assigned: set[int] = set()
        self._looked_at = 0.0
        self._consumer = Consumer(
            kafka_access(settings, PRINCIPAL)
            | {
                "group.id": GROUP,
                "enable.auto.commit": False,
                # If the saved offset no longer exists, start at the oldest message.
                "auto.offset.reset": "earliest",
                "reconnect.backoff.max.ms": 1000,
                "log_level": 0,
            }
        )

    def read(self) -> list[tuple[int, int, bytes, datetime]]:
        """Return the next messages; none if there are none or Kafka does not answer."""
        self.assign()
        if not self._assigned:
            time.sleep(POLL_S)
            return []
        found = self._consumer.consume(AT_ONCE, timeout=POLL_S)
        return [
            (
                each.partition(),
                each.offset(),
                each.value() or b"null",
                datetime.fromtimestamp(each.timestamp()[1] / 1000, UTC),
            )
            for each in found
            if each.error() is None
        ]

    def commit(self) -> None:
        """Commit the offsets to Kafka, for `stunwatch status`."""
        places = [
            TopicPartition(TOPIC, partition, offset)
            for partition, offset in self._alert_state.offsets.items()
        ]
        with suppress(KafkaException):  # the next commit includes it
            self._consumer.commit(offsets=places, asynchronous=True)

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def assign(self) -> None:
        """Assign all partitions. New ones start at their first message."""
        if self._assigned and time.monotonic() - self._looked_at < LOOKS_FOR_PARTITIONS_S:
            return
        try:
            ends = Kafka(kafka_access(self._settings, PRINCIPAL), patience_seconds=0).ends([TOPIC])
        except (UserError, KeyError):
            return
        self._looked_at = time.monotonic()
        partitions = {partition for _, partition in ends}
        if partitions == self._assigned:
            return
        is_first_time = not self._alert_state.offsets
        for (_, partition), end in ends.items():
            # The first start sends no messages about earlier incidents.
            self._alert_state.offsets.setdefault(partition, end if is_first_time else 0)
        save(state_path(self._settings), self._alert_state.as_json())
        self._consumer.assign(
            [TopicPartition(TOPIC, each, self._alert_state.offsets[each]) for each in partitions]
        )
        self._assigned = partitions


def run(settings: Settings, until: Callable[[], bool] = lambda: False) -> None:
    """Run until `until` returns true.

    Raises:
        UserError: alerts.yaml cannot be read, or the service is already running.
    """
    configuration = load(settings)
    lock = _lock(settings)
    changed_at = _changed_at(settings.alerts)
    dispatcher = Dispatcher(settings, read_state(settings) or AlertState(), configuration)
    reader = Reader(settings, dispatcher.alert_state)
    marks = MarksReader(lambda: read_marks(settings))
    wrong = ""
    forgot_at = 0.0
    say(
        f"receivers: {len(configuration.receivers)};"
        f" messages waiting: {len(dispatcher.alert_state.outbox):,}"
    )
    try:
        while not until():
            if marks.is_due and (marks.problem or dispatcher.alert_state.has_muted()):
                dispatcher.end_mutes(utc_now(), marks.read())
            if marks.is_ready:
                events = reader.read()
            else:
                events = []
                reader.assign()
                time.sleep(POLL_S)
            if events:
                # One alert too many is better than a lost one.
                dispatcher.take(events, utc_now(), marks.read() or NO_MARKS)
                reader.commit()
            if dispatcher.alert_state.has_late(utc_now()):
                dispatcher.end_waits(utc_now(), marks.read() or NO_MARKS)
            while dispatcher.deliver(utc_now()):
                pass
            if changed_at != (changed_at := _changed_at(settings.alerts)):
                wrong = _reload(settings, dispatcher)
                forgot_at = 0.0
            if time.monotonic() - forgot_at > FORGETS_S or not forgot_at:
                forgot_at = time.monotonic()
                for name in dispatcher.alert_state.forget(dispatcher.configuration, utc_now()):
                    say(f"receiver {name} was removed: its waiting messages are dropped")
            alert_state = dispatcher.alert_state
            troubles = [each for each in (wrong, marks.problem) if each] + list(
                alert_state.troubles()
            )
            write_report(
                settings,
                troubles,
                len(alert_state.outbox),
                sum(map(len, alert_state.held.values())),
            )
    finally:
        reader.close()
        os.close(lock)


def _lock(settings: Settings) -> int:
    """Prevent a second service with the same state; returns the descriptor of the lock."""
    path = state_path(settings).with_name("lock")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise UserError(
            "The alert service is already running. `stunwatch status` shows it."
        ) from None
    return descriptor


def _reload(settings: Settings, dispatcher: Dispatcher) -> str:
    """Load a changed alerts.yaml; returns the problem, empty if there is none."""
    try:
        dispatcher.configuration = load(settings)
    except UserError as error:
        say(f"keeping the previous configuration: {error}")
        return str(error)
    say(f"alerts.yaml changed; receivers: {len(dispatcher.configuration.receivers)}")
    return ""


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def say(text: str) -> None:
    """Write a line to the log."""
    echo(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}")


if __name__ == "__main__":
    run(load_settings())
