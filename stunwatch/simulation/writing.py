"""Writes log writers to files as a collector finds them: merged, rotated, packed, some duplicated.

The same fleet always gives the same bytes and the same modification times.
"""

from __future__ import annotations

import gzip
import io
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from stunwatch.simulation.esxtop import Sampler
from stunwatch.simulation.fleet import Fleet, Host
from stunwatch.simulation.log_writers import MS, Entry, LogWriter, LogWriters, host_speller
from stunwatch.simulation.noise import Chatter
from stunwatch.simulation.relays import behind_relay
from stunwatch.simulation.truth import Truth

# Maximum lines of a file.
_VM_LINES, _HOST_LINES = 1_200, 9_000
_OUT_OF_ORDER = 0.003
_TWICE = 0.0005

Line = tuple[int, str]
"""Time in microseconds, and text."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file to write: its path below the output folder, and its lines, oldest first."""

    path: Path
    lines: list[Line]
    is_packed: bool = False


def files(fleet: Fleet, log_writers: LogWriters, truth: Truth) -> Iterator[LogFile]:
    """Yield every log file of the fleet, one at a time, and count its lines in the truth."""
    for host in fleet.hosts:
        if host.by_syslog:
            yield from _collected(fleet, host, log_writers, truth)
        else:
            yield from _own(fleet, host, log_writers, truth)
    for vm in fleet.vms:
        if vm.is_shipped and not vm.is_by_syslog:
            yield from _vm_files(fleet, log_writers.of_vm(vm), truth)


def samples(samplers: Sequence[Sampler], truth: Truth) -> Iterator[LogFile]:
    """Yield the esxtop output of every host."""
    for sampler in samplers:
        path = Path(sampler.host.name) / "esxtop" / f"{sampler.host.label}.csv"
        yield LogFile(path, list(sampler.rows(truth)))


def write(out: Path, file: LogFile) -> None:
    """Write a file. Its modification time is the time of its last line."""
    path = out / file.path
    path.parent.mkdir(parents=True, exist_ok=True)
    data = "".join(text + "\n" for _, text in file.lines).encode()
    if file.is_packed:
        buffer = io.BytesIO()
        with gzip.GzipFile(
            filename="", mode="wb", compresslevel=3, fileobj=buffer, mtime=0
        ) as zipped:
            zipped.write(data)
        data = buffer.getvalue()
    path.write_bytes(data)
    written_at = file.lines[-1][0] // 1_000_000 + 1
    os.utime(path, (written_at, written_at))


def _entries(fleet: Fleet, log_writer: LogWriter, truth: Truth) -> list[Entry]:
    """Return stories and noise of a log writer, ordered by time."""
    entries = [*log_writer.entries, *Chatter(fleet, log_writer).entries()]
    # An event that starts in time may end after the log ends.
    entries = [each for each in entries if each.time_us < fleet.ended_us]
    entries.sort(key=attrgetter("time_us", "order"))
    truth.lines += len(entries)
    truth.mattering_lines += sum(each.matters for each in entries)
    return entries


def _shaken(rng: random.Random, lines: list[Line]) -> list[Line]:
    """Swap a few adjacent lines, as if two CPUs or threads had written at once."""
    chance = rng.random
    for number in range(1, len(lines)):
        if chance() < _OUT_OF_ORDER:
            before, after = lines[number - 1], lines[number]
            if 0 < after[0] - before[0] <= 40 * MS:
                lines[number - 1], lines[number] = after, before
    return lines


def _cut(lines: list[Line], most: int, breaks: list[int]) -> list[list[Line]]:
    """Split the lines into files of at most `most` lines, and at every break."""
    parts: list[list[Line]] = [[]]
    waiting = sorted(breaks)
    for line in lines:
        if len(parts[-1]) >= most or (waiting and line[0] >= waiting[0]):
            while waiting and line[0] >= waiting[0]:
                waiting.pop(0)
            if parts[-1]:
                parts.append([])
        parts[-1].append(line)
    return parts


