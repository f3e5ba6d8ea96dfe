"""The first and the last event time of the lines that a replay sends."""

from __future__ import annotations

from collections.abc import Sequence

from stunwatch.engine.owner import epoch_microseconds
from stunwatch.ingest.replay import Message


class EventSpan:
    """Collects the first and the last event time of lists of messages.

    This is an approximation: files are in order, so only the ends of each list are examined.
    """

    def __init__(self) -> None:
        self.first = ""
        self.last = ""

    def look(self, messages: Sequence[Message]) -> None:
        """Update from the first and the last message of a list. Rejected lines have no time."""
        for _, _, record in (*messages[:1], *messages[-1:]):
            if moment := record.get("event_time"):
                self._take(moment, moment)

    def merge(self, other: EventSpan) -> None:
        """Update from the span of another process."""
        if other.first:
            self._take(other.first, other.last)

    def _take(self, first: str, last: str) -> None:
        self.first = min(self.first or first, first)
        self.last = max(self.last, last)

    @property
    def span_us(self) -> tuple[int, int]:
        """Return (first, last) in µs since 1970; (0, 0) if no message had a time."""
        if not self.first:
            return 0, 0
        return epoch_microseconds(self.first), epoch_microseconds(self.last)
