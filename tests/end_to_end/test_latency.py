"""An esxtop file becomes windows and episodes, and once more changes nothing."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from tests.end_to_end.conftest import Pipeline

START = datetime(2024, 5, 6, 7, 0, 0)
HOST = "esx61.lab.example"


def write_csv(
    path: Path,
    series: dict[str, list[float]],
    step_seconds: int,
    host: str = HOST,
    start: datetime = START,
) -> None:
    """esxtop's batch output: device to its DAVG, a hundred commands a second."""
    counters = ("Average Driver MilliSec/Command", "Average Kernel MilliSec/Command")
    header = ['"(PDH-CSV 4.0) (UTC)(0)"']
    for device in series:
        place = f"\\\\{host}\\Physical Disk SCSI Device({device})"
        header += [f'"{place}\\{each}"' for each in (*counters, "Commands/sec")]
    rows = [",".join(header)]
    for number in range(len(next(iter(series.values())))):
        at = start + timedelta(seconds=number * step_seconds)
        values = [f'"{at:%m/%d/%Y %H:%M:%S}"']
        for davgs in series.values():
            values += [f'"{davgs[number]}"', '"0.02"', '"100.00"']
        rows.append(",".join(values))
    path.write_text("\n".join(rows) + "\n")


def test_an_incident_a_spike_and_a_healthy_device(pipeline: Pipeline, tmp_path: Path) -> None:
    folder = tmp_path / HOST
    folder.mkdir()
    series = {
        "naa.6100": [3.0] * 12 + [400.0] * 30 + [3.0] * 78,
        "naa.6101": [4.0] * 50 + [90.0] + [4.0] * 69,
        "naa.6102": [5.0] * 120,
    }
    write_csv(folder / "esxtop.csv", series, 5)
    pipeline.run("replay", folder)
    episodes = (
        "SELECT device, kind, origin, toString(started_at), toString(ended_at), peak_ms, samples,"
        f" baseline_ms, baseline_spread FROM latency_episodes WHERE host = '{HOST}' ORDER BY device"
    )
    assert pipeline.rows(episodes) == [
        (
            *("naa.6100", "sustained", "esxtop"),
            *("2024-05-06 07:01:00.000000", "2024-05-06 07:03:25.000000", 400.0, 30, 3.0),
            # the quartiles hold a quarter of incident
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
    before = pipeline.views()
    pipeline.run("replay", folder)
    assert pipeline.views() == before
