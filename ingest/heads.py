"""The heads of log lines: `parsers.yaml`, read for Python."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import yaml

PARSERS = Path(__file__).with_name("parsers.yaml")

Families = tuple[str, ...]
# Which patterns read a line, by where it was found (the first words of their names).
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
)
Groups = tuple[str | None, ...]

# They overlap with patterns before them, so a line must be refused by those first.
LOOSE = frozenset(
    {
        "host_continuation",
        "host_esxi8",
        "host_iso",
        "host_program_iso",
        "host_vmkernel_bare",
        "wire_bsd",
        "wire_iso",
        "wire_rfc5424",
        "wire_stamped",
    }
)
# What these match does not yet make a file one of ours: too much else looks like it.
VAGUE = frozenset({"host_continuation", "host_iso", "host_vmkernel_bare"})


@dataclass(frozen=True, slots=True)
class Pattern:
    """One head pattern; `pick` puts a match's groups into the order of FIELDS, absent ones None."""

    name: str
    regex: re.Pattern[str]
    source: str  # of the record: syslog or vmware_log
    is_loose: bool
    is_vague: bool
    pick: Callable[[Groups], Groups] = field(repr=False)


def to_python(regex: str) -> str:
    """`(?<name>` → `(?P<name>`; the lookbehinds `(?<=` and `(?<!` stay."""
    return re.sub(r"\(\?<(?![=!])", "(?P<", regex)


@lru_cache(maxsize=1)
def load_patterns() -> tuple[Pattern, ...]:
    """Every pattern of `parsers.yaml`, in its order."""
    patterns = []
    for parser in yaml.safe_load(PARSERS.read_text(encoding="utf-8"))["parsers"]:
        name = parser["name"]
        regex = re.compile(to_python(parser["regex"]), re.ASCII)
        absent = regex.groups  # the index of the None that `Finder` appends
        at = [regex.groupindex.get(name, absent + 1) - 1 for name in FIELDS]
        patterns.append(
            Pattern(
                name=name,
                regex=regex,
                source="vmware_log" if "vmware_log" in name else "syslog",
                is_loose=name in LOOSE,
                is_vague=name in VAGUE,
                pick=operator.itemgetter(*at),
            )
        )
    return tuple(patterns)


class Finder:
    """Finds the pattern of one source's lines.

    The pattern of the line before is tried first where that cannot change the result, that is if
    no earlier pattern reads the same lines (a test holds this).
    """

    __slots__ = ("_last", "_patterns")

    def __init__(self, families: Families) -> None:
        """Take the patterns whose names begin with one of `families`."""
        self._patterns = [p for p in load_patterns() if p.name.startswith(families)]
        self._last = self._patterns[0]

    def find(self, line: str) -> tuple[Pattern, Groups] | None:
        """The pattern that reads the line (no terminator) and its groups in the order of FIELDS."""
        last = self._last
        match = last.regex.match(line)
        if match is not None:
            return last, last.pick((*match.groups(), None))
        for pattern in self._patterns:
            match = pattern.regex.match(line)
            if match is not None:
                if not pattern.is_loose:
                    self._last = pattern
                return pattern, pattern.pick((*match.groups(), None))
        return None
