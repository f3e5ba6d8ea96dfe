"""Convert a line to a record (schemas/log_line.v1) or a rejection (topic esxi.rejected).

Both are plain dictionaries, ready for orjson. Unknown fields are left out. A rejection has a
`reason`, a record has none. This module does not read the clock, files or the network.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any, Final

import orjson

from stunwatch.ingest.heads import FIELDS, HOST_FILE, VMWARE_LOG, WIRE, Finder, Groups
from stunwatch.ingest.times import Stamps, UptimeClock, names_year, utc_text

Record = dict[str, Any]

MAX_LINE_BYTES: Final = 64 * 1024
MAX_NAME_BYTES: Final = 255
"""Maximum length of a host or VM name: DNS and file systems do not allow longer ones."""
LONG_NAME: Final = "name of the host or VM longer than 255 bytes"
NO_PATTERN: Final = "unknown line format"
BINARY: Final = "binary data"
RELAYED: Final = "two timestamps, as from a syslog relay, before an unknown line format"
JSON: Final = "JSON instead of a log line"
COLOURED: Final = "colour codes before the line"
TABS: Final = "tab-separated values instead of a log line"
COMMAS: Final = "comma-separated values instead of a log line"
FAILED: Final = (
    "the shipper failed: "  # plus the exception's name; the same text is in ingest/lua/message.lua
)
NO_VM: Final = "vmware.log without VM name in the line and in the path"
# Reasons for rejecting a line, by how it begins (ingest/lua/text.lua has the same list).
_FORM_LENGTH = 300
_FORMS = {
    JSON: re.compile(r'\[?\{ *(?:"|$)'),
    COLOURED: re.compile(r"\x1b\["),
    TABS: re.compile(r"\d[\d:./TZ+ -]*\t", re.ASCII),
    COMMAS: re.compile(r'"[^"]*",|\d[\d:./TZ+ -]*,[^\d]', re.ASCII),
    RELAYED: re.compile(r"[^\[(]{0,300}?\d\d:\d\d:\d\d[^\[(]{0,300}?\d\d:\d\d:\d\d", re.ASCII),
}

# In the order of the syslog severity numbers, 0 to 7.
_SEVERITIES = ("emergency", "alert", "critical", "error", "warning", "notice", "info", "debug")
_LEVELS = {
    # ESXi 8: vmware.log and every other log
    **dict(zip(("Em", "Al", "Cr", "Er", "Wa", "No", "In", "Db"), _SEVERITIES, strict=True)),
    # vmware.log up to 7.0; A is "always"
    **{"E": "error", "W": "warning", "A": "notice", "I": "info"},
    # hostd and similar programs, in lower case
    **{"panic": "emergency", "fatal": "critical", "error": "error", "warning": "warning"},
    **{"warn": "warning", "info": "info", "verbose": "debug", "debug": "debug"},
    **{"trivia": "debug", "trace": "debug"},
}
# The program of a head that does not contain it. A program in the file's name takes precedence.
_PROGRAMS = {
    "host_vmkernel_iso": "vmkernel",
    "host_vmkernel_uptime": "vmkernel",
    "host_vmkernel_bare": "vmkernel",
    "wire_bsd_vmkernel": "vmkernel",
    "wire_tailed_vmkernel": "vmkernel",
    "host_hostd_esxi6": "hostd",
    "host_hostd_esxi5": "hostd",
    "host_hostd_esx4": "hostd",
    "host_vobd_iso": "vobd",
}
COMPRESSED: Final = r"\.(?:gz|zst|bz2|xz)"
"""A regular expression for the ending of a compressed file (replay/streams.py)."""
_PROGRAM_FILE = re.compile(
    r"(?:.*[/!])?(vmkernel|vmkwarning|hostd|vpxa|vobd|fdm|vpxd)(?:-\d{1,9})?"
    rf"(?:\.log|\.all|\.\d{{1,9}}|{COMPRESSED})*"
)
# The operation id in the head of a host's line, also as structured data. Longer ids are ignored.
_OP_ID = re.compile(r"""[ \[]opI[dD]="?([^\s\[\]()"',;]{1,200})(?![^\s\[\]()"',;])""")
_ADDRESS = re.compile(r"[\d.]+|[^:\n]*:.*")
# datastore1 of the installer, and the name that vCenter gives to another one: `datastore1 (2)`.
_LOCAL_DATASTORE = re.compile(r"datastore1(?: \(\d{1,5}\))?")
_HOSTS_KNOWN: Final = 1024
_PEERS_KNOWN: Final = 1024
_NO_GROUPS: Groups = (None,) * (len(FIELDS) - 2)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where lines come from, with defaults for what the lines do not contain.

    `host`, `vm` and `datastore` come from options or from the folder; `datastore` is the name in
    the whole fleet (datastore_name). Lines without a `file` were received over the network from
    `peer`.
    """

    run_id: str
    source: str = "syslog"  # or "vmware_log"; selects the head patterns
    host: str | None = None
    vm: str | None = None
    datastore: str | None = None
    file: str | None = None
    generation: str | None = None
    peer: str | None = None


