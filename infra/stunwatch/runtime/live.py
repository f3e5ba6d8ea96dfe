"""The live job: which one runs, and from where the next one goes on."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from stunwatch.runtime import flink
from stunwatch.settings import Settings

NAME = "stunwatch-detect-live"
"""The name that `jobs.detect live` gives its job."""

ENDED = frozenset({"FINISHED", "FAILED", "CANCELED"})
OWN_CHECKPOINTS = 2
"""With so many of its own (all that Flink retains), a job needs none of the jobs before it."""


@dataclass(frozen=True)
class LiveJob:
    """A live job that has not ended. `started_at` is in epoch milliseconds."""

    job_id: str
    state: str
    started_at: int
    running_tasks: int
    all_tasks: int

    @property
    def is_running(self) -> bool:
        """Tell whether every task of it runs: records pass."""
        return self.state == "RUNNING" and self.running_tasks == self.all_tasks > 0


def live_jobs(settings: Settings) -> list[LiveJob]:
    """Ask Flink for live jobs, the oldest first; raises OSError where it does not answer."""
    found = flink.get(settings, "/jobs/overview")["jobs"]
    jobs = [
        LiveJob(
            each["jid"],
            each["state"],
            each["start-time"],
            each["tasks"]["running"],
            each["tasks"]["total"],
        )
        for each in found
        if each["name"] == NAME and each["state"] not in ENDED
    ]
    return sorted(jobs, key=lambda each: each.started_at)


def ailment(settings: Settings) -> str | None:
    """Say why no live job takes in lines; None if one does."""
    try:
        jobs = live_jobs(settings)
    except OSError:
        return "the JobManager does not answer"
    if not jobs:
        return "the live job is not submitted yet"
    job = jobs[0]
    if job.is_running:
        return None
    return f"the live job is {job.state}, {job.running_tasks} of {job.all_tasks} tasks run"


def stop_with_savepoint(settings: Settings, job_id: str, seconds: float) -> Path:
    """Stop a job when its state is saved; return the savepoint. It belongs to no job and stays.

    Raises OSError where Flink does not do it: the job runs on.
    """
    folder = flink.savepoints(settings)
    asked = flink.post(
        settings, f"/jobs/{job_id}/stop", {"drain": False, "targetDirectory": f"file://{folder}"}
    )
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done = flink.get(settings, f"/jobs/{job_id}/savepoints/{asked['request-id']}")
        if done["status"]["id"] == "COMPLETED":
            if "location" not in done["operation"]:
                reason = str(done["operation"]["failure-cause"]["class"])
                raise OSError(f"it made no savepoint: {reason}")
            return Path(done["operation"]["location"].removeprefix("file:"))
        time.sleep(0.2)
    raise OSError(f"its savepoint was not ready after {seconds:.0f} s")


def has_checkpoint(settings: Settings, job: LiveJob) -> bool:
    """Tell whether a job has saved its state since it began. Raises OSError."""
    found = flink.get(settings, f"/jobs/{job.job_id}/checkpoints")
    return int(found["counts"]["completed"]) > 0


class History:
    """The ids of the live jobs so far, the oldest first: whose checkpoints may be resumed from."""

    def __init__(self, settings: Settings) -> None:
        self._checkpoints = flink.checkpoints(settings)
        self._savepoints = flink.savepoints(settings)
        self._path = settings.home / "flink" / "live_jobs.json"

    def ids(self) -> list[str]:
        """Read the ids."""
        try:
            return [str(each) for each in json.loads(self._path.read_text())]
        except (FileNotFoundError, ValueError):
            return []

    def add(self, job_id: str) -> None:
        """Remember a job, and forget those whose checkpoints it no longer needs."""
        ids = self.ids()
        kept = [each for each in ids if each != job_id]
        if len(self._complete(job_id)) >= OWN_CHECKPOINTS:
            for each in kept:
                shutil.rmtree(self._checkpoints / each, ignore_errors=True)
            kept = []
        if ids != [*kept, job_id]:
            self._path.parent.mkdir(exist_ok=True)
            draft = self._path.with_suffix(".partial")
            draft.write_text(json.dumps([*kept, job_id]))
            draft.rename(self._path)

    def newest_checkpoints(self) -> list[Path]:
        """List complete checkpoints and savepoints of live jobs, the newest first."""
        complete = [path for job_id in self.ids() for path in self._complete(job_id)]
        complete += [each.parent for each in self._savepoints.glob("savepoint-*/_metadata")]
        return sorted(complete, key=_written_at, reverse=True)

    def _complete(self, job_id: str) -> list[Path]:
        """A checkpoint is complete once its metadata stands in place."""
        return [each.parent for each in (self._checkpoints / job_id).glob("chk-*/_metadata")]


def _written_at(checkpoint: Path) -> float:
    try:
        return (checkpoint / "_metadata").stat().st_mtime
    except FileNotFoundError:  # Flink has just removed it for a newer one
        return 0.0
