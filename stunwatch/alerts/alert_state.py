"""The alert state: known incidents, messages to deliver, and offsets of the topic.

The whole state is saved at once: an event of the topic counts as read once its effects are saved.
This module does not use the clock, the network or files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from stunwatch.alerts.configuration import SEVERITIES, Configuration, Receiver
from stunwatch.alerts.marks import Marks
from stunwatch.alerts.messages import Message, digest_of, message_of
from stunwatch.incidents.wording import counted

NO_MARKS = Marks()

OLD_AFTER = timedelta(days=1)
"""An incident that was visible this long before its event was written comes from an old file."""

LATE_AFTER = timedelta(minutes=15)
"""An incident that was visible this long before its event was written comes from a backlog:
detection did not run, or a relay kept the lines."""

LATE_WAIT_S = 120.0
"""How long a late incident waits for its end, which may be in the same backlog, before a message
about it is sent."""

FORGOTTEN_AFTER_S = 8 * 24 * 3600
"""Closed incidents are dropped after this time. It exceeds the topic's retention, so that no new
event of such an incident can arrive.
"""


@dataclass
class Known:
    """An incident and the messages that were sent about it."""

    revision: int
    state: str
    """open, noted, closed or withdrawn."""
    severity: str
    """The highest since it opened."""
    seen_at: float
    """Epoch seconds."""
    open_since: float
    """When it opened, in epoch seconds. Earlier acknowledgements no longer count."""
    told_severity: str = ""
    """The highest severity sent to any receiver since it opened."""
    followers: dict[str, str] = field(default_factory=dict)
    """The receivers that were notified, with the highest severity sent to each. They are notified
    when it closes, even if its scope has changed."""
    muted_event: dict[str, Any] | None = None
    """Its last event, while it is muted."""
    muted_until: float = 0.0
    """When the mutes expire. Epoch seconds."""
    is_old: bool = False
    """Whether it comes from an old file. If so, no messages are sent."""
    late_event: dict[str, Any] | None = None
    """Its last event, while it waits for its end because it is late."""
    late_until: float = 0.0
    """When this wait ends. Epoch seconds."""


@dataclass
class Delivery:
    """A message to deliver to one receiver."""

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
class AlertState:
    """The whole state of the service."""

    offsets: dict[int, int] = field(default_factory=dict)
    """The next offset to read, by partition."""
    incidents: dict[str, Known] = field(default_factory=dict)
    outbox: list[Delivery] = field(default_factory=list)
    """In the order in which they were created."""
    held: dict[str, list[Message]] = field(default_factory=dict)
    """By receiver: messages that wait for the end of the quiet hours."""
    last_number: int = 0
    receiver_not_before: dict[str, float] = field(default_factory=dict)
    """When a receiver is tried again after a failure. Epoch seconds."""
    receiver_failures: dict[str, int] = field(default_factory=dict)
    """Consecutive failures, by receiver."""

    def take(
        self,
        event: Mapping[str, Any],
        configuration: Configuration,
        now: datetime,
        marks: Marks = NO_MARKS,
        written_at: datetime | None = None,
    ) -> None:
        """Apply an event of the topic and create the messages about it.

        `written_at` is when the event was written to the topic; by default at its detection.
        """
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
        known.is_old = before.is_old if before else _is_old(event, written_at)
        if known.is_old:
            self.incidents[incident_id] = known
            return
        is_late = before.late_event is not None if before else _is_late(event, written_at)
        if is_late and state == "open":
            # Raises if the event cannot become a message later.
            message_of(event, "opened", "", configuration.report_url)
            known.late_event = dict(event)
            known.late_until = before.late_until if before else now.timestamp() + LATE_WAIT_S
            self.incidents[incident_id] = known
            return
        is_unknown = not before and not is_late
        if is_unknown and state == "closed" and marks.muted_until(event, now) is None:
            # It closed before a message about its opening was sent.
            known.followers = {
                each.name: known.severity
                for each in configuration.receivers
                if each.takes(known.severity, str(event["scope"]))
            }
        was = before.state if before else ""
        news = _news(known, was, event, configuration, now, marks)
        # Store it only now: an event that violates its schema must change nothing.
        self.incidents[incident_id] = known
        for receiver, message in news:
            self._send_or_hold(receiver, message, configuration, now)

    def end_waits(self, configuration: Configuration, now: datetime, marks: Marks) -> bool:
        """Create messages for late incidents that are still open; return whether there are any."""
        due = [
            each
            for each in self.incidents.values()
            if each.late_event is not None and each.late_until <= now.timestamp()
        ]
        for known in due:
            event, known.late_event = known.late_event or {}, None
            for receiver, message in _news(known, known.state, event, configuration, now, marks):
                self._send_or_hold(receiver, message, configuration, now)
        return bool(due)

    def has_late(self, now: datetime) -> bool:
        """True if the wait of a late incident has ended."""
        return any(
            each.late_event is not None and each.late_until <= now.timestamp()
            for each in self.incidents.values()
        )

    def has_muted(self) -> bool:
        """True if any incident is muted."""
        return any(each.muted_event for each in self.incidents.values())

    def end_mutes(self, configuration: Configuration, now: datetime, marks: Marks | None) -> bool:
        """Create messages for incidents whose mutes ended; return whether the state changed.

        `marks` is None if ClickHouse does not answer. Mutes then end at their expiry time.
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
        """Combine held messages into one for each receiver whose quiet hours are over."""
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
        """Return the deliveries to attempt now: at most one per receiver.

        Messages about one incident keep their order; messages about other incidents do not wait for
        them. After a failure of a receiver there is a pause.
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
        """Remove a delivery that was accepted."""
        self.outbox.remove(delivery)
        self.receiver_failures.pop(delivery.receiver, None)
        self.receiver_not_before.pop(delivery.receiver, None)

    def failed(
        self, delivery: Delivery, problem: str, configuration: Configuration, now: datetime
    ) -> float:
        """Record a failed delivery; return the seconds until the next attempt."""
        delivery.attempts += 1
        delivery.problem = problem
        failures = self.receiver_failures.get(delivery.receiver, 0) + 1
        self.receiver_failures[delivery.receiver] = failures
        delivery.not_before = now.timestamp() + backoff_s(delivery.attempts, configuration)
        wait_s = backoff_s(failures, configuration)
        self.receiver_not_before[delivery.receiver] = now.timestamp() + wait_s
        return wait_s

    def forget(self, configuration: Configuration, now: datetime) -> list[str]:
        """Drop old incidents, and messages of removed receivers; return these receivers."""
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
        """Yield a sentence for each receiver that does not accept messages."""
        for name in dict.fromkeys(each.receiver for each in self.outbox):
            own = [each for each in self.outbox if each.receiver == name]
            failing = [each for each in own if each.attempts]
            if failing:
                attempts = max(each.attempts for each in failing)
                yield (
                    f"{name} did not accept a message after {counted(attempts, 'attempt')}"
                    f" ({failing[0].problem});"
                    f" messages waiting: {len(own):,}"
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
        """Return the value to save."""
        return asdict(self)

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> AlertState:
        """Restore the state from a saved value."""
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
    """Return the pause after this many consecutive failures, in seconds."""
    doubled = configuration.retry.first_seconds * 2.0 ** min(attempts - 1, 60)
    return min(doubled, configuration.retry.longest_seconds)


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def _is_old(event: Mapping[str, Any], written_at: datetime | None) -> bool:
    return _delay(event, written_at) > OLD_AFTER


def _is_late(event: Mapping[str, Any], written_at: datetime | None) -> bool:
    return _delay(event, written_at) > LATE_AFTER


def _delay(event: Mapping[str, Any], written_at: datetime | None) -> timedelta:
    detected_at = datetime.fromisoformat(str(event["detected_at"]))
    return (written_at or detected_at) - detected_at


def _rank(severity: str) -> int:
    return SEVERITIES.index(severity) if severity in SEVERITIES else -1


def _known(event: Mapping[str, Any], state: str, before: Known | None, now: datetime) -> Known:
    """Return the state of an incident after this event, before messages are created."""
    severity = str(event["severity"])
    # A reopened incident starts with a new state.
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
    """Return the messages to send, and record them in `known`. `was` is the previous state."""
    known.muted_event = None
    if known.state != "open":
        return _end(known, was, event, configuration)
    muted_until = marks.muted_until(event, now)
    if muted_until is not None:
        # Raises if the event cannot become a message later.
        message_of(event, "opened", "", configuration.report_url)
        known.muted_event, known.muted_until = dict(event), muted_until
        return []
    incident = {**event, "severity": known.severity}
    severity, scope = known.severity, str(event["scope"])
    # An acknowledged incident sends no rise in severity, except to critical.
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
        # A notified receiver stays notified, even if the scope has changed.
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
    """Return messages for notified receivers: the incident closed or was withdrawn."""
    change = "closed" if known.state == "closed" else "withdrawn"
    is_over_already = was == "closed" and known.state != "withdrawn"
    news = []
    for receiver in configuration.receivers:
        heard = known.followers.get(receiver.name)
        if heard and change in receiver.changes and not is_over_already:
            # Use the severity last sent to this receiver: Alertmanager identifies an alert by its
            # labels.
            incident = {**event, "severity": heard}
            news.append((receiver, message_of(incident, change, "", configuration.report_url)))
    if change == "withdrawn":
        known.followers = {}
    return news
