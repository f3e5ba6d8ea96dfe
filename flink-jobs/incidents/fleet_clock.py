"""The event time of the fleet, by which live incidents close and are forgotten."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FAST_CLOCK_US: Final = 5_000_000
"""How far event times may advance the clock beyond the wall clock."""

FIRST_HOST_US: Final = 3_000_000
"""How long a new clock waits for the first host before events set it. A site may have no syslog."""


@dataclass
class FleetClock:
    """The time of the newest line of any host, plus the wall-clock time that passed since.

    If lines arrive on time, it shows the present. While the job reads a backlog, for example after
    hours without detection, it shows the time of the lines that it reads. So an incident of that
    time closes as if its lines had been read on time. Time without a running job does not count.

    A `wall_us` is the wall-clock time in microseconds since 1970.
    """

    shown_us: int = 0
    """What it showed last. 0 until a line was seen."""
    is_set_by_hosts: bool = False
    """False until the first line of a host. Until then events set it."""
    wall_us: int = 0
    """When it showed that."""
    began_us: int = 0
    """When it was created or restored, by the wall clock."""
    newest_event_us: int = 0
    """The newest event, until it sets the clock."""

    def start(self, wall_us: int) -> None:
        """Continue after a start of the job."""
        self.wall_us = self.began_us = wall_us

    def see_host(self, event_time_us: int, wall_us: int) -> None:
        """Advance to the time of a host's line."""
        if not self.is_set_by_hosts:
            self.is_set_by_hosts, self.shown_us = True, 0
        self._advance(event_time_us, wall_us)

    def see_event(self, event_time_us: int, wall_us: int) -> None:
        """Advance to the time of an event, if no host has ever set the clock."""
        self.newest_event_us = max(self.newest_event_us, event_time_us)
        self._advance_to_events(wall_us)

    def time_us(self, wall_us: int) -> int:
        """Return the event time of the fleet; 0 until a line was seen."""
        self._advance_to_events(wall_us)
        if not self.shown_us:
            return 0
        return min(self.shown_us + max(0, wall_us - self.wall_us), wall_us + FAST_CLOCK_US)

    def _advance_to_events(self, wall_us: int) -> None:
        is_late = wall_us >= self.began_us + FIRST_HOST_US
        if self.newest_event_us and is_late and not self.is_set_by_hosts:
            newest_us, self.newest_event_us = self.newest_event_us, 0
            self._advance(newest_us, wall_us)

    def _advance(self, event_time_us: int, wall_us: int) -> None:
        latest_us = min(event_time_us, wall_us + FAST_CLOCK_US)
        self.shown_us = max(self.time_us(wall_us), latest_us)
        self.wall_us = wall_us
