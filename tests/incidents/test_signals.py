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
