"""Migrations: rows that follow from several logs."""

from stunwatch.detectors.catalogue import detector
from stunwatch.engine.owner import FACTS, Owner
from tests.detectors.cases import (
    Record,
    final_rows,
    joins_of,
    records_by_owner,
    run_joined,
)

SECOND_US = 1_000_000


def test_replaying_the_host_after_the_vm_adds_no_stun() -> None:
    [join] = [join for join in joins_of(detector("migrations")) if "contains_the_stun" in join.name]
    vm, host = records_by_owner(join).values()
    for runs in ([vm, host], [host, vm]):
        rows = final_rows(event for records in runs for event in run_joined(records))
        assert [row["measured_by"] for row in rows] == ["unstun"]


def host_stun(at_us: int) -> Record:
    return {
        "kind": "line",
        "source": "syslog",
        "host": "esx01.lab.example",
        "head": "2014-12-11T18:33:19.874Z [6A623B90 verbose 'VMotionSrc (1418322799436303)'] ",
        "message": "Set source task result precopyStunTime to 71204",
        "run_id": "live",
        "event_time": "2014-12-11T18:33:19.874Z",
        "event_time_us": at_us,
        "time_quality": "exact",
    }


def test_the_stun_in_the_host_log_waits_for_the_vm_log() -> None:
    owner = Owner()
    assert not list(owner.feed(host_stun(0)))
    assert owner.next_timer_us == 3 * SECOND_US
    assert not list(owner.advance_time(3 * SECOND_US - 1))
    [(topic, fact)] = owner.advance_time(3 * SECOND_US)
    assert (topic, fact["owner"]) == (FACTS, "1418322799436303")
    assert owner.next_timer_us is None
