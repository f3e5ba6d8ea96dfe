"""Masks the members of a bundle: log lines, esxtop CSV files, and esxcli outputs.

Only contents that a parser of this project reads are written. Everything else is left out.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from typing import Any

import orjson

from stunwatch.anonymising.masking import Masker
from stunwatch.anonymising.names import Names, spans
from stunwatch.ingest.heads import HOST_FILE, Finder
from stunwatch.ingest.records import MAX_LINE_BYTES, cut, decode
from stunwatch.ingest.replay import esxtop, lines
from stunwatch.ingest.replay.sources import SourceFile
from stunwatch.ingest.replay.streams import Blocks
from stunwatch.ingest.replay.wrapped import Unwrapper
from stunwatch.ingest.times import Stamps
from stunwatch.inventory.outputs import Output

_ZONE = re.compile(r"\(PDH-CSV [\d.]+\) \(.*\)(?P<minutes>\([+-]?\d{1,4}\))")
_NUMBER = re.compile(rb"-?\d{1,20}(?:\.\d{1,20})?(?:[eE][+-]?\d{1,3})?")
_DISK = re.compile(r"(?P<vm>.+?)(?P<disk>(?::\w{1,16}\d:\d{1,4})?)")
_KIND_OF_INSTANCE = {"nfs_volume": "ds", "virtual_disk": "vm"}

_NAMES = {"volumename": "ds", "hostname": "host", "fullyqualifieddomainname": "host"}
"""The kind of name in a field of an output."""

_TEXTS = frozenset(
    [
        "vmfsuuid",
        "devicename",
        "device",
        "targetidentifier",
        "otheruids",
        "configfile",
        "disk",
        "mapsto",
        "domainname",
        "systemuuid",
        "ipv4address",
        "devfspath",
        "pathselectionpolicydeviceconfig",
        "pathselectionschemeconfig",
        "vendor",
        "model",
    ]
)
"""Fields that contain identifiers, paths or addresses."""

_PLAIN = frozenset(
    [
        "extentnumber",
        "partition",
        "adapter",
        "runtimename",
        "isperenniallyreserved",
        "pathselectionpolicy",
        "pathselectionscheme",
        "atsstatus",
        "clonestatus",
        "zerostatus",
        "deletestatus",
        "vaaistatus",
        "worldid",
        "size",
        "isssd",
        "islocal",
        "isbootdevice",
        "isbootusbdevice",
        "multipathplugin",
        "storagearraytype",
        "transport",
    ]
)
"""Fields with settings of a device, in the product's words."""

_PLAIN_VALUE = re.compile(r"[\w .,:-]{0,60}", re.ASCII)
_ADAPTER = re.compile(r"vmk\d{1,4}")
_VENDORS = frozenset(
    [
        "3PARdata",
        "ATA",
        "COMPELNT",
        "DELL",
        "DGC",
        "EMC",
        "EQLOGIC",
        "FUJITSU",
        "HITACHI",
        "HP",
        "HPE",
        "HUAWEI",
        "IBM",
        "INTEL",
        "LENOVO",
        "LSI",
        "Local",
        "MICRON",
        "NETAPP",
        "NIMBLE",
        "NVMe",
        "Nimble",
        "PURE",
        "SAMSUNG",
        "SEAGATE",
        "SanDisk",
        "TOSHIBA",
        "VMware",
        "WDC",
    ]
)
"""Vendors whose models are product names. For a software target, the model may be a name that its
administrator chose."""

_EXTENT_HEADER = b"Volume Name  VMFS UUID  Extent Number  Device Name  Partition\n"
_FINDER_BYTES = 4 << 10
_NAMES_REMEMBERED = 10_000


def lines_of(source: SourceFile) -> Iterator[bytes]:
    """Yield the lines of a log without terminators; long lines are cut. Raises UnreadableError."""
    for batch in lines.batches(Blocks(source.path), MAX_LINE_BYTES):
        for raw, _, _ in batch:
            yield raw


