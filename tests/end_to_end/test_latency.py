"""An esxtop file gives windows and episodes."""

from __future__ import annotations

from tests.end_to_end.conftest import Replayed
from tests.end_to_end.logs import LATENCY_HOST as HOST
from tests.pipeline import Pipeline


def test_esxtop_gives_a_sustained_episode_a_spike_and_no_other(
    pipeline: Pipeline, replayed: Replayed
) -> None:
    episodes = (
        "SELECT device, kind, origin, toString(started_at), toString(ended_at), peak_ms, samples,"
        f" baseline_ms, baseline_spread FROM latency_episodes WHERE host = '{HOST}' ORDER BY device"
    )
    assert pipeline.rows(episodes) == [
        (
            *("naa.6100", "sustained", "esxtop"),
            *("2024-05-06 07:01:00.000000", "2024-05-06 07:03:25.000000", 400.0, 30, 3.0),
            # the quartiles include samples of the incident
            pipeline.rows(episodes)[0][8],
        ),
        (
            *("naa.6101", "spike", "esxtop"),
            *("2024-05-06 07:04:10.000000", "2024-05-06 07:04:10.000000", 90.0, 1, 4.0, 1.0),
        ),
    ]
    windows = pipeline.rows(
        "SELECT device, count(), sum(samples), max(max_davg_ms), max(p95_davg_ms)"
        f" FROM latency_windows WHERE host = '{HOST}' GROUP BY device ORDER BY device"
    )
    assert windows == [
        ("naa.6100", 10, 120, 400.0, 400.0),
        ("naa.6101", 10, 120, 90.0, windows[1][4]),
        ("naa.6102", 10, 120, 5.0, 5.0),
    ]
