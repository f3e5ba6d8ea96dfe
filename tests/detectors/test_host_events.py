"""Events of hosts that vCenter repeats: their host, and lines that are not copies."""

from __future__ import annotations

import time
from typing import Any

import pytest

from stunwatch.detectors.host_events import copied
from stunwatch.engine.owner import Owner, feed_in_order
from tests.detectors.cases import owner_of

AT_US = 1_646_370_368_290_117  # 2022-03-04T05:06:08.290117Z
LOST = "vmsyslog logger 192.0.2.10:514 lost 17 log messages"


def record(text: str, at: str = "2022-03-04T05:06:07.18797Z") -> dict[str, Any]:
    """Return the line that vCenter sends for an event with this text."""
    return {
        "kind": "line",
        "source": "syslog",
        "program": "vpxd",
        "host": "vcenter01.lab.example",
        "owner": "vcenter01",
        "head": "<14>1 2022-03-04T05:06:08.290117+00:00 vcenter01.lab.example vpxd 5012 - - ",
        "message": f" Event [81204] [1-1] [{at}] [vim.event.EventEx] [warning]"
        rf" [LAB\operator] [Site A] [81204] [{text}]",
        "event_time_us": AT_US,
        "kafka_offset": 0,
        "run_id": "case",
        "time_quality": "exact",
    }


@pytest.mark.parametrize(
    ("host", "owner"),
    [
        ("esx01.lab.example", "esx01"),
        ("ESX01", "esx01"),
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8::7", "2001:db8::7"),
    ],
)
def test_a_copy_gets_the_key_of_the_host_in_its_text(host: str, owner: str) -> None:
    copy = copied(record(f"Issue detected on {host} in Site A: {LOST}"))
    assert copy is not None
    assert (copy.host, copy.text) == (host, LOST)
    assert copy.at_us == 1_646_370_367_187_970
    assert owner_of(record(f"Issue detected on {host} in Site A: {LOST}")) == owner


@pytest.mark.parametrize(
    "text",
    [
        f"Alarm 'Host error' on esx01 triggered by event 1 'Issue detected on esx01 in A: {LOST}",
        "Issue detected on esx01",
        LOST,
        "User root@192.0.2.9 logged in as Issue detected on esx01",
    ],
)
def test_a_line_without_a_host_or_with_a_quoted_event_is_not_a_copy(text: str) -> None:
    assert copied(record(text)) is None


def test_a_quoted_event_keeps_the_key_of_the_vcenter() -> None:
    assert owner_of(record(f"Alarm 'a' by 'Issue detected on esx01 in A: {LOST}")) == "vcenter01"


@pytest.mark.parametrize(
    "at",
    [
        "9999-12-31T23:59:59.9Z",
        "0001-01-01T00:00:00Z",
        "2021-01-01T00:00:00Z",
        "2022-03-04",
        "2022-03-04T05:06:07",
        "soon",
    ],
)
def test_an_implausible_time_is_replaced_by_that_of_the_line(at: str) -> None:
    copy = copied(record(f"Issue detected on esx01 in Site A: {LOST}", at))
    assert copy is not None
    assert copy.at_us == AT_US


def test_the_hosts_own_line_and_vcenters_copy_are_one_event() -> None:
    own = {
        **record(""),
        "program": "vmkernel",
        "host": "esx01.lab.example",
        "owner": "esx01",
        "head": "2022-03-04T05:06:07.180Z cpu16:65733)",
        "message": f"ALERT: {LOST}",
        "event_time_us": AT_US - 1_110_117,
    }
    owners: dict[str, Owner] = {}
    copy = record(f"Issue detected on esx01.lab.example in Site A: {LOST}")
    for records in ([own, copy], [copy, own]):
        owners.clear()
        final: dict[str, Any] = {}
        for each in records:
            for owner, (_, event) in feed_in_order(owners, [{**each, "owner": owner_of(each)}]):
                assert owner == "esx01"
                final[event.event_id] = event
        [event] = [each for each in final.values() if not each.is_deleted]
        assert (event.host, event.count) == ("esx01.lab.example", 17)


@pytest.mark.parametrize("filling", [" ", "a", "in ", ": ", "]", ":", ".", "[", "1"])
def test_parsing_time_grows_linearly_with_the_length_of_a_line(filling: str) -> None:
    def took_s(length: int) -> float:
        hostile = record("Issue detected on " + filling * length)
        began = time.process_time()
        for _ in range(20):
            copied(hostile)
            owner_of(hostile)
        return time.process_time() - began

    took_s(1_000)
    assert took_s(64_000) < 0.5
