"""What a fleet needs grows with it, and is what the assumptions come to by hand."""

from __future__ import annotations

from dataclasses import asdict
from itertools import pairwise

import pytest

from stunwatch import scaling
from stunwatch.scaling import FLEETS, figures, limits, needs


def test_a_larger_fleet_never_needs_less() -> None:
    sizes = [asdict(needs(hosts)) for hosts in (1, *FLEETS)]
    for smaller, larger in pairwise(sizes):
        assert all(larger[name] >= smaller[name] for name in smaller)
        assert all(value > 0 for value in smaller.values())


def test_a_thousand_hosts_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {
        **figures(),
        "syslog_lines_per_host_and_second": 10.0,
        "vms_per_host": 20.0,
        "vm_log_megabytes_per_vm_and_day": 0.5,
        "bytes_per_line": 200.0,
        "samples_per_host_and_second": 3.5,
        "peak_times": 5.0,
        "busy_percent": 50.0,
        "clickhouse_us_per_line": 20.0,
        "clickhouse_bytes_per_line": 50.0,
        "clickhouse_bytes_per_sample": 10.0,
        "clickhouse_bytes_per_stun": 500.0,
        "stuns_per_vm_and_day": 2.0,
        "fluent_bit_lines_per_core_second": 60_000.0,
    }
    monkeypatch.setattr(scaling, "figures", lambda: made)
    found = needs(1_000)
    # 20 VMs write 2,500 lines a day each: 0.5787 lines a second and host.
    assert found.lines_per_second == pytest.approx(10_578.7, abs=0.1)
    assert found.samples_per_second == 3_500
    # 52,893.5 lines a second at the peak, 30,000 to a core that is half busy.
    assert found.fluent_bit_cores == 2
    # 56,393.5 lines and samples, 25,000 to a core.
    assert found.clickhouse_cores == 3
    # 45.70 GB of lines, 3.02 of samples, 0.02 of stuns.
    assert found.clickhouse_gigabytes_per_day == pytest.approx(48.74, abs=0.01)


def test_what_breaks_first_stands_first() -> None:
    hosts = [each for _, each, _ in limits()]
    assert hosts == sorted(hosts)
    assert hosts[0] > 0


def test_days_are_those_of_the_project() -> None:
    assert scaling.kafka_days() == 3
    assert scaling.kept_days()["log_lines_stored"] == 30
