"""The contents of a report: the incident and the results of queries about it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from stunwatch.clickhouse import ClickHouse
from stunwatch.report.questions import Answer, Row, ask
from stunwatch.short_ids import INCIDENT_IDS, the_one

MARGIN = timedelta(minutes=30)
"""Time shown before and after the incident, to compare with."""

SPOTS = 600
"""Width of the drawing in spots. Events on one spot are one row."""

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
    """All data of the page. `ended_at` of an open incident is the newest known time."""

    incident: Row
    opened_at: datetime
    ended_at: datetime
    from_at: datetime
    until_at: datetime
    made_at: datetime
    answers: dict[str, Answer]

    @property
    def is_over(self) -> bool:
        """Return True if the incident has ended."""
        return self.incident["closed_at"] is not None

    @property
    def step(self) -> timedelta:
        """Return the time span of one spot of the drawing."""
        return step_of(self.from_at, self.until_at)

    def rows(self, name: str) -> list[Row]:
        """Return the rows of one of QUESTIONS."""
        return self.answers[name].rows


def step_of(from_at: datetime, until_at: datetime) -> timedelta:
    """Return a whole number of seconds such that SPOTS of them cover the time."""
    return timedelta(seconds=max(1, round((until_at - from_at).total_seconds() / SPOTS)))


def find(reader: ClickHouse, typed: str) -> UUID:
    """Return the incident whose id starts with `typed`.

    Raises:
        UserError: no incident's id starts so, or several do.
    """
    listed_by = "stunwatch incident list --all"
    return UUID(the_one(reader, INCIDENT_IDS, typed, "incident", listed_by)["id"])


def gather(reader: ClickHouse, incident_id: UUID, now: datetime) -> Contents:
    """Run all queries about an incident. Raises QueryError."""
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
    """Return its end. If it is open: now for a live incident, else the end of its last event."""
    known: list[datetime] = [incident["opened_at"]]
    if incident["closed_at"]:
        known.append(incident["closed_at"])
    elif incident["run_id"] == "live":
        known.append(now)
    else:
        known += filter(None, [incident["last_event_at"], incident["detected_at"]])
    return max(known)
