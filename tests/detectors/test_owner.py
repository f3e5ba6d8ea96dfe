"""What all trackers of one log owner share: who is fed what, and what is kept."""

from typing import Any

from engine.owner import Owner

NOON_US = 1_331_208_000_000_000  # 2012-03-08T12:00:00Z
UNSTUN = "Checkpoint_Unstun: vm stopped for 312000 us"


def record(message: str, at_us: int = NOON_US, **fields: Any) -> dict[str, Any]:
    return {
        "kind": "line",
        "source": "vmware_log",
        "vm": "vm01",
        "datastore": "datastore01",
        "head": "2012-03-08T12:00:00.000Z| vcpu-0| ",
        "message": message,
        "run_id": "case",
        "event_time_us": at_us,
        "time_quality": "exact",
        **fields,
    }


def test_lines_of_the_host_tell_no_stun() -> None:
    assert list(Owner().feed(record(UNSTUN)))
    assert not list(Owner().feed(record(UNSTUN, source="syslog", program="hostd")))


def test_an_owner_that_keeps_nothing_has_no_next_time() -> None:
    owner = Owner()
    list(owner.feed(record("nothing of interest")))
    assert owner.next_due_us is None
    list(owner.feed(record(UNSTUN)))
    while (due_us := owner.next_due_us) is not None:
        list(owner.tick(due_us))
    assert owner.event_time_us > NOON_US
