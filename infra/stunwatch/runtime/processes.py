"""The pipeline's processes, found in /proc by the environment that each of them inherits."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from stunwatch.settings import Settings

MARK = "STUNWATCH_COMPONENT"
"""The variable that names a process's component; its children have it too."""

PROC = Path("/proc")
LISTEN = "0A"
"""The state of a listening socket in /proc/net/tcp."""


@dataclass(frozen=True)
class Process:
    """One process of a pipeline."""

    pid: int
    group: int
    component: str

    @property
    def resident_bytes(self) -> int:
        """Memory in RAM, in bytes; 0 if the process has ended."""
        try:
            pages = int((PROC / str(self.pid) / "statm").read_text().split()[1])
        except (OSError, IndexError):
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE")


def processes(settings: Settings) -> Iterator[Process]:
    """Yield every process of this pipeline, the caller excepted."""
    home = f"STUNWATCH_HOME={settings.home}".encode()
    mark = f"{MARK}=".encode()
    for each in PROC.iterdir():
        if not each.name.isdecimal() or int(each.name) == os.getpid():
            continue
        try:
            variables = (each / "environ").read_bytes().split(b"\0")
            if home not in variables:
                continue
            component = next((text for text in variables if text.startswith(mark)), b"")
            pid = int(each.name)
            if component:
                yield Process(pid, os.getpgid(pid), component[len(mark) :].decode())
        except (OSError, ProcessLookupError):
            continue


def end(these: Collection[Process], patience_seconds: float) -> None:
    """Ask processes to end, then make them."""
    for one_signal, wait_seconds in ((signal.SIGTERM, patience_seconds), (signal.SIGKILL, 5.0)):
        for each in these:
            _send(each.pid, one_signal)
        deadline = time.monotonic() + wait_seconds
        while any(is_alive(each.pid) for each in these) and time.monotonic() < deadline:
            time.sleep(0.05)
        these = [each for each in these if is_alive(each.pid)]


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that has ended and waits for its parent does not."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def holder_of(port: int) -> str | None:
    """Name who listens on a TCP port, as `java, pid 4711`; None where /proc does not tell."""
    inodes = set()
    for table in ("tcp", "tcp6"):
        try:
            lines = (PROC / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            words = line.split()
            if words[3] == LISTEN and int(words[1].rpartition(":")[2], 16) == port:
                inodes.add(f"socket:[{words[9]}]")
    for process in PROC.iterdir():
        if not process.name.isdecimal():
            continue
        with suppress(OSError):
            if not inodes.isdisjoint(_open_files(process)):
                return f"{(process / 'comm').read_text().strip()}, pid {process.name}"
    return None


def _open_files(process: Path) -> Iterator[str]:
    for link in (process / "fd").iterdir():
        with suppress(OSError):  # closed in between
            yield str(link.readlink())


def _send(pid: int, one_signal: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, one_signal)
