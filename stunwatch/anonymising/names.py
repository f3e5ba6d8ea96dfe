"""Collects names of hosts, VMs, datastores, users and snapshots from known positions in lines.

A name of several words, or one that is also a word of the product, is found only here. All other
unknown words get a pseudonym anyway: see `masking`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import quote

from stunwatch.anonymising.pseudonyms import Pseudonyms
from stunwatch.anonymising.vocabulary import is_part, needed, readable
from stunwatch.detectors.catalogue import detectors
from stunwatch.ingest.heads import HOST_FILE, Finder

ATOM = re.compile(r"[A-Za-z0-9_\u0080-\U0010ffff]+")
"""The unit of a text that is replaced or kept as a whole."""

MOST_NAMES = 200_000
"""Further names are not collected. Their words are still masked one by one."""

_LONGEST_NAME = 255
_MOST_ATOMS = 64
_RANKS = ("host", "vm", "ds", "user", "snap", "file", "name", "word")
"""Kinds in order of precedence: a name gets one pseudonym, of the first kind that applies."""

_PRODUCT_USERS = frozenset(
    {"root", "vpxuser", "dcui", "nobody", "administrator", "admin", "system", "vcenter"}
)
_PRODUCT_DOMAINS = frozenset({"vsphere.local", "localdomain"})
_NO_NAME = re.compile(
    r"\d*[-.:%][-\d.:%,]*|scsi\d.*|0x[0-9a-f]*|localhost|(?:naa|eui|t10|mpx|vml|uuid)(?:\..*)?|vmhba[\d:A-Z]+|[0-9a-f]{8,}-[0-9a-f-]+",
    re.IGNORECASE,
)
"""Values at the position of a name that are not names: addresses, devices, UUIDs."""

_GROUPS = {
    "datastore": "ds",
    "volume": "ds",
    "ident": "ds",
    "device": "ds",
    "name": "snap",
    "stem": "file",
    "logger": "host",
    "server": "host",
    "share": "ds",
    "source": "host",
    "destination": "host",
}
"""The kind of name in each group of a detector's pattern. Other groups contain no name."""

_PRODUCT_SNAPSHOT = re.compile(r"Consolidate Helper.{0,12}", re.IGNORECASE)
_PLACES = tuple(
    (needle, re.compile(regex))
    for needle, regex in (
        (
            "/vmfs/volumes/",
            r"/vmfs/volumes/(?P<ds>[^/\"\n]{1,128})/(?:(?P<vm>[^/\"\n]{1,128})/)?",
        ),
        (
            "] ",
            r"\[(?P<ds>[^\[\]/\n]{1,128})\] (?P<vm>[^/\n\[\]]{1,128})/[^/\n]{1,128}\.(?:vm|log|nv)",
        ),
        ("user=", r"[ \[]user=\"?(?P<user>[^\]\"\n,]{1,128})"),
        ("\\", r"(?P<user>[A-Za-z0-9_.-]{1,64}\\{1,2}[A-Za-z0-9_.-]{1,64})"),
        (
            " detected on ",
            r"(?:Issue|Error) detected on (?P<host>\S{1,255}) in (?P<name>[^:\n]{1,80}):",
        ),
        (
            "Message on ",
            r"Message on (?P<vm>[^\n]{1,80}?) on (?P<host>\S{1,255}) in (?P<name>[^:\n]{1,80}):",
        ),
        ("for vol '", r"for vol '(?P<ds>[^'\n]{1,128})'"),
        (
            "volume ",
            r"volume [0-9a-f-]{8,40} \((?P<ds>[^\n]{1,128}?)\)[. ](?:due|on|following|\(|$)",
        ),
        ("displayName", r"displayName ?= ?\"(?P<vm>[^\"\n]{1,255})\""),
    )
)
"""A text that a line must contain, and the regex that finds the name in it."""
_REPEATED = re.compile(r"(?:Issue|Error) detected on \S{1,255} in [^:\n]{1,80}: ")


class Span(NamedTuple):
    """A name in a line."""

    start: int
    end: int
    kind: str
    text: str


@dataclass(slots=True)
class _Node:
    """A node in the tree of names. Edges are (separator, next part of the name)."""

    name: str = ""
    further: dict[tuple[str, str], _Node] = field(default_factory=dict)


