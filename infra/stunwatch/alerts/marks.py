"""What people said of incidents: which names are muted, which incidents somebody sees to.

`stunwatch incident` writes it, ClickHouse keeps it, the alert service honours it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from stunwatch.clickhouse import as_user
from stunwatch.errors import UserError
from stunwatch.settings import Settings

PATIENCE_S = 3.0
"""ClickHouse answers in milliseconds; an alarm does not wait for one that hangs."""

WHERE_THE_FAULT_LIES = {
    "vm": ("host", "device", "datastore"),
    "host": ("host",),
    "device": ("device", "datastore"),
}
"""By scope: the kinds of names that an incident is muted by. What is wider is about storage."""


@dataclass(frozen=True)
class Mute:
    """Names that alarm nobody for a while; an empty one is none."""

    host: str
    device: str
    datastore: str
    expires_at: float
    """Epoch seconds."""

    def covers(self, kind: str, name: str) -> bool:
        """Whether it mutes this host, device or datastore."""
        muted, name = str(getattr(self, kind)).casefold(), name.casefold()
        if kind == "host" and ("." in muted) != ("." in name):
            # esx1 and esx1.lab.example are one.
            return muted.partition(".")[0] == name.partition(".")[0]
        return muted == name != ""


@dataclass(frozen=True)
class Marks:
    """Everything that was said and holds."""

    mutes: tuple[Mute, ...] = ()
    acknowledged_at: Mapping[str, float] = field(default_factory=dict)
    """By incident_id: when somebody last said that he sees to it, in epoch seconds."""

    def muted_until(self, incident: Mapping[str, Any], now: datetime) -> float | None:
        """Until when everything that an incident is about is muted, in epoch seconds.

        None where something of it is not muted: who muted one LUN hears of the array still.
        """
        ends = [
            min(found)
            for kind in _kinds(incident)
            if (found := [self._end_of(kind, name) for name in incident[f"{kind}s"]])
        ]
        return max((end for end in ends if end > now.timestamp()), default=None)

    def _end_of(self, kind: str, name: str) -> float:
        """When the last mute of a name expires; the past where there is none."""
        ends = [each.expires_at for each in self.mutes if each.covers(kind, name)]
        return max(ends, default=0.0)


def _kinds(incident: Mapping[str, Any]) -> tuple[str, ...]:
    """The kinds of names by which this incident can be muted: one of them in full is enough."""
    if kinds := WHERE_THE_FAULT_LIES.get(incident["scope"]):
        return kinds
    # A datastore stands for one of the LUNs, not for those whose datastore is not known.
    if len(incident["datastores"]) >= len(incident["devices"]):
        return ("device", "datastore")
    return ("device",)


def read_marks(settings: Settings) -> Marks:
    """What holds now.

    Raises:
        UserError: ClickHouse does not answer in time, or not as it should.
    """
    reader = as_user(settings, "reader", timeout_s=PATIENCE_S)
    try:
        mutes = reader.rows(
            "SELECT host, device, datastore, toUnixTimestamp64Milli(expires_at) / 1000"
            " FROM mutes WHERE is_active"
        )
        acknowledged = reader.rows(
            "SELECT incident_id, toUnixTimestamp64Milli(max(marked_at)) / 1000"
            " FROM incident_marks WHERE kind = 'ack' GROUP BY incident_id"
        )
    except (OSError, ValueError) as error:
        raise UserError(f"ClickHouse does not answer ({error}).") from error
    return Marks(tuple(Mute(*each) for each in mutes), dict(acknowledged))
