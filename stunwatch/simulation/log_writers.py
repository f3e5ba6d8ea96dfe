"""Collects log lines per program and VM, and formats them as each release does.

A log writer collects the lines of one program of one host, or of one VM, in any order. Its speller
formats an entry as a line: the reverse of the patterns in `ingest/parsers.yaml`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from stunwatch.simulation.fleet import Fleet, Host, VirtualMachine

MS = 1000
"""Microseconds per millisecond, the resolution of timestamps."""


class Entry(NamedTuple):
    """One future line. Sorted by time, then in the order of writing."""

    time_us: int
    order: int
    message: str
    thread: str = ""
    """vmx, vcpu-0, … for a VM's log; cpuN:world for the kernel; the subsystem for hostd."""
    is_warning: bool = False
    matters: bool = False
    """The line is evidence of an expected event."""
    is_context: bool = True
    """True for a line of an event's story, False for noise."""
    op_id: str = ""
    """The operation that it belongs to, if the head contains one."""


Spell = Callable[[Entry], str]


@dataclass(slots=True)
class LogWriter:
    """The lines of one log."""

    program: str
    """vmware, vmkernel, vmkwarning, hostd, vobd or syslog."""
    host: Host
    vm: VirtualMachine | None
    spell: Spell
    entries: list[Entry] = field(default_factory=list)
    breaks: list[int] = field(default_factory=list)
    """When a new process started a new file, in microseconds."""

    def write(
        self,
        time_us: int,
        message: str,
        thread: str = "",
        *,
        is_warning: bool = False,
        matters: bool = False,
        op_id: str = "",
    ) -> None:
        """Add a line of a story. Its time is cut to milliseconds, like timestamps."""
        order = len(self.entries)
        at = time_us // MS * MS
        entry = Entry(at, order, message, thread, is_warning, matters, op_id=op_id)
        self.entries.append(entry)

    @property
    def key(self) -> str:
        """Return a key for its random generator."""
        owner = f"host {self.host.number}" if self.vm is None else f"VM {self.vm.number}"
        return f"{self.program}/{owner}"


class LogWriters:
    """All logs of a fleet, created when first written to."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self._log_writers: dict[tuple[str, str], LogWriter] = {}
        for host in fleet.hosts:
            for program in ("vmkernel", "hostd", "vobd", "syslog"):
                self.of(host, program)
        for vm in fleet.vms:
            self.of_vm(vm)

    def of(self, host: Host, program: str) -> LogWriter:
        """Return the log of a program on a host."""
        key = (program, host.name)
        if key not in self._log_writers:
            self._log_writers[key] = LogWriter(program, host, None, host_speller(host, program))
        return self._log_writers[key]

    def of_vm(self, vm: VirtualMachine) -> LogWriter:
        """Return a VM's vmware.log."""
        key = (vm.datastore.name, vm.name)
        if key not in self._log_writers:
            self._log_writers[key] = LogWriter("vmware", vm.host, vm, vm_speller(vm))
        return self._log_writers[key]

    @property
    def all(self) -> list[LogWriter]:
        """Return all logs in the order of the fleet."""
        return list(self._log_writers.values())


class Stamps:
    """Formats times, with a cache by second."""

    def __init__(self, form: str, zone_minutes: int = 0, suffix: str = "Z") -> None:
        """`form` is a strftime format; milliseconds and the suffix are appended."""
        self._form = form
        self._shift = zone_minutes * 60
        self._suffix = suffix
        self._seconds: dict[int, str] = {}

    def whole(self, time_us: int) -> str:
        """Format a time without its fraction."""
        second = time_us // 1_000_000
        known = self._seconds.get(second)
        if known is None:
            if len(self._seconds) > 10_000:
                self._seconds.clear()
            known = time.strftime(self._form, time.gmtime(second + self._shift))
            self._seconds[second] = known
        return known

    def __call__(self, time_us: int) -> str:
        """Format a time with milliseconds."""
        return f"{self.whole(time_us)}.{time_us // MS % 1000:03}{self._suffix}"


def _zone(minutes: int) -> str:
    if minutes == 0:
        return "Z"
    hours, rest = divmod(abs(minutes), 60)
    return f"{'-' if minutes < 0 else '+'}{hours:02}:{rest:02}"


_ISO = "%Y-%m-%dT%H:%M:%S"


