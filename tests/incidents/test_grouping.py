"""Which signals one incident has, and in which order."""

from __future__ import annotations

from stunwatch.incidents.grouping import troubles
from stunwatch.incidents.signals import Signal
from stunwatch.incidents.topology import Topology

HOUR_US = 3_600_000_000
NOW_US = 1_700_000_000_000_000


def slow(device: str, host: str, at_us: int) -> Signal:
    return Signal(
        event_id=f"{device} {host} {at_us}",
        kind="slow",
        detail="",
        at_us=at_us,
        until_us=at_us + 60_000_000,
        known_us=at_us,
        host=host,
        device=device,
    )


def test_earlier_signals_of_other_incidents_do_not_change_the_order_of_signals() -> None:
    """Live, they are forgotten after hours; a replay reads all events around its time."""
    first, second = "naa.600a0b80002a1c3d000000000000000a", "naa.600a0b80002a1c3d000000000000000b"
    now = [slow(device, host, NOW_US) for device in (first, second) for host in ("esx1", "esx2")]
    earlier = slow(second, "esx1", NOW_US - 5 * HOUR_US)
    [alone] = troubles(now, Topology())
    old, same = sorted(troubles([earlier, *now], Topology()), key=lambda each: each.began_us)
    assert [each.event_id for each in old.signals] == [earlier.event_id]
    assert len(same.signals) == len(now)
    assert same.signals == alone.signals
