"""Checks whether this machine can run the pipeline, for `stunwatch doctor`, `up` and `demo`.

`look` collects the facts; `findings` assesses them and has no side effects.
"""

from __future__ import annotations

import platform
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from stunwatch import extras
from stunwatch.errors import UserError
from stunwatch.local import checks, clickhouse, fetch, supervision
from stunwatch.settings import Settings, versions

MEMORY_MB = 5120

RECEIVE_BUFFER_BYTES = 8 << 20
"""With this buffer, no datagram is lost at 30,000 UDP datagrams a second."""

MAVEN = "mvn"


@dataclass(frozen=True)
class Download:
    """A download that is missing: its tool, and its size in MiB."""

    label: str
    tool: str
    size_mb: int


@dataclass(frozen=True)
class Machine:
    """Facts about the machine. Sizes are in MiB."""

    python: tuple[int, int]
    missing_packages: tuple[str, ...]
    """Packages of the extra `pipeline` that are not installed."""
    java: int | None
    has_javac: bool
    tools: dict[str, str | None]
    """Path of each command, None if it is missing."""
    downloads: tuple[Download, ...]
    system: str
    processor: str
    flags: frozenset[str]
    """Flags from /proc/cpuinfo; empty if they are hidden."""
    clickhouse: str | None
    """Path of an installed ClickHouse."""
    unwritable: tuple[Path, ...]
    home_free_mb: int
    build_free_mb: int
    is_one_disk: bool
    """Whether data and downloads are on the same file system."""
    available_mb: int | None
    is_up: bool
    """Whether the pipeline runs. If so, the used ports and memory are its own."""
    busy_ports: tuple[str, ...]
    """One sentence for each port that another program uses."""
    receive_buffer: int


@dataclass(frozen=True)
class Finding:
    """One check: `lacking` is a disadvantage, `missing` prevents the start."""

    what: str
    grade: Literal["good", "lacking", "missing"]
    found: str
    remedy: str = ""


def require(settings: Settings) -> None:
    """Check everything before the first download or start.

    Raises:
        UserError: a requirement is missing; the message names all that are.
    """
    missing = [
        each.remedy for each in findings(look(settings), settings) if each.grade == "missing"
    ]
    if len(missing) == 1:
        raise UserError(missing[0])
    if missing:
        lines = "".join(f"\n  {each}" for each in missing)
        raise UserError(f"{len(missing)} things are missing on this machine:{lines}")


def look(settings: Settings) -> Machine:
    """Collect the facts. Runs only `java -version` and writes nothing."""
    downloads = tuple(
        Download(each.label, each.tool, each.size_mb)
        for each in fetch.fetches(settings)
        if not each.is_there()
    )
    tools = {MAVEN, "npm", "fluent-bit", *(each.tool for each in downloads)}
    major, minor, _ = platform.python_version_tuple()
    is_up = supervision.connect(settings) is not None
    return Machine(
        python=(int(major), int(minor)),
        missing_packages=tuple(extras.missing()),
        java=checks.java_version(),
        has_javac=checks.has_javac(),
        tools={each: shutil.which(each) for each in tools},
        downloads=downloads,
        system=platform.system(),
        processor=platform.machine(),
        flags=frozenset(_read("/proc/cpuinfo").split()),
        clickhouse=clickhouse.installed(),
        unwritable=checks.unwritable(settings),
        home_free_mb=checks.free_mb(settings.home),
        build_free_mb=checks.free_mb(settings.build),
        is_one_disk=checks.disk_of(settings.home) == checks.disk_of(settings.build),
        available_mb=_available_mb(),
        is_up=is_up,
        busy_ports=() if is_up else tuple(checks.busy_ports(settings)),
        receive_buffer=int(_read("/proc/sys/net/core/rmem_max") or 0),
    )


def findings(machine: Machine, settings: Settings) -> list[Finding]:
    """Assess the facts, in the order in which the pipeline needs them."""
    return [
        _system(machine),
        _python(machine),
        _packages(machine),
        _java(machine),
        *_tools(machine),
        _clickhouse(machine),
        _folders(machine, settings),
        *_disk(machine, settings),
        _memory(machine),
        *_ports(machine, settings),
        _fluent_bit(machine),
        _receive_buffer(machine),
    ]


def _checked(what: str, found: str, require: Callable[[], None]) -> Finding:
    try:
        require()
    except UserError as error:
        return Finding(what, "missing", found, str(error))
    return Finding(what, "good", found)


def _system(machine: Machine) -> Finding:
    if machine.system == "Linux":
        return Finding("system", "good", f"Linux on {machine.processor}")
    remedy = "The pipeline runs on Linux only; `stunwatch triage` runs here."
    return Finding("system", "missing", machine.system, remedy)


def _python(machine: Machine) -> Finding:
    found = ".".join(map(str, machine.python))
    oldest, newest = versions()["python"], versions()["python_newest"]
    if _number(oldest) <= machine.python <= _number(newest):
        return Finding("Python", "good", found)
    return Finding(
        "Python",
        "missing",
        found,
        f"PyFlink runs on Python {oldest} to {newest}, this is {found}:"
        f" `uv tool install --python {newest} '.[pipeline]'` in a checkout fetches that version.",
    )


