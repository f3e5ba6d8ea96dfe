"""The times of the lines that a replay sends: first and last, and when each host was seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from stunwatch.engine.owner import epoch_microseconds
from stunwatch.ingest.replay import BACKFILL, ESXTOP, Message

MOST_STRETCHES = 100_000
"""Maximum number of stretches that HostsSent keeps: 700 hosts in a day. They take 40 MB."""

STRETCH_LENGTH = len("2026-11-28T10:2")
"""Times of the same ten minutes begin with the same text, as in HostsSeen.java."""


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


class HostsSent:
    """Collects when each host was seen: the ten minutes in which it wrote syslog or samples.

    Lines of vmware.log do not count, as in `_SEEN` in incidents_of_history.py: it reads the same
    from ClickHouse once the lines are stored.
    """

    def __init__(self, most: int = MOST_STRETCHES) -> None:
        self._most = most
        self._times: dict[tuple[str, str], tuple[str, str]] = {}
        """By host and ten minutes: the first and the last event time."""
        self.is_complete = True
        """False if there were more than `most` stretches. They are then forgotten."""

    def look(self, messages: Sequence[Message]) -> None:
        """Update from all messages of a list."""
        if not self.is_complete:
            return
        times = self._times
        for topic, _, record in messages:
            is_of_host = topic == ESXTOP or (topic == BACKFILL and record["source"] == "syslog")
            if is_of_host and record["kind"] == "line" and (host := record.get("host")):
                # Without its "Z", because "10.5Z" as text is before "10Z".
                moment = record["event_time"][:-1]
                stretch = host, moment[:STRETCH_LENGTH]
                first, last = times.get(stretch, (moment, moment))
                times[stretch] = min(first, moment), max(last, moment)
        if len(times) > self._most:
            self.is_complete = False
            times.clear()

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield each stretch as ClickHouse shows it after the lines are stored.

        `seen_us` and `last_us` are µs since 1970.
        """
        for (host, _), (first, last) in self._times.items():
            yield {
                "host": host,
                "seen_us": epoch_microseconds(first + "Z"),
                "last_us": epoch_microseconds(last + "Z"),
            }
