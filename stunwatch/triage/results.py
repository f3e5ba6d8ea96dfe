"""Prepares the results of `stunwatch triage` for the terminal, the page and JSON: worst first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from stunwatch.engine.owner import epoch_microseconds
from stunwatch.ingest.records import owner_key
from stunwatch.ingest.replay import Plan, Problem
from stunwatch.ingest.replay.sources import SEE_REJECTED
from stunwatch.triage.finding import Found, Row
from stunwatch.triage.reading import FileRead

SEVERITIES: Final = ("critical", "warning", "notice", "normal")
"""From the worst to the least."""

EVENTS: Final = {
    "stuns": "Stuns",
    "snapshot_operations": "Snapshot operations",
    "reservation_conflicts": "Reservation conflicts",
    "latency_episodes": "Latency episodes",
    "scsi_errors": "SCSI errors",
    "path_events": "Path events",
    "nfs_servers": "Outages of NFS servers",
    "unmap_runs": "UNMAP runs",
}
"""Views of events, with their names in the output."""

_OF_STORAGE: Final = frozenset({"revision", "is_deleted", "detector"})
"""Internal fields that are not shown."""

_LINES: Final = {
    "truncated": "Lines cut at 64 KiB",
    "unsearched": "Lines of more than 4,096 characters, which no detector reads",
    "year_inferred": "Lines whose timestamp has no year; --year sets it",
    "arrival": "Lines without a time of their own, stored under the file's time",
}
_LOST: Final = {
    "log_throttled": "Marks of a throttled log: lines are missing here",
    "gap": "Messages that a host could not send",
}


@dataclass(frozen=True)
class Quality:
    """A limitation of the results that the user should know."""

    kind: str
    count: int
    what: str
    example: str = ""


@dataclass(frozen=True)
class Results:
    """Everything that is shown."""

    seconds: float
    lines: int
    rejected: int
    samples: int
    files: list[FileRead]
    hosts: set[str]
    """Hosts named in lines or samples, and hosts of the logs."""
    first_at: datetime | None
    last_at: datetime | None
    rows: dict[str, list[Row]]
    """By view: stuns and incidents with the worst first, other events by time."""
    quality: list[Quality]
    left_out: list[Problem]
    """Paths that could not be read, or are not logs."""
    is_incomplete: bool
    """True if something could not be read, or if no file was a log."""
    skipped: list[str]
    """Files whose names and contents do not look like logs."""

    @property
    def stuns(self) -> list[Row]:
        """Return all stuns, the longest first."""
        return self.rows["stuns"]

    @property
    def incidents(self) -> list[Row]:
        """Return all incidents, the worst first."""
        return self.rows["incidents"]

    @property
    def logs(self) -> list[FileRead]:
        """Return the files from which lines were read."""
        return [each for each in self.files if each.lines > each.rejected]

    @property
    def vms(self) -> set[tuple[str, str]]:
        """Return datastore and name of the VMs whose logs were read."""
        return {(each.datastore or "", each.vm) for each in self.logs if each.vm}

    def as_json(self) -> dict[str, Any]:
        """Return the results for other programs. Rows have the fields of the pipeline's views."""
        return {
            "read": {
                "lines": self.lines,
                "rejected": self.rejected,
                "samples": self.samples,
                "files": [
                    {
                        "file": each.name,
                        "source": each.kind,
                        "host": each.host,
                        "vm": each.vm,
                        "datastore": each.datastore,
                        "lines": each.lines,
                        "rejected": each.rejected,
                    }
                    for each in self.files
                ],
                "first_event_at": _text(self.first_at),
                "last_event_at": _text(self.last_at),
                "seconds": round(self.seconds, 1),
            },
            **{view: [_shown(row) for row in self.rows[view]] for view in EVENTS},
            "incidents": [
                {"incident_id": row["event_id"], **_shown(row)} for row in self.incidents
            ],
            "data_quality": [
                {"kind": each.kind, "count": each.count, "what": each.what, "example": each.example}
                for each in self.quality
            ],
            "left_out": [{"path": each.path, "reason": each.sentence} for each in self.left_out],
            "skipped_files": self.skipped,
        }


