"""When each key of a tracker has work next."""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from stunwatch.detectors.bounds import MOST_KEYS

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Timers(Generic[Key]):
    """One timer per key, in event time.

    Every line advances the time. A search through a host's thousands of devices for those that are
    due would cost more than the line. Here, a call costs the logarithm of their number.
    """

    def __init__(self) -> None:
        self._entries: dict[Key, tuple[int, int]] = {}
        """By key, in the order of setting: time and number. The number sorts timers of one time."""
        self._queue: list[tuple[int, int, Key]] = []
        """A heap of entries, some of which are obsolete."""
        self._newest = 0

    def __getstate__(self) -> list[tuple[Key, int]]:
        return [(key, due_us) for key, (due_us, _) in self._entries.items()]

    def __setstate__(self, timers: list[tuple[Key, int]]) -> None:
        self.__init__()  # type: ignore[misc]
        for key, due_us in timers:
            self.set(key, due_us)

    def set(self, key: Key, due_us: int) -> None:
        """Set the timer of a key, instead of the one that it has."""
        self._newest += 1
        self._entries.pop(key, None)
        self._entries[key] = due_us, self._newest
        heappush(self._queue, (due_us, self._newest, key))
        if len(self._queue) > 2 * len(self._entries) + 16:
            self._queue = [(*entry, key) for key, entry in self._entries.items()]
            heapify(self._queue)

    def cancel(self, key: Key) -> None:
        """Remove the timer of a key, if it has one."""
        self._entries.pop(key, None)

    def take(self, event_time_us: int) -> list[Key]:
        """Remove the timers that are due, and return their keys, the earliest first."""
        taken = []
        while (due_us := self.next_us) is not None and due_us <= event_time_us:
            _, _, key = heappop(self._queue)
            del self._entries[key]
            taken.append(key)
        return taken

    @property
    def next_us(self) -> int | None:
        """The time of the earliest timer; None if there is none."""
        while self._queue:
            due_us, number, key = self._queue[0]
            if self._entries.get(key) == (due_us, number):
                return due_us
            heappop(self._queue)
        return None


def keep(
    values: dict[Key, Value], key: Key, value: Value, timers: Timers[Key]
) -> tuple[Key, Value] | None:
    """Keep the value of a key as the most recently used one, the last in `values`.

    If there are more than MOST_KEYS, remove the least recently used one with its timer, and return
    it.
    """
    values.pop(key, None)
    values[key] = value
    if len(values) <= MOST_KEYS:
        return None
    oldest = next(iter(values))
    timers.cancel(oldest)
    return oldest, values.pop(oldest)
