"""Upgrade: stops the live job with a savepoint, from which the new version continues."""

from __future__ import annotations

import time
from collections.abc import Callable

from stunwatch.errors import UserError
from stunwatch.local import clickhouse, fetch, flink, job_code, kafka, live, supervision
from stunwatch.local.components import COMPONENTS
from stunwatch.settings import Settings

SAVEPOINT_SECONDS = 120.0
TRIAL_SECONDS = 180.0
"""Maximum time for the new version to run and complete a checkpoint."""


def upgrade(settings: Settings, tell: Callable[[str], None]) -> None:
    """Upgrade topics, tables and the live job to the checkout's version, without losing a line.

    Raises:
        UserError: other parts have changed, no live job runs, or the new version does not run. In
            the last case the previous version continues. Or the format of the state has changed.
    """
    _require_the_same_components(settings)
    _require_the_same_state_format(settings)
    if unhealthy_reason := live.unhealthy_reason(settings):
        raise UserError(
            f"The live job cannot be upgraded: {unhealthy_reason}. `stunwatch status`"
            " shows what runs."
        )
    [old, *_] = live.live_jobs(settings)
    topics = kafka.apply_topics(settings)
    files = clickhouse.apply_sql(settings)
    tell(f"{len(topics)} topics and {len(files)} files of sql/ were applied.")
    # Before the old job ends, because the keeper then submits immediately.
    copy = job_code.take(settings, on_trial=True)
    try:
        savepoint = live.stop_with_savepoint(settings, old.job_id, SAVEPOINT_SECONDS)
    except OSError as error:
        job_code.go_back(settings)
        raise UserError(
            f"The live job did not stop: {error}. It continues unchanged; try again later."
        ) from error
    tell(f"The live job stopped with the savepoint {savepoint}.")
    _restart_taskmanager(settings)
    if _works(settings, old.job_id) and job_code.current(settings) == copy:
        job_code.keep(settings)
        tell("The new version runs.")
        return
    if job_code.go_back(settings):
        for each in live.live_jobs(settings):
            flink.cancel(settings, each.job_id)
        _restart_taskmanager(settings)
    if _works(settings, old.job_id):
        raise UserError(
            "The new version does not run. The old version continues, and nothing is lost."
            " `stunwatch logs keeper` and `stunwatch logs jobmanager` show why."
        )
    raise UserError(
        f"Neither version continues from {savepoint}: {live.unhealthy_reason(settings)}. Nothing is"
        " lost. `stunwatch logs keeper` shows why."
    )


def _require_the_same_components(settings: Settings) -> None:
    if supervision.connect(settings) is None:
        raise UserError("The pipeline is not running. `stunwatch up` starts it in the new version.")
    told = supervision.configuration_path(settings).read_text()
    missing = [each.label for each in fetch.fetches(settings) if not each.is_there()]
    if missing or told != supervision.configuration(settings, COMPONENTS):
        raise UserError(
            "A running upgrade covers the live job, topics and tables, but more has changed:"
            f" {', '.join(missing) or 'a component or its settings'}. Run `stunwatch down`, then"
            " `stunwatch up`; the live job continues from its last checkpoint."
        )


def _require_the_same_state_format(settings: Settings) -> None:
    if not flink.writes_checkpoints_to(settings, flink.checkpoints(settings)):
        raise UserError(
            "The format of the live job's state has changed, so the new version cannot continue"
            " from a savepoint. Run `stunwatch down`, then `stunwatch up`. The live job then reads"
            " all lines that Kafka keeps once more, and stores each event once."
        )


def _restart_taskmanager(settings: Settings) -> None:
    """Restart the TaskManager: its JVM would continue to use the modules that it has loaded."""
    if supervisor := supervision.connect(settings):
        supervisor.restart(flink.TASKMANAGER.name)


def _works(settings: Settings, old: str) -> bool:
    """Wait until a live job other than `old` runs and has completed a checkpoint."""
    deadline = time.monotonic() + TRIAL_SECONDS
    while time.monotonic() < deadline:
        try:
            for each in live.live_jobs(settings):
                if (
                    each.job_id != old
                    and each.is_running
                    and live.checkpoints(settings, each).completed
                ):
                    return True
        except OSError:  # Flink is busy; try again
            pass
        time.sleep(0.5)
    return False
