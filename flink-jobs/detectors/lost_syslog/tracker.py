"""Messages that one host's syslog daemon says it could not send."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from detectors.catalogue import detector
from detectors.episodes import Episode, Episodes, Sighting
from detectors.events import event_id, fullest_host, timestamp
from detectors.log_losses import LogLoss
from detectors.records import is_continuation, verbatim
from ingest.records import owner_key

_DETECTOR = detector("lost_syslog")
_MINUTE = 60_000_000


@dataclass
class Tracker(Episodes[LogLoss]):
    """The losses of one host, by the server they were meant for."""

    gap_us: ClassVar[int] = _DETECTOR.thresholds["gap_minutes"] * _MINUTE
    keep_us: ClassVar[int] = _DETECTOR.thresholds["keep_minutes"] * _MINUTE

    host: str = ""

    def read(self, record: Mapping[str, Any]) -> Sighting | None:
        """A report of messages that were lost."""
        found = _DETECTOR.patterns["lost"].search(record["message"])
        if found is None or is_continuation(record) or int(found["count"]) == 0:
            return None
        self.host = fullest_host([self.host, record.get("host", "")])
        return Sighting(
            key=(owner_key(self.host), found["logger"]),
            at_us=record["event_time_us"],
            offset=record.get("offset", -1),
            text=verbatim(record),
            happenings=int(found["count"]),
        )

    def row(self, key: tuple[str, ...], episode: Episode) -> LogLoss:
        """The event of a run of reports; `count` is how many messages were lost."""
        started_at = timestamp(episode.first_us)
        return LogLoss(
            event_id=event_id(_DETECTOR.name, *key, started_at),
            detector=_DETECTOR.name,
            revision=0,
            is_deleted=0,
            run_id="",
            kind="gap",
            host=self.host,
            source="syslog",
            vm="",
            datastore="",
            started_at=started_at,
            ended_at=timestamp(episode.last_us),
            count=episode.count,
            evidence=episode.texts,
        )
