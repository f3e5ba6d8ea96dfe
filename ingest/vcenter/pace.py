"""Rate limits for requests, and waiting times after a refusal."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

FIRST_WAIT_S: Final = 0.5
LONGEST_WAIT_S: Final = 60.0


def wait_seconds(attempt: int, rng: Callable[[], float] = random.random) -> float:
    """Return how many seconds to wait after the `attempt`-th refusal in a row (1, 2, …).

    The limit doubles each time, up to a minute. The wait is random between half of the limit and
    the limit, so that collectors refused at the same time do not retry at the same time.
    """
    longest = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(attempt - 1, 30))
    return longest * (0.5 + rng() / 2)


@dataclass(frozen=True)
class Rate:
    """A rate limit: `per_second` on average, and `burst` at once after a pause."""

    per_second: float
    burst: float


class Bucket:
    """A token bucket: at most burst + t · per_second tokens are used in any t seconds."""

    def __init__(self, rate: Rate, now: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._now = now
        self._content = rate.burst
        self._filled_at = now()

    def wait_seconds(self, count: float = 1.0) -> float:
        """Return the seconds until `count` tokens are available (at most a full bucket); 0: now."""
        self._fill()
        return max(0.0, (min(count, self._rate.burst) - self._content) / self._rate.per_second)

    def reserve(self) -> float:
        """Take a token, and return how many seconds to wait before using it."""
        self._fill()
        self._content -= 1.0
        return max(0.0, -self._content / self._rate.per_second)

    def _fill(self) -> None:
        now = self._now()
        gained = (now - self._filled_at) * self._rate.per_second
        self._content = min(self._rate.burst, self._content + gained)
        self._filled_at = now


class Buckets:
    """Token buckets of one rate, by name, created on first use. Threads may share them."""

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
