"""A line becomes a record (schemas/log_line.v1) or a rejection (topic esxi.rejected).

Both are plain dictionaries, ready for orjson, without the fields that are unknown; a rejection
has a `reason`, a record has none. Nothing here reads a clock, a file or the network.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any, Final

from ingest.heads import FIELDS, HOST_FILE, VMWARE_LOG, WIRE, Finder, Groups
from ingest.times import Stamps, UptimeClock, utc_text

Record = dict[str, Any]

MAX_LINE_BYTES: Final = 256 * 1024
NO_PATTERN: Final = "no head pattern matches"
BINARY: Final = "binary data"

# In the order of syslog's numbers.
_SEVERITIES = ("emergency", "alert", "critical", "error", "warning", "notice", "info", "debug")
_LEVELS = {
    # ESXi 8: vmware.log and every other log
    **dict(zip(("Em", "Al", "Cr", "Er", "Wa", "No", "In", "Db"), _SEVERITIES, strict=True)),
    # vmware.log up to 7.0; A is "always"
    **{"E": "error", "W": "warning", "A": "notice", "I": "info"},
    # hostd and its kin, lower-cased
    **{"panic": "emergency", "fatal": "critical", "error": "error", "warning": "warning"},
    **{"warn": "warning", "info": "info", "verbose": "debug", "debug": "debug"},
    **{"trivia": "debug", "trace": "debug"},
}
# The program of a head that does not name it, unless the file's name tells another.
_PROGRAMS = {
    "host_vmkernel_iso": "vmkernel",
    "host_vmkernel_uptime": "vmkernel",
    "host_vmkernel_bare": "vmkernel",
    "wire_bsd_vmkernel": "vmkernel",
    "host_hostd_esxi6": "hostd",
    "host_hostd_esxi5": "hostd",
    "host_hostd_esx4": "hostd",
    "host_vobd_iso": "vobd",
}
_PROGRAM_FILE = re.compile(
    r"(?:.*[/!])?(vmkernel|vmkwarning|hostd|vpxa|vobd|fdm|vpxd)(?:-\d+)?(?:\.log|\.all|\.\d+|\.gz|\.zst)*"
)
_ADDRESS = re.compile(r"[\d.]+|.*:.*")
_NO_GROUPS: Groups = (None,) * (len(FIELDS) - 2)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where lines come from, and what is known of their owner when they do not say it.

    `host`, `vm` and `datastore` come from options or the folder. Lines without a `file` came by
    network from `peer`.
    """

    run_id: str
    source: str = "syslog"  # or vmware_log: which head patterns are tried
    host: str | None = None
    vm: str | None = None
    datastore: str | None = None
    file: str | None = None
    generation: str | None = None
    peer: str | None = None


def strip_terminator(raw: bytes) -> bytes:
    r"""The line without \n, and without the \r and NUL bytes before it."""
    return raw.removesuffix(b"\n").rstrip(b"\r\0")


def generation_of(first_line: bytes) -> str:
    """Fingerprint of a file: FNV-1a over its first line's first 1024 bytes, as 16 hex digits.

    64 bits: 32 would give two of a fleet's hundred thousand logs the same name.
    """
    value = 0xCBF29CE484222325
    for byte in strip_terminator(first_line)[:1024]:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def decode(raw: bytes) -> str:
    """UTF-8, or latin-1 for the whole line so that no byte is lost."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def cut(raw: bytes) -> bytes:
    """At most MAX_LINE_BYTES; if they are UTF-8, they end with a whole character."""
    kept = raw[:MAX_LINE_BYTES]
    try:
        kept.decode()
    except UnicodeDecodeError as problem:
        if len(raw) > len(kept) and problem.reason == "unexpected end of data":
            return kept[: problem.start]
    return kept


def owner_key(host: str) -> str:
    """A host's Kafka key: its first label in lower case; an address as a whole."""
    return host if _ADDRESS.fullmatch(host) else host.partition(".")[0].lower()


