"""Keeps what supervisord cannot: the live job running, and the disk from filling up.

python -m stunwatch.runtime.keeper
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from confluent_kafka import KafkaException

from stunwatch.access import kafka_access
from stunwatch.errors import UserError
from stunwatch.kafka import Kafka
from stunwatch.runtime import checks, flink, intake, job_code, live, supervision
from stunwatch.runtime.component import Component, Launch
from stunwatch.runtime.kafka import wanted_topics
from stunwatch.runtime.supervision import Supervisor
from stunwatch.settings import Settings, load_settings

SUBMIT_SECONDS = 120.0
"""A client that needs longer hangs."""

RETRY_SECONDS = 5.0
KICK_SECONDS = 10.0
"""How long a component that fails to start waits at most for its next try."""

RATES_SECONDS = 5.0


def alive(settings: Settings) -> Path:
    """The file that the keeper touches every second."""
    return settings.run / "keeper.alive"


def rates(settings: Settings) -> Path:
    """The file that holds {topic: messages per second} of the last seconds."""
    return settings.run / "rates.json"


def launch(settings: Settings) -> Launch:
    """Run this module, with what it needs to submit jobs."""
    flink.write_configuration(settings)
    command = [sys.executable, "-m", "stunwatch.runtime.keeper"]
    return Launch(command, flink.client_environment(settings))


def ailment(settings: Settings) -> str | None:
    """Say why the keeper or the live job that it keeps cannot be relied on; None if they can."""
    try:
        age_seconds = time.time() - alive(settings).stat().st_mtime
    except FileNotFoundError:
        return "it has not begun yet"
    if age_seconds > 30:
        return f"it has not been heard of for {age_seconds:.0f} s"
    return live.ailment(settings)


COMPONENT = Component(
    "keeper",
    after=("kafka", "jobmanager"),
    launch=launch,
    ailment=ailment,
    stop_seconds=10,
)


class DiskGuard:
    """Stops Kafka before the disk is full, and starts it again when there is room."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def tick(self, supervisor: Supervisor) -> None:
        """Compare what is left with what is needed, and act once when that changes."""
        flag = intake.flag(self._settings)
        free_mb = checks.free_mb(self._settings.home)
        if supervisor.states()["kafka"]["statename"] == "STOPPED":
            if free_mb >= intake.needed_mb(self._settings):
                say(f"{free_mb} MiB are free: intake goes on.")
                supervisor.start("kafka")
                flag.unlink(missing_ok=True)
        elif free_mb < self._settings.min_free_mb:
            # The very disk may be too full even for an empty file; others look at the disk too.
            with suppress(OSError):
                flag.touch()
            say(str(intake.why_intake_is_stopped(self._settings)))
            supervisor.stop("kafka")
        else:
            flag.unlink(missing_ok=True)


class LiveJobKeeper:
    """Submits the live job where none runs, from where the last one had come to."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._history = live.History(settings)
        self._client: subprocess.Popen[bytes] | None = None
        self._resumed_from: Path | None = None
        self._submitted_at = 0.0
        self._unusable: set[Path] = set()

    def tick(self) -> None:
        """Look once; submit at most one job, and never while one is being submitted."""
        if self._client and not self._has_ended(self._client):
            return
        try:
            jobs = live.live_jobs(self._settings)
        except OSError:  # no JobManager: nothing to submit to
            return
        if jobs:
            self._history.add(jobs[0].job_id)
            for surplus in jobs[1:]:
                say(f"cancelling {surplus.job_id}: {jobs[0].job_id} is the live job")
                flink.cancel(self._settings, surplus.job_id)
        elif time.monotonic() - self._submitted_at > RETRY_SECONDS:
            self._submit()

    def _submit(self) -> None:
        usable = [each for each in self._history.newest_checkpoints() if each not in self._unusable]
        self._resumed_from = usable[0] if usable else None
        command = [sys.executable, "-m", "jobs.detect", "live"]
        command += ["--bootstrap", self._settings.bootstrap]
        command += ["--cluster", self._settings.flink_rest]
        if self._resumed_from:
            command += ["--from-checkpoint", f"file://{self._resumed_from}"]
        environment = dict(os.environ)
        if code := job_code.current(self._settings):
            paths = [job_code.python_path(code), *filter(None, [os.environ.get("PYTHONPATH")])]
            environment["PYTHONPATH"] = ":".join(paths)
            command += ["--python-path", job_code.python_path(code)]
        say(f"submitting the live job, from {self._resumed_from or 'the earliest offsets'}")
        self._submitted_at = time.monotonic()
        # Not where the checkout's own folders would be found first.
        self._client = subprocess.Popen(
            command, cwd=self._settings.home, stdin=subprocess.DEVNULL, env=environment
        )

    def _has_ended(self, client: subprocess.Popen[bytes]) -> bool:
        code = client.poll()
        if code is None:
            if time.monotonic() - self._submitted_at < SUBMIT_SECONDS:
                return False
            say(f"the client has not submitted the live job in {SUBMIT_SECONDS:.0f} s")
            client.kill()
            client.wait()
        elif code != 0:
            say(f"the client failed with {code}")
            if job_code.go_back(self._settings):
                say("the version on trial gives way to the one before it")
            elif self._resumed_from:
                # The next try takes the checkpoint before it, or Kafka's earliest offsets.
                self._unusable.add(self._resumed_from)
        self._client = None
        self._submitted_at = time.monotonic()
        return True


class Rates:
    """Writes how many messages a second each topic took in."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._last: tuple[float, dict[str, int]] | None = None

    def tick(self) -> None:
        """Compare the topics' ends with those of the last tick."""
        ends: dict[str, int] = dict.fromkeys(wanted_topics(), 0)
        # A client of its own each time: a lasting one would fill the log while Kafka is away.
        broker = Kafka(kafka_access(self._settings, "metrics"), patience_seconds=0)
        for (topic, _), end in broker.ends(ends).items():
            ends[topic] += end
        now = time.monotonic()
        if self._last:
            seconds = now - self._last[0]
            before = self._last[1]
            text = json.dumps({name: (ends[name] - before[name]) / seconds for name in ends})
            rates(self._settings).write_text(text)
        self._last = (now, ends)


def kick(supervisor: Supervisor) -> None:
    """Start what waits for its next try: supervisord lets it wait longer every time."""
    for name, state in supervisor.states().items():
        if state["statename"] == "BACKOFF":
            supervisor.start(name)


def say(text: str) -> None:
    """Tell the log."""
    print(time.strftime("%Y-%m-%d %H:%M:%S"), text, flush=True)


def main() -> None:
    """Look after everything once a second, until told to stop."""
    settings = load_settings()
    guard, job = DiskGuard(settings), LiveJobKeeper(settings)
    topic_rates = Rates(settings)
    kicked_at = rated_at = time.monotonic()
    while True:
        with suppress(OSError):
            alive(settings).touch()
        supervisor = supervision.connect(settings)
        now = time.monotonic()
        if supervisor:
            guard.tick(supervisor)
            if now - kicked_at > KICK_SECONDS:
                kick(supervisor)
                kicked_at = now
        with suppress(OSError):
            job.tick()
        if now - rated_at > RATES_SECONDS and not intake.why_intake_is_stopped(settings):
            with suppress(OSError, UserError, KafkaException):
                topic_rates.tick()
            rated_at = now
        time.sleep(1.0)


if __name__ == "__main__":
    main()
