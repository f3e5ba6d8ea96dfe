"""The live job: which one runs, and the checkpoints from which the next one resumes."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from stunwatch.local import flink
from stunwatch.settings import Settings

NAME = "stunwatch-detect-live"
"""The job name that `jobs.detect` sets, which is also its consumer group in Kafka."""

ENDED = frozenset({"FINISHED", "FAILED", "CANCELED"})
OWN_CHECKPOINTS = 2
"""With this many checkpoints of a job (all that Flink retains), earlier jobs' are obsolete."""

OLDEST_CHECKPOINT_SECONDS = 60
"""The job starts a checkpoint every ten seconds (infra/flink/config.yaml)."""


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
        """True if all its tasks run, so that it processes records."""
        return self.state == "RUNNING" and self.running_tasks == self.all_tasks > 0


@dataclass(frozen=True)
class Checkpoints:
    """The numbers of a job's completed and failed checkpoints since its start."""

    completed: int
    failed: int
    age_seconds: float
    """Time since the newest one completed; without one, since the job's start."""


def live_jobs(settings: Settings) -> list[LiveJob]:
    """Return the live jobs, oldest first; raises OSError if Flink does not answer."""
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


def unhealthy_reason(settings: Settings) -> str | None:
    """Return why no live job processes lines; None if one does."""
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


def trouble(settings: Settings) -> str | None:
    """Return that the live job makes no checkpoints; None if it does, or if it does not run.

    Then nothing new is acknowledged in Kafka, and a crash repeats all work since the last one.
    """
    try:
        running = [each for each in live_jobs(settings) if each.is_running]
        if not running:
            return None
        age_seconds = checkpoints(settings, running[0]).age_seconds
    except OSError:
        return None
    if age_seconds <= OLDEST_CHECKPOINT_SECONDS:
        return None
    return f"the live job has completed no checkpoint for {age_seconds:.0f} s"


def stop_with_savepoint(settings: Settings, job_id: str, seconds: float) -> Path:
    """Stop a job with a savepoint; return its path. Flink does not delete it.

    Raises OSError if Flink fails to; the job then continues.
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


def checkpoints(settings: Settings, job: LiveJob) -> Checkpoints:
    """Return a job's checkpoints. Raises OSError if Flink does not answer."""
    found = flink.get(settings, f"/jobs/{job.job_id}/checkpoints")
    newest = found["latest"]["completed"]
    saved_ms = newest["latest_ack_timestamp"] if newest else job.started_at
    return Checkpoints(
        completed=int(found["counts"]["completed"]),
        failed=int(found["counts"]["failed"]),
        age_seconds=max(0.0, time.time() - saved_ms / 1000),
    )


def make_checkpoint(settings: Settings, seconds: float) -> None:
    """Trigger a checkpoint of the live job, and wait until it has completed.

    Flink then commits to Kafka the offsets up to which all events are written. Raises OSError if
    there is no live job, or if the checkpoint failed or takes longer than that.
    """
    jobs = live_jobs(settings)
    if not jobs:
        raise OSError("the live job is not submitted yet")
    path = f"/jobs/{jobs[0].job_id}/checkpoints"
    asked = flink.post(settings, path, {"checkpointType": "CONFIGURED"})
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done = flink.get(settings, f"{path}/{asked['request-id']}")
        if done["status"]["id"] == "COMPLETED":
            if "failure-cause" in done["operation"]:
                raise OSError(f"no checkpoint: {done['operation']['failure-cause']['class']}")
            return
        time.sleep(0.02)
    raise OSError(f"the checkpoint was not complete after {seconds:.0f} s")


class History:
    """The ids of all live jobs whose checkpoints may be resumed from, oldest first."""

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
        """Record a job, and drop earlier jobs whose checkpoints are obsolete."""
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
        """Return complete checkpoints and savepoints of live jobs, newest first."""
        complete = [path for job_id in self.ids() for path in self._complete(job_id)]
        complete += [each.parent for each in self._savepoints.glob("savepoint-*/_metadata")]
        return sorted(complete, key=_written_at, reverse=True)

    def _complete(self, job_id: str) -> list[Path]:
        """Return a job's complete checkpoints: those whose metadata exists."""
        return [each.parent for each in (self._checkpoints / job_id).glob("chk-*/_metadata")]


def _written_at(checkpoint: Path) -> float:
    try:
        return (checkpoint / "_metadata").stat().st_mtime
    except FileNotFoundError:  # Flink has just replaced it with a newer one
        return 0.0
