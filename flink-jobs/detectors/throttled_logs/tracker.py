"""Marks in the log of one virtual machine that report missing lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from stunwatch.detectors.catalogue import detector
from stunwatch.detectors.events import event_id, fullest_host, timestamp
from stunwatch.detectors.log_losses import LogLoss
from stunwatch.detectors.records import is_continuation, verbatim
from stunwatch.detectors.sessions import Episode, Sessions, Sighting

_DETECTOR = detector("throttled_logs")
_MINUTE = 60_000_000


@dataclass
class Tracker(Sessions[LogLoss]):
    """Tracks the throttled periods of one (datastore, vm)."""

    gap_us: ClassVar[int] = _DETECTOR.thresholds["gap_minutes"] * _MINUTE
    keep_us: ClassVar[int] = _DETECTOR.thresholds["keep_minutes"] * _MINUTE

    host: str = ""

    def read(self, record: Mapping[str, Any]) -> Sighting | None:
        """Parse a mark; its key is the virtual machine."""
        if is_continuation(record) or not _DETECTOR.patterns["throttled"].search(record["message"]):
            return None
        self.host = fullest_host([self.host, record.get("host", "")])
        return Sighting(
            key=(record.get("datastore", ""), record.get("vm", "")),
            at_us=record["event_time_us"],
            offset=record.get("offset", -1),
            text=verbatim(record),
        )

    def row(self, key: tuple[str, ...], episode: Episode) -> LogLoss:
        """Return the event of a throttled period; `count` is its number of marks."""
        datastore, vm = key
        started_at = timestamp(episode.first_us)
        return LogLoss(
            event_id=event_id(_DETECTOR.name, *key, started_at),
            detector=_DETECTOR.name,
            revision=0,
            is_deleted=0,
            run_id="",
            kind="log_throttled",
            host=self.host,
            source="vmware_log",
            vm=vm,
            datastore=datastore,
            started_at=started_at,
            ended_at=timestamp(episode.last_us),
            count=episode.count,
            evidence=episode.texts,
        )