def _rotated(folder: Path, name: str, parts: list[list[Line]]) -> Iterator[LogFile]:
    """Yield a host's rotated log. The newest rotated file has the lowest number."""
    stem = name.removesuffix(".log")
    for number, part in enumerate(parts[:-1]):
        age = len(parts) - 2 - number
        yield LogFile(folder / f"{stem}.{age}.gz", part, is_packed=True)
    yield LogFile(folder / name, parts[-1])


_NAMES = {
    "vmkernel": "vmkernel.log",
    "hostd": "hostd.log",
    "vobd": "vobd.log",
    "syslog": "syslog.log",
}
_CONSOLE_NAMES = {
    "vmkernel": "vmkernel",
    "hostd": "hostd.log",
    "vobd": "vobd.log",
    "syslog": "messages",
}


def _own(fleet: Fleet, host: Host, log_writers: LogWriters, truth: Truth) -> Iterator[LogFile]:
    """Yield a host's own files, one per program. The kernel's warnings are in two of them."""
    is_console = host.era.is_yearless
    folder = Path(host.name) / ("var/log" if is_console else "var/run/log")
    names = _CONSOLE_NAMES if is_console else _NAMES
    for program, name in names.items():
        if program == "vobd" and host.era.name == "esx35":
            continue
        log_writer = log_writers.of(host, program)
        entries = _entries(fleet, log_writer, truth)
        rng = fleet.rng("order", log_writer.key)
        lines = _shaken(rng, [(each.time_us, log_writer.spell(each)) for each in entries])
        yield from _rotated(folder, name, _cut(lines, _HOST_LINES, []))
        if program == "vmkernel":
            spell = host_speller(host, "vmkwarning")
            warnings = [(each.time_us, spell(each)) for each in entries if each.is_warning]
            truth.lines += len(warnings)
            if warnings:
                yield LogFile(folder / f"vmkwarning{'' if is_console else '.log'}", warnings)


def _collected(
    fleet: Fleet, host: Host, log_writers: LogWriters, truth: Truth
) -> Iterator[LogFile]:
    """Yield a syslog server's file of a host and of VMs on it, with some duplicate lines."""
    rng = fleet.rng("order", "host", host.number)
    lines: list[Line] = []
    of_vms = [log_writers.of_vm(vm) for vm in host.vms if vm.is_by_syslog]
    for log_writer in (*(log_writers.of(host, program) for program in _NAMES), *of_vms):
        spell = behind_relay(host, log_writer)
        for each in _entries(fleet, log_writer, truth):
            line = (each.time_us, spell(each))
            lines.append(line)
            if log_writer.program in ("vmkernel", "vobd") and rng.random() < _TWICE:
                lines.append(line)
                truth.lines += 1
    lines.sort(key=lambda line: line[0])
    parts = _cut(_shaken(rng, lines), _HOST_LINES * 3, [])
    yield from _rotated(Path(host.name) / "syslog", "messages.log", parts)


def _vm_files(fleet: Fleet, log_writer: LogWriter, truth: Truth) -> Iterator[LogFile]:
    """Yield a VM's logs. The oldest has the lowest number, the newest has none."""
    vm = log_writer.vm
    assert vm is not None
    rng = fleet.rng("order", log_writer.key)
    entries = _entries(fleet, log_writer, truth)
    folder = Path(vm.host.name) / "vmfs/volumes" / vm.datastore.name / vm.name
    # A new process starts a new file with its first line, even if other lines are later.
    lines = [(each.time_us, log_writer.spell(each)) for each in entries]
    parts = [_shaken(rng, part) for part in _cut(lines, _VM_LINES, log_writer.breaks)]
    first = rng.randrange(1, 40)
    for number, part in enumerate(parts[:-1], first):
        drawn = rng.random()
        if drawn < 0.7:
            yield LogFile(folder / f"vmware-{number}.log", part)
        if drawn > 0.65:
            # Packed, or a packed copy of the same lines in addition.
            yield LogFile(folder / f"vmware-{number}.log.gz", part, is_packed=True)
    yield LogFile(folder / "vmware.log", parts[-1])
