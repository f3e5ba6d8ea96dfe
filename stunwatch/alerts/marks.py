"""Annotations of incidents by users: silenced names and acknowledged incidents.

`stunwatch incident` writes them, ClickHouse stores them, the alert service applies them.
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
"""Timeout for ClickHouse. It usually answers in milliseconds; alerts must not wait if it hangs."""

WHERE_THE_FAULT_LIES = {
    "vm": ("host", "device", "datastore"),
    "host": ("host",),
    "device": ("device", "datastore"),
}
"""The kinds of names that mute an incident, by scope. Wider scopes are about storage."""


@dataclass(frozen=True)
class Mute:
    """A silence of names until a time. An empty name matches nothing."""

    host: str
    device: str
    datastore: str
    expires_at: float
    """Epoch seconds."""

    def covers(self, kind: str, name: str) -> bool:
        """True if this mute covers the host, device or datastore."""
        muted, name = str(getattr(self, kind)).casefold(), name.casefold()
        if kind == "host" and ("." in muted) != ("." in name):
            # esx1 and esx1.lab.example are the same host.
            return muted.partition(".")[0] == name.partition(".")[0]
        return muted == name != ""


@dataclass(frozen=True)
class Marks:
    """All current silences and acknowledgements."""

    mutes: tuple[Mute, ...] = ()
    acknowledged_at: Mapping[str, float] = field(default_factory=dict)
    """By incident_id: the last acknowledgement, in epoch seconds."""

    def muted_until(self, incident: Mapping[str, Any], now: datetime) -> float | None:
        """Return until when all names of an incident are muted, in epoch seconds.

        None if one of them is not muted: a mute of one LUN does not mute its array.
        """
        ends = [
            min(found)
            for kind in _kinds(incident)
            if (found := [self._end_of(kind, name) for name in _names(incident, kind)])
        ]
        return max((end for end in ends if end > now.timestamp()), default=None)

    def _end_of(self, kind: str, name: str) -> float:
        """Return when the last mute of a name expires; 0 without a mute."""
        ends = [each.expires_at for each in self.mutes if each.covers(kind, name)]
        return max(ends, default=0.0)


def _kinds(incident: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the kinds of names that can mute this incident: all names of one kind suffice."""
    if kinds := WHERE_THE_FAULT_LIES.get(incident["scope"]):
        return kinds
    # A datastore covers one LUN, but not LUNs whose datastore is unknown.
    if len(incident["datastores"]) >= len(_names(incident, "device")):
        return ("device", "datastore")
    return ("device",)


def _names(incident: Mapping[str, Any], kind: str) -> list[str]:
    """Return the names of a kind. A LUN that is known only by a path has the path's name."""
    names = list(incident[f"{kind}s"])
    return names if names or kind != "device" else list(incident.get("paths", ()))


def read_marks(settings: Settings) -> Marks:
    """Read the current silences and acknowledgements.

    Raises:
        UserError: ClickHouse does not answer in time, or answers with an error.
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
        raise UserError(f"Cannot read silences from ClickHouse: {error}.") from error
    return Marks(tuple(Mute(*each) for each in mutes), dict(acknowledged))
