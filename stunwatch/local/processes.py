"""Finds the pipeline's processes, by an environment variable that they all inherit."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass

import psutil

from stunwatch.settings import Settings

MARK = "STUNWATCH_COMPONENT"
"""The variable with the name of a process's component; its children inherit it."""

KILLED_SECONDS = 5.0
"""How long to wait for processes that SIGKILL was sent to."""


@dataclass(frozen=True)
class Process:
    """One process of a pipeline."""

    pid: int
    group: int
    component: str

    @property
    def resident_bytes(self) -> int:
        """Memory in RAM, in bytes; 0 if the process has ended."""
        with suppress(psutil.Error):
            return int(psutil.Process(self.pid).memory_info().rss)
        return 0

    @property
    def cpu_seconds(self) -> float:
        """CPU time so far, user and system; 0 if the process has ended."""
        with suppress(psutil.Error):
            used = psutil.Process(self.pid).cpu_times()
            return float(used.user + used.system)
        return 0.0


def processes(settings: Settings) -> Iterator[Process]:
    """Yield every process of this pipeline except the caller."""
    for each in psutil.process_iter():
        # It may end at any time; the environment of other users' processes cannot be read.
        with suppress(psutil.Error, OSError):
            variables = each.environ()
            component = variables.get(MARK)
            is_ours = variables.get("STUNWATCH_HOME") == str(settings.home)
            if component and is_ours and each.pid != os.getpid():
                yield Process(each.pid, os.getpgid(each.pid), component)


def end(these: Collection[Process], patience_seconds: float) -> None:
    """Send SIGTERM to processes, then SIGKILL to those still alive after `patience_seconds`."""
    found = []
    for each in these:
        with suppress(psutil.NoSuchProcess):
            found.append(psutil.Process(each.pid))
    for each in found:
        with suppress(psutil.NoSuchProcess):
            each.terminate()
    _, alive = psutil.wait_procs(found, timeout=patience_seconds)
    for each in alive:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    psutil.wait_procs(alive, timeout=KILLED_SECONDS)


def is_alive(pid: int) -> bool:
    """True if a process runs; a zombie does not."""
    with suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False


def holder_of(port: int) -> str | None:
    """Return the process that listens on a TCP port, as `java, pid 4711`; None if unknown."""
    for each in psutil.process_iter():
        with suppress(psutil.Error):
            sockets = each.net_connections(kind="tcp")
            if any(one.status == psutil.CONN_LISTEN and one.laddr.port == port for one in sockets):
                return f"{each.name()}, pid {each.pid}"
    return None