def _number(version: str) -> tuple[int, int]:
    major, minor = version.split(".")
    return int(major), int(minor)


def _packages(machine: Machine) -> Finding:
    if not machine.missing_packages:
        return Finding("packages", "good", "the extra `pipeline` is installed")
    names = ", ".join(machine.missing_packages)
    return Finding("packages", "missing", "", f"Not installed: {names}. {extras.INSTALL}.")


def _java(machine: Machine) -> Finding:
    found = "" if machine.java is None else str(machine.java)
    judged = _checked("Java", found, lambda: checks.require_java_of(machine.java))
    must_compile = any(each.tool == MAVEN for each in machine.downloads)
    if judged.grade == "good" and must_compile and not machine.has_javac:
        remedy = (
            f"Java {machine.java} has no compiler javac: install the JDK, not the JRE"
            f" (openjdk-{machine.java}-jdk-headless)."
        )
        return Finding("Java", "missing", found, remedy)
    return judged


def _tools(machine: Machine) -> Iterator[Finding]:
    needed = {each.tool for each in machine.downloads}
    for command in sorted({MAVEN, "npm"} | needed):
        if Path(command).name == "uv" and machine.missing_packages:
            continue  # installed with these packages
        name, package = checks.TOOLS[Path(command).name]
        if path := machine.tools[command]:
            yield Finding(name, "good", path)
        elif command in needed:
            yield Finding(name, "missing", "", checks.missing_tool(command))
        elif command == "npm" and machine.clickhouse:
            yield Finding(name, "good", "not needed: ClickHouse is installed")
        else:
            yield Finding(name, "lacking", "", f"Install {package} before the next update.")


def _clickhouse(machine: Machine) -> Finding:
    what = "ClickHouse"
    if machine.clickhouse:
        return Finding(what, "good", machine.clickhouse)
    install = "install ClickHouse so that `clickhouse` is on the PATH"
    if f"{machine.system.lower()}-{machine.processor}" not in versions()["clickhouse"]["packages"]:
        remedy = f"The embedded ClickHouse is not published for {machine.processor}: {install}."
        return Finding(what, "missing", machine.processor, remedy)
    if "avx2" in machine.flags:
        return Finding(what, "good", "embedded")
    if not machine.flags:
        remedy = f"Cannot tell whether the processor has AVX2. If it does not, {install}."
        return Finding(what, "lacking", "embedded", remedy)
    return Finding(
        what,
        "missing",
        "no AVX2",
        f"The embedded ClickHouse needs a processor with AVX2: {install}, or let the virtual"
        " machine show its processor's flags.",
    )


def _folders(machine: Machine, settings: Settings) -> Finding:
    found = f"{settings.home}, {settings.build}"
    return _checked("folders", found, lambda: checks.require_writable(machine.unwritable))


def _disk(machine: Machine, settings: Settings) -> Iterator[Finding]:
    fetched_mb = sum(each.size_mb for each in machine.downloads)
    home_mb = settings.min_free_mb
    if machine.is_one_disk:
        home_mb += fetched_mb
    elif fetched_mb:
        yield _room("disk for downloads", settings.build, machine.build_free_mb, fetched_mb)
    yield _room("disk", settings.home, machine.home_free_mb, home_mb)


def _room(what: str, folder: Path, free_mb: int, needed_mb: int) -> Finding:
    return _checked(
        what,
        f"{free_mb:,} MiB free",
        lambda: checks.require_free(folder, free_mb, needed_mb, "for data and downloads"),
    )


def _memory(machine: Machine) -> Finding:
    if machine.available_mb is None:
        return Finding("memory", "good", "not known")
    found = f"{machine.available_mb:,} MiB available"
    if machine.available_mb >= MEMORY_MB or machine.is_up:
        return Finding("memory", "good", found)
    return Finding("memory", "lacking", found, f"The pipeline takes up to {MEMORY_MB} MiB.")


def _ports(machine: Machine, settings: Settings) -> Iterator[Finding]:
    if machine.is_up:
        yield Finding("ports", "good", "the pipeline has them")
        return
    for each in machine.busy_ports:
        yield Finding("ports", "missing", "", each)
    if not machine.busy_ports:
        yield Finding("ports", "good", ", ".join(str(port) for *_, port in settings.ports()))


def _fluent_bit(machine: Machine) -> Finding:
    if path := machine.tools["fluent-bit"]:
        return Finding("Fluent Bit", "good", path)
    version = versions()["fluent_bit"]["version"]
    return Finding(
        "Fluent Bit",
        "lacking",
        "",
        f"Live lines come in through Fluent Bit: install {version} from its own packages, or use"
        " its image. `stunwatch replay` does not need it.",
    )


def _receive_buffer(machine: Machine) -> Finding:
    found = f"net.core.rmem_max = {machine.receive_buffer:,}"
    if machine.receive_buffer >= RECEIVE_BUFFER_BYTES:
        return Finding("UDP buffer", "good", found)
    return Finding(
        "UDP buffer",
        "lacking",
        found,
        "Syslog over UDP loses lines under load:"
        f" sysctl -w net.core.rmem_max={RECEIVE_BUFFER_BYTES}",
    )


def _available_mb() -> int | None:
    for line in _read("/proc/meminfo").splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) // 1024
    return None


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