def collect_names(source: SourceFile, masker: Masker, names: Names) -> None:
    """Pass 1: collect the names in a member. Raises UnreadableError."""
    for kind, name in (
        ("host", source.host), ("vm", source.vm), ("ds", source.datastore)
    ):  # fmt: skip
        if name:
            names.add(kind, name)
    if source.kind == "esxtop":
        _collect_esxtop(source, names)
        return
    finder, unwrapper = Finder(HOST_FILE), _unwrapper(source, masker)
    added: set[tuple[str, str]] = set()
    for raw in lines_of(source):
        text = decode(cut(raw))
        for each in _unwrapped(text, unwrapper) if source.is_wrapped else (text,):
            for span in spans(each, finder, masker.is_read(each)):
                place = span.kind, span.text
                if place not in added:
                    names.add(*place)
                    if len(added) < _NAMES_REMEMBERED:
                        added.add(place)


def _unwrapper(source: SourceFile, masker: Masker) -> Unwrapper:
    return Unwrapper(Stamps(written_at=source.written_at, zone=masker.zone), source.columns)


def _unwrapped(text: str, unwrapper: Unwrapper) -> Iterator[str]:
    for each in unwrapper.unwrap(text):
        yield from (each.line, *each.rest.split("\n"), f"{each.path or ''} ")
    yield text


def log(source: SourceFile, masker: Masker) -> Iterator[bytes]:
    """Yield the masked lines of a log, each with a line feed. Raises UnreadableError."""
    finder, unwrapper = Finder(HOST_FILE), _unwrapper(source, masker)
    for raw in lines_of(source):
        text = decode(cut(raw))
        is_wrapped = source.is_wrapped
        made = _wrapped(text, unwrapper, finder, masker) if is_wrapped else masker.line(text)
        line = made.encode("ascii", "replace")
        if len(raw) > MAX_LINE_BYTES:  # so that it still counts as a cut line
            line = line.ljust(MAX_LINE_BYTES + 1, b"x")
        yield line + b"\n"


def _wrapped(text: str, unwrapper: Unwrapper, finder: Finder, masker: Masker) -> str:
    for each in unwrapper.unwrap(text):
        if finder.find(each.line[:_FINDER_BYTES]) is None:
            continue
        line = masker.line(each.line)
        if not text.lstrip("\x1b[0123456789;mK").startswith("{"):
            return masker.text(each.prefix, is_read=True) + line
        rest = "".join("\n" + masker.line(one) for one in each.rest.split("\n")[1:])
        document = {"message": line + rest}
        if each.path:
            document["file"] = masker.path(each.path)
        return orjson.dumps(document).decode()
    if text.startswith("{"):
        return "{}"
    return masker.line(text)


def _collect_esxtop(source: SourceFile, names: Names) -> None:
    for row in _rows(source):
        if not esxtop.is_header(row):
            continue
        for column in _columns(row):
            if match := esxtop.HOST.match(column):
                names.add("host", match[1])
            kept = _kept(column)
            if kept is not None and (kind := _KIND_OF_INSTANCE.get(kept[0])):
                disk = _DISK.fullmatch(kept[1])
                names.add(kind, disk["vm"] if disk and kind == "vm" else kept[1])


def esxtop_rows(source: SourceFile, masker: Masker) -> Iterator[bytes]:
    """Yield the masked columns of disks; columns that no parser reads are left out."""
    wanted: list[int] = []
    width = 0
    for row in _rows(source):
        if esxtop.is_header(row):
            columns = _columns(row)
            width = len(columns)
            wanted = [at for at, each in enumerate(columns) if at and _kept(each) is not None]
            made = [_zone(columns[0]) if columns else "", *(
                _column(columns[at], masker) for at in wanted
            )]  # fmt: skip
            yield _quoted(each.encode("ascii", "replace") for each in made)
            continue
        values = esxtop.values_of(row)
        time = masker.text(decode(values[0])[:64], is_read=True).encode("ascii", "replace")
        if len(row) > esxtop.MAX_ROW_BYTES or len(values) != width:
            # Keep it a row that is rejected for its number of columns.
            yield _quoted([time, *[b""] * (len(wanted) + 1)])
            continue
        yield _quoted([time, *(
            values[at] if _NUMBER.fullmatch(values[at]) else b"" for at in wanted
        )])  # fmt: skip


