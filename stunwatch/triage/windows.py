"""Aggregates esxtop's samples in 10 s windows, like SampleWindows in the JVM.

A window without a slow sample is stored as one integer, so that a day of thousands of devices fits
in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import orjson

from stunwatch.detectors.catalogue import detector
from stunwatch.engine.owner import epoch_microseconds

Record = dict[str, Any]
Series = tuple[str, str | None, str, str, str, float]
"""Log key, host, object class, device, metric and its threshold in ms."""

WINDOW_MS: Final = 10_000
WINDOWS_AFTER_SLOW: Final = 30
"""How many windows of a device are passed on after a slow one."""

_LIMITS: Final = detector("latency").thresholds
_ENOUGH: Final = float(_LIMITS["enough_commands_per_second_count"])
_WAITING: Final = float(_LIMITS["slow_commands_per_second_count"])
_CLOSING_PERCENT: Final = _LIMITS["closing_percent"]
_KAVG_MS: Final = float(_LIMITS["kavg_ms"])
_EPOCH: Final = datetime(1970, 1, 1)


@dataclass
class Count:
    """The samples of one window that are above a threshold. Times in ms since 1970."""

    slow: int = 0
    warm: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    peak_ms: float | None = None
    sum_ms: float = 0.0

    def add(self, at_ms: int, value: float, *, is_slow: bool) -> None:
        """Add a sample above the closing threshold, which may be slow too."""
        self.warm += 1
        if not is_slow:
            return
        self.slow += 1
        self.first_ms = at_ms if self.first_ms is None else min(self.first_ms, at_ms)
        self.last_ms = at_ms if self.last_ms is None else max(self.last_ms, at_ms)
        self.peak_ms = value if self.peak_ms is None else max(self.peak_ms, value)
        self.sum_ms += value

    def merge(self, other: Count) -> None:
        """Add the samples of the same window from another file."""
        self.slow += other.slow
        self.warm += other.warm
        self.sum_ms += other.sum_ms
        self.first_ms = min(_known(self.first_ms, other.first_ms), default=None)
        self.last_ms = max(_known(self.last_ms, other.last_ms), default=None)
        self.peak_ms = max(_known(self.peak_ms, other.peak_ms), default=None)

    def fields(self, prefix: str) -> Record:
        """Return the window's fields as in the JVM's message."""
        return {
            f"{prefix}slow": self.slow,
            f"{prefix}warm": self.warm,
            f"{prefix}first": None if self.first_ms is None else _text(self.first_ms),
            f"{prefix}last": None if self.last_ms is None else _text(self.last_ms),
            f"{prefix}peak_ms": self.peak_ms,
            f"{prefix}sum_ms": self.sum_ms,
        }


def _known(*values: Any) -> list[Any]:
    return [each for each in values if each is not None]


@dataclass
class Windows:
    """The windows of all devices. Files may be added in any order."""

    quiet: dict[Series, dict[int, int]] = field(default_factory=dict)
    """By window number: samples · 10,000 + the last sample's ms within the window."""
    warm: dict[Series, dict[int, tuple[Count, Count]]] = field(default_factory=dict)
    """By window number: the samples above the main threshold, and above the KAVG threshold."""
    _time: tuple[str, int] = ("", 0)
    _series: dict[tuple[Any, ...], Series | None] = field(default_factory=dict)

    def add(self, owner: str, sample: Mapping[str, Any]) -> None:
        """Add one sample (schemas/esxtop_sample.v1), if it is of a kind that detectors judge."""
        davg = sample.get("davg_ms")
        main = sample.get("gavg_ms") if davg is None else davg
        if main is None:
            return
        name = owner, sample.get("host"), sample["object_class"], sample["device"], davg is None
        if name not in self._series:
            self._series[name] = _series_of(*name)
        series = self._series[name]
        if series is None:
            return
        text = sample["event_time"]
        if self._time[0] != text:
            self._time = text, epoch_microseconds(text) // 1000
        at_ms = self._time[1]
        number, last_ms = divmod(at_ms, WINDOW_MS)
        windows = self.quiet.get(series)
        if windows is None:
            windows = self.quiet[series] = {}
        windows[number] = _packed(windows.get(number, 0), 1, last_ms)
        limit = series[-1]
        kavg = sample.get("kavg_ms")
        if main <= _warm_ms(limit) and (kavg is None or kavg <= _warm_ms(_KAVG_MS)):
            return
        weight = sample.get("commands_per_second", _ENOUGH)
        for place, value, most in ((0, main, limit), (1, kavg, _KAVG_MS)):
            if value is None or value <= _warm_ms(most):
                continue
            if weight >= _ENOUGH or weight * (value / most - 1) >= _WAITING:
                counts = self.warm.setdefault(series, {}).setdefault(number, (Count(), Count()))
                counts[place].add(at_ms, value, is_slow=value > most)

    def merge(self, other: Windows) -> None:
        """Add the windows of other files."""
        for series, windows in other.quiet.items():
            own = self.quiet.setdefault(series, {})
            for number, packed in windows.items():
                own[number] = _packed(own.get(number, 0), *divmod(packed, WINDOW_MS))
        for series, counted in other.warm.items():
            mine = self.warm.setdefault(series, {})
            for number, counts in counted.items():
                if number not in mine:
                    mine[number] = counts
                    continue
                for ours, theirs in zip(mine[number], counts, strict=True):
                    ours.merge(theirs)

    def records(self, run_id: str) -> Iterator[tuple[str, Record]]:
        """Yield, by log key, the windows that follow a slow one as records (jobs/detect.sql)."""
        nothing = Count(), Count()
        for series, counted in self.warm.items():
            if not any(main.slow + kavg.slow for main, kavg in counted.values()):
                continue
            slow_at, windows = None, self.quiet[series]
            for place, number in enumerate(sorted(windows)):
                main, kavg = counted.get(number, nothing)
                if main.slow + kavg.slow:
                    slow_at = place
                if slow_at is not None and place - slow_at <= WINDOWS_AFTER_SLOW:
                    yield series[0], _record(series, number, windows[number], main, kavg, run_id)


