"""How often to ask, and how long to wait after a refusal."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

FIRST_WAIT_S: Final = 0.5
LONGEST_WAIT_S: Final = 60.0


def wait_seconds(attempt: int, dice: Callable[[], float] = random.random) -> float:
    """How long to wait after the `attempt`-th refusal in a row (1, 2, …).

    Twice as long each time, up to a minute; of that between a half and the whole, by chance, so
    that collectors that were refused together do not come back together.
    """
    longest = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(attempt - 1, 30))
    return longest * (0.5 + dice() / 2)


@dataclass(frozen=True)
class Rate:
    """So many a second over time, and so many at once after a pause."""

    per_second: float
    burst: float


class Bucket:
    """A token bucket: in any span of t seconds no more are used than burst + t · per_second."""

    def __init__(self, rate: Rate, now: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._now = now
        self._content = rate.burst
        self._filled_at = now()

    def wait_seconds(self, count: float = 1.0) -> float:
        """How long until `count` may be used at once, or all that it ever holds; 0: now."""
        self._fill()
        return max(0.0, (min(count, self._rate.burst) - self._content) / self._rate.per_second)

    def reserve(self) -> float:
        """Take one, and return how long to wait before using it."""
        self._fill()
        self._content -= 1.0
        return max(0.0, -self._content / self._rate.per_second)

    def _fill(self) -> None:
        now = self._now()
        gained = (now - self._filled_at) * self._rate.per_second
        self._content = min(self._rate.burst, self._content + gained)
        self._filled_at = now


class Buckets:
    """Buckets of one rate by name, made when first asked for; threads may share them."""

    def __init__(self, rate: Rate, now: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._now = now
        self._buckets: dict[str, Bucket] = {}
        self._lock = threading.Lock()

    def wait_seconds(self, name: str, count: float = 1.0) -> float:
        with self._lock:
            return self._bucket(name).wait_seconds(count)

    def reserve(self, name: str) -> float:
        with self._lock:
            return self._bucket(name).reserve()

    def _bucket(self, name: str) -> Bucket:
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = Bucket(self._rate, self._now)
        return bucket
