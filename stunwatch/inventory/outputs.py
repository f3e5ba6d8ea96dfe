"""Parses esxcli outputs. The command is recognised by the output's content alone.

A text may contain several outputs one after the other, with shell prompts between them. All three
formats of esxcli are supported: text, `--formatter=csv`, and the JSON of a vm-support bundle. They
name a field `VMFS UUID`, `VMFSUUID` and `VMFS UUID`; here it is always `vmfsuuid`.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

Entry = dict[str, str]
"""One device, path, extent, …: its fields by name. Lists are joined by commas."""

DEVICE = r"(?:naa|eui|t10|uuid|mpx|vml)\.\S+?"
VMFS_UUID = r"[0-9a-f]{8}-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{12}"

# These match lines without leading and trailing blanks:
# datastore1   5f2a77c1-9be0d6d2-41aa-0025b5aa00b1   0   naa.600508b1001c5e1f                3
_EXTENT = re.compile(
    rf"(?:(?P<volumename>\S(?:.{{0,254}}?\S)??)\s+)?(?P<vmfsuuid>{VMFS_UUID})\s+"
    rf"(?P<extentnumber>\d{{1,9}})\s+(?P<devicename>{DEVICE})\s+(?P<partition>\d{{1,9}})"
)
# naa.60a1b0:1 /vmfs/devices/disks/naa.60a1b0:1 4a2b77c1-9be0d6d2-41aa-0025b5aa00b1 0 gold
_OLD_EXTENT = re.compile(
    rf"(?P<devicename>{DEVICE}):(?P<partition>\d{{1,9}})\s+/vmfs/devices/\S+\s+"
    rf"(?P<vmfsuuid>{VMFS_UUID})\s+(?P<extentnumber>\d{{1,9}})\s+(?P<volumename>\S.*)"
)
_EXTENT_HEADER = re.compile(r"Volume Name\s+VMFS UUID\s.*Device Name")
# vmk0   192.0.2.11   255.255.255.0   192.0.2.255   STATIC   192.0.2.1   false
_ADDRESS = re.compile(
    r"(?P<name>vmk\d{1,4})\s+(?P<ipv4address>(?:\d{1,3}\.){3}\d{1,3})"
    r"\s+(?:\d{1,3}\.){3}\d{1,3}(?:\s.*)?"
)
_SYSTEM_UUID = re.compile(r"(?P<systemuuid>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
# Disk /vmfs/volumes/gold/node1/node1_1.vmdk is a Passthrough Raw Device Mapping
_MAPPING = re.compile(r"Disk (?P<disk>\S.*) is a (?:Non-passthrough|Passthrough) Raw Device ")
_MAPS_TO = re.compile(r"Maps to: (?P<mapsto>vml\.\S+)")
# `   Is SSD: true`, and a line without a colon, which is the heading of a block of such lines
_FIELD = re.compile(r"(?P<name>[A-Z][^:]{0,60}):(?: +(?P<value>\S.*))?")
_HEADING = re.compile(r"(?P<heading>\S.*?):?")
# esxcli does not print longer lines, and other text need not be searched.
_LONGEST_LINE = 4096
# Fields of the only output without a heading; they must not be added to the block before it.
_HOST_NAMES = frozenset({"domainname", "fullyqualifieddomainname", "hostname"})


@dataclass(frozen=True)
class Output:
    """The output of one command."""

    command: str
    entries: list[Entry]


@dataclass(frozen=True)
class _Command:
    name: str
    says: frozenset[str]
    """A set of fields that only this command's entries have."""


COMMANDS = (
    _Command("vmfs extent list", frozenset({"vmfsuuid", "devicename"})),
    _Command("core path list", frozenset({"runtimename", "device", "adapter"})),
    _Command("core device list", frozenset({"device", "devfspath"})),
    _Command("core device list", frozenset({"device", "isperenniallyreserved"})),
    _Command("nmp device list", frozenset({"device", "pathselectionpolicy"})),
    _Command("hpp device list", frozenset({"device", "pathselectionscheme"})),
    _Command("core device vaai status get", frozenset({"device", "atsstatus"})),
    _Command("vm process list", frozenset({"configfile", "worldid"})),
    _Command("system hostname get", frozenset({"hostname", "domainname"})),
    _Command("system hostname get", frozenset({"hostname", "fullyqualifieddomainname"})),
    _Command("system uuid get", frozenset({"systemuuid"})),
    _Command("network ip interface ipv4 get", frozenset({"name", "ipv4address"})),
    _Command("vmkfstools -q", frozenset({"disk", "mapsto"})),
)
"""Supported commands, by the words after `esxcli storage` (or all words).

`esxcfg-scsidevs -m` of ESX 4 also lists extents, and counts as `vmfs extent list`.
"""


