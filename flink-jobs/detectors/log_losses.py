"""Losses of lines that the logs themselves tell: the rows of two detectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class LogLoss:
    """One row that goes into the view `quality_events`, except `detected_at`."""

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
