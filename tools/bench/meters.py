"""What a component of the pipeline uses: CPU and memory."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil

from stunwatch.local.processes import processes
from stunwatch.settings import Settings

LOOK_EVERY_S = 2.0
"""Pause between looks. A look takes about 20 ms of CPU, because it reads all processes of the
machine and all threads of the component: with pauses of 0.25 s, two meters took a twelfth of two
cores from the pipeline that they measured."""


class CpuMeter:
    """Measures the CPU-seconds of a component's processes, including those that end meanwhile.

    What a process uses between the last look and its end is missing.
    """

    def __init__(self, settings: Settings, component: str) -> None:
        self._settings = settings
        self._component = component
        self._first: dict[int, float] = {}
        self._last: dict[int, float] = {}
        self._compilers: dict[int, float] = {}
        self._first_compilers: dict[int, float] = {}
        self._is_done = threading.Event()
        self._look()
        self._first = dict(self._last)
        self._first_compilers = dict(self._compilers)
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> float:
        """Return the CPU-seconds since the meter was created."""
        self._look()
        self._is_done.set()
        self._thread.join()
        return _since(self._first, self._last)

    @property
    def compiling_s(self) -> float:
        """The CPU-seconds in it that the JVM spent on compiling. They end once all code is hot."""
        return _since(self._first_compilers, self._compilers)

    def _watch(self) -> None:
        while not self._is_done.wait(LOOK_EVERY_S):
            self._look()

    def _look(self) -> None:
        for each in processes(self._settings):
            if each.component == self._component:
                # A process that has ended keeps what was seen of it last.
                self._last[each.pid] = max(each.cpu_seconds, self._last.get(each.pid, 0.0))
                self._compilers |= _compilers(each.pid)


def _since(first: dict[int, float], last: dict[int, float]) -> float:
    return sum(used - first.get(name, 0.0) for name, used in last.items())


def _compilers(pid: int) -> dict[int, float]:
    """Return the CPU-seconds of a JVM's compiler threads, by thread."""
    found = {}
    with suppress(psutil.Error):
        for each in psutil.Process(pid).threads():
            with suppress(OSError):
                name = Path(f"/proc/{pid}/task/{each.id}/comm").read_text()
                if name.startswith(("C1 Compiler", "C2 Compiler")):
                    found[each.id] = each.user_time + each.system_time
    return found


def idle(settings: Settings, seconds: float) -> dict[str, float]:
    """Measure a pipeline that receives nothing: shares of a core, and MiB in RAM."""
    components = sorted({each.component for each in processes(settings)})
    meters = {each: CpuMeter(settings, each) for each in components}
    time.sleep(seconds)
    cores = {name: meter.stop() / seconds for name, meter in meters.items()}
    mib = dict.fromkeys(components, 0.0)
    for each in processes(settings):
        mib[each.component] = mib.get(each.component, 0.0) + each.resident_bytes / 2**20
    return {
        "idle_cores": sum(cores.values()),
        **{f"idle_cores_{name}": used for name, used in cores.items()},
        "resident_mib": sum(mib.values()),
        **{f"resident_mib_{name}": used for name, used in mib.items()},
    }
