"""Says of an evening how its incidents differ from those that should have come out.

A row of the view `incidents` belongs to an evening by the names in it: hosts, VMs and datastores
carry the name of their site.
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
"""What opened longer before an evening began belongs to one of its earlier nights."""

KINDS = ("hosts", "devices", "datastores", "vms")
_COLUMNS = (
    "incident_id, opened_at, closed_at, detected_at, state, scope, severity, confidence, verdict,"
    " next_steps, hosts, devices, datastores, vms, stun_count, worst_stun_us, missing"
)


@dataclass
class Match:
    """An incident of the truth and the row that tells it."""

    true: Row
    row: Row

    @property
    def detected_after(self) -> timedelta:
        """From the first line that could show it."""
        return moment(self.row["detected_at"]) - moment(self.true["first_line_at"])

    @property
    def closed_after(self) -> timedelta | None:
        """From its cause's end; None while it is open."""
        closed_at = self.row["closed_at"]
        return moment(closed_at) - moment(self.true["cause_ended_at"]) if closed_at else None

    @property
    def is_scope_right(self) -> bool:
        return self.row["scope"] in self.true["scopes"]

    @property
    def problems(self) -> list[str]:
        """What is wrong with the row, a sentence each."""
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
    """One evening's incidents against its truth."""

    evening: str
    site: str
    matches: list[Match] = field(default_factory=list)
    missing: list[Row] = field(default_factory=list)
    extra: list[Row] = field(default_factory=list)

    @property
    def wrong_scopes(self) -> list[Match]:
        return [each for each in self.matches if not each.is_scope_right]

    @property
    def problems(self) -> list[str]:
        """Everything that is wrong, a sentence each."""
        found = [f"missing: {each['title']}" for each in self.missing]
        found += [
            f"one too many: {each['scope']}, {each['state']}: {each['verdict']}"
            for each in self.extra
        ]
        found += [problem for each in self.matches for problem in each.problems]
        return [f"{self.evening} ({self.site}): {each}" for each in found]

    @property
    def figures(self) -> list[str]:
        """How fast each incident was told and closed, a line each."""
        return [f"{self.evening} ({self.site}): {_figure(each)}" for each in self.matches]


def _figure(match: Match) -> str:
    closed = match.closed_after
    return (
        f"{match.true['title']}: {match.row['scope']}, {match.row['state']};"
        f" detected after {match.detected_after.total_seconds():.0f} s;"
        f" {'never closed' if closed is None else f'closed after {closed.total_seconds():.0f} s'}"
    )


def moment(text: str) -> datetime:
    """Of truth.json or of ClickHouse."""
    return datetime.fromisoformat(text.removesuffix("Z").replace(" ", "T")[:26]).replace(tzinfo=UTC)


def rows_of(reader: ClickHouse) -> list[Row]:
    """All incidents."""
    return reader.named_rows(f"SELECT {_COLUMNS} FROM incidents ORDER BY opened_at, incident_id")


def belongs(row: Row, site: str) -> bool:
    """Whether some name in the row carries the site's."""
    own = re.compile(rf"(?<![0-9A-Za-z]){re.escape(site)}(?![0-9A-Za-z])")
    names = [name for kind in ("hosts", "datastores", "vms") for name in row[kind]]
    return any(own.search(name) for name in names)


def judge(true: Row, rows: Iterable[Row]) -> Judgement:
    """An evening's truth.json against the rows of the view, whatever else these tell of."""
    began = moment(true["started_at"]) - EARLIER
    own = [
        each for each in rows if belongs(each, true["name"]) and moment(each["opened_at"]) >= began
    ]
    judgement = Judgement(true["evening"], true["name"])
    # The needed ones choose first.
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
    """How much of the names is common to both; then how near in time they began."""
    shares = []
    for kind in ("devices", "datastores", "vms"):
        known = {*true[kind]["least"], *true[kind]["more"]}
        named = set(row[kind])
        if known and named:
            shares.append(len(known & named) / len(known | named))
    common = max(shares, default=0.0)
    if not shares:
        # Nothing but hosts.
        common = len(set(true["hosts"]["least"]) & set(row["hosts"])) / 1000
    apart = abs((moment(true["cause_started_at"]) - moment(row["opened_at"])).total_seconds())
    return (common, 1 / (1 + apart))


def report(judgements: Sequence[Judgement]) -> str:
    """What is wrong, then the figures of all."""
    problems = [each for judgement in judgements for each in judgement.problems]
    figures = [each for judgement in judgements for each in judgement.figures]
    return "\n".join([f"{len(problems)} problems", *problems, "", *figures])
