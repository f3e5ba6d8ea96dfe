"""The head patterns of `parsers.yaml`, compiled for Python.

The head of a log line is everything before its message: timestamp, host, program, thread, level.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from stunwatch.ingest import yaml_file

PARSERS = Path(__file__).with_name("parsers.yaml")

Families = tuple[str, ...]
# Families of patterns (the first words of their names), by where the line was found.
VMWARE_LOG: Families = ("vmware_log_",)
HOST_FILE: Families = ("vmware_log_", "host_", "wire_")
WIRE: Families = ("wire_",)

FIELDS = (
    "head",
    "message",
    "time",
    "burst",
    "uptime",
    "thread",
    "level",
    "program",
    "host",
    "pri",
    "vm",
    "op_id",
)
Groups = tuple[str | None, ...]

# This pattern splits off the head that a relay added. It is not a head pattern.
RELAYED = "relayed"

# These patterns overlap with earlier ones, so a line must first fail to match those.
LOOSE = frozenset(
    {
        "host_continuation",
        "host_esxi8",
        "host_iso",
        "host_program_iso",
        "host_vmkernel_bare",
        "wire_bsd",
        "wire_dated_text",
        "wire_iso",
        "wire_iso_vobd",
        "wire_hostless",
        "wire_rfc5424",
        "wire_stamped",
        "wire_tailed_hostd",
    }
)
# These accept any text after the timestamp, including a relay's name. All others reject that.
ANY_TEXT = frozenset({"host_iso", "wire_stamped"})
# A match of one of these does not prove that a file is an ESXi log: other files look similar.
VAGUE = frozenset({"host_continuation", "host_iso", "host_vmkernel_bare"})


@dataclass(frozen=True, slots=True)
class Pattern:
    """One head pattern. `pick` orders a match's groups as in FIELDS; missing groups are None."""

    name: str
    regex: re.Pattern[str]
    source: str  # of the record: "syslog" or "vmware_log"
    is_loose: bool
    is_vague: bool
    is_any_text: bool
    pick: Callable[[Groups], Groups] = field(repr=False)


def to_python(regex: str) -> str:
    """`(?<name>` → `(?P<name>`; the lookbehinds `(?<=` and `(?<!` stay."""
    return re.sub(r"\(\?<(?![=!])", "(?P<", regex)


@lru_cache(maxsize=1)
def _parsers() -> dict[str, str]:
    """Return every regex of `parsers.yaml` by name, in the order of the file."""
    parsers = yaml_file.read(PARSERS)["parsers"]
    return {parser["name"]: parser["regex"] for parser in parsers}


@lru_cache(maxsize=1)
def load_patterns() -> tuple[Pattern, ...]:
    """Return every head pattern of `parsers.yaml`, in the order of the file."""
    patterns = []
    for name, regex_text in _parsers().items():
        if name == RELAYED:
            continue
        regex = re.compile(to_python(regex_text), re.ASCII)
        absent = regex.groups  # the index of the None that `Finder` appends
        at = [regex.groupindex.get(name, absent + 1) - 1 for name in FIELDS]
        patterns.append(
            Pattern(
                name=name,
                regex=regex,
                source="vmware_log" if "vmware_log" in name else "syslog",
                is_loose=name in LOOSE,
                is_vague=name in VAGUE,
                is_any_text=name in ANY_TEXT,
                pick=operator.itemgetter(*at),
            )
        )
    return tuple(patterns)


@lru_cache(maxsize=1)
def _relays() -> re.Pattern[str]:
    """Return a regex that matches zero, one or two relay heads at the start of a line."""
    relays, _, _ = _parsers()[RELAYED].partition("(?<line>")
    return re.compile(to_python(relays), re.ASCII)


class Finder:
    """Finds the head pattern of each line of one source.

    The pattern that matched the previous line is tried first, but only if no earlier pattern
    matches the same lines, so the result does not change (a test checks this).
    """

    __slots__ = ("_behind_relays", "_is_relayed", "_last", "_patterns", "_relays")

    def __init__(self, families: Families, *, relays: bool = True) -> None:
        """Use the patterns whose names start with one of `families`.

        If `relays` is set and syslog lines are among them, the heads of relays are split off.
        """
        self._patterns = [p for p in load_patterns() if p.name.startswith(families)]
        self._last = self._patterns[0]
        self._relays = _relays() if relays and set(WIRE) <= set(families) else None
        self._is_relayed = False  # of the previous line
        self._behind_relays: Finder | None = None

    def find(self, line: str) -> tuple[Pattern, Groups] | None:
        """Return the pattern that matches a line (without terminator), and its groups as in FIELDS.

        A relay's head becomes part of the line's head. The text after it is matched as syslog.
        """
        if self._is_relayed and (relays := self._relays_of(line)):
            return self._find_relayed(line, relays)
        last = self._last
        match = last.regex.match(line)
        if match is not None:
            return last, last.pick((*match.groups(), None))
        for pattern in self._patterns:
            match = pattern.regex.match(line)
            if match is not None:
                if not pattern.is_loose:
                    self._last = pattern
                    break
                if pattern.is_any_text and (relays := self._relays_of(line)):
                    return self._find_relayed(line, relays)
                break
        else:
            relays = self._relays_of(line)
            return self._find_relayed(line, relays) if relays else None
        return pattern, pattern.pick((*match.groups(), None))

    def _relays_of(self, line: str) -> str:
        """Return the head that relays put before the line, or an empty string."""
        match = None if self._relays is None else self._relays.match(line)
        relays = "" if match is None else match[0]
        self._is_relayed = bool(relays)
        return relays

    def _find_relayed(self, line: str, relays: str) -> tuple[Pattern, Groups] | None:
        if self._behind_relays is None:
            self._behind_relays = Finder(WIRE, relays=False)
        found = self._behind_relays.find(line[len(relays) :])
        if found is None:
            return None
        pattern, (head, *others) = found
        return pattern, (f"{relays}{head}", *others)
