"""Check that the texts of an incident agree with the columns of its row."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from stunwatch.detectors.reservation_conflict import DEVICE_NAMES
from stunwatch.incidents.wording import milliseconds, seconds

Row = Mapping[str, Any]
"""An incident, as defined in schemas/incident.v1."""

_NAMED = ("hosts", "devices", "paths", "datastores", "vms")

_TOTALS: dict[str, Callable[[Row], int]] = {
    "host": lambda row: len(row["hosts"]),
    "LUN": lambda row: len(row["devices"]) or len(row["paths"]),
    "path": lambda row: len(row["paths"]),
    "datastore": lambda row: len(row["datastores"]),
    "VM": lambda row: len(row["vms"]),
    "stun": lambda row: row["stun_count"],
    "reservation conflict": lambda row: row["conflict_count"],
    "failed command": lambda row: row["failed_command_count"],
}
"""The total in the row for each noun of a verdict."""

_SOURCES = {
    "esxtop": "esxtop",
    "vmkernel": "vmkernel",
    "vCenter": "vcenter",
    "storageRM": "storage_rm",
}

_CLAIMS: dict[str, Callable[[Row], bool]] = {
    r"only this host|on this host": lambda row: len(row["hosts"]) == 1,
    r"only these hosts": lambda row: len(row["hosts"]) > 1,
    r"no host sent logs": lambda row: row["reporting_hosts"] == 0,
    r"host of the VM is unknown": lambda row: not row["hosts"],
    r"(?:only this|one) LUN": lambda row: _TOTALS["LUN"](row) == 1,
    r"only this datastore": lambda row: not row["devices"] and len(row["datastores"]) == 1,
    r"one datastore": lambda row: len(row["datastores"]) == 1,
    r"only this VM": lambda row: len(row["vms"]) == 1,
    r"several LUNs|LUNs of several": lambda row: len(row["devices"]) > 1,
    r"several datastores": lambda row: len(row["datastores"]) > 1,
    r"several (?:\w+ and )?hosts": lambda row: len(row["hosts"]) > 1,
    r"no slow LUN measured": lambda row: row["peak_ms"] is None,
    r"suspect its adapter": lambda row: row["scope"] == "host",
    r"suspect the array:?$|suspect the array[;.]": lambda row: row["scope"] == "array",
    r"suspect the fabric": lambda row: row["scope"] == "fabric",
    r"suspect the array or the fabric": lambda row: row["scope"] == "array_or_fabric",
    r"suspect the NFS server or the network": lambda row: row["scope"] == "array_or_fabric",
    r"usual pattern, no alert": lambda row: row["state"] == "noted",
}
"""Conditions on the row for verdicts with these words."""

_WORDS = frozenset(
    re.findall(
        r"\S+",
        """
        a access adapter add affected alert also an and answer apd APD APD's array
        arrays at ATS before begin cable cause cleared command commands conflict
        conflicts consolidation converge creation creations datastore datastores DAVG
        dead does during esxtop fabric failed from GAVG heartbeat high host host's hosts
        hot in is its KAVG latency line log logs lost LUN LUNs many matches measured
        memory miscompare more ms names network NFS no not of on one only open operation operations
        or outside path paths pattern PDL port removal reservation resume run S s sent
        server several Since slow snapshot snapshots some still Storage storage storageRM stuck
        stun stunned stuns suspect suspend that the these this time timeout to
        unaffected unknown UNMAP unnamed up usual UTC vCenter VM vmkernel vMotion VMs
        with worst
        """,
    )
)
"""Words of verdicts. Any other word is treated as a name."""


def contradictions(row: Row) -> Iterator[str]:
    """Yield contradictions between the texts and the columns of a row, one sentence each."""
    yield from _of_columns(row)
    verdict = row["verdict"]
    for words, holds in _CLAIMS.items():
        if re.search(words, verdict) and not holds(row):
            yield f"{words!r} does not hold"
    text = _without_names(verdict, row)
    since = re.match(r"Since (\S+ \S+) UTC, ", text)
    if since is None or since[1] != row["opened_at"][:16].replace("T", " "):
        yield f"it does not begin at {row['opened_at']}"
    text = re.sub(r"^Since \S+ \S+ UTC", "", text)
    yield from _of_numbers(text, row)
    left = set(re.findall(r"[^\s,;:.]+", re.sub(r"[\d,.]*\d", "", text))) - _WORDS - {"●"}
    if left:
        yield f"{sorted(left)} are names that the row does not have"
    for each in row["next_steps"]:
        for field in ("step", "because", "against"):
            yield from _of_step(_without_names(each[field] or "", row), row)


def _of_columns(row: Row) -> Iterator[str]:
    for name in row["devices"]:
        if not name.startswith(DEVICE_NAMES):
            yield f"{name} is no device"
    if both := set(row["devices"]) & set(row["datastores"]):
        yield f"{both} are devices and datastores"
    if row["peak_davg_ms"] != (row["peak_ms"] if row["peak_metric"] == "davg" else None):
        yield "peak_davg_ms is not peak_ms"
    if len(row["hosts"]) > row["reporting_hosts"]:
        yield "more hosts than sent logs"


def _without_names(text: str, row: Row) -> str:
    """Return the text with ● instead of each name of the row."""
    names = sorted({name for column in _NAMED for name in row[column]}, key=len, reverse=True)
    if not names:
        return text
    pattern = "|".join(re.escape(each) for each in names)
    return re.sub(rf"(?<![\w.:-])(?:{pattern})(?![\w-]|[.:]\w)", "●", text)


def _of_numbers(text: str, row: Row) -> Iterator[str]:
    """Check every number of the text; what has been checked is removed from the text."""

    def check(pattern: str, is_true: Callable[[re.Match[str]], bool]) -> Iterator[str]:
        nonlocal text
        for found in re.finditer(pattern, text):
            if not is_true(found):
                yield f"{found[0]!r} does not hold"
        text = re.sub(pattern, "", text)

    yield from check(
        r"(\w+) (DAVG|GAVG|KAVG) up to ([\d,.]+ ms)",
        lambda found: (
            row["peak_ms"] is not None
            and (_SOURCES[found[1]], found[2].lower(), found[3])
            == (row["peak_source"], row["peak_metric"], milliseconds(row["peak_ms"]))
        ),
    )
    yield from check(
        r"(?:worst|stunned) ([\d,.]+ s)\b",
        lambda found: found[1] == seconds(row["worst_stun_us"]) and row["stun_count"] > 0,
    )
    yield from check(
        r"([\d,]+) hosts? sent logs(?:, ([\d,]+) unaffected)?",
        lambda found: (
            _number(found[1]) == row["reporting_hosts"]
            and (not found[2] or _number(found[2]) == row["reporting_hosts"] - len(row["hosts"]))
        ),
    )
    yield from check(
        r"and ([\d,]+) more",
        lambda found: _number(found[1]) <= sum(len(row[each]) for each in _NAMED),
    )
    for noun, total in _TOTALS.items():
        yield from check(
            rf"(?:([\d,]+) of )?([\d,]+) {noun}s?\b",
            lambda found, total=total: (  # type: ignore[misc]
                _number(found[2]) == total(row)
                and (not found[1] or 0 < _number(found[1]) < _number(found[2]) or "usual" in text)
            ),
        )
    if unchecked := re.findall(r"[\d,.]*\d", text):
        yield f"{unchecked} are numbers of no column"


def _of_step(text: str, row: Row) -> Iterator[str]:
    """Check the numbers of a next step that are figures of the incident."""
    for found in re.finditer(r"up to ([\d,.]+ ms)", text):
        if found[1] != milliseconds(row["peak_ms"]):
            yield f"{found[0]!r} does not hold in {text!r}"
    for noun in ("stun", "failed command"):
        for found in re.finditer(rf"(?:[\d,]+ of )?([\d,]+) {noun}s?\b", text):
            if _number(found[1]) != _TOTALS[noun](row):
                yield f"{found[0]!r} does not hold in {text!r}"


def _number(text: str) -> int:
    return int(text.replace(",", ""))
