"""Find the user who requested the operation that stunned a VM.

The VM's log contains the operation's ID, and hostd's line about the same operation the user. If
both are known, the stun is written again, with the user in its `cause_detail` and hostd's line in
its evidence. Its revision is one higher than that of the stun without the user. A later and better
row of the stun has a higher revision, and is written again as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from stunwatch.detectors.catalogue import detector
from stunwatch.detectors.events import EVIDENCE_SHOWN, changed
from stunwatch.detectors.operations.asking import user_of, with_asker
from stunwatch.detectors.records import verbatim
from stunwatch.detectors.stuns.tracker import Stun

_KEEP_US = detector("operations").thresholds["keep_hours"] * 3600 * 1_000_000
_MOST_STUNS = 64
"""One operation stuns a VM a few times; a consolidation sometimes does it more often."""


@dataclass
class Tracker:
    """Tracks one operation."""

    asked: tuple[int, str, str] | None = None
    """The earliest line with the user: its time in microseconds, its text, the user."""
    stuns: dict[str, Stun] = field(default_factory=dict)
    """The newest row of each stun, by event_id."""
    event_time_us: int = 0
    forget_at_us: int = 0

    def feed(self, record: Mapping[str, Any]) -> Iterator[Stun]:
        """Yield the stuns whose user is known from this line or row."""
        self.forget_at_us = self.event_time_us + _KEEP_US
        if record["source"] == "stuns":
            stun = Stun(**orjson.loads(record["message"]))
            known = self.stuns.get(stun.event_id)
            if known is None or stun.revision > known.revision:
                self.stuns[stun.event_id] = stun
                yield from self._named([stun])
            if len(self.stuns) > _MOST_STUNS:
                del self.stuns[next(iter(self.stuns))]
            return
        asked = (record["event_time_us"], verbatim(record), user_of(record))
        if self.asked is None or asked < self.asked:
            self.asked = asked
            yield from self._named(self.stuns.values())

    def advance_time(self, event_time_us: int) -> Iterator[Stun]:
        """Yield nothing: time alone reveals no user."""
        self.event_time_us = max(self.event_time_us, event_time_us)
        if self.event_time_us >= self.forget_at_us:
            self.asked = None
            self.stuns.clear()
        return iter(())

    def flush(self) -> Iterator[Stun]:
        """Yield nothing: every row is written at once."""
        return iter(())

    @property
    def next_timer_us(self) -> int | None:
        """When the operation expires; None if no state is kept."""
        return self.forget_at_us if self.asked or self.stuns else None

    def _named(self, stuns: Any) -> Iterator[Stun]:
        if self.asked is None:
            return
        _, text, user = self.asked
        for stun in stuns:
            if stun.is_deleted:
                continue
            plain = stun.cause_detail.removesuffix(with_asker("", stun.op_id)).removesuffix(", ")
            yield changed(
                stun,
                revision=stun.revision | 1,
                cause_detail=with_asker(plain, stun.op_id, user),
                evidence=[*stun.evidence[: EVIDENCE_SHOWN - 1], text],
            )