def to_json(record: Mapping[str, Any]) -> bytes:
    """Return a record as JSON, for places that keep many of them.

    A value of orjson 3.13 occupies 8 KiB as long as it exists. The copy without the line feed
    occupies only its own length.
    """
    return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)[:-1]


def strip_terminator(raw: bytes) -> bytes:
    r"""Return the line without \n, the \r and NULs before it, and NULs at its beginning.

    A log that was copied and truncated while it was written begins with NULs up to its old length.
    """
    return raw.removesuffix(b"\n").rstrip(b"\r\0").lstrip(b"\0")


_FIRST_LINE_BYTES = 256 << 10
"""Of a longer first line, only the beginning counts for the generation of its file."""


def generation_of(first_line: bytes) -> str:
    """Return a file's fingerprint: FNV-1a of the first line's first 1024 bytes, as 16 hex digits.

    64 bits, because with 32 bits two of a fleet's hundred thousand logs would collide.
    """
    value = 0xCBF29CE484222325
    for byte in strip_terminator(first_line.lstrip(b"\0")[:_FIRST_LINE_BYTES])[:1024]:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def decode(raw: bytes) -> str:
    """Decode as UTF-8; if that fails, decode the whole line as latin-1 so that no byte is lost.

    A byte order mark at the beginning, which Windows programs write, is dropped.
    """
    try:
        return raw.decode().removeprefix("\ufeff")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def cut(raw: bytes) -> bytes:
    """Cut to at most MAX_LINE_BYTES, without splitting a UTF-8 character."""
    kept = raw[:MAX_LINE_BYTES]
    try:
        kept.decode()
    except UnicodeDecodeError as problem:
        if len(raw) > len(kept) and problem.reason == "unexpected end of data":
            return kept[: problem.start]
    return kept


def owner_key(host: str) -> str:
    """Return a host's Kafka key: its first label in lower case, or a whole IP address."""
    return host if _ADDRESS.fullmatch(host) else host.partition(".")[0].lower()


def datastore_name(name: str, host: str | None) -> str:
    """Return the name by which a datastore is known in the whole fleet.

    The installer of ESXi creates `datastore1` on the first local disk of every host, and vCenter
    tells such datastores apart by a number, which repeats in other vCenters. So these names get
    the host: `datastore1` of esx07.lab.example → `datastore1 (esx07)`.
    """
    if host and _LOCAL_DATASTORE.fullmatch(name):
        return f"{name} ({owner_key(host)})"
    return name


def fuller_host(named: str, known: str | None) -> str:
    """Return the host named by a line, or `known` if that is a longer name of the same host."""
    if known is not None and len(known) > len(named) and owner_key(known) == owner_key(named):
        return known
    return named


def is_long(name: str | None) -> bool:
    """Return True if the name of a host or VM exceeds MAX_NAME_BYTES."""
    # A character has four bytes at most.
    return (
        name is not None and len(name) * 4 > MAX_NAME_BYTES and len(name.encode()) > MAX_NAME_BYTES
    )


def kafka_key(record: Mapping[str, Any]) -> str:
    """Return the Kafka key: all lines of one host or VM go to one partition, in order."""
    if record["source"] == "vmware_log":
        # Without VM and datastore, files are told apart by fingerprint: they may be different VMs.
        unnamed = "" if "vm" in record or "datastore" in record else record.get("generation", "")
        return f"{record.get('datastore', '')}/{record.get('vm', '')}{unnamed}"
    host = record.get("host")
    return owner_key(host) if host else record.get("peer") or record.get("file") or ""


def rejection(
    line: bytes, reason: str, received_at: str, origin: Origin, *, offset: int, line_bytes: int
) -> Record:
    """Return the rejection of a line (or a CSV row). `reason` is a sentence."""
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


