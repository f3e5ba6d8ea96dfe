"""Compare the incidents of a simulated scenario with the expected ones.

A row of the view `incidents` is assigned to a scenario by its names: hosts, VMs and datastores
contain the name of their site.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from stunwatch.clickhouse import ClickHouse

Row = dict[str, Any]

DETECTED_WITHIN = timedelta(seconds=90)
CLOSED_WITHIN = timedelta(minutes=5)
EARLIER = timedelta(minutes=30)
"""An incident that opened longer before the start of a scenario belongs to an earlier night."""

KINDS = ("hosts", "devices", "datastores", "vms")
_COLUMNS = (
    "incident_id, opened_at, closed_at, detected_at, state, scope, severity, confidence, verdict,"
    " next_steps, hosts, devices, datastores, vms, stun_count, worst_stun_us, missing"
)


@dataclass
class Match:
    """An expected incident and the row that matches it."""

    true: Row
    row: Row

    @property
    def detected_after(self) -> timedelta:
        """The time from the first line that could show it to its detection."""
        return moment(self.row["detected_at"]) - moment(self.true["first_line_at"])

    @property
    def closed_after(self) -> timedelta | None:
        """The time from the end of its cause; None while it is open."""
        closed_at = self.row["closed_at"]
        return moment(closed_at) - moment(self.true["cause_ended_at"]) if closed_at else None

    @property
    def is_scope_right(self) -> bool:
        return self.row["scope"] in self.true["scopes"]

    @property
    def problems(self) -> list[str]:
        """Return the errors of the row, one sentence each."""
        return [*self._of_scope(), *self._of_names(), *self._of_times(), *self._of_steps()]

    def _of_scope(self) -> Iterable[str]:
        title, row = self.true["title"], self.row
        if not self.is_scope_right:
            yield f"{title}: wrong scope {row['scope']}, not {' or '.join(self.true['scopes'])}"
        if self.true["is_note"] and row["state"] != "noted":
            yield f"{title}: {row['state']}, and it is as usual"
        if not self.true["is_note"] and row["state"] == "noted":
            yield f"{title}: noted, and it is not usual"

    def _of_names(self) -> Iterable[str]:
        for kind in KINDS:
            least = set(self.true[kind]["least"])
            named, most = set(self.row[kind]), least | set(self.true[kind]["more"])
            if least - named:
                yield f"{self.true['title']}: {kind} lack {sorted(least - named)}"
            if named - most:
                yield f"{self.true['title']}: {kind} wrongly hold {sorted(named - most)}"

    def _of_times(self) -> Iterable[str]:
        title = self.true["title"]
        if self.detected_after > DETECTED_WITHIN:
            yield f"{title}: detected after {self.detected_after}"
        if self.closed_after is None and not self.true["is_note"]:
            yield f"{title}: never closed"
        elif self.closed_after is not None and abs(self.closed_after) > CLOSED_WITHIN:
            yield f"{title}: closed {self.closed_after} after its cause's end"

    def _of_steps(self) -> Iterable[str]:
        title, steps = self.true["title"], [each["step"] for each in self.row["next_steps"]]
        told = "\n".join(f"{each['step']} {each['because']}" for each in self.row["next_steps"])
        for wanted in self.true["next_steps"]:
            if not re.search(wanted, told, re.IGNORECASE):
                yield f"{title}: no next step says {wanted}: {steps}"
        for unwanted in self.true["no_next_steps"]:
            for step in steps:
                if re.search(unwanted, step, re.IGNORECASE) and not re.match(
                    "(?i)do not|no ", step
                ):
                    yield f"{title}: a next step says {unwanted}: {step}"


@dataclass
class Judgement:
    """The incidents of one scenario compared with the expected ones."""

    scenario: str
    site: str
    matches: list[Match] = field(default_factory=list)
    missing: list[Row] = field(default_factory=list)
    extra: list[Row] = field(default_factory=list)

    @property
    def wrong_scopes(self) -> list[Match]:
        return [each for each in self.matches if not each.is_scope_right]

    @property
    def problems(self) -> list[str]:
        """Return all errors, one sentence each."""
        found = [f"missing: {each['title']}" for each in self.missing]
        found += [
            f"one too many: {each['scope']}, {each['state']}: {each['verdict']}"
            for each in self.extra
        ]
        found += [problem for each in self.matches for problem in each.problems]
        return [f"{self.scenario} ({self.site}): {each}" for each in found]

    @property
    def figures(self) -> list[str]:
        """Return the times to detection and closing of each incident, one line each."""
        return [f"{self.scenario} ({self.site}): {_figure(each)}" for each in self.matches]


def _figure(match: Match) -> str:
    closed = match.closed_after
    return (
        f"{match.true['title']}: {match.row['scope']}, {match.row['state']};"
        f" detected after {match.detected_after.total_seconds():.0f} s;"
        f" {'never closed' if closed is None else f'closed after {closed.total_seconds():.0f} s'}"
    )


def moment(text: str) -> datetime:
    """Parse a time of truth.json or of ClickHouse."""
    return datetime.fromisoformat(text.removesuffix("Z").replace(" ", "T")[:26]).replace(tzinfo=UTC)


def rows_of(reader: ClickHouse) -> list[Row]:
    """Return all incidents."""
    return reader.named_rows(f"SELECT {_COLUMNS} FROM incidents ORDER BY opened_at, incident_id")


def belongs(row: Row, site: str) -> bool:
    """True if any name in the row contains that of the site."""
    own = re.compile(rf"(?<![0-9A-Za-z]){re.escape(site)}(?![0-9A-Za-z])")
    names = [name for kind in ("hosts", "datastores", "vms") for name in row[kind]]
    return any(own.search(name) for name in names)


def judge(true: Row, rows: Iterable[Row]) -> Judgement:
    """Compare a scenario's truth.json with its rows of the view; ignore other rows."""
    began = moment(true["started_at"]) - EARLIER
    own = [
        each for each in rows if belongs(each, true["name"]) and moment(each["opened_at"]) >= began
    ]
    judgement = Judgement(true["evening"], true["name"])
    # Required incidents choose their rows first.
    for incident in sorted(true["incidents"], key=lambda each: each["is_optional"]):
        best = max(own, key=lambda row: _nearness(incident, row), default=None)
        if best is not None and _nearness(incident, best) > (0, 0):
            judgement.matches.append(Match(incident, best))
            own.remove(best)
        elif not incident["is_optional"]:
            judgement.missing.append(incident)
    judgement.extra = own
    return judgement


def _nearness(true: Row, row: Row) -> tuple[float, float]:
    """Return the share of common names; then the distance of the starts in time."""
    shares = []
    for kind in ("devices", "datastores", "vms"):
        known = {*true[kind]["least"], *true[kind]["more"]}
        named = set(row[kind])
        if known and named:
            shares.append(len(known & named) / len(known | named))
    common = max(shares, default=0.0)
    if not shares:
        # Only hosts in common.
        common = len(set(true["hosts"]["least"]) & set(row["hosts"])) / 1000
    apart = abs((moment(true["cause_started_at"]) - moment(row["opened_at"])).total_seconds())
    return (common, 1 / (1 + apart))


def report(judgements: Sequence[Judgement]) -> str:
    """Return the errors, then the figures of all scenarios."""
    problems = [each for judgement in judgements for each in judgement.problems]
    figures = [each for judgement in judgements for each in judgement.figures]
    return "\n".join([f"{len(problems)} problems", *problems, "", *figures])
