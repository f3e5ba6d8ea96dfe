"""10 s windows over samples, equal to those of jobs/samples.sql."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import orjson

from stunwatch.detectors.catalogue import detector
from stunwatch.triage.windows import WINDOWS_AFTER_SLOW, Windows
from tests.end_to_end.logs import LATENCY_START
from tests.end_to_end.made import sample

LIMITS = detector("latency").thresholds


def windows_of(*samples: dict[str, Any]) -> list[dict[str, Any]]:
    windows = Windows()
    for each in samples:
        windows.add("esx1", each)
    return [orjson.loads(record["message"]) for _, record in windows.records("r")]


def at(second: int, davg_ms: float = 3.0, **more: Any) -> dict[str, Any]:
    moment = LATENCY_START + timedelta(seconds=second)
    return sample("esx1", more.pop("device", "naa.1"), moment, davg_ms, run_id="r") | more


def test_windows_are_passed_on_for_a_while_after_a_slow_one() -> None:
    shown = windows_of(*(at(10 * each, 400.0 if each == 5 else 3.0) for each in range(60)))
    assert len(shown) == WINDOWS_AFTER_SLOW + 1
    assert shown[0]["slow"] == shown[0]["samples"] == 1
    assert shown[0]["first"] == shown[0]["last"] == "2024-05-06 07:00:50.000"
    assert shown[0]["short_window_end"] == "2024-05-06 07:00:59.999"
    assert not any(each["slow"] for each in shown[1:])


def test_few_commands_count_as_slow_only_with_a_long_wait() -> None:
    assert not windows_of(at(0, 100.0, commands_per_second=2.0))
    assert windows_of(at(0, 400.0, commands_per_second=2.0))


def test_the_boot_disk_and_worlds_are_not_judged() -> None:
    assert not windows_of(at(0, 400.0, device="mpx.vmhba1:C0:T0:L0"))
    assert not windows_of(at(0, 400.0, object_class="device_world"))


def test_each_kind_of_device_has_its_threshold() -> None:
    [nvme] = windows_of(at(0, 400.0, device="t10.NVMe____1"))
    assert nvme["limit_ms"] == LIMITS["davg_nvme_ms"]
    guest = at(0, object_class="nfs_volume", gavg_ms=400.0)
    del guest["davg_ms"]
    [nfs] = windows_of(guest)
    assert (nfs["metric"], nfs["limit_ms"]) == ("gavg", LIMITS["gavg_nfs_ms"])


def test_files_read_separately_give_the_same_windows() -> None:
    samples = [at(each, 400.0 if each % 7 < 3 else 21.0, kavg_ms=each / 8) for each in range(90)]
    together = Windows()
    for part in (samples[1::2], samples[::2]):
        windows = Windows()
        for each in part:
            windows.add("esx1", each)
        together.merge(windows)
    assert [orjson.loads(record["message"]) for _, record in together.records("r")] == windows_of(
        *samples
    )