def reason_of(line: str) -> str:
    """Return why no pattern matches a line, as far as its beginning shows."""
    if "\0" in line:
        return BINARY
    beginning = line[:_FORM_LENGTH]
    return next((form for form, begins in _FORMS.items() if begins.match(beginning)), NO_PATTERN)


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
    """Return the record that ends a file: all `offset` bytes up to `event_time` were read."""
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
    """Makes the records of one source, line by line.

    It keeps little state: the time of the last line with a timestamp (in a file, lines without one
    inherit it), the uptime anchors, and a cache of host names.
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
        """Start a source.

        `written_at`: when the file was last modified; without a file, the arrival time. It is also
        the time of lines that have none and inherit none. Unlike the time of reading, it is the
        same in every replay of the file.
        `zone` and `year`: see times.Stamps.
        `uptimes`: shared by the files of one host, so that spans across two files are exact.

        If the timestamp of a line from the network is far from its arrival, the line is stored with
        the arrival time, and `stamped_at` holds the timestamp.
        """
        self.origin = origin
        self.stamps = Stamps(written_at=written_at, zone=zone, year=year)
        self.last_event_time: str | None = None
        self.last_quality = "arrival"
        self.program = program_of_file(origin.file)
        self._is_file = origin.file is not None
        families = VMWARE_LOG if origin.source == "vmware_log" else HOST_FILE
        self._finder = Finder(families if self._is_file else WIRE)
        self._uptimes = uptimes or UptimeClock()
        self._hosts: dict[str, str] = {}
        self._doubted_time: str | None = None

    def make(self, raw: bytes, received_at: str, offset: int = 0, line_bytes: int = 0) -> Record:
        """Return the record or rejection of a line without its terminator.

        `offset` and `line_bytes` (including the terminator) locate the line in its file. If any
        error occurs, the line is rejected and reading continues with the next one.
        """
        try:
            return self._make(raw, received_at, offset, line_bytes)
        except Exception as error:
            return rejection(
                raw,
                f"{FAILED}{type(error).__name__}",
                received_at,
                self.origin,
                offset=offset,
                line_bytes=line_bytes,
            )

    def _make(  # noqa: PLR0912, PLR0915 - the hot path: a call costs as much as three branches
        self, raw: bytes, received_at: str, offset: int, line_bytes: int
    ) -> Record:
        is_cut = len(raw) > MAX_LINE_BYTES
        line = decode(cut(raw) if is_cut else raw)
        found = self._finder.find(line)
        if found is not None:
            pattern, groups = found
            source, name = pattern.source, pattern.name
        elif self._is_file and self.last_event_time is not None and line[:1] in ("", " ", "\t"):
            # A blank or indented line belongs to the last line with a timestamp.
            source, name, groups = self.origin.source, "", (None, line, *_NO_GROUPS)
        else:
            return rejection(
                raw, reason_of(line), received_at, self.origin, offset=offset, line_bytes=line_bytes
            )
        head, message, time, burst, uptime, thread, level, program, host, pri, vm, op_id = groups

        origin = self.origin
        if is_long(host) or is_long(vm):
            return rejection(
                raw, LONG_NAME, received_at, origin, offset=offset, line_bytes=line_bytes
            )
        if host is None or host == "-":
            host = origin.host
        else:
            host = self._hosts.get(host) or self._shown_host(host)
        self._doubted_time = None
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
        if op_id is None and head and source == "syslog":
            op_id = _op_id(head)
        if op_id and op_id != "-":
            record["op_id"] = op_id
        if head:
            record["head"] = head
        record["message"] = message
        if self._is_file:
            record["file"] = origin.file
            record["generation"] = origin.generation
            record["offset"] = offset
            record["line_bytes"] = line_bytes
        elif origin.peer is not None:
            record["peer"] = origin.peer
        record["run_id"] = origin.run_id
        record["time_quality"] = quality
        if self._doubted_time is not None:
            record["stamped_at"] = self._doubted_time
        if is_cut:
            record["truncated"] = True
        return record

    def inherited_time(self, received_at: str) -> tuple[str, str]:
        """Return (event_time, time_quality) for a line without a time of its own."""
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
        if not self._is_file and not self.stamps.is_near_arrival(event_time):
            self._doubted_time = event_time
            return None
        if uptime is not None:
            event_time = self._uptimes.event_time(host or "", event_time, uptime)
        self.last_event_time = event_time
        self.last_quality = "exact" if names_year(time) else "year_inferred"
        return event_time, self.last_quality

    def _shown_host(self, named: str) -> str:
        bare = named[1:-1] if named[0] == "[" else named  # [fe80::1]
        if len(self._hosts) >= _HOSTS_KNOWN:
            self._hosts.clear()
        host = self._hosts[named] = fuller_host(bare, self.origin.host)
        return host


class WireRecords:
    """Makes the records of messages from the network, one frame or datagram at a time."""

    def __init__(self, run_id: str = "live", zone: tzinfo = UTC) -> None:
        """`zone` applies to timestamps without a zone."""
        self._run_id = run_id
        self._zone = zone
        self._peers: dict[str, LineRecords] = {}

    def make(self, data: bytes, peer: str, received_at: datetime) -> Record:
        """Return the record or rejection of one message, without its octet count."""
        lines = self._peers.get(peer)
        if lines is None:
            origin = Origin(run_id=self._run_id, peer=peer)
            lines = LineRecords(origin, written_at=received_at, zone=self._zone)
            if len(self._peers) >= _PEERS_KNOWN:
                self._peers.clear()
            self._peers[peer] = lines
        lines.stamps.move_on(received_at)
        return lines.make(data.rstrip(b"\r\n\0"), utc_text(received_at))


def _op_id(head: str) -> str | None:
    if "opI" not in head:  # true for nearly all lines; the regex search is ten times slower
        return None
    match = _OP_ID.search(head)
    return None if match is None else match[1]


def _severity(level: str | None, pri: str | None) -> str | None:
    if level is not None:
        return _LEVELS.get(level) or _LEVELS.get(level.lower())
    return None if pri is None else _SEVERITIES[int(pri) & 7]


def program_of_file(file: str | None) -> str | None:
    """Return the program that writes a file, by the file's name: `…/vmkernel.1.gz` → vmkernel."""
    match = None if file is None else _PROGRAM_FILE.fullmatch(file)
    return None if match is None else match[1]
