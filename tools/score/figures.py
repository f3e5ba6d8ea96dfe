"""Figures with their limits, and the mismatches that they count."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

EXAMPLES = 5
"""Number of examples to show for each kind of mismatch."""


@dataclass(frozen=True)
class Figure:
    """A number and its limit."""

    name: str
    value: float
    limit: float
    is_most: bool = False
    """True: the limit is a maximum. False: it is a minimum."""

    @property
    def is_met(self) -> bool:
        """Return True if the number is within its limit."""
        return self.value <= self.limit if self.is_most else self.value >= self.limit


@dataclass
class Section:
    """The result of comparing one view."""

    name: str
    figures: list[Figure] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    """Mismatches by kind."""
    examples: dict[str, list[Any]] = field(default_factory=dict)
    confusion: dict[str, Counter[str]] = field(default_factory=dict)
    """Causes: expected → found → count."""

    def at_least(self, name: str, value: float, limit: float = 1.0) -> None:
        """Add a share that must be at least `limit`."""
        self.figures.append(Figure(name, round(value, 6), limit))

    def at_most(self, name: str, value: float, limit: float = 0.0) -> None:
        """Add a number that must be at most `limit`."""
        self.figures.append(Figure(name, round(value, 6), limit, is_most=True))

    def mismatch(self, kind: str, **what: Any) -> None:
        """Count a mismatch, and keep the first few as examples."""
        self.counts[kind] += 1
        kept = self.examples.setdefault(kind, [])
        if len(kept) < EXAMPLES:
            kept.append(what)

    @property
    def is_met(self) -> bool:
        """Return True if every figure is within its limit."""
        return all(each.is_met for each in self.figures)


def share(part: int, of: int) -> float:
    """Return `part` / `of`; 1.0 if `of` is 0, because nothing was missed."""
    return part / of if of else 1.0


def macro_f1(confusion: dict[str, Counter[str]]) -> float:
    """Return the mean F1 over all classes that were expected or found."""
    found = {cause for row in confusion.values() for cause in row}
    scores = []
    for cause in confusion.keys() | found:
        row = confusion.get(cause, Counter())
        times_found = sum(each[cause] for each in confusion.values())
        scores.append(2 * row[cause] / (sum(row.values()) + times_found))
    return sum(scores) / len(scores) if scores else 1.0
