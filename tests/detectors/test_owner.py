"""The trackers of one log key: which records they receive, and what state is kept."""

from typing import Any

from stunwatch.detectors.catalogue import LONGEST_SEARCHED
from stunwatch.engine.owner import Owner
from stunwatch.schema import SQL

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


def test_stun_lines_in_a_host_log_are_ignored() -> None:
    assert list(Owner().feed(record(UNSTUN)))
    assert not list(Owner().feed(record(UNSTUN, source="syslog", program="hostd")))


def test_a_log_key_without_state_has_no_timer() -> None:
    owner = Owner()
    list(owner.feed(record("nothing of interest")))
    assert owner.next_timer_us is None
    list(owner.feed(record(UNSTUN)))
    while (due_us := owner.next_timer_us) is not None:
        list(owner.advance_time(due_us))
    assert owner.event_time_us > NOON_US


def test_a_message_above_the_length_limit_is_not_searched() -> None:
    longest = UNSTUN.ljust(LONGEST_SEARCHED)
    assert list(Owner().feed(record(longest)))
    owner = Owner()
    assert not list(owner.feed(record(f"{longest} ")))
    assert owner.event_time_us == NOON_US
    assert owner.next_timer_us is None


def test_clickhouse_counts_lines_above_the_same_length_limit() -> None:
    view = (SQL / "materialized_views" / "log_lines_mv.sql").read_text()
    assert f"lengthUTF8(message) > {LONGEST_SEARCHED} AS unsearched" in view
