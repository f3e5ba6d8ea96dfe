"""Keeps the live job running, and stops intake before the disk is full.

supervisord can do neither.

python -m stunwatch.local.keeper
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from stunwatch import dashboards
from stunwatch.access import kafka_access
from stunwatch.errors import UserError
from stunwatch.kafka import Kafka, Offsets
from stunwatch.local import checks, flink, intake, job_code, live, queues, supervision
from stunwatch.local.component import Component, Launch
from stunwatch.local.kafka import wanted_topics
from stunwatch.local.supervision import Supervisor
from stunwatch.printable import echo
from stunwatch.settings import Settings, load_settings

SUBMIT_SECONDS = 300.0
"""A client that has not submitted the job after this time hangs. It takes 10 s on an idle machine,
and minutes on a busy one: a limit that it cannot meet would end it again and again."""

RETRY_SECONDS = 5.0
KICK_SECONDS = 10.0
"""Maximum wait of a component that failed to start before its next attempt."""

RATES_SECONDS = 5.0

STUCK_SECONDS = 300.0
"""A consumer with unread messages commits far more often than this."""

POSITIONS_SECONDS = 30.0
RANGES_SECONDS = 10.0


def alive(settings: Settings) -> Path:
    """Return the file that the keeper touches every second, as its heartbeat."""
    return settings.run / "keeper.alive"


def rates(settings: Settings) -> Path:
    """Return the file with {topic: messages per second} over the last seconds."""
    return settings.run / "rates.json"


def positions(settings: Settings) -> Path:
    """Return the file with stuck consumers: {group: {topic: seconds without progress}}."""
    return settings.run / "stuck_readers.json"


def stuck_readers(settings: Settings) -> list[str]:
    """Return a sentence per consumer that has unread messages but makes no progress.

    Empty if the keeper has not checked lately.
    """
    path = positions(settings)
    try:
        if time.time() - path.stat().st_mtime > 3 * POSITIONS_SECONDS:
            return []
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return []
    return [
        f"{group} has read nothing of {topic} for {seconds / 60:.0f} minutes, though there is"
        " something to read: docs/runbooks/lag.md."
        for group, topics in found.items()
        for topic, seconds in topics.items()
    ]


def launch(settings: Settings) -> Launch:
    """Run this module with the environment for submitting jobs."""
    flink.write_configuration(settings)
    command = [sys.executable, "-m", "stunwatch.local.keeper"]
    return Launch(command, flink.client_environment(settings))


def unhealthy_reason(settings: Settings) -> str | None:
    """Return the problem of the keeper or its live job; None if both work."""
    try:
        age_seconds = time.time() - alive(settings).stat().st_mtime
    except FileNotFoundError:
        return "it has not started yet"
    if age_seconds > 30:
        return f"no heartbeat for {age_seconds:.0f} s"
    return live.unhealthy_reason(settings)


COMPONENT = Component(
    "keeper",
    after=("kafka", "jobmanager"),
    launch=launch,
    unhealthy_reason=unhealthy_reason,
    trouble=live.trouble,
    stop_seconds=10,
)


class DiskGuard:
    """Stops Kafka before the disk is full, and starts it again when there is space."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def tick(self, supervisor: Supervisor) -> None:
        """Compare free with required space, and act once when that changes."""
        flag = intake.flag(self._settings)
        free_mb = checks.free_mb(self._settings.home)
        if supervisor.states()["kafka"]["statename"] == "STOPPED":
            if free_mb >= intake.needed_mb(self._settings):
                say(f"{free_mb} MiB are free: intake continues.")
                supervisor.start("kafka")
                flag.unlink(missing_ok=True)
        elif free_mb < self._settings.min_free_mb:
            # The disk may be too full even for an empty file; `intake` checks the disk as well.
            with suppress(OSError):
                flag.touch()
            say(str(intake.why_intake_is_stopped(self._settings)))
            supervisor.stop("kafka")
        else:
            flag.unlink(missing_ok=True)


