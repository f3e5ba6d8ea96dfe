"""The cases of the corpus: lines, their source, and the expected records and events.

README.md describes the format. This module and `scoring` need only PyYAML, so that both run without
the rest of the project.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
VERSION = (HERE / "VERSION").read_text().strip()

HOST = "esx01.lab.example"
VM = "web01"
DATASTORE = "gold-01"
"""Host, VM and datastore in a file's path, for lines that do not name their host or VM."""

# The C loader is ten times faster.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Case:
    """Consecutive lines of one log, and the expected results."""

    family: str
    id: str
    source: str
    era: str
    reads: str  # "vmware_log", "host" (a host's file) or "wire" (syslog)
    file: str
    lines: tuple[str, ...]
    records: tuple[dict[str, Any], ...]
    """One per line; or only the first line's, if it is enough that the others are parsed."""

    events: tuple[dict[str, Any], ...]
    quiet: str
    """Why these lines give no event although they look like a problem."""

    missed: str
    """Why no detector handles what these lines report. Extra events are not judged."""

    is_wrapped: bool = False
    """True if the lines are wrapped: in JSON, or with a prefix from grep."""


@cache
def cases() -> tuple[Case, ...]:
    """Return all cases, by family and in the order of their file."""
    return tuple(
        _case(path.stem, fields)
        for path in sorted(HERE.glob("*.yaml"))
        for fields in yaml.load(path.read_text(encoding="utf-8"), _LOADER)
    )


def _case(family: str, fields: dict[str, Any]) -> Case:
    return Case(
        family,
        fields["id"],
        fields["source"],
        fields.get("era", ""),
        fields["reads"],
        fields["file"],
        tuple(fields["lines"]),
        tuple(fields["records"]),
        tuple(fields.get("events", ())),
        fields.get("quiet", ""),
        fields.get("missed", ""),
        fields.get("is_wrapped", False),
    )


def export(folder: Path, chosen: Sequence[Case]) -> None:
    """Write each case as a log file below a folder with its own name.

    The tree is that of a vm-support bundle: `<case>/<host>/var/run/log/<file>` or
    `<case>/<host>/vmfs/volumes/<datastore>/<vm>/vmware.log`. Syslog is `<case>/wire.log`, one
    message per line.
    """
    for case in chosen:
        home = folder / case.id
        if case.reads == "vmware_log":
            home = home / HOST / "vmfs/volumes" / DATASTORE / VM
        elif case.reads == "host":
            home = home / HOST / "var/run/log"
        home.mkdir(parents=True, exist_ok=True)
        (home / case.file).write_text("".join(f"{line}\n" for line in case.lines), "utf-8")
