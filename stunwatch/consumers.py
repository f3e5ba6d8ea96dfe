"""Waits until the consumers of Kafka's topics have processed what was sent to them."""

from __future__ import annotations

import time
from collections.abc import Callable

from stunwatch.errors import UserError
from stunwatch.kafka import Kafka, Offsets
from stunwatch.local import live, queues
from stunwatch.settings import Settings

PATIENCE_S = 2 * queues.RESTART_S
"""Give up if a consumer group makes no progress for this long. By then the job supervisor has
restarted a Kafka table that stopped reading.
"""

_CHECKPOINT_S = 60
_COMMIT_S = 1.0
_LOOK_S = 0.02


def wait_until_read(
    kafka: Kafka, group: str, ends: Offsets, while_waiting: Callable[[], None]
) -> None:
    """Return when a consumer group of ClickHouse has reached `ends`.

    Raises UserError if it stops moving.
    """
    progress = _Progress(kafka, group, ends)
    while left := progress.left():
        if progress.has_stopped:
            raise UserError(
                f"ClickHouse has read no message for {PATIENCE_S} s; {left:,} messages of {group}"
                " are unread. Look at `stunwatch status` and `stunwatch logs clickhouse`."
            )
        while_waiting()
        time.sleep(0.05)


def wait_until_detected(
    settings: Settings,
    kafka: Kafka,
    ends: Offsets,
    nudge: Callable[[], None],
    while_waiting: Callable[[], None],
) -> None:
    """Return when the live job has processed everything before `ends`, and wrote the events.

    The job commits offsets when it completes a checkpoint, so trigger one instead of waiting for
    the next. The source of an idle topic commits only when it receives a message: `nudge` sends one
    to each partition. Raises UserError if the job stops moving.
    """
    progress = _Progress(kafka, live.NAME, ends)
    while left := progress.left():
        if progress.has_stopped:
            raise UserError(
                f"The live job has processed no message for {PATIENCE_S} s; {left:,} messages are"
                " not processed. All lines are sent, but events may be missing. Look at"
                " `stunwatch status` and `stunwatch logs taskmanager`, then run the same command"
                " again."
            )
        while_waiting()
        try:
            live.make_checkpoint(settings, _CHECKPOINT_S)
        except OSError:  # the job restarts, or is busy: it makes checkpoints of its own
            time.sleep(_COMMIT_S)
            continue
        nudge()
        deadline = time.monotonic() + _COMMIT_S
        while progress.left() and time.monotonic() < deadline:
            time.sleep(_LOOK_S)


class _Progress:
    """How far a consumer group is from `ends`."""

    def __init__(self, kafka: Kafka, group: str, ends: Offsets) -> None:
        self._kafka = kafka
        self._group = group
        self._ends = {place: end for place, end in ends.items() if end}
        self._before = -1
        self._moved_at = time.monotonic()

    def left(self) -> int:
        """Return how many messages are unread."""
        committed = self._kafka.committed(self._group, self._ends)
        left = sum(max(0, end - committed.get(place, 0)) for place, end in self._ends.items())
        if left != self._before:
            self._before, self._moved_at = left, time.monotonic()
        return left

    @property
    def has_stopped(self) -> bool:
        """True if the number has not changed for too long."""
        return time.monotonic() - self._moved_at > PATIENCE_S
