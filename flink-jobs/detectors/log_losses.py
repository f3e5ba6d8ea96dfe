"""The row shared by the two detectors of lost log lines that the logs themselves report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class LogLoss:
    """One row of the view `quality_events`, except `detected_at`."""

    event_id: str
    detector: str
    revision: int
    is_deleted: int
    run_id: str
    kind: Literal["log_throttled", "gap"]
    host: str
    source: Literal["syslog", "vmware_log"]
    vm: str
    datastore: str
    started_at: str
    ended_at: str
    count: int
    evidence: list[str]