def fuller_host(named: str, known: str | None) -> str:
    """The host that a line names, or the folder's name if that is the same one's fuller name."""
    if known is not None and len(known) > len(named) and owner_key(known) == owner_key(named):
        return known
    return named


def kafka_key(record: Mapping[str, Any]) -> str:
    """The key of a record or rejection: one owner's lines stay in one partition, in order."""
    if record["source"] == "vmware_log":
        # Two VMs that nobody named are two: by their files, not both the one without a name.
        unnamed = "" if "vm" in record or "datastore" in record else record.get("generation", "")
        return f"{record.get('datastore', '')}/{record.get('vm', '')}{unnamed}"
    host = record.get("host")
    return owner_key(host) if host else record.get("peer") or record.get("file") or ""


def rejection(
    line: bytes, reason: str, received_at: str, origin: Origin, *, offset: int, line_bytes: int
) -> Record:
    """A line (or a CSV row) that became no record; `reason` is a sentence."""
    record: Record = {"received_at": received_at, "source": origin.source}
    _add_owner(record, origin)
    if origin.file is not None:
        record["file"] = origin.file
        record["generation"] = origin.generation
        record["offset"] = offset
        record["line_bytes"] = line_bytes
    if origin.peer is not None:
        record["peer"] = origin.peer
    record["run_id"] = origin.run_id
    record["line"] = decode(cut(line))
    record["reason"] = reason
    if len(line) > MAX_LINE_BYTES:
        record["truncated"] = True
    return record


def _add_owner(record: Record, origin: Origin) -> None:
    for name, value in (
        ("host", origin.host),
        ("vm", origin.vm),
        ("datastore", origin.datastore),
    ):
        if value is not None:
            record[name] = value


def progress(
    origin: Origin,
    received_at: str,
    *,
    event_time: str,
    time_quality: str,
    offset: int,
    program: str | None = None,
) -> Record:
    """The record that ends a file of which `offset` bytes were read: all is told up to its time."""
    record: Record = {
        "event_time": event_time,
        "received_at": received_at,
        "kind": "progress",
        "source": origin.source,
    }
    if program is not None:
        record["program"] = program
    _add_owner(record, origin)
    record["file"] = origin.file
    record["generation"] = origin.generation
    record["offset"] = offset
    record["run_id"] = origin.run_id
    record["time_quality"] = time_quality
    return record


