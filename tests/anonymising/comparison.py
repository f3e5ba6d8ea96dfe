"""Compares the results of a bundle and of its anonymised copy: equal except for names and texts."""

from __future__ import annotations

import re
import tarfile
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from stunwatch.anonymising.bundle import Summary, anonymise
from stunwatch.anonymising.pseudonyms import Pseudonyms
from tools.score import in_memory

KEY = b"a key for tests, and for nothing"
_KINDS = {
    "host": "host", "hosts": "host", "vm": "vm", "vms": "vm", "name": "snap",
    "datastore": "ds", "datastores": "ds", "volume": "ds",
}  # fmt: skip
_DEVICES = frozenset({"device", "devices", "path", "paths"})
_TEXTS = frozenset({"verdict", "cause_detail", "op_id", "migration_id", "message", "detail"})
"""For these fields, only whether they are empty is compared."""
_OWN = frozenset({"event_id", "revision", "run_id"})
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z?")
_UUID = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{8}|[0-9a-f]{8}-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}"
)
_NAMED_DEVICE = re.compile(r"(?:naa|eui|t10|uuid|vml)\..+")


def copied(
    bundle: Path, folder: Path, *, is_shifted: bool = False, key: bytes = KEY
) -> tuple[Path, Summary]:
    """Anonymise a bundle; the folder that its copy was unpacked into, and the summary."""
    output = folder / "copy.tgz"
    summary = anonymise(bundle, output, Pseudonyms(key), is_shifted=is_shifted)
    unpacked = folder / "copy"
    with tarfile.open(output) as archive:
        # Before Python 3.11.4, as in Debian 12, there are no filters.
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(unpacked, **safely)
    return unpacked, summary


def rows_shown(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of a bundle, by view."""
    return in_memory.find(path).rows


def differences(original: Path, copy: Path, *, is_shifted: bool = False) -> dict[str, Any]:
    """Return the rows that only one of the two gives, by view, with the names of the copy."""
    pseudonyms = Pseudonyms(KEY)
    shift = pseudonyms.shift if is_shifted else timedelta(0)
    differing = {}
    copied_rows = rows_shown(copy)
    for view, rows in rows_shown(original).items():
        expected = Counter(_comparable(row, pseudonyms, shift) for row in rows)
        found = Counter(_comparable(row, None, timedelta(0)) for row in copied_rows[view])
        if expected != found:
            differing[view] = (
                sorted((expected - found).elements()),
                sorted((found - expected).elements()),
            )
    return differing


def _comparable(row: dict[str, Any], pseudonyms: Pseudonyms | None, shift: timedelta) -> str:
    made = {}
    for field, value in row.items():
        if field in _OWN:
            continue
        if field in _TEXTS:
            made[field] = bool(value)
        elif field in ("evidence", "evidence_ids", "missing"):
            made[field] = len(value)
        elif field == "next_steps":
            made[field] = [(each["kb"], each["risk_level"]) for each in value]
        elif isinstance(value, list):
            made[field] = sorted(str(_value(field, each, pseudonyms, shift)) for each in value)
        else:
            made[field] = _value(field, value, pseudonyms, shift)
    return repr(sorted(made.items()))


def _value(field: str, value: Any, pseudonyms: Pseudonyms | None, shift: timedelta) -> Any:
    if not isinstance(value, str) or not value:
        return value
    if _TIME.fullmatch(value):
        return (datetime.fromisoformat(value.rstrip("Z")) - shift).isoformat()
    return (value if pseudonyms is None else _pseudonym(field, value, pseudonyms)).lower()


def _pseudonym(field: str, value: str, pseudonyms: Pseudonyms) -> str:
    if _NAMED_DEVICE.fullmatch(value):
        return pseudonyms.device(value)
    if _UUID.fullmatch(value):
        return pseudonyms.hexadecimal(value, "uuid")
    kind = "ds" if field in _DEVICES else _KINDS.get(field)
    is_part = field in _DEVICES and value.startswith(("vmhba", "mpx.", "scsi"))
    if kind is None or is_part or value.lower().startswith("consolidate helper"):
        return value
    return pseudonyms.name(kind, value)