def vm_speller(vm: VirtualMachine) -> Spell:
    """Return the formatter for a VM's log."""
    era = vm.host.era
    if vm.is_by_syslog:
        return _vm_wire_speller(vm)
    if era.is_yearless:
        stamp = Stamps("%b %d %H:%M:%S", suffix="")
        return lambda entry: f"{stamp(entry.time_us)}: {entry.thread}| {entry.message}"
    stamp = Stamps(_ISO, vm.host.zone_minutes, _zone(vm.host.zone_minutes))
    if era.levels is None:
        return lambda entry: f"{stamp(entry.time_us)}| {entry.thread}| {entry.message}"
    usual, warning = era.levels
    if era.has_column:
        return lambda entry: (
            f"{stamp(entry.time_us)} {warning if entry.is_warning else usual}"
            f" {entry.thread} {entry.op_id or '-'} {entry.message}"
        )
    if vm.host.has_named_column:
        return lambda entry: (
            f"{stamp(entry.time_us)}| {entry.thread}|"
            f" {f'opID={entry.op_id}' if entry.op_id else ''}|"
            f" {warning if entry.is_warning else usual}: {entry.message}"
        )
    return lambda entry: (
        f"{stamp(entry.time_us)}| {entry.thread}|"
        f" {warning if entry.is_warning else usual}: {entry.message}"
    )


def _vm_wire_speller(vm: VirtualMachine) -> Spell:
    """Format a VM's log as its host sends it: `vmx.log.destination` "syslog-and-disk" (ESXi 8)."""
    stamp = Stamps(_ISO)
    return lambda entry: (
        f"<{12 if entry.is_warning else 14}>{stamp(entry.time_us)} {vm.host.name}"
        f" {vm.name}[{vm.world}]: {'Wa(03)' if entry.is_warning else 'In(05)'} {entry.thread}"
        f" {entry.op_id or '-'} {entry.message}"
    )


def host_speller(host: Host, program: str) -> Spell:
    """Return the formatter for a program of a host."""
    if host.era.is_yearless:
        return _yearless_speller(host, program)
    if host.by_syslog:
        return _wire_speller(host, program)
    return file_speller(host, program)