class LineRecords:
    """Makes the records of one source, line after line.

    Its state is small: the time of the last stamped line (a line of a file without a stamp
    inherits it), the uptime anchors, and what repeated texts were turned into.
    """

    def __init__(
        self,
        origin: Origin,
        *,
        written_at: datetime,
        zone: tzinfo = UTC,
        year: int | None = None,
        uptimes: UptimeClock | None = None,
    ) -> None:
        """`written_at`: when the file was last written; see times.Stamps for zone and year.
        `uptimes`: what files of one host share, so that a span across two of them is exact too.

        It is also the time of lines that have none and inherit none: unlike the time of reading,
        it is the same in every replay of the file.
        """
        self.origin = origin
        self.stamps = Stamps(written_at=written_at, zone=zone, year=year)
        self.last_event_time: str | None = None
        self.last_quality = "arrival"
        self.program = _program_of_file(origin.file)
        self._is_file = origin.file is not None
        families = VMWARE_LOG if origin.source == "vmware_log" else HOST_FILE
        self._finder = Finder(families if self._is_file else WIRE)
        self._uptimes = uptimes or UptimeClock()
        self._hosts: dict[str, str] = {}

    def make(  # noqa: PLR0912, PLR0915 - the hot path: a call costs as much as three branches
        self, raw: bytes, received_at: str, offset: int = 0, line_bytes: int = 0
    ) -> Record:
        """The record or rejection of a line without its terminator.

        `offset` and `line_bytes` (with terminator) place it in its file.
        """
        is_cut = len(raw) > MAX_LINE_BYTES
        line = decode(cut(raw) if is_cut else raw)
        found = self._finder.find(line)
        if found is not None:
            pattern, groups = found
            source, name = pattern.source, pattern.name
        elif self._is_file and self.last_event_time is not None and line[:1] in ("", " ", "\t"):
            # a blank or indented line goes with the stamped one before it
            source, name, groups = self.origin.source, "", (None, line, *_NO_GROUPS)
        else:
            reason = BINARY if "\0" in line else NO_PATTERN
            return rejection(
                raw, reason, received_at, self.origin, offset=offset, line_bytes=line_bytes
            )
        head, message, time, burst, uptime, thread, level, program, host, pri, vm = groups

        origin = self.origin
        if host is None or host == "-":
            host = origin.host
        else:
            host = self._hosts.get(host) or self._shown_host(host)
        own_time = None if time is None else self._own_time(time, burst, uptime, host)
        event_time, quality = own_time or self.inherited_time(received_at)
        if source == "vmware_log":
            program = "vmx"
        elif program is None or program == "-":
            program = self.program or _PROGRAMS.get(name)
        record: Record = {
            "event_time": event_time,
            "received_at": received_at,
            "kind": "line",
            "source": source,
        }
        if program is not None:
            record["program"] = program.lower()
        if host is not None:
            record["host"] = host
        if source == "vmware_log":
            vm = vm or origin.vm
            if vm is not None:
                record["vm"] = vm
            if origin.datastore is not None:
                record["datastore"] = origin.datastore
        if level is not None or pri is not None:
            severity = _severity(level, pri)
            if severity is not None:
                record["severity"] = severity
        if thread is not None and thread != "-":
            record["thread"] = thread
        if head:
            record["head"] = head
        record["message"] = message
        if self._is_file:
            record["file"] = origin.file
            record["generation"] = origin.generation
            record["offset"] = offset
            record["line_bytes"] = line_bytes
        else:
            record["peer"] = origin.peer
        record["run_id"] = origin.run_id
        record["time_quality"] = quality
        if is_cut:
            record["truncated"] = True
        return record

    def inherited_time(self, received_at: str) -> tuple[str, str]:
        """(event_time, time_quality) of what has no time of its own at this point."""
        if not self._is_file:
            return received_at, "arrival"
        if self.last_event_time is None:
            return utc_text(self.stamps.written_at), "arrival"
        return self.last_event_time, self.last_quality

    def _own_time(
        self, time: str, burst: str | None, uptime: str | None, host: str | None
    ) -> tuple[str, str] | None:
        event_time = self.stamps.event_time(time, burst)
        if event_time is None:
            return None
        if uptime is not None:
            event_time = self._uptimes.event_time(host or "", event_time, uptime)
        self.last_event_time = event_time
        self.last_quality = "year_inferred" if time[0].isalpha() else "exact"
        return event_time, self.last_quality

    def _shown_host(self, named: str) -> str:
        host = self._hosts[named] = fuller_host(named, self.origin.host)
        return host


class WireRecords:
    """Makes the records of what arrives by network: one frame or datagram at a time."""

    def __init__(self, run_id: str = "live", zone: tzinfo = UTC) -> None:
        """`zone` is the zone of stamps that name none."""
        self._run_id = run_id
        self._zone = zone
        self._peers: dict[str, LineRecords] = {}

    def make(self, data: bytes, peer: str, received_at: datetime) -> Record:
        """The record or rejection of one message, octet count already taken off."""
        lines = self._peers.get(peer)
        if lines is None:
            origin = Origin(run_id=self._run_id, peer=peer)
            lines = LineRecords(origin, written_at=received_at, zone=self._zone)
            self._peers[peer] = lines
        lines.stamps.move_on(received_at)
        return lines.make(data.rstrip(b"\r\n\0"), utc_text(received_at))


def _severity(level: str | None, pri: str | None) -> str | None:
    if level is not None:
        return _LEVELS.get(level) or _LEVELS.get(level.lower())
    return None if pri is None else _SEVERITIES[int(pri) & 7]


def _program_of_file(file: str | None) -> str | None:
    match = None if file is None else _PROGRAM_FILE.fullmatch(file)
    return None if match is None else match[1]
