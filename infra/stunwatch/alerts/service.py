"""The service: reads `events.incident`, keeps the book, delivers.

python -m stunwatch.alerts.service
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
from confluent_kafka import Consumer, KafkaException, TopicPartition

from stunwatch.access import kafka_access
from stunwatch.alerts.book import NO_MARKS, Book, Delivery, utc_now
from stunwatch.alerts.configuration import Configuration, Receiver, load
from stunwatch.alerts.marks import Marks, read_marks
from stunwatch.alerts.messages import Message
from stunwatch.alerts.reports import write_report
from stunwatch.alerts.sending import send
from stunwatch.errors import UserError
from stunwatch.kafka import Kafka
from stunwatch.settings import Settings, load_settings

TOPIC = "events.incident"
PRINCIPAL = "alerts"
GROUP = "stunwatch-alerts"
"""Its committed offsets show in `stunwatch status`; what counts are those in the book."""

AT_ONCE = 500
POLL_S = 0.5
LOOKS_FOR_PARTITIONS_S = 60.0
FORGETS_S = 3600.0
READS_MARKS_S = 2.0
"""How soon it is noticed that a mute was lifted, or that ClickHouse answers again."""

WAITS_FOR_MARKS_S = 60.0
"""At the start ClickHouse may be starting too: what is muted must not be told for that."""


def book_path(settings: Settings) -> Path:
    """The file that holds the book."""
    return settings.home / "alerts" / "book.json"


def read_book(settings: Settings) -> Book | None:
    """The book; None before the service has ever run."""
    try:
        return Book.from_json(json.loads(book_path(settings).read_text()))
    except FileNotFoundError:
        return None


def save(path: Path, value: Any) -> None:
    """Write a JSON file in one piece, so that a crash leaves the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_suffix(".partial")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS))
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)


class Desk:
    """Keeps the book and delivers what is due; where messages come from is not its concern."""

    def __init__(
        self,
        settings: Settings,
        book: Book,
        configuration: Configuration,
        sender: Callable[[Receiver, Message], str] = send,
    ) -> None:
        self.book = book
        self.configuration = configuration
        self._settings = settings
        self._sender = sender

    def take(
        self, events: list[tuple[int, int, bytes]], now: datetime, marks: Marks = NO_MARKS
    ) -> None:
        """Note messages of the topic, (partition, offset, value), and save the book."""
        for partition, offset, value in events:
            try:
                self.book.take(orjson.loads(value), self.configuration, now, marks)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                # ClickHouse reads the same message and keeps it with its reason.
                say(f"{TOPIC}/{partition}@{offset} is no incident: {error!r}")
            self.book.offsets[partition] = offset + 1
        self.save()

    def end_mutes(self, now: datetime, marks: Marks | None) -> None:
        """Tell what mutes held back that are over; None while it is not known which there are."""
        if self.book.end_mutes(self.configuration, now, marks):
            self.save()

    def deliver(self, now: datetime) -> int:
        """Attempt what is due; return how many messages were accepted."""
        held = sum(map(len, self.book.held.values()))
        self.book.end_quiet_hours(self.configuration, now)
        if held != sum(map(len, self.book.held.values())):
            self.save()
        accepted = 0
        receivers = {each.name: each for each in self.configuration.receivers}
        for each in self.book.due(now):
            receiver = receivers.get(each.receiver)
            if receiver is None:
                continue
            accepted += self._attempt(each, receiver, now)
            self.save()
        return accepted

    def _attempt(self, delivery: Delivery, receiver: Receiver, now: datetime) -> bool:
        problem = self._sender(receiver, delivery.message)
        if problem:
            wait_s = self.book.failed(delivery, problem, self.configuration, now)
            say(
                f"{receiver.name} did not accept message {delivery.number}: {problem};"
                f" again in {wait_s:.0f} s"
            )
            return False
        self.book.delivered(delivery)
        say(f"{receiver.name} accepted message {delivery.number}: {delivery.message.title}")
        return True

    def save(self) -> None:
        """Write the book."""
        save(book_path(self._settings), self.book.as_json())


class MarksReader:
    """Reads what is muted and acknowledged, and says once when that cannot be known."""

    def __init__(self, read: Callable[[], Marks]) -> None:
        self.problem = "it is not known yet what is muted"
        """Why the last reading failed; empty if it did not."""
        self._read = read
        self._began = time.monotonic()
        self._read_at = float("-inf")

    @property
    def is_due(self) -> bool:
        """Whether the last reading is some time ago."""
        return time.monotonic() - self._read_at > READS_MARKS_S

    @property
    def is_ready(self) -> bool:
        """Whether they were read, or have been waited for in vain."""
        return not self.problem or time.monotonic() - self._began > WAITS_FOR_MARKS_S

    def read(self) -> Marks | None:
        """What holds now; None where that cannot be known."""
        before, marks = self.problem, None
        try:
            marks = self._read()
            self.problem = ""
        except UserError as error:
            self.problem = f"mutes and acknowledgements are not known: {error}"
        self._read_at = time.monotonic()
        if self.problem and self.problem != before:
            say(f"{self.problem} Nothing is held back for them.")
        elif before and not self.problem:
            say("mutes and acknowledgements are known")
        return marks