def outputs_in(text: str) -> list[Output]:
    """Return the outputs in a text, merged by command. Other text is skipped.

    An extent list without extents is an output too: the host has no VMFS datastores.
    """
    found: dict[str, list[Entry]] = {}
    for entry in _entries(text):
        command = _command_of(entry)
        if command is not None:
            found.setdefault(command, []).append(entry)
    if any(_EXTENT_HEADER.match(line.strip()) for line in text.splitlines()):
        found.setdefault("vmfs extent list", [])
    return [Output(command, entries) for command, entries in found.items()]


def _command_of(entry: Entry) -> str | None:
    for command in COMMANDS:
        if command.says <= entry.keys():
            return command.name
    return None


def _entries(text: str) -> Iterator[Entry]:
    text = text.removeprefix("\ufeff")
    if text.lstrip()[:1] in ("[", "{"):
        try:
            yield from _json_entries(orjson.loads(text))
            return
        except orjson.JSONDecodeError:
            pass  # a prompt, `[root@esx01:~] esxcli …`
    lines = [line.strip() for line in text.splitlines() if len(line) <= _LONGEST_LINE]
    yield from _csv_entries(lines)
    yield from _line_entries(lines)
    yield from _blocks(lines)


def _json_entries(value: Any) -> Iterator[Entry]:
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, dict):
            yield {_field(name): _text(field) for name, field in each.items()}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(map(_text, value))
    return "" if value is None else str(value).strip()


def _csv_entries(lines: list[str]) -> Iterator[Entry]:
    """Parse CSV. A header is a line of names without blanks, with a comma at its end (esxcli's)."""
    header: list[str] | None = None
    for line in lines:
        if re.fullmatch(r"(?:[A-Za-z0-9]+,){2,}[A-Za-z0-9]*", line):
            header = [_field(name) for name in line.strip(",").split(",")]
        elif header is not None and line.count(",") >= len(header) - 1:
            values = next(csv.reader(io.StringIO(line)))
            yield dict(zip(header, (value.strip().strip(",") for value in values), strict=False))
        else:
            header = None


def _line_entries(lines: list[str]) -> Iterator[Entry]:
    """Parse entries of one line, or of two consecutive lines."""
    disk = ""
    host_names: Entry = {}
    for line in lines:
        for pattern in (_EXTENT, _OLD_EXTENT, _ADDRESS, _SYSTEM_UUID):
            if match := pattern.fullmatch(line):
                yield match.groupdict("")
        if match := _MAPPING.match(line):
            disk = match["disk"]
        elif disk and (match := _MAPS_TO.fullmatch(line)):
            yield {"disk": disk, "mapsto": match["mapsto"]}
        if (match := _FIELD.fullmatch(line)) and _field(match["name"]) in _HOST_NAMES:
            host_names[_field(match["name"])] = match["value"] or ""
    if host_names:
        yield host_names


def _blocks(lines: list[str]) -> Iterator[Entry]:
    """Parse a heading and the fields below it. Blank lines and indentation may be missing."""
    block: Entry = {}
    heading = ""
    for line in lines:
        if not line:
            continue
        field = _FIELD.fullmatch(line)
        if field is None:
            if block:
                yield block
            match = _HEADING.fullmatch(line)
            heading, block = match["heading"] if match else "", {}
        elif _field(field["name"]) not in _HOST_NAMES:
            name = _field(field["name"])
            if name in block and name != "device":
                # The heading between two blocks is missing, or it looked like a field.
                yield block
                block, heading = {}, ""
            # The heading of a path is its UID; its device is a separate field.
            block.setdefault("device", heading)
            block[name] = field["value"] or ""
    if block:
        yield block


def _field(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def listed(value: str) -> list[str]:
    """Split a list printed with commas; esxcli adds trailing commas and blanks."""
    return [part.strip() for part in value.split(",") if part.strip()]
