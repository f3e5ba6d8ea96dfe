"""Compares results with the expected events of the corpus, one to one.

A found event counts once: if two match one expected event, one of them is a false signal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.corpus.cases import Case

Event = Mapping[str, Any]

IDENTIFYING = {
    "stun": ("vm", "ended_at", "duration_us"),
    "snapshot": ("vm", "kind", "started_at"),
    "reservation": ("host", "dialect", "device", "path", "datastore", "world_id", "started_at"),
    "latency": ("host", "device", "started_at"),
    "scsi": ("host", "device", "path", "opcode", "host_status", "device_status", "plugin_status"),
    "path": ("host", "kind", "device", "path", "datastore"),
    "quality": ("host", "kind"),
    "unmap": ("host", "volume"),
    "inventory": ("device", "datastore"),
}
"""The fields that identify an event, by type. Only those in the expected event are compared."""

JUDGED = {"stun": "cause", "snapshot": "outcome", "reservation": "outcome", "latency": "kind"}
"""The field of a matched event that is judged, by type: the cause or the outcome."""

TIME_WITHIN_SECONDS = 1.0
NUMBER_WITHIN = 0.01
"""Relative tolerance, because other tools may cut or round numbers."""


@dataclass
class Score:
    """Counts for one type of event, or for all."""

    true: int = 0
    found: int = 0
    matched: int = 0
    wrong: int = 0

    @property
    def precision(self) -> float:
        """Return the share of found events that are expected; 1 if nothing was found."""
        return self.matched / self.found if self.found else 1.0

    @property
    def recall(self) -> float:
        """Return the share of expected events that were found; 1 if there are none."""
        return self.matched / self.true if self.true else 1.0


@dataclass
class Report:
    """Scores by type, false signals by case, and cases without a result."""

    scores: dict[str, Score] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    false: Counter[str] = field(default_factory=Counter)
    false_on_quiet: Counter[str] = field(default_factory=Counter)
    unknown: list[str] = field(default_factory=list)

    @property
    def total(self) -> Score:
        """Return the sum of all types."""
        return Score(
            *(
                sum(getattr(each, name) for each in self.scores.values())
                for name in ("true", "found", "matched", "wrong")
            )
        )


def score(cases: Iterable[Case], results: Mapping[str, Sequence[Event]]) -> Report:
    """Score results by case id. A case without a result counts as a case without events."""
    report = Report({name: Score() for name in IDENTIFYING})
    known = {case.id: case for case in cases}
    report.unknown = sorted({*results} - {*known})
    for case in known.values():
        found = [each for each in results.get(case.id, ()) if each.get("type") in IDENTIFYING]
        pairs = matches(case.events, found)
        for number, true in enumerate(case.events):
            tally = report.scores[true["type"]]
            tally.true += 1
            if number not in pairs:
                report.missing.append(f"{case.id}: {true['type']}")
                continue
            tally.found += 1
            tally.matched += 1
            judged = JUDGED.get(true["type"], "")
            tally.wrong += judged in true and found[pairs[number]].get(judged) != true[judged]
        if case.missed:
            continue  # other events of these lines are not judged
        for number, extra in enumerate(found):
            if number not in pairs.values():
                report.scores[extra["type"]].found += 1
                report.false[case.id] += 1
                if not case.events:
                    report.false_on_quiet[case.id] += 1
    return report


def matches(true: Sequence[Event], found: Sequence[Event]) -> dict[int, int]:
    """Return the largest set of pairs: index of an expected event → index of a matching one."""
    taken: dict[int, int] = {}

    def place(number: int, tried: set[int]) -> bool:
        for at, each in enumerate(found):
            if at not in tried and fits(true[number], each):
                tried.add(at)
                if at not in taken or place(taken[at], tried):
                    taken[at] = number
                    return True
        return False

    for number in range(len(true)):
        place(number, set())
    return {number: at for at, number in taken.items()}


def fits(true: Event, found: Event) -> bool:
    """Return True if the identifying fields of a found event equal those of the expected one."""
    return found.get("type") == true["type"] and all(
        _equal(true[name], found.get(name)) for name in IDENTIFYING[true["type"]] if name in true
    )


def _equal(true: Any, found: Any) -> bool:
    if isinstance(true, int | float) and not isinstance(true, bool):
        is_number = isinstance(found, int | float) and not isinstance(found, bool)
        return is_number and abs(found - true) <= NUMBER_WITHIN * abs(true)
    moment, other = _moment(true), _moment(found)
    if moment is not None and other is not None:
        return abs((moment - other).total_seconds()) <= TIME_WITHIN_SECONDS
    return bool(true == found)


def _moment(text: Any) -> datetime | None:
    """Parse an RFC 3339 time with a zone; None for anything else."""
    if not isinstance(text, str) or len(text) < 20 or text[10:11] != "T":
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else None
