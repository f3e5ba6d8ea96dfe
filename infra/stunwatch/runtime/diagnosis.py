"""What `stunwatch doctor` looks at on this machine."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from stunwatch.errors import UserError
from stunwatch.runtime import checks, clickhouse, supervision
from stunwatch.settings import Settings, versions

MEMORY_MB = 5120
FETCH_MB = 2700
"""What fetching everything needs at most while it is done."""

RECEIVE_BUFFER_BYTES = 8 << 20
"""With this, 30 000 UDP datagrams a second lose none."""


@dataclass(frozen=True)
class Finding:
    """One thing looked at: `lacking` costs something, without what is `missing` nothing runs."""

    what: str
    grade: Literal["good", "lacking", "missing"]
    found: str
    remedy: str = ""


def findings(settings: Settings) -> list[Finding]:
    """Look at everything; the order is that in which the pipeline needs it."""
    return [
        Finding("Python", "good", platform.python_version()),
        _java(),
        _tool("mvn", (settings.build / "flink-lib").is_dir()),
        _tool("npm", clickhouse.library(settings).exists() or clickhouse.installed() is not None),
        _processor(),
        _disk(settings),
        _memory(settings),
        *_ports(settings),
        _fluent_bit(),
        _receive_buffer(),
    ]


def _checked(what: str, found: Callable[[], str], require: Callable[[], None]) -> Finding:
    try:
        require()
    except UserError as error:
        return Finding(what, "missing", "", str(error))
    return Finding(what, "good", found())


def _java() -> Finding:
    return _checked("Java", lambda: str(checks.java_version()), checks.require_java)


def _tool(command: str, is_fetched: bool) -> Finding:
    name, package = checks.TOOLS[command]
    if path := shutil.which(command):
        return Finding(name, "good", path)
    if is_fetched:
        return Finding(name, "lacking", "", f"Install {package} before the next update.")
    return Finding(name, "missing", "", f"Install {package}: it fetches what the pipeline runs on.")


def _processor() -> Finding:
    flags = _read("/proc/cpuinfo").split()
    if "avx2" in flags or clickhouse.installed():
        return Finding("processor", "good", "AVX2" if "avx2" in flags else platform.machine())
    return Finding(
        "processor",
        "missing",
        "no AVX2",
        "The embedded ClickHouse needs AVX2: install ClickHouse so that `clickhouse` is on the"
        " PATH, or let the virtual machine show its processor's flags.",
    )


def _disk(settings: Settings) -> Finding:
    needed = settings.min_free_mb + (0 if clickhouse.library(settings).exists() else FETCH_MB)
    return _checked(
        "disk",
        lambda: f"{checks.free_mb(settings.home):,} MiB free",
        lambda: checks.require_disk(settings.home, needed, "for intake"),
    )


def _memory(settings: Settings) -> Finding:
    lines = dict(line.split(":", 1) for line in _read("/proc/meminfo").splitlines())
    available_mb = int(lines["MemAvailable"].split()[0]) // 1024
    found = f"{available_mb:,} MiB available"
    if available_mb >= MEMORY_MB or supervision.connect(settings):
        return Finding("memory", "good", found)
    return Finding("memory", "lacking", found, f"The pipeline takes up to {MEMORY_MB} MiB.")


def _ports(settings: Settings) -> Iterator[Finding]:
    if supervision.connect(settings):
        yield Finding("ports", "good", "the pipeline has them")
        return
    busy = checks.busy_ports(settings)
    for each in busy:
        yield Finding("ports", "missing", "", each)
    if not busy:
        yield Finding("ports", "good", ", ".join(str(port) for *_, port in settings.ports()))


def _fluent_bit() -> Finding:
    if path := shutil.which("fluent-bit"):
        return Finding("Fluent Bit", "good", path)
    version = versions()["fluent_bit"]["version"]
    return Finding(
        "Fluent Bit",
        "lacking",
        "",
        f"Live lines come in through Fluent Bit: install {version} from its own packages, or use"
        " its image. `stunwatch replay` does without.",
    )


def _receive_buffer() -> Finding:
    largest = int(_read("/proc/sys/net/core/rmem_max") or 0)
    found = f"net.core.rmem_max = {largest:,}"
    if largest >= RECEIVE_BUFFER_BYTES:
        return Finding("UDP buffer", "good", found)
    return Finding(
        "UDP buffer",
        "lacking",
        found,
        "Syslog over UDP loses lines under load:"
        f" sysctl -w net.core.rmem_max={RECEIVE_BUFFER_BYTES}",
    )


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
