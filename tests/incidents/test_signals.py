"""Conversion of single events to signals."""

import pytest

from stunwatch.incidents.signals import signal_of


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
