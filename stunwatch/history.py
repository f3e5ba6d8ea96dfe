"""Runs the history job over the lines of one replay, and waits until its events can be queried."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from types import TracebackType

import orjson

from stunwatch.errors import UserError
from stunwatch.folders import PACKAGE
from stunwatch.kafka import Kafka, Offsets
from stunwatch.local import job_code
from stunwatch.local.flink import client_environment, write_configuration
from stunwatch.settings import Settings

ATTEMPTS = 5
"""How often the job is submitted: a job is lost if its JobManager dies.

The offsets are fixed, so the same job can be submitted again.
"""

PATIENCE_S = 300
"""The replay gives up if a consumer group makes no progress for this long."""


class HistoryJob:
    """One run of `jobs.detect history`.

    The client starts while lines are still being sent, because its start takes seconds. It reads
    the offsets from its standard input last.
    """

    def __init__(self, settings: Settings, run_id: str) -> None:
        self._settings = settings
        self._run_id = run_id
        self._log = settings.logs / "detect-history.log"
        self._client = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        words = [
            *(sys.executable, "-m", "stunwatch.jobs.detect", "history"),
            *("--run-id", self._run_id),
            *("--bootstrap", self._settings.bootstrap),
            *("--cluster", self._settings.flink_rest),
            *("--python-path", job_code.python_path(PACKAGE.parent)),
        ]
        # A container that runs only a replay does not have the folders yet.
        self._settings.make_folders()
        write_configuration(self._settings)
        with self._log.open("ab") as log:
            return subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=client_environment(self._settings),
                # The replay handles Ctrl-C.
                start_new_session=True,
            )

    def run(
        self,
        starts: Offsets,
        ends: Offsets,
        span_us: tuple[int, int],
        while_waiting: Callable[[], None],
    ) -> None:
        """Detect over [starts, ends) of these topics, and correlate around their event times.

        `span_us`: the first and the last event time, µs since 1970. Raises UserError if all
        attempts fail.
        """
        spans: dict[str, dict[int, tuple[int, int]]] = {}
        for (topic, partition), end in ends.items():
            spans.setdefault(topic, {})[partition] = (starts[topic, partition], end)
        first_us, last_us = span_us
        said = orjson.dumps(
            {"offsets": spans, "first_us": first_us, "last_us": last_us},
            option=orjson.OPT_NON_STR_KEYS,
        )
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(5)
                self._client = self._start()
            try:
                assert self._client.stdin is not None
                self._client.stdin.write(said)
                self._client.stdin.close()
            except BrokenPipeError:
                pass  # the client died early; its exit code is checked below
            while self._client.poll() is None:
                while_waiting()
                time.sleep(0.1)
            if self._client.returncode == 0:
                return
        raise UserError(
            f"The history job failed {ATTEMPTS} times. All lines are stored, but events may be"
            f" missing. Read {self._log}, then run the same replay again."
        )

    def __enter__(self) -> HistoryJob:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._client.poll() is None:
            self._client.kill()
            self._client.wait()


def wait_until_read(
    kafka: Kafka, group: str, ends: Offsets, while_waiting: Callable[[], None]
) -> None:
    """Return when the consumer group has reached `ends`. Raises UserError if it stops moving."""
    moved_at = time.monotonic()
    before = -1
    while True:
        committed = kafka.committed(group)
        left = sum(max(0, end - committed.get(each, 0)) for each, end in ends.items() if end)
        if not left:
            return
        if left != before:
            before, moved_at = left, time.monotonic()
        elif time.monotonic() - moved_at > PATIENCE_S:
            raise UserError(
                f"ClickHouse has read no message for {PATIENCE_S} s; {left:,} messages of {group}"
                " are unread. Look at `stunwatch status` and `stunwatch logs clickhouse`."
            )
        while_waiting()
        time.sleep(0.1)
