"""Upgrade: the live job stops with a savepoint, and its new version goes on from there."""

from __future__ import annotations

import time
from collections.abc import Callable

from stunwatch import schema
from stunwatch.errors import UserError
from stunwatch.runtime import clickhouse, fetch, flink, job_code, kafka, live, supervision
from stunwatch.runtime.components import COMPONENTS
from stunwatch.settings import Settings

SAVEPOINT_SECONDS = 120.0
TRIAL_SECONDS = 180.0
"""So long the new version may take until it runs and has a checkpoint of its own."""


def upgrade(settings: Settings, tell: Callable[[str], None]) -> None:
    """Bring topics, tables and the live job to what the checkout says, without losing a line.

    Raises:
        UserError: more than that has changed, no live job runs, or the new version does not run:
            then the version before it goes on.
    """
    _require_the_same_components(settings)
    if ailment := live.ailment(settings):
        raise UserError(f"There is nothing to upgrade: {ailment}.")
    [old, *_] = live.live_jobs(settings)
    topics = kafka.apply_topics(settings)
    files = schema.apply(clickhouse.administrator(settings))
    tell(f"{len(topics)} topics and {len(files)} files of sql/ were applied.")
    # Before the old job ends: from then on the keeper submits at once.
    copy = job_code.take(settings, on_trial=True)
    try:
        savepoint = live.stop_with_savepoint(settings, old.job_id, SAVEPOINT_SECONDS)
    except OSError as error:
        job_code.go_back(settings)
        raise UserError(f"The live job did not stop ({error}); it goes on as it was.") from error
    tell(f"The live job stopped with the savepoint {savepoint}.")
    if _works(settings, old.job_id) and job_code.current(settings) == copy:
        job_code.keep(settings)
        tell("The new version runs.")
        return
    if job_code.go_back(settings):
        for each in live.live_jobs(settings):
            flink.cancel(settings, each.job_id)
    if _works(settings, old.job_id):
        raise UserError(
            "The new version does not run, so the one before it goes on, and nothing is lost;"
            " `stunwatch logs keeper` and `stunwatch logs jobmanager` tell why."
        )
    raise UserError(
        f"No version goes on from {savepoint}: {live.ailment(settings)}; nothing is lost."
        " `stunwatch logs keeper` tells why."
    )


def _require_the_same_components(settings: Settings) -> None:
    if supervision.connect(settings) is None:
        raise UserError("The pipeline does not run: `stunwatch up` starts it with the new version.")
    told = supervision.configuration_path(settings).read_text()
    missing = [each.label for each in fetch.fetches(settings) if not each.is_there()]
    if missing or told != supervision.configuration(settings, COMPONENTS):
        raise UserError(
            "More than the job, topics and tables has changed"
            f" ({', '.join(missing) or 'a component or its settings'}): `stunwatch down` and"
            " `stunwatch up` restart everything, and the live job goes on from its last checkpoint."
        )


def _works(settings: Settings, old: str) -> bool:
    """Wait until another live job than `old` runs and has a checkpoint of its own."""
    deadline = time.monotonic() + TRIAL_SECONDS
    while time.monotonic() < deadline:
        try:
            for each in live.live_jobs(settings):
                if each.job_id != old and each.is_running and live.has_checkpoint(settings, each):
                    return True
        except OSError:  # busy; it is asked again
            pass
        time.sleep(0.5)
    return False