def _rows(source: SourceFile) -> Iterator[bytes]:
    for batch in lines.batches(Blocks(source.path), esxtop.MAX_ROW_BYTES):
        for row, _, _ in batch:
            yield row


def _columns(row: bytes) -> list[str]:
    try:
        return next(csv.reader([decode(row.removeprefix(b"\xef\xbb\xbf"))]), [])
    except csv.Error:
        return []


def _kept(column: str) -> tuple[str, str] | None:
    """Return object class and instance of a column that is read; None for other columns."""
    match = esxtop.COLUMN.fullmatch(column)
    if match is None or match["counter"] not in esxtop.FIELDS:
        return None
    object_class = esxtop.OBJECT_CLASSES.get(match["object"])
    return None if object_class is None else (object_class, match["instance"])


def _column(column: str, masker: Masker) -> str:
    match = esxtop.COLUMN.fullmatch(column)
    assert match is not None
    named = esxtop.HOST.match(column)
    host = masker.name("host", named[1]) if named else "local"
    if named and named[1] in esxtop.UNNAMED:
        host = named[1]
    instance = match["instance"]
    kind = _KIND_OF_INSTANCE.get(esxtop.OBJECT_CLASSES[match["object"]])
    if kind is None:
        made = masker.text(instance, is_read=True)
    else:
        disk = _DISK.fullmatch(instance) if kind == "vm" else None
        name, rest = (disk["vm"], disk["disk"]) if disk else (instance, "")
        made = masker.name(kind, name) + rest
    return f"\\\\{host}\\{match['object']}({made})\\{match['counter']}"


def _zone(column: str) -> str:
    """Return the first column's name without the zone's name, which shows the host's location."""
    zone = _ZONE.match(column)
    return f"(PDH-CSV 4.0) (UTC){zone['minutes'] if zone else '(0)'}"


def _quoted(values: Any) -> bytes:
    return b",".join(b'"' + each.replace(b'"', b"") + b'"' for each in values) + b"\n"


def collect_inventory(outputs: list[Output], names: Names) -> None:
    """Pass 1 for esxcli outputs."""
    for output in outputs:
        for entry in output.entries:
            for field, value in entry.items():
                if (kind := _NAMES.get(field)) and value:
                    names.add(kind, value)
                elif field in ("configfile", "disk"):
                    places = re.match(r"/vmfs/volumes/([^/]+)/([^/]+)/", value)
                    if places:
                        names.add("ds", places[1])
                        names.add("vm", places[2])


def inventory(outputs: list[Output], masker: Masker) -> bytes:
    """Return the masked esxcli outputs in JSON format, without fields that are not used."""
    entries = []
    for output in outputs:
        for entry in output.entries:
            is_product = entry.get("vendor") in _VENDORS
            made = {}
            for field, value in entry.items():
                if kind := _NAMES.get(field):
                    made[field] = masker.name(kind, value) if value else ""
                elif is_product and field in ("vendor", "model"):
                    made[field] = value
                elif field in _TEXTS:
                    made[field] = masker.text(value, is_read=True)
                elif (field in _PLAIN and _PLAIN_VALUE.fullmatch(value)) or (
                    field == "name" and _ADAPTER.fullmatch(value)
                ):
                    made[field] = value
            entries.append(made)
    if not entries and any(output.command == "vmfs extent list" for output in outputs):
        return _EXTENT_HEADER
    return orjson.dumps(entries, option=orjson.OPT_INDENT_2) + b"\n"
