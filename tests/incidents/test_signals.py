"""Conversion of single events to signals."""

import pytest

from stunwatch.incidents.signals import microseconds, signal_of


@pytest.mark.parametrize(
    ("path", "device", "detail"),
    [("vmhba3:C0:T1:L5", "", "path_dead"), ("", "naa.60a98000572aa77", "pdl")],
)
def test_a_lun_that_is_lost_on_one_path_only_is_a_dead_path(
    path: str, device: str, detail: str
) -> None:
    event = {
        "event_id": "1",
        "kind": "pdl",
        "host": "esx01",
        "path": path,
        "device": device,
        "datastore": "",
        "started_at": "2014-07-09T10:43:26.857000Z",
        "ended_at": None,
        "evidence": [],
    }
    signal = signal_of("events.path", event)
    assert signal is not None
    assert signal.detail == detail


OUTAGE = {
    "event_id": "1",
    "host": "esx01",
    "server": "nas01",
    "share": "/vol/gold",
    "datastore_uuid": "f0102e1f-41b7b812",
    "datastore": "nfs gold",
    "started_at": "2014-07-09T10:43:26.857000Z",
    "ended_at": None,
    "evidence": ["a line"],
}


def test_an_outage_of_an_nfs_server_names_its_volume() -> None:
    signal = signal_of("events.nfs", OUTAGE)
    assert signal is not None
    assert (signal.datastore, signal.volume) == ("f0102e1f-41b7b812", "nfs gold")
    assert signal.until_us is not None and signal.until_us > signal.at_us


@pytest.mark.parametrize("field", ["host", "datastore_uuid", "datastore", "started_at", "evidence"])
@pytest.mark.parametrize("value", [None, 7, {}])
def test_a_malformed_outage_raises_an_error(field: str, value: object) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        signal_of("events.nfs", OUTAGE | {field: value})


@pytest.mark.parametrize(
    ("moment", "expected_us"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2012-03-23T16:22:51.876Z", 1_332_519_771_876_000),
        ("2012-03-23T18:22:51.876543+02:00", 1_332_519_771_876_543),
        ("1969-12-31T23:59:59.999999Z", -1),
        ("2199-12-31T23:59:59.999999Z", 7_258_118_399_999_999),
    ],
)
def test_times_are_exact_to_the_microsecond(moment: str, expected_us: int) -> None:
    assert microseconds(moment) == expected_us


def test_a_time_without_a_zone_is_invalid() -> None:
    with pytest.raises(ValueError, match="has no time zone"):
        microseconds("2012-03-23T16:22:51.876")
