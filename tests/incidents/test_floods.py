"""The time of the correlator grows linearly with the number of signals in a flood."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from stunwatch.incidents.grouping import troubles
from stunwatch.incidents.signals import Signal
from stunwatch.incidents.topology import Topology

MANY, TIMES = 500, 4
NOW_US = 1_700_000_000_000_000


def signal(number: int, **told: object) -> Signal:
    known = {
        **{"event_id": str(number), "at_us": NOW_US, "until_us": NOW_US, "known_us": NOW_US},
        **{"host": f"h{number}", "device": f"naa.6{number:031x}", "kind": "slow"},
        "detail": "",
    }
    return Signal(**{**known, **told})  # type: ignore[arg-type]


FLOODS: dict[str, Callable[[int], Signal]] = {
    "slow devices, a host each": signal,
    "slow devices of one host": lambda number: signal(number, host="h"),
    "slow devices of one array": lambda number: signal(
        number, device=f"naa.600a0b80002a1c3d0000{number:012x}"
    ),
    "stuns of one VM": lambda number: signal(
        number, kind="stun", device="naa.6", vm="web", at_us=NOW_US + number, size=1_000_000
    ),
    "conflicts on no device": lambda number: signal(
        number, kind="conflict", detail="failed", device=""
    ),
    "dead paths": lambda number: signal(number, kind="path", detail="path_dead", host="h"),
    "everything at once": lambda number: signal(
        number,
        kind=("slow", "stun", "conflict", "scsi", "hole")[number % 5],
        detail="failed",
        vm=f"vm{number}",
        host=f"h{number % 50}",
        size=9_000_000,
    ),
}


def seconds(make: Callable[[int], Signal], many: int) -> float:
    """Return the CPU time of one calculation with this many signals; the better of two."""
    signals = [make(number) for number in range(many)]
    best = float("inf")
    for _ in range(2):
        began = time.process_time()
        troubles(signals, Topology())
        best = min(best, time.process_time() - began)
    return best


@pytest.mark.parametrize("make", FLOODS.values(), ids=FLOODS)
def test_time_grows_linearly_with_the_number_of_signals(make: Callable[[int], Signal]) -> None:
    # A factor of two for noise; a comparison of all pairs would take 16 times as long.
    assert seconds(make, MANY * TIMES) < 0.1 + 2 * TIMES * seconds(make, MANY)
