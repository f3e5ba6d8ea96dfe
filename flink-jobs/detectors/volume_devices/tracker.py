"""The LUN of a datastore, from one host's log.

Any line about a path, a device or a volume that contains both the device and the datastore shows
where the datastore is. `stunwatch inventory load` provides more and has priority; this is the
fallback.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stunwatch.detectors.catalogue import detector
from stunwatch.detectors.events import event_id, timestamp
from stunwatch.detectors.records import is_continuation, verbatim
from stunwatch.detectors.sessions import Episode, Sessions, Sighting
from stunwatch.ingest.records import datastore_name

_DETECTOR = detector("volume_devices")
_LIMITS = _DETECTOR.thresholds
_HOUR = 3_600_000_000


@dataclass(frozen=True)
class Extent:
    """The fields of schemas/inventory_item.v1 that these lines contain."""

    event_id: str
    detector: str
    revision: int
    is_deleted: int
    run_id: str
    host: str
    kind: str
    told_by: str
    observed_at: str
    device: str
    partition: int | None
    datastore_uuid: str
    datastore: str
    evidence: list[str]


class Tracker(Sessions[Extent]):
    """Tracks datastores and LUNs that occur together in lines of one host."""

    gap_us = _LIMITS["told_again_after_hours"] * _HOUR
    keep_us = _LIMITS["keep_hours"] * _HOUR

    def read(self, record: Mapping[str, Any]) -> Sighting | None:
        """Parse the pair in a line. Return None if there is no such pair, or several."""
        if is_continuation(record):
            return None
        for pattern in _DETECTOR.patterns.values():
            match = pattern.match(record["message"])
            if match:
                said = match.groupdict()
                return Sighting(
                    key=(
                        record.get("host", ""),
                        said["device"],
                        said.get("partition") or "",
                        said.get("uuid") or "",
                        said["datastore"],
                    ),
                    at_us=record["event_time_us"],
                    offset=record.get("offset", -1),
                    text=verbatim(record),
                )
        return None

    def row(self, key: tuple[str, ...], episode: Episode) -> Extent:
        """Return the pair, observed from the time of the first line."""
        host, device, partition, uuid, datastore = key
        observed_at = timestamp(episode.first_us)
        return Extent(
            event_id=event_id(_DETECTOR.name, *key, observed_at),
            detector=_DETECTOR.name,
            revision=0,
            is_deleted=0,
            run_id="",
            host=host,
            kind="extent",
            told_by="log",
            observed_at=observed_at,
            device=device,
            partition=int(partition) if partition else None,
            datastore_uuid=uuid,
            datastore=datastore_name(datastore, host),
            evidence=episode.texts,
        )
