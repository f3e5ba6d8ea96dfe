"""Joins the files that vm-support splits into fragments of about 1 MB.

vm-support does so with outputs of commands, `path-list.txt.FRAG-00000`, `path-list.txt.FRAG-00001`
and so on, and with some logs. A script in the bundle joins them, but a bundle may be handed over
before anybody ran it. A line that the border of two fragments cuts is whole only after joining.
"""

from __future__ import annotations

import glob
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ENDING: Final = r"\.FRAG-\d{5}"
"""A regular expression for the ending of a fragment's name."""
_FRAGMENT = re.compile(r"(?P<whole>.+)\.FRAG-(?P<number>\d{5})", re.ASCII | re.DOTALL)


@dataclass(slots=True)
class Grouped:
    """Names of files: whole files, and fragments by the name of their file and their number."""

    whole: list[str] = field(default_factory=list)
    fragments: dict[str, dict[int, str]] = field(default_factory=dict)


def fragment(name: str) -> tuple[str, int] | None:
    """Return the name of the file and the number of the fragment; None if it is a whole file."""
    match = _FRAGMENT.fullmatch(name)
    return None if match is None else (match["whole"], int(match["number"]))


def grouped(names: Iterable[str]) -> Grouped:
    """Group names. The fragments of a file that is also there as a whole are left out."""
    groups = Grouped()
    for name in names:
        found = fragment(name)
        if found is None:
            groups.whole.append(name)
        else:
            whole, number = found
            groups.fragments.setdefault(whole, {})[number] = name
    for whole in groups.whole:
        groups.fragments.pop(whole, None)
    return groups


def fragments_of(whole: Path) -> list[Path]:
    """Return the fragments of a file that exist in its folder."""
    return sorted(whole.parent.glob(f"{glob.escape(whole.name)}.FRAG-*"))


def join(fragments: Mapping[int, Path], to: Path, *, is_moved: bool = False) -> str:
    """Write the fragments to one file; return a sentence about missing ones, or an empty string.

    A line feed replaces missing fragments, so that the parts of two lines do not become one line.
    With `is_moved`, each fragment is deleted after it was copied. Raises OSError.
    """
    expected, ends_line = 0, True
    with to.open("wb") as whole:
        for number, path in sorted(fragments.items()):
            if number > expected and not ends_line:
                whole.write(b"\n")
            with path.open("rb") as part:
                shutil.copyfileobj(part, whole)
                if part.tell():
                    part.seek(-1, 1)
                    ends_line = part.read() == b"\n"
            if is_moved:
                path.unlink()
            expected = number + 1
    missing = expected - len(fragments)
    if not missing:
        return ""
    return f"{missing} of its {expected} fragments are missing; the others were read"