def _packed(known: int, samples: int, last_ms: int) -> int:
    known_samples, known_ms = divmod(known, WINDOW_MS)
    return (known_samples + samples) * WINDOW_MS + (last_ms if last_ms > known_ms else known_ms)


def _warm_ms(limit_ms: float) -> float:
    """Return the threshold below which an episode ends."""
    return limit_ms * _CLOSING_PERCENT / 100


def _is_boot_disk(device: str) -> bool:
    """Return True for the local disk from which a host boots."""
    return device.startswith("mpx.") and device.endswith(":C0:T0:L0")


def _series_of(
    owner: str, host: str | None, object_class: str, device: str, is_guest: bool
) -> Series | None:
    """Return the series of a sample; None if it is not judged."""
    if object_class == "device_world" or _is_boot_disk(device):
        return None
    if is_guest:
        name = "gavg_nfs_ms" if object_class == "nfs_volume" else "gavg_virtual_disk_ms"
    else:
        name = "davg_nvme_ms" if device.startswith(("eui.", "t10.NVMe")) else "davg_ms"
    return owner, host, object_class, device, "gavg" if is_guest else "davg", float(_LIMITS[name])


def _record(
    series: Series, number: int, packed: int, main: Count, kavg: Count, run_id: str
) -> Record:
    owner, host, object_class, device, metric, limit_ms = series
    samples, last_ms = divmod(packed, WINDOW_MS)
    last_at = _text(number * WINDOW_MS + last_ms)
    message = {
        "short_window_seconds": WINDOW_MS // 1000,
        "short_window_end": _text((number + 1) * WINDOW_MS - 1),
        "last_at": last_at,
        "object_class": object_class,
        "device": device,
        "origin": "esxtop",
        "metric": metric,
        "limit_ms": limit_ms,
        "samples": samples,
        **main.fields(""),
        **kavg.fields("kavg_"),
    }
    record = {
        "owner": owner,
        "event_time": last_at.replace(" ", "T") + "Z",
        "kind": "line",
        "source": "esxtop",
        "message": orjson.dumps(message).decode(),
        "offset": -1,
        "run_id": run_id,
        "time_quality": "exact",
        "kafka_offset": -1,
    }
    return record if host is None else {**record, "host": host}


def _text(at_ms: int) -> str:
    """Return `2024-05-06 07:08:09.123` in UTC, as Flink writes it."""
    return (_EPOCH + timedelta(milliseconds=at_ms)).isoformat(" ", timespec="milliseconds")