class Reader:
    """Reads the topic from where the book says."""

    def __init__(self, settings: Settings, book: Book) -> None:
        self._settings = settings
        self._book = book
        self._assigned: set[int] = set()
        self._looked_at = 0.0
        self._consumer = Consumer(
            kafka_access(settings, PRINCIPAL)
            | {
                "group.id": GROUP,
                "enable.auto.commit": False,
                # Where the book's offset is not there any more: with what is.
                "auto.offset.reset": "earliest",
                "reconnect.backoff.max.ms": 1000,
                "log_level": 0,
            }
        )

    def read(self) -> list[tuple[int, int, bytes]]:
        """The next messages; none where there are none or Kafka is away."""
        self.assign()
        if not self._assigned:
            time.sleep(POLL_S)
            return []
        found = self._consumer.consume(AT_ONCE, timeout=POLL_S)
        return [
            (each.partition(), each.offset(), each.value() or b"null")
            for each in found
            if each.error() is None
        ]

    def commit(self) -> None:
        """Tell Kafka how far the book is, for others to see."""
        places = [
            TopicPartition(TOPIC, partition, offset)
            for partition, offset in self._book.offsets.items()
        ]
        with suppress(KafkaException):  # the next time, then
            self._consumer.commit(offsets=places, asynchronous=True)

    def close(self) -> None:
        """Leave."""
        self._consumer.close()

    def assign(self) -> None:
        """Take every partition. Those that are new begin with their first message."""
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
        is_first_time = not self._book.offsets
        for (_, partition), end in ends.items():
            # Who is told of incidents is told from now on, not of what was before.
            self._book.offsets.setdefault(partition, end if is_first_time else 0)
        save(book_path(self._settings), self._book.as_json())
        self._consumer.assign(
            [TopicPartition(TOPIC, each, self._book.offsets[each]) for each in partitions]
        )
        self._assigned = partitions


def run(settings: Settings, until: Callable[[], bool] = lambda: False) -> None:
    """Serve until told to stop.

    Raises:
        UserError: alerts.yaml cannot be read, or the service runs already.
    """
    configuration = load(settings)
    lock = _lock(settings)
    changed_at = _changed_at(settings.alerts)
    desk = Desk(settings, read_book(settings) or Book(), configuration)
    reader = Reader(settings, desk.book)
    marks = MarksReader(lambda: read_marks(settings))
    wrong = ""
    forgot_at = 0.0
    say(f"{len(configuration.receivers)} receivers; {len(desk.book.outbox)} messages wait")
    try:
        while not until():
            if marks.is_due and (marks.problem or desk.book.has_muted()):
                desk.end_mutes(utc_now(), marks.read())
            if marks.is_ready:
                events = reader.read()
            else:
                events = []
                reader.assign()
                time.sleep(POLL_S)
            if events:
                # An alarm too many is better than one that is lost.
                desk.take(events, utc_now(), marks.read() or NO_MARKS)
                reader.commit()
            while desk.deliver(utc_now()):
                pass
            if changed_at != (changed_at := _changed_at(settings.alerts)):
                wrong = _reload(settings, desk)
                forgot_at = 0.0
            if time.monotonic() - forgot_at > FORGETS_S or not forgot_at:
                forgot_at = time.monotonic()
                for name in desk.book.forget(desk.configuration, utc_now()):
                    say(f"{name} is no receiver any more: what waited for it is dropped")
            book = desk.book
            troubles = [each for each in (wrong, marks.problem) if each] + list(book.troubles())
            write_report(settings, troubles, len(book.outbox), sum(map(len, book.held.values())))
    finally:
        reader.close()
        os.close(lock)


def _lock(settings: Settings) -> int:
    """Keep a second service from the same book; the descriptor that holds the lock."""
    path = book_path(settings).with_name("lock")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise UserError("The alert service runs already; `stunwatch status` shows it.") from None
    return descriptor


def _reload(settings: Settings, desk: Desk) -> str:
    """Take over a changed alerts.yaml; a sentence if it cannot be."""
    try:
        desk.configuration = load(settings)
    except UserError as error:
        say(f"going on with what it was: {error}")
        return str(error)
    say(f"alerts.yaml has changed: {len(desk.configuration.receivers)} receivers")
    return ""


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def say(text: str) -> None:
    """Tell the log."""
    print(time.strftime("%Y-%m-%d %H:%M:%S"), text, flush=True)


if __name__ == "__main__":
    run(load_settings())
