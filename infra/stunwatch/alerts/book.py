"""What is known of incidents, what waits to be delivered, and how far the topic was read.

All of it is one value, saved in one piece: a message of the topic is read exactly when what follows
from it is in the book. Nothing here reads a clock, a network or a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from stunwatch.alerts.configuration import SEVERITIES, Configuration, Receiver
from stunwatch.alerts.marks import Marks
from stunwatch.alerts.messages import Message, digest_of, message_of

NO_MARKS = Marks()

FORGOTTEN_AFTER_S = 8 * 24 * 3600
"""Longer than the topic keeps events: of an incident that is over nothing new comes then."""


@dataclass
class Known:
    """What is known of an incident, and what of it was told."""

    revision: int
    state: str
    """open, noted, closed or withdrawn."""
    severity: str
    """The worst it had since it opened."""
    seen_at: float
    """Epoch seconds."""
    open_since: float
    """Since when it is seen open, epoch seconds: who saw to it before did so the last time."""
    told_severity: str = ""
    """The worst that was told since it opened, to whomever it concerned."""
    followers: dict[str, str] = field(default_factory=dict)
    """The receivers that it concerns, with the worst severity that each was told: they hear of its
    end, wherever it lies by then."""
    muted_event: dict[str, Any] | None = None
    """Its last event, while mutes hold it back."""
    muted_until: float = 0.0
    """When they expire, as far as is known. Epoch seconds."""


@dataclass
class Delivery:
    """A message on its way to one receiver."""

    number: int
    receiver: str
    incidents: list[str]
    message: Message
    not_before: float = 0.0
    """Epoch seconds."""
    attempts: int = 0
    problem: str = ""
    """Why the last attempt failed."""


@dataclass
class Book:
    """The whole state of the service."""

    offsets: dict[int, int] = field(default_factory=dict)
    """Of each partition, the next message to read."""
    incidents: dict[str, Known] = field(default_factory=dict)
    outbox: list[Delivery] = field(default_factory=list)
    """In the order of their making."""
    held: dict[str, list[Message]] = field(default_factory=dict)
    """By receiver: what waits for the end of the quiet hours."""
    last_number: int = 0
    receiver_not_before: dict[str, float] = field(default_factory=dict)
    """When a receiver that failed is tried again, whatever for. Epoch seconds."""
    receiver_failures: dict[str, int] = field(default_factory=dict)
    """How often it has failed in a row."""

    def take(
        self,
        event: Mapping[str, Any],
        configuration: Configuration,
        now: datetime,
        marks: Marks = NO_MARKS,
    ) -> None:
        """Note what an event of the topic changes, and for whom."""
        if event.get("run_id") != "live":
            return
        incident_id = str(event["event_id"])
        before = self.incidents.get(incident_id)
        if before and event["revision"] <= before.revision:
            return
        state = "withdrawn" if event.get("is_deleted") else str(event["state"])
        if not before and state == "withdrawn":
            return
        known = _known(event, state, before, now)
        if not before and state == "closed" and marks.muted_until(event, now) is None:
            # Nobody heard of its beginning: it was over at once.
            known.followers = {
                each.name: known.severity
                for each in configuration.receivers
                if each.takes(known.severity, str(event["scope"]))
            }
        was = before.state if before else ""
        news = _news(known, was, event, configuration, now, marks)
        # Not before: an event that breaks its schema must change nothing.
        self.incidents[incident_id] = known
        for receiver, message in news:
            self._send_or_hold(receiver, message, configuration, now)

    def has_muted(self) -> bool:
        """Whether mutes hold anything back."""
        return any(each.muted_event for each in self.incidents.values())

    def end_mutes(self, configuration: Configuration, now: datetime, marks: Marks | None) -> bool:
        """Tell what was held back by mutes that are over; return whether the book has changed.

        `marks` is None while they cannot be known: then each mute ends when it was to expire.
        """
        has_changed = False
        for known in self.incidents.values():
            event = known.muted_event
            if event is None or (marks is None and now.timestamp() < known.muted_until):
                continue
            until = known.muted_until
            for receiver, message in _news(
                known, known.state, event, configuration, now, marks or NO_MARKS
            ):
                self._send_or_hold(receiver, message, configuration, now)
            has_changed |= known.muted_event is None or known.muted_until != until
        return has_changed

    def end_quiet_hours(self, configuration: Configuration, now: datetime) -> None:
        """Make one message of what was held back, where it is not quiet any more."""
        receivers = {each.name: each for each in configuration.receivers}
        quiet = configuration.quiet_hours
        for name, messages in list(self.held.items()):
            receiver = receivers.get(name)
            is_quiet = receiver is not None and receiver.is_quiet_at_night
            if quiet and is_quiet and quiet.contains(now):
                continue
            del self.held[name]
            incidents = list(dict.fromkeys(each.incident_id for each in messages))
            self._post(name, incidents, digest_of(messages))

    def due(self, now: datetime) -> list[Delivery]:
        """The deliveries to attempt now: at most one to each receiver.

        One incident's messages to a receiver keep their order; those of others do not wait for
        them. A receiver that has just failed is left alone for a while.
        """
        found: dict[str, Delivery] = {}
        waiting: dict[str, set[str]] = {}
        for each in self.outbox:
            blocked = waiting.setdefault(each.receiver, set())
            may_go = blocked.isdisjoint(each.incidents)
            blocked.update(each.incidents)
            is_due = (
                max(each.not_before, self.receiver_not_before.get(each.receiver, 0.0))
                <= now.timestamp()
            )
            if (
                may_go
                and is_due
                and (each.receiver not in found or each.attempts < found[each.receiver].attempts)
            ):
                found[each.receiver] = each
        return list(found.values())

    def delivered(self, delivery: Delivery) -> None:
        """It was accepted."""
        self.outbox.remove(delivery)
        self.receiver_failures.pop(delivery.receiver, None)
        self.receiver_not_before.pop(delivery.receiver, None)

    def failed(
        self, delivery: Delivery, problem: str, configuration: Configuration, now: datetime
    ) -> float:
        """It was not accepted; return in how many seconds it is tried again."""
        delivery.attempts += 1
        delivery.problem = problem
        failures = self.receiver_failures.get(delivery.receiver, 0) + 1
        self.receiver_failures[delivery.receiver] = failures
        delivery.not_before = now.timestamp() + backoff_s(delivery.attempts, configuration)
        wait_s = backoff_s(failures, configuration)
        self.receiver_not_before[delivery.receiver] = now.timestamp() + wait_s
        return wait_s

    def forget(self, configuration: Configuration, now: datetime) -> list[str]:
        """Drop what nobody waits for any more; return the receivers that were dropped with mail."""
        oldest = now.timestamp() - FORGOTTEN_AFTER_S
        self.incidents = {
            name: known
            for name, known in self.incidents.items()
            if known.state == "open" or known.seen_at > oldest
        }
        names = {each.name for each in configuration.receivers}
        gone = sorted(
            {each.receiver for each in self.outbox if each.receiver not in names}
            | {name for name in self.held if name not in names}
        )
        self.outbox = [each for each in self.outbox if each.receiver in names]
        self.held = {name: held for name, held in self.held.items() if name in names}
        return gone

    def troubles(self) -> Iterator[str]:
        """A sentence for every receiver that does not accept what it is sent."""
        for name in dict.fromkeys(each.receiver for each in self.outbox):
            own = [each for each in self.outbox if each.receiver == name]
            failing = [each for each in own if each.attempts]
            if failing:
                attempts = max(each.attempts for each in failing)
                yield (
                    f"{name} did not accept a message {attempts:,} times"
                    f" ({failing[0].problem}); {len(own):,} wait"
                )

    def _send_or_hold(
        self, receiver: Receiver, message: Message, configuration: Configuration, now: datetime
    ) -> None:
        quiet = configuration.quiet_hours
        if receiver.is_quiet_at_night and quiet and quiet.hold_back(message.severity, now):
            self.held.setdefault(receiver.name, []).append(message)
        else:
            self._post(receiver.name, [message.incident_id], message)

    def _post(self, receiver: str, incidents: list[str], message: Message) -> None:
        self.last_number += 1
        self.outbox.append(Delivery(self.last_number, receiver, incidents, message))

    def as_json(self) -> dict[str, Any]:
        """What is saved."""
        return asdict(self)

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Book:
        """What was saved."""
        return cls(
            offsets={int(partition): offset for partition, offset in saved["offsets"].items()},
            incidents={name: Known(**known) for name, known in saved["incidents"].items()},
            outbox=[
                Delivery(**{**each, "message": Message(**each["message"])})
                for each in saved["outbox"]
            ],
            held={
                name: [Message(**each) for each in messages]
                for name, messages in saved["held"].items()
            },
            last_number=saved["last_number"],
            receiver_not_before=dict(saved["receiver_not_before"]),
            receiver_failures=dict(saved["receiver_failures"]),
        )


def backoff_s(attempts: int, configuration: Configuration) -> float:
    """How long to wait after so many failures in a row, in seconds."""
    doubled = configuration.first_retry_s * 2.0 ** min(attempts - 1, 60)
    return min(doubled, configuration.longest_retry_s)


def utc_now() -> datetime:
    """The time."""
    return datetime.now(UTC)


def _rank(severity: str) -> int:
    return SEVERITIES.index(severity) if severity in SEVERITIES else -1


def _known(event: Mapping[str, Any], state: str, before: Known | None, now: datetime) -> Known:
    """What is known of an incident after this event, before anybody is told."""
    severity = str(event["severity"])
    # What opens anew begins anew.
    goes_on = before is not None and (before.state == "open" or state != "open")
    if before and goes_on:
        severity = max(before.severity, severity, key=_rank)
    return Known(
        revision=int(event["revision"]),
        state=state,
        severity=severity,
        seen_at=now.timestamp(),
        open_since=before.open_since if before and goes_on else now.timestamp(),
        told_severity=before.told_severity if before and goes_on else "",
        followers=dict(before.followers) if before and goes_on else {},
    )


def _news(
    known: Known,
    was: str,
    event: Mapping[str, Any],
    configuration: Configuration,
    now: datetime,
    marks: Marks,
) -> list[tuple[Receiver, Message]]:
    """What is to be told to whom; `known` says then that it was. `was` is the state before."""
    known.muted_event = None
    if known.state != "open":
        return _end(known, was, event, configuration)
    muted_until = marks.muted_until(event, now)
    if muted_until is not None:
        # What could not be told later must not be kept.
        message_of(event, "opened", "", configuration.report_url)
        known.muted_event, known.muted_until = dict(event), muted_until
        return []
    incident = {**event, "severity": known.severity}
    severity, scope = known.severity, str(event["scope"])
    # Who sees to it is not called again, unless it becomes critical; its rise stays untold.
    may_rise = severity == "critical" or (
        marks.acknowledged_at.get(str(event["event_id"]), 0.0) < known.open_since
    )
    news = []
    for receiver in configuration.receivers:
        heard = known.followers.get(receiver.name, "")
        before = heard or known.told_severity
        change = "worse" if before and _rank(severity) > _rank(before) else "opened"
        if (change == "opened" and heard) or (change == "worse" and not may_rise):
            continue
        # Who follows it goes on to, though it may lie elsewhere by now.
        if not receiver.takes(severity, scope) and not (heard and severity in receiver.severities):
            continue
        known.followers[receiver.name] = severity
        if change in receiver.changes:
            before = before if change == "worse" else ""
            message = message_of(incident, change, before, configuration.report_url)
            news.append((receiver, message))
    if may_rise or not known.told_severity:
        known.told_severity = severity
    return news


def _end(
    known: Known, was: str, event: Mapping[str, Any], configuration: Configuration
) -> list[tuple[Receiver, Message]]:
    """Tell those who heard of it that it is over, or that it never was one to alarm of."""
    change = "closed" if known.state == "closed" else "withdrawn"
    is_over_already = was == "closed" and known.state != "withdrawn"
    news = []
    for receiver in configuration.receivers:
        heard = known.followers.get(receiver.name)
        if heard and change in receiver.changes and not is_over_already:
            # As severe as it heard: Alertmanager knows an alert by its labels.
            incident = {**event, "severity": heard}
            news.append((receiver, message_of(incident, change, "", configuration.report_url)))
    if change == "withdrawn":
        known.followers = {}
    return news
