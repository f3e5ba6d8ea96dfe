"""Example lines with their expected records, shared by the tests of ingest."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from stunwatch.ingest.heads import HOST_FILE, PARSERS, VMWARE_LOG, WIRE, Families
from stunwatch.ingest.records import LineRecords, Origin

CASES = Path(__file__).parent / "cases"
FAMILIES = {
    "vmware_log": VMWARE_LOG,
    "host": HOST_FILE,
    "wire": WIRE,
    "relays": WIRE,
    "servers": WIRE,
}
WRITTEN_AT = datetime(2024, 6, 30, 12, tzinfo=UTC)
RECEIVED_AT = "2024-06-30T12:00:00Z"


@dataclass(frozen=True)
class Case:
    """A line, the kind of file it was found in, its pattern and its record."""

    found: str  # a key of FAMILIES
    shows: str
    line: str
    pattern: str
    record: dict[str, Any]
    arrived_at: str = ""

    @property
    def received_at(self) -> str:
        """Return the arrival: for a network line its own time, unless the case sets another."""
        return self.arrived_at or (
            self.record["event_time"]
            if self.families is WIRE and self.record["time_quality"] != "arrival"
            else RECEIVED_AT
        )

    @property
    def families(self) -> Families:
        return FAMILIES[self.found]

    def __str__(self) -> str:
        return f"{self.found}: {self.shows}"


def cases() -> list[Case]:
    return [
        Case(path.stem, **case)
        for path in sorted(CASES.glob("*.yaml"))
        for case in yaml.safe_load(path.read_text(encoding="utf-8"))
    ]


def examples() -> list[tuple[str, str]]:
    """Return (pattern, the example line above it in parsers.yaml)."""
    found = []
    line = ""
    for row in PARSERS.read_text(encoding="utf-8").splitlines():
        if row.startswith("  # > "):
            line = row.removeprefix("  # > ")
        elif row.startswith("  - name: "):
            found.append((row.removeprefix("  - name: "), line))
    return found


def maker(found: str = "host", written_at: datetime = WRITTEN_AT, **known: Any) -> LineRecords:
    """Return a maker for records of a file, or of the network if `found` is wire or relays."""
    if FAMILIES[found] is WIRE:
        origin = Origin(run_id="live", peer="192.0.2.1")
    else:
        source = "vmware_log" if found == "vmware_log" else "syslog"
        known = {"file": "a.log", "generation": "00000000", "source": source} | known
        origin = Origin(run_id="r1", **known)
    return LineRecords(origin, written_at=written_at)
