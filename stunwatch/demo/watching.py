"""Tracks the rows of the live scenario in the views, and formats each as a sentence once.

The module gets rows and times as arguments, and reads neither the clock nor a database.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from rich.text import Text

from stunwatch.demo.scenario import Scenario, stamp
from stunwatch.incidents.configuration import BAD_STUN_US

SHOWN_CHARACTERS = 72
"""Characters of a line's message that are shown."""

_STYLES = {"critical": "bold red", "warning": "yellow", "notice": "cyan"}


class LineRow(NamedTuple):
    """A row of `log_lines`."""

    event_time: str
    name: str
    """The VM or the host."""
    program: str
    message: str


class StunRow(NamedTuple):
    """A row of `stuns`."""

    vm: str
    ended_at: str
    duration_us: int
    severity: str
    cause: str


class IncidentRow(NamedTuple):
    """A row of `incidents` that contains an event of this run."""

    incident_id: str
    opened_at: str
    detected_at: str
    severity: str
    stuns: int
    """The number of stuns of this run."""
    verdict: str
    first_step: str


@dataclass
class Watching:
    """The stuns that were sent, and the rows that the views have shown."""

    scenario: Scenario
    started_at: datetime
    """When the first line was sent."""
    sent: dict[tuple[str, str], datetime] = field(default_factory=dict)
    """When the line of each stun was sent, by (VM, end of the stun)."""
    delays_s: dict[tuple[str, str], float] = field(default_factory=dict)
    """For each stun in the view: seconds from sending the line to the row in the view."""
    incident: IncidentRow | None = None
    """The newest row."""
    _shown: set[LineRow] = field(default_factory=set)

    def stun_sent(self, vm: str, ended_at: datetime, sent_at: datetime) -> None:
        """Record when a line that ends a stun was sent. `ended_at` is the line's timestamp."""
        self.sent[vm, stamp(ended_at)] = sent_at

    def lines(self, rows: Sequence[LineRow]) -> Iterator[Text]:
        """Yield the lines that are in the view for the first time."""
        for each in rows:
            if each in self._shown:
                continue
            self._shown.add(each)
            message = each.message
            if len(message) > SHOWN_CHARACTERS:
                message = f"{message[: SHOWN_CHARACTERS - 1]}…"
            yield Text(
                f"  {_clock(each.event_time)}  {each.name:<10}  {each.program:<8}  {message}"
            )

    def stuns(self, rows: Sequence[StunRow], now: datetime) -> Iterator[Text]:
        """Yield the stuns that are in the view for the first time, with their delays."""
        for each in rows:
            key = (each.vm, stamp(read_time(each.ended_at)))
            if key not in self.sent or key in self.delays_s:
                continue
            delay_s = self.delays_s[key] = max(0.0, (now - self.sent[key]).total_seconds())
            yield Text.assemble(
                ("✓ stun      ", "green"),
                f"{each.vm} stunned for {each.duration_us / 1e6:.3f} s (",
                (each.severity, _STYLES.get(each.severity, "")),
                f", {each.cause}): in the view {delay_s:.1f} s after its line was sent",
            )

    def incidents(self, rows: Sequence[IncidentRow], now: datetime) -> Iterator[Text]:
        """Yield the opening of the incident. Later calls only store its newest row."""
        for each in rows[:1]:
            is_first, self.incident = self.incident is None, each
            if not is_first:
                continue
            name = f"{each.incident_id[:8]} ({each.severity})"
            if read_time(each.detected_at) < self.started_at:
                said = f"{name} is open since {each.opened_at[:19]} UTC; this run belongs to it"
            else:
                delay_s = max(0.0, (now - read_time(each.detected_at)).total_seconds())
                said = f"{name} opened: in the view {delay_s:.1f} s after the line that opened it"
            yield Text.assemble(("✓ incident  ", "green"), said)

    @property
    def has_seen_lines(self) -> bool:
        """Return True if any line is in the view."""
        return bool(self._shown)

    @property
    def has_seen_all_lines(self) -> bool:
        """Return True if every line of the scenario is in the view."""
        return len(self._shown) >= len(self.scenario.lines)

    @property
    def has_seen_all_stuns(self) -> bool:
        """Return True if every stun that was sent is in the view."""
        return len(self.delays_s) == len(self.sent)

    @property
    def has_seen_incident(self) -> bool:
        """Return True if the incident is in the view, with every long stun of this run."""
        long = sum((each.stun_us or 0) >= BAD_STUN_US for each in self.scenario.lines)
        return self.incident is not None and self.incident.stuns >= long

    def missing(self) -> list[str]:
        """Return what was sent and is not in a view."""
        found = [
            f"the stun of {vm} that ended at {_clock(ended_at)} UTC"
            for vm, ended_at in self.sent
            if (vm, ended_at) not in self.delays_s
        ]
        return found if self.incident else [*found, "the incident"]


def read_time(text: str) -> datetime:
    """Parse a view's UTC time: `2026-11-23 08:09:10.123`."""
    return datetime.fromisoformat(text.rstrip("Z")).replace(tzinfo=UTC)


def _clock(text: str) -> str:
    """Return `08:09:10.123` of a time."""
    return text[11:23]
