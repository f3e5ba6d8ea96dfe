"""Which LUN a datastore lies on, from one host's log.

Whatever happened to a path, a device or a volume: a line about it that names the device and the
datastore tells where the datastore lies. `stunwatch inventory load` tells more and is believed
first; this is what is known without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from detectors.catalogue import detector
from detectors.episodes import Episode, Episodes, Sighting
from detectors.events import event_id, timestamp
from detectors.records import is_continuation, verbatim

_DETECTOR = detector("volume_devices")
_LIMITS = _DETECTOR.thresholds
_HOUR = 3_600_000_000


@dataclass(frozen=True)
class Extent:
    """What these lines fill of schemas/inventory_item.v1."""

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


class Tracker(Episodes[Extent]):
    """The datastores and LUNs that lines of one host named together."""

    gap_us = _LIMITS["told_again_after_hours"] * _HOUR
    keep_us = _LIMITS["keep_hours"] * _HOUR

    def read(self, record: Mapping[str, Any]) -> Sighting | None:
        """The pair that a line names; None where it names no such pair, or several."""
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
        """What the lines say, from the first of them on."""
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
            datastore=datastore,
            evidence=episode.texts,
        )