class LiveJobKeeper:
    """Submits the live job if none runs, from its last checkpoint."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._history = live.History(settings)
        self._client: subprocess.Popen[bytes] | None = None
        self._resumed_from: Path | None = None
        self._submitted_at = 0.0
        self._unusable: set[Path] = set()

    def tick(self) -> None:
        """Check once; submit at most one job, and none while a submission is in progress."""
        if self._client and not self._has_ended(self._client):
            return
        try:
            jobs = live.live_jobs(self._settings)
        except OSError:  # no JobManager to submit to
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
        command = [sys.executable, "-m", "stunwatch.jobs.detect"]
        command += ["--bootstrap", self._settings.bootstrap]
        command += ["--cluster", self._settings.flink_rest]
        command += ["--parallelism", str(self._settings.flink_parallelism)]
        if self._resumed_from:
            command += ["--from-checkpoint", f"file://{self._resumed_from}"]
        environment = dict(os.environ)
        if code := job_code.current(self._settings):
            paths = [job_code.python_path(code), *filter(None, [os.environ.get("PYTHONPATH")])]
            environment["PYTHONPATH"] = ":".join(paths)
        say(f"submitting the live job, from {self._resumed_from or 'the earliest offsets'}")
        self._submitted_at = time.monotonic()
        # In a folder where Python does not find the checkout's own packages first.
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
                say("the new version failed; the previous version is submitted again")
                # Its Python has loaded the modules of the new version.
                if supervisor := supervision.connect(self._settings):
                    supervisor.restart(flink.TASKMANAGER.name)
            elif self._resumed_from:
                # The next attempt uses the checkpoint before it, or Kafka's earliest offsets.
                self._unusable.add(self._resumed_from)
        self._client = None
        self._submitted_at = time.monotonic()
        return True


class Rates:
    """Writes the number of messages per second of each topic."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._last: tuple[float, dict[str, int]] | None = None

    def tick(self) -> None:
        """Compare the topics' end offsets with those of the last tick."""
        ends: dict[str, int] = dict.fromkeys(wanted_topics(), 0)
        # A new client each time: a permanent one would fill the log while Kafka is down.
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


Reader = tuple[str, str]
"""Consumer group and topic."""


class Progress:
    """Tracks how long each consumer with unread messages has made no progress."""

    def __init__(self) -> None:
        self._seen: dict[Reader, tuple[Offsets, float]] = {}

    def stuck(
        self, ends: Offsets, committed: Mapping[str, Offsets], now: float
    ) -> dict[Reader, float]:
        """Return the seconds without progress, for consumers stuck for at least STUCK_SECONDS.

        Args:
            ends: The offset after the last message, by partition.
            committed: The committed offsets, by consumer group.
            now: Time in seconds, of a monotonic clock.
        """
        seen = {}
        for group, offsets in committed.items():
            for topic in {topic for topic, _ in offsets}:
                own = {key: offset for key, offset in offsets.items() if key[0] == topic}
                if any(ends.get(key, 0) > offset for key, offset in own.items()):
                    before, since = self._seen.get((group, topic), (None, now))
                    seen[group, topic] = (own, since if before == own else now)
        self._seen = seen
        return {
            reader: now - since
            for reader, (_, since) in seen.items()
            if now - since >= STUCK_SECONDS
        }


class Positions:
    """Writes which consumers are stuck."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._progress = Progress()

    @cached_property
    def _broker(self) -> Kafka:
        # One client for all ticks: it has a connection per consumer group.
        return Kafka(kafka_access(self._settings, "metrics"), patience_seconds=0)

    def tick(self) -> None:
        """Compare the consumers' offsets with those of the last tick."""
        broker = self._broker
        committed = {group: broker.committed(group) for group in broker.groups()}
        found: dict[str, dict[str, float]] = {}
        stuck = self._progress.stuck(broker.ends(wanted_topics()), committed, time.monotonic())
        for (group, topic), seconds in sorted(stuck.items()):
            found.setdefault(group, {})[topic] = seconds
        positions(self._settings).write_text(json.dumps(found))


def restart_queues(settings: Settings) -> None:
    """Restart the Kafka tables of ClickHouse that have stopped reading."""
    for each in queues.stalled(settings):
        if each.seconds > queues.RESTART_S:
            say(f"{each.name} has not read for {each.seconds} s: detaching and attaching it")
            try:
                queues.restart(settings, each.name)
            except (UserError, OSError) as error:
                say(f"{each.name} is not restarted: {error}")


def kick(supervisor: Supervisor) -> None:
    """Start components that wait for their next attempt; supervisord's waits keep growing."""
    for name, state in supervisor.states().items():
        if state["statename"] == "BACKOFF":
            supervisor.start(name)


def say(text: str) -> None:
    """Write a line to the log."""
    echo(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}")


def main() -> None:
    """Run all checks once a second, until the process is stopped."""
    from confluent_kafka import KafkaException  # noqa: PLC0415 (in an extra)

    settings = load_settings()
    guard, job = DiskGuard(settings), LiveJobKeeper(settings)
    topic_rates, reader_positions = Rates(settings), Positions(settings)
    kicked_at = rated_at = positioned_at = ranged_at = time.monotonic()
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
        if now - positioned_at > POSITIONS_SECONDS and not intake.why_intake_is_stopped(settings):
            with suppress(OSError, UserError, KafkaException):
                reader_positions.tick()
            restart_queues(settings)
            positioned_at = now
        if now - ranged_at > RANGES_SECONDS:
            # Ranges change when live lines begin to arrive, or when older logs were replayed.
            with suppress(OSError, UserError):
                dashboards.set_ranges(settings)
            ranged_at = time.monotonic()
        time.sleep(1.0)


if __name__ == "__main__":
    main()