class Names:
    """The names of a bundle. Usage: `add` all, then `seal`, then find them in texts."""

    def __init__(self) -> None:
        self._kinds: dict[str, str] = {}
        self._starts: dict[str, _Node] = {}
        self.kept: frozenset[str] = frozenset()
        """Words, in lower case, that are kept."""
        self.weak: frozenset[str] = frozenset()
        """Names that begin with words that parsers need. Replaced only where `spans` finds them."""
        self.spaced_starts: set[str] = set()
        """First words of weak names and of names with blanks. They are searched in whole lines."""

    def __len__(self) -> int:
        return len(self._kinds)

    def add(self, kind: str, text: str) -> None:
        """Add a name that was found. Texts that cannot be names are skipped."""
        if kind == "user":
            domain, separator, user = re.sub(r"^vpxuser:", "", text).rpartition("\\")
            if not separator:
                user, _, domain = user.partition("@")
            if domain.lower() not in _PRODUCT_DOMAINS:
                self._add_words(domain)
            if user.lower() in _PRODUCT_USERS or user.startswith("vpxd-extension"):
                return
            text = user
        elif kind == "host":
            label, _, domain = text.partition(".")
            if not _NO_NAME.fullmatch(text):
                self._add_words(domain)
                self._add(kind, label)
        elif kind == "snap" and _PRODUCT_SNAPSHOT.fullmatch(text):
            return
        self._add(kind, text)

    def _add_words(self, text: str) -> None:
        for atom in ATOM.findall(text):
            self._add("word", atom)

    def _add(self, kind: str, text: str) -> None:
        core = _core(text)
        if not core or len(core) > _LONGEST_NAME or _NO_NAME.fullmatch(core):
            return
        lower = core.lower()
        known = self._kinds.get(lower)
        if known is None and len(self._kinds) >= MOST_NAMES:
            return
        if known is None or _RANKS.index(kind) < _RANKS.index(known):
            self._kinds[lower] = kind

    def seal(self, pseudonyms: Pseudonyms) -> None:
        """Finish collecting, and prepare the search."""
        weak = set()
        taken = set()
        for name, kind in self._kinds.items():
            atoms = ATOM.findall(name)
            if all(map(_is_needed, atoms[:2])):
                weak.add(name)
                self.spaced_starts.add(atoms[0])
                continue
            if " " in name:
                self.spaced_starts.add(atoms[0])
            if len(atoms) == 1:
                taken.add(name)
            made = pseudonyms.name(kind, name)
            self._put(name, made)
            if len(atoms) > 1 and quote(name) != name:
                self._put(_core(quote(name)).lower(), quote(made))
        self.weak = frozenset(weak)
        self.kept = (needed() | readable()) - taken

    def pseudonym(self, pseudonyms: Pseudonyms, kind: str, text: str) -> str:
        """Return a name's pseudonym, of the kind under which the name is known."""
        return pseudonyms.name(self._kinds.get(_core(text).lower(), kind), text)

    def _put(self, name: str, made: str) -> None:
        parts = _parts(name)
        if len(parts) > 2 * _MOST_ATOMS:
            return
        node = self._starts.setdefault(parts[0], _Node())
        for at in range(1, len(parts), 2):
            node = node.further.setdefault((parts[at], parts[at + 1]), _Node())
        node.name = made

    def found(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yield start, end and pseudonym of each name in a text; of overlapping ones the longer."""
        starts = self._starts
        passed = 0
        for match in ATOM.finditer(text):
            node = starts.get(match[0].lower())
            if node is None or match.start() < passed:
                continue
            end, made = match.end(), node.name
            at = end
            while node.further:
                following = ATOM.search(text, at, at + _LONGEST_NAME)
                if following is None:
                    break
                # The search ended inside a word that is longer than any name.
                going_on = node.further.get((text[at : following.start()], following[0].lower()))
                if going_on is None:
                    break
                node, at = going_on, following.end()
                if node.name:
                    end, made = at, node.name
            if made:
                passed = end
                yield match.start(), end, made


def spans(line: str, finder: Finder, is_read: bool) -> Iterator[Span]:
    """Yield the names at known positions in a line; they may overlap.

    `is_read`: a detector reads the line, so its patterns add more positions.
    """
    found = finder.find(line)
    message_at = 0
    if found is not None:
        groups = found[1]
        head = groups[0] or ""
        message_at = len(head)
        for kind, text in (("host", groups[8]), ("vm", groups[10])):
            if text and (at := head.find(text)) >= 0:
                yield Span(at, at + len(text), kind, text)
    for needle, regex in _PLACES:
        if needle not in line:
            continue
        for match in regex.finditer(line):
            for kind, text in match.groupdict().items():
                if text:
                    yield Span(*match.span(kind), kind, text)
    if is_read:
        yield from _of_detectors(line[message_at:], message_at)
        # vCenter and hostd repeat a host's event after their own words.
        if repeated := _REPEATED.search(line, message_at):
            yield from _of_detectors(line[repeated.end() :], repeated.end())


def _of_detectors(message: str, message_at: int) -> Iterator[Span]:
    for each in detectors():
        if not each.concerns(message):
            continue
        for pattern in each.patterns.values():
            groups = [name for name in pattern.groupindex if name in _GROUPS]
            match = pattern.search(message) if groups else None
            if match is None:
                continue
            for group in groups:
                text = match[group]
                if text and not (group == "device" and text.isdigit()):  # on ESX 3, a status
                    start, end = match.span(group)
                    kind = _GROUPS[group]
                    yield Span(message_at + start, message_at + end, kind, text)


def new_finder() -> Finder:
    """Return a finder for the lines of any file."""
    return Finder(HOST_FILE)


def _core(text: str) -> str:
    """Return the text from its first word to its last."""
    atoms = list(ATOM.finditer(text))
    return text[atoms[0].start() : atoms[-1].end()] if atoms else ""


def core_span(span: Span) -> Span:
    """Return the span without the characters that separate it from its surroundings."""
    core = _core(span.text)
    start = span.start + span.text.find(core)
    return Span(start, start + len(core), span.kind, core)


def _parts(name: str) -> list[str]:
    """Split into atom, separator, atom, …"""
    parts: list[str] = []
    at = 0
    for match in ATOM.finditer(name):
        if parts:
            parts.append(name[at : match.start()])
        parts.append(match[0])
        at = match.end()
    return parts


def _is_needed(word: str) -> bool:
    return (
        word in needed()
        or word.isdigit()
        or len(word) == 1
        or is_part(word)
        or is_part(word.upper())
    )
