"""Errors in detectors: a detector that fails loses its state of one key, and the job continues.

The record that was being processed goes to `esxi.rejected` with the name of the error. If a
detector fails repeatedly for one key, only the first few records are rejected and the others are
counted (metric `detector_failures`). Plain Python, no Flink.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from stunwatch.detectors.events import timestamp

REJECTED_TOPIC: Final = "esxi.rejected"

CORRELATOR: Final = "incidents"
"""The name of the correlator where detectors are named."""

WINDOW_MS: Final = 600_000
REJECTED_OF_A_KEY: Final = 10
"""Most rejected records of one key and detector per window."""
REJECTED_OF_ALL: Final = 1000
"""Most rejected records of all keys together per window and subtask."""

LONGEST_LINE: Final = 16_384
"""Characters of a line that are kept; the whole line is in its own topic. With every character
escaped, this is a tenth of the maximum size of a Kafka message."""

_OWN_FIELDS = ("host", "vm", "datastore", "file", "generation", "offset")
_SOURCES = frozenset({"syslog", "vmware_log", "esxtop"})


@dataclass(frozen=True)
class Failure:
    """An error in a detector. `record` was being processed; None if a timer caused the error."""

    detector: str
    error: Exception
    record: Mapping[str, Any] | None

    @property
    def reason(self) -> str:
        """As in rejected_lines. quality_events recognises a failed detector by this prefix."""
        return f"detector {self.detector} failed: {type(self.error).__name__}"


class Limit:
    """Limits how many failures are written. Its own state is bounded, too."""

    def __init__(self) -> None:
        self._window = -1
        self._written: Counter[tuple[str, str]] = Counter()

    def takes(self, key: str, detector: str, now_ms: int) -> bool:
        """True if this failure is to be written; it then counts towards the limit."""
        if now_ms // WINDOW_MS != self._window:
            self._window = now_ms // WINDOW_MS
            self._written.clear()
        if (
            self._written[key, detector] >= REJECTED_OF_A_KEY
            or self._written.total() >= REJECTED_OF_ALL
        ):
            return False
        self._written[key, detector] += 1
        return True


def rejected_line(failure: Failure, key: str, now_ms: int) -> str:
    """Return a message for esxi.rejected (schemas/rejected_line.v1). `key` is the log key."""
    record = failure.record or {}
    source = record.get("source")
    line = f"{record.get('head') or ''}{record.get('message') or ''}"
    message = {
        "received_at": timestamp(now_ms * 1000),
        "source": source if source in _SOURCES else "unknown",
        **{name: record[name] for name in _OWN_FIELDS if record.get(name) not in (None, "")},
        "run_id": record.get("run_id") or "live",
        "line": line[:LONGEST_LINE],
        "reason": failure.reason,
    }
    if not line:
        # No line: a timer fired, or a source had ended.
        message["file"] = key or "unknown"
    if message.get("offset", 0) < 0:
        del message["offset"]
    if len(line) > LONGEST_LINE:
        message["truncated"] = True
    # json instead of orjson, which raises an error for half of a surrogate pair.
    return json.dumps(message)