def results_of(what: Plan, found: Found, seconds: float) -> Results:
    """Sort the results, and list the data that is missing from them."""
    rows = dict(found.rows)
    for view in EVENTS:
        rows[view] = sorted(rows[view], key=lambda row: (row["started_at"], row["event_id"]))
    rows["stuns"] = sorted(rows["stuns"], key=lambda row: -row["duration_us"])
    rows["incidents"] = sorted(rows["incidents"], key=_badness)
    first_at, last_at = (_moment(each) for each in (found.read.shown.first, found.read.shown.last))
    files = sorted(found.read.files, key=lambda each: each.number)
    return Results(
        seconds=seconds,
        lines=found.lines,
        rejected=found.rejected,
        samples=found.read.counts["samples"],
        files=files,
        hosts=_hosts(found, files),
        first_at=first_at,
        last_at=last_at,
        rows=rows,
        quality=[*_missing(found), *_lost(found), *_doubtful(found)],
        left_out=[
            replace(each, sentence=each.sentence.removesuffix(SEE_REJECTED))
            for each in (*what.problems, *(file.problem for file in files if file.problem))
        ],
        is_incomplete=what.is_bad or any(each.problem for each in files),
        skipped=what.skipped,
    )


def _hosts(found: Found, files: list[FileRead]) -> set[str]:
    """Return the host names; of `esx1` and `esx1.lab.example` only the longer one."""
    named = {host for _, host, _ in (*found.read.seen, *found.read.seen_samples)}
    named |= {each.host for each in files if each.host and each.lines > each.rejected}
    fuller: dict[str, str] = {}
    for each in sorted(named, key=len):
        fuller[owner_key(each)] = each
    return set(fuller.values())


def same_steps(incidents: Sequence[Row]) -> dict[str, int]:
    """Return the incidents with the same next steps as an earlier one: id → its number, from 1."""
    first: dict[str, int] = {}
    found = {}
    for number, each in enumerate(incidents, 1):
        steps = repr([step["step"] for step in each["next_steps"]])
        if (known := first.setdefault(steps, number)) != number:
            found[each["event_id"]] = known
    return found


def _badness(incident: Row) -> tuple[Any, ...]:
    return (
        incident["state"] == "noted",
        SEVERITIES.index(incident["severity"]),
        -incident["worst_stun_us"],
        -(incident["peak_davg_ms"] or 0),
        incident["opened_at"],
        incident["event_id"],
    )


def _missing(found: Found) -> Iterator[Quality]:
    """Yield the kinds of logs that were not read, with what cannot be detected without them."""
    read = {each.kind for each in found.read.files if each.lines > each.rejected}
    if "vmware_log" not in read and not any(row["vm"] for row in found.rows["stuns"]):
        yield Quality("no_vm_logs", 0, "No vmware.log was read: stuns of VMs appear only there")
    if "syslog" not in read:
        what = "No log of a host was read: conflicts and path losses appear only there"
        yield Quality("no_host_logs", 0, what)
    if "esxtop" not in read:
        what = "No esxtop samples were read: latency is known only as far as log lines report it"
        yield Quality("no_samples", 0, what)


def _lost(found: Found) -> Iterator[Quality]:
    """Yield the losses of lines that the logs themselves report."""
    for kind, what in _LOST.items():
        rows = [row for row in found.rows["quality_events"] if row["kind"] == kind]
        if rows:
            hosts = ", ".join(sorted({row["host"] for row in rows} - {""})[:5])
            example = next((line for row in rows for line in row["evidence"]), "")
            count = sum(row["count"] for row in rows)
            yield Quality(kind, count, f"{what} ({hosts})" if hosts else what, example)


def _doubtful(found: Found) -> Iterator[Quality]:
    """Yield lines that were not read, or were read only in part."""
    counts = found.read.counts
    for reason, each in sorted(found.read.rejected.items(), key=lambda one: -one[1].lines):
        what = f"Lines rejected: {reason} (first in {each.file})"
        yield Quality("rejected", each.lines, what, each.line)
    for kind, what in _LINES.items():
        if counts[kind]:
            yield Quality(kind, counts[kind], what)
    for reason, count in found.failures.items():
        yield Quality("detector_failed", count, f"Records lost by a failure: {reason}")
    for name, count in found.evicted.items():
        yield Quality("evicted", count, f"More at once than can be tracked, some dropped: {name}")


def _shown(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in _OF_STORAGE}


def _moment(text: str) -> datetime | None:
    if not text:
        return None
    return datetime.fromtimestamp(epoch_microseconds(text) / 1e6, UTC)


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else f"{moment:%Y-%m-%dT%H:%M:%S}Z"


def at(text: str) -> datetime:
    """Parse the time of a row's field."""
    return datetime.fromisoformat(text)
