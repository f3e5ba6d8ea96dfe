"""Facts about one operation from the logs of hosts and VMs, routed to one tracker.

An operation's ID is the same in hostd's log and in the VM's, which have different log keys. So
hostd's lines and the VM's stuns are forwarded as facts: records whose log key is the operation ID.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from stunwatch.detectors.operations.asking import user_of
from stunwatch.detectors.stuns.tracker import Stun

KIND = "operation"
"""The kind of a record that is a fact about an operation."""

Fact = dict[str, Any]


class Facts:
    """The facts from one log key. Keeps no state."""

    def feed(self, record: Mapping[str, Any]) -> Iterator[Fact]:
        """Yield the fact in a host's line."""
        if user_of(record):
            yield {**record, "kind": KIND, "owner": record["op_id"]}

    def of_event(self, event: Any) -> Iterator[Fact]:
        """Yield a stun from the VM's own log as a fact."""
        if isinstance(event, Stun) and event.op_id:
            yield {
                "owner": event.op_id,
                "kind": KIND,
                "source": "stuns",
                "event_time": event.ended_at,
                "head": "",
                "message": orjson.dumps(event).decode(),
                "run_id": event.run_id,
                "time_quality": "exact",
                "kafka_offset": 0,
            }

    def advance_time(self, event_time_us: int) -> Iterator[Fact]:
        """Yield nothing: no fact is held back."""
        yield from ()

    def flush(self) -> Iterator[Fact]:
        """Yield nothing: no fact is held back."""
        yield from ()

    @property
    def next_timer_us(self) -> int | None:
        """None: no state is kept."""
        return None
