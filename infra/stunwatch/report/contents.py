"""What a report tells: the incident and the answers about it."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from stunwatch.clickhouse import ClickHouse
from stunwatch.errors import UserError
from stunwatch.report.questions import Answer, Row, ask

MARGIN = timedelta(minutes=30)
"""Shown before the incident and after it: what was usual, and whether it is over."""

SPOTS = 600
"""The drawing is so many spots wide; what falls on one spot is one row."""

QUESTIONS = (
    "stun_figures",
    "conflict_figures",
    "latency_figures",
    "host_figures",
    "stun_causes",
    "timeline_stuns",
    "timeline_latency",
    "timeline_episodes",
    "timeline_countdowns",
    "timeline_marks",
    "changes",
    "affected_hosts",
    "affected_devices",
    "affected_datastores",
    "affected_vms",
    "longest_stuns",
    "evidence",
)


@dataclass(frozen=True)
class Contents:
    """All that the page shows. `ended_at` is the last that is known of an incident that goes on."""

    incident: Row
    opened_at: datetime
    ended_at: datetime
    from_at: datetime
    until_at: datetime
    made_at: datetime
    answers: dict[str, Answer]

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.incident["closed_at"] is not None

    @property
    def step(self) -> timedelta:
        """The time that one spot of the drawing stands for."""
        return step_of(self.from_at, self.until_at)

    def rows(self, name: str) -> list[Row]:
        """The rows that answer one of QUESTIONS."""
        return self.answers[name].rows


def step_of(from_at: datetime, until_at: datetime) -> timedelta:
    """A whole number of seconds, so that SPOTS of them fill the time."""
    return timedelta(seconds=max(1, round((until_at - from_at).total_seconds() / SPOTS)))


def find(reader: ClickHouse, wanted: str) -> UUID:
    """The incident whose id begins so.

    Raises:
        UserError: there is none, or more than one.
    """
    beginning = wanted.strip().lower()
    if not re.fullmatch(r"[0-9a-f-]{1,36}", beginning):
        raise UserError(f"{wanted!r} is no incident's id; `stunwatch incident list` shows them.")
    found = reader.rows(
        "SELECT toString(incident_id) FROM incidents"
        " WHERE startsWith(toString(incident_id), {beginning:String})"
        " ORDER BY opened_at DESC LIMIT 5",
        {"beginning": beginning},
    )
    if not found:
        raise UserError(
            f"There is no incident whose id begins with {beginning};"
            " `stunwatch incident list --all` shows them."
        )
    if len(found) > 1:
        several = ", ".join(each for (each,) in found)
        raise UserError(
            f"Several incidents begin with {beginning}: {several}. Give more of its id."
        )
    return UUID(found[0][0])


def gather(reader: ClickHouse, incident_id: UUID, now: datetime) -> Contents:
    """Ask everything about an incident that there is. Raises QueryError."""
    about = ask(reader, "incident", {"incident": incident_id})
    incident = about.row
    opened_at: datetime = incident["opened_at"]
    ended_at = _end(incident, now)
    from_at, until_at = opened_at - MARGIN, ended_at + MARGIN
    values: dict[str, UUID | datetime | int] = {
        "incident": incident_id,
        "opened_at": opened_at,
        "from_at": from_at,
        "until_at": until_at,
        "step_s": int(step_of(from_at, until_at).total_seconds()),
    }
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda name: ask(reader, name, values), QUESTIONS))
    return Contents(
        incident=incident,
        opened_at=opened_at,
        ended_at=ended_at,
        from_at=from_at,
        until_at=until_at,
        made_at=now.astimezone(UTC),
        answers={each.name: each for each in (about, *answers)},
    )


def _end(incident: Row, now: datetime) -> datetime:
    """When it ended; of one that goes on: now where it is live, else when its last event ended."""
    known: list[datetime] = [incident["opened_at"]]
    if incident["closed_at"]:
        known.append(incident["closed_at"])
    elif incident["run_id"] == "live":
        known.append(now)
    else:
        known += filter(None, [incident["last_event_at"], incident["detected_at"]])
    return max(known)
