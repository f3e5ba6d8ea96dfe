"""Journals become files as a collector finds them: merged, rotated, packed, some of them twice.

The same fleet writes the same bytes, times of writing included.
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
from stunwatch.simulation.journals import MS, Entry, Journal, Journals, host_speller
from stunwatch.simulation.noise import Chatter
from stunwatch.simulation.truth import Truth

# How long a file grows, in lines.
_VM_LINES, _HOST_LINES = 1_200, 9_000
_OUT_OF_ORDER = 0.003
_TWICE = 0.0005

Line = tuple[int, str]
"""Time in microseconds, text."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file to be: its path below the output folder, oldest line first."""

    path: Path
    lines: list[Line]
    is_packed: bool = False


def files(fleet: Fleet, journals: Journals, truth: Truth) -> Iterator[LogFile]:
    """Every log file of the fleet, one at a time; counts its lines into the truth."""
    for host in fleet.hosts:
        if host.by_syslog:
            yield from _collected(fleet, host, journals, truth)
        else:
            yield from _own(fleet, host, journals, truth)
    for vm in fleet.vms:
        if vm.is_shipped:
            yield from _vm_files(fleet, journals.of_vm(vm), truth)


def samples(samplers: Sequence[Sampler], truth: Truth) -> Iterator[LogFile]:
    """Every host's esxtop."""
    for sampler in samplers:
        path = Path(sampler.host.name) / "esxtop" / f"{sampler.host.label}.csv"
        yield LogFile(path, list(sampler.rows(truth)))


def write(out: Path, file: LogFile) -> None:
    """Write a file; its time of writing is that of its last line."""
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


def _entries(fleet: Fleet, journal: Journal, truth: Truth) -> list[Entry]:
    """Stories and noise of a journal, by time."""
    entries = [*journal.entries, *Chatter(fleet, journal).entries()]
    # What begins in time may end after the log does.
    entries = [each for each in entries if each.time_us < fleet.ended_us]
    entries.sort(key=attrgetter("time_us", "order"))
    truth.lines += len(entries)
    truth.mattering_lines += sum(each.matters for each in entries)
    return entries


def _shaken(dice: random.Random, lines: list[Line]) -> list[Line]:
    """A few lines a little out of order: two CPUs, or two threads, wrote at once."""
    chance = dice.random
    for number in range(1, len(lines)):
        if chance() < _OUT_OF_ORDER:
            before, after = lines[number - 1], lines[number]
            if 0 < after[0] - before[0] <= 40 * MS:
                lines[number - 1], lines[number] = after, before
    return lines


def _cut(lines: list[Line], most: int, breaks: list[int]) -> list[list[Line]]:
    """At most so many lines a file, and a new one at every break."""
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
    """A host's log: the newest rotated file has the lowest number."""
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


def _own(fleet: Fleet, host: Host, journals: Journals, truth: Truth) -> Iterator[LogFile]:
    """A host's own files, one a program; the kernel's warnings are in two."""
    is_console = host.era.is_yearless
    folder = Path(host.name) / ("var/log" if is_console else "var/run/log")
    names = _CONSOLE_NAMES if is_console else _NAMES
    for program, name in names.items():
        if program == "vobd" and host.era.name == "esx35":
            continue
        journal = journals.of(host, program)
        entries = _entries(fleet, journal, truth)
        dice = fleet.dice("order", journal.key)
        lines = _shaken(dice, [(each.time_us, journal.spell(each)) for each in entries])
        yield from _rotated(folder, name, _cut(lines, _HOST_LINES, []))
        if program == "vmkernel":
            spell = host_speller(host, "vmkwarning")
            warnings = [(each.time_us, spell(each)) for each in entries if each.is_warning]
            truth.lines += len(warnings)
            if warnings:
                yield LogFile(folder / f"vmkwarning{'' if is_console else '.log'}", warnings)


def _collected(fleet: Fleet, host: Host, journals: Journals, truth: Truth) -> Iterator[LogFile]:
    """What a syslog server kept of a host: one file, some lines twice."""
    dice = fleet.dice("order", "host", host.number)
    lines: list[Line] = []
    for program in _NAMES:
        journal = journals.of(host, program)
        for each in _entries(fleet, journal, truth):
            line = (each.time_us, journal.spell(each))
            lines.append(line)
            if program in ("vmkernel", "vobd") and dice.random() < _TWICE:
                lines.append(line)
                truth.lines += 1
    lines.sort(key=lambda line: line[0])
    parts = _cut(_shaken(dice, lines), _HOST_LINES * 3, [])
    yield from _rotated(Path(host.name) / "syslog", "messages.log", parts)


def _vm_files(fleet: Fleet, journal: Journal, truth: Truth) -> Iterator[LogFile]:
    """A VM's logs: the oldest has the lowest number, the newest none."""
    vm = journal.vm
    assert vm is not None
    dice = fleet.dice("order", journal.key)
    entries = _entries(fleet, journal, truth)
    folder = Path(vm.host.name) / "vmfs/volumes" / vm.datastore.name / vm.name
    # A new process' first line begins its file, whatever was written meanwhile.
    lines = [(each.time_us, journal.spell(each)) for each in entries]
    parts = [_shaken(dice, part) for part in _cut(lines, _VM_LINES, journal.breaks)]
    first = dice.randrange(1, 40)
    for number, part in enumerate(parts[:-1], first):
        drawn = dice.random()
        if drawn < 0.7:
            yield LogFile(folder / f"vmware-{number}.log", part)
        if drawn > 0.65:
            # Packed, or packed besides: a copy of the same lines.
            yield LogFile(folder / f"vmware-{number}.log.gz", part, is_packed=True)
    yield LogFile(folder / "vmware.log", parts[-1])