def _uptime(host: Host, time_us: int) -> str:
    milliseconds = (time_us - host.boot_us) // MS
    seconds, milliseconds = divmod(milliseconds, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{days}:{hours:02}:{minutes:02}:{seconds:02}.{milliseconds:03}"


def _yearless_speller(host: Host, program: str) -> Spell:
    """Format lines of ESX 3 and 4: the console's syslog, and hostd's own format."""
    stamp = Stamps("%b %e %H:%M:%S", suffix="")
    # ESXi 4.1 does not write its name in its own files.
    named = f"{host.label} " if host.era.name == "esx35" else ""
    if program in ("vmkernel", "vmkwarning"):
        return lambda entry: (
            f"{stamp.whole(entry.time_us)} {named}vmkernel: {_uptime(host, entry.time_us)}"
            f" {entry.thread}){_warned(entry)}"
        )
    if program == "vobd":
        return lambda entry: (
            f"{stamp.whole(entry.time_us)} {named}vobd: {stamp(entry.time_us)}:"
            f" {(entry.time_us - host.boot_us)}us: {entry.message}"
        )
    if program == "hostd":
        dated = Stamps("%Y-%m-%d %H:%M:%S", suffix="")
        if host.era.hostd == "esx3":
            return lambda entry: (
                f"[{dated(entry.time_us)} '{entry.thread or 'App'}' {_thread(entry)}"
                f" {'warning' if entry.is_warning else 'info'}] {entry.message}"
            )
        return lambda entry: (
            f"[{dated(entry.time_us)} {_thread(entry)}"
            f" {'warning' if entry.is_warning else 'info'} '{entry.thread or 'App'}']"
            f" {entry.message}"
        )
    return lambda entry: f"{stamp.whole(entry.time_us)} {named}{_program(entry)}: {entry.message}"


def _warned(entry: Entry) -> str:
    return f"WARNING: {entry.message}" if entry.is_warning else entry.message


def _thread(entry: Entry) -> str:
    """Return a thread of hostd; each subsystem has a few fixed ones."""
    return f"{0xF5A00B90 + (hash_of(entry.thread) + entry.order % 3) % 4096 * 0x1000:08X}"


def hash_of(text: str) -> int:
    """Return a number for a text, the same in every process."""
    return sum(ord(letter) * (place + 1) for place, letter in enumerate(text))


def _program(entry: Entry) -> str:
    """Return the program of a syslog line, which is stored as its thread."""
    return entry.thread or "root"


def _hostd_5(entry: Entry, level: str) -> str:
    thread = f"{(0x3A000B90 + (hash_of(entry.thread) + entry.order % 3) % 4096 * 0x1000):08X}"
    return f"[{thread} {level} '{entry.thread or 'Default'}'] {entry.message}"


def _hostd_6(entry: Entry, thread: str) -> str:
    return f"hostd[{thread}] [Originator@6876 sub={entry.thread or 'Libs'}] {entry.message}"


def file_speller(host: Host, program: str) -> Spell:
    """Format lines of ESXi 5 to 8 as on its own disk."""
    stamp = Stamps(_ISO)
    era = host.era
    if era.name == "esxi80":
        return _esxi8_speller(host, program, stamp)
    if program in ("vmkernel", "vmkwarning"):
        return lambda entry: f"{stamp(entry.time_us)} {entry.thread}){_warned(entry)}"
    if program == "vobd":
        return lambda entry: f"{stamp(entry.time_us)}: {_correlated(host, entry)}"
    if program == "hostd" and era.hostd == "esxi5":
        return lambda entry: f"{stamp(entry.time_us)} {_hostd_5(entry, _hostd_level(entry))}"
    if program == "hostd":
        return lambda entry: (
            f"{stamp(entry.time_us)} {_hostd_level(entry)} {_hostd_6(entry, _thread(entry)[1:])}"
        )
    return lambda entry: f"{stamp.whole(entry.time_us)}Z {_program(entry)}: {entry.message}"


def _hostd_level(entry: Entry) -> str:
    return "warning" if entry.is_warning else "info"


def _correlated(host: Host, entry: Entry) -> str:
    """Format vobd's line: microseconds since boot; the correlator is stored as the thread."""
    return f"[{entry.thread}] {entry.time_us - host.boot_us}us: {entry.message}"


def _esxi8_speller(host: Host, program: str, stamp: Stamps) -> Spell:
    number = 2_098_000 + host.number * 37
    if program in ("vmkernel", "vmkwarning"):
        return lambda entry: (
            f"{stamp(entry.time_us)} {'Wa(180)' if entry.is_warning else 'In(182)'} {program}:"
            f" {entry.thread}){_warned(entry)}"
        )
    if program == "vobd":
        return lambda entry: (
            f"{stamp(entry.time_us)} In(14) vobd[{number}]:  {_correlated(host, entry)}"
        )
    if program == "hostd":
        return lambda entry: (
            f"{stamp(entry.time_us)} {'Wa(164)' if entry.is_warning else 'In(166)'}"
            f" Hostd[{number + entry.order % 7}]: [Originator@6876 sub={entry.thread or 'Libs'}]"
            f" {entry.message}"
        )
    return lambda entry: (
        f"{stamp(entry.time_us)} In(14) {_program(entry)}[{number + 77}]: {entry.message}"
    )


def _wire_speller(host: Host, program: str) -> Spell:
    """Format lines as a syslog server stores them: PRI, timestamp, host."""
    stamp = Stamps(_ISO)
    era = host.era
    if program in ("vmkernel", "vmkwarning"):
        repeat = era.name == "esxi80"

        def kernel(entry: Entry) -> str:
            inner = ""
            if repeat:
                inner = f"{'Wa(180)' if entry.is_warning else 'In(182)'} {program}: "
            return (
                f"<{180 if entry.is_warning else 182}>{stamp(entry.time_us)} {host.name}"
                f" {program}: {inner}{entry.thread}){_warned(entry)}"
            )

        return kernel
    if program == "vobd":
        return lambda entry: (
            f"<14>{stamp(entry.time_us)} {host.name} vobd:  {_correlated(host, entry)}"
        )
    if program == "hostd" and era.hostd == "esxi5":
        return lambda entry: (
            f"<{164 if entry.is_warning else 166}>{stamp(entry.time_us)} {host.name} Hostd:"
            f" {_hostd_5(entry, _hostd_level(entry))}"
        )
    if program == "hostd" and era.hostd == "esxi6":
        return lambda entry: (
            f"<{164 if entry.is_warning else 166}>{stamp(entry.time_us)} {host.name} Hostd:"
            f" {_hostd_level(entry)} {_hostd_6(entry, _thread(entry)[1:])}"
        )
    if program == "hostd":
        return lambda entry: (
            f"<{164 if entry.is_warning else 166}>{stamp(entry.time_us)} {host.name}"
            f" Hostd[{2_098_000 + entry.order % 7}]: [Originator@6876"
            f" sub={entry.thread or 'Libs'}] {entry.message}"
        )
    return lambda entry: (
        f"<14>{stamp(entry.time_us)} {host.name} {_program(entry)}: {entry.message}"
    )


def cpu(rng: random.Random, host: Host, world: int) -> str:
    """Return the kernel's thread: the CPU and the world that ran on it."""
    return f"cpu{rng.randrange(host.cpus)}:{world}"
