"""Reads a bundle like replay and writes one .tgz with the same layout and pseudonyms.

Archives are unpacked with replay's limits. Members without a parser are left out.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import re
import tarfile
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO

import zstandard

from stunwatch.anonymising import members
from stunwatch.anonymising.masking import Masker
from stunwatch.anonymising.names import Names
from stunwatch.anonymising.pseudonyms import Pseudonyms
from stunwatch.errors import UserError
from stunwatch.ingest.records import COMPRESSED
from stunwatch.ingest.replay import Options, Problem, SourceFile, plan
from stunwatch.ingest.replay.fragments import fragments_of
from stunwatch.ingest.replay.sources import ARCHIVE_ENDING, shown_name
from stunwatch.ingest.replay.streams import UnreadableError
from stunwatch.inventory.files import OUTPUT_NAME, File, files_in

_COMPRESSED_ENDING = re.compile(rf"{COMPRESSED}$", re.IGNORECASE)
_BUNDLE = re.compile(r"esx-(?P<host>.{1,255}?)(?P<rest>-\d{4}-\d\d-\d\d(?:--|\b).*)")
_NO_VOLUME = "datastore"
_OF_NO_HOST = "logs"
"""A folder name that replay does not take for a host name."""
_MODE = 0o600
_COMPRESSION = 6
_BYTES_IN_MEMORY = 1 << 20


@dataclass
class Summary:
    """What was written and what was left out. It contains the original names."""

    output: str = ""
    members: int = 0
    lines: int = 0
    pseudonyms: Counter[str] = field(default_factory=Counter)
    """Number of texts that got a pseudonym, by kind."""
    left_out: list[str] = field(default_factory=list)
    """Members without a parser."""
    problems: list[Problem] = field(default_factory=list)
    """Files that could not be read, or only in part."""


def anonymise(
    bundle: Path,
    output: Path | None,
    pseudonyms: Pseudonyms,
    *,
    is_shifted: bool = False,
    is_forced: bool = False,
    options: Options | None = None,
    while_reading: Callable[[str], None] = lambda stage: None,
) -> Summary:
    """Write the archive to `output`; without it, to a file in the current folder with a pseudonym.

    `is_forced`: replace an existing output. `while_reading` is called with the name of every
    member. Raises UserError if there is nothing to write or the output cannot be written.
    """
    options = options or Options()
    summary = Summary()
    names = Names()
    masker = Masker(pseudonyms, names, pseudonyms.shift if is_shifted else timedelta(0))
    with plan([bundle], options) as what:
        sources = [each for each in what.files if each.kind != "binary"]
        read = set()
        for inventory in _inventories(bundle, sources, what.skipped):
            read.add(_plain(inventory.name))
            members.collect_inventory(inventory.outputs, names)
        if not sources and not read:
            said = "; ".join(each.sentence for each in what.problems[:1])
            raise UserError(f"Nothing to anonymise in {shown_name(bundle)}: {said}.")
        summary.problems += what.problems
        for source in sources:
            while_reading(source.name)
            with suppress(UnreadableError):  # pass 2 reports it
                members.collect_names(source, masker, names)
        names.seal(pseudonyms)
        layout = _Layout(bundle, masker)
        target = output or Path(layout.output_name())
        if target.exists() and not is_forced:
            raise UserError(f"{target} already exists. Use --force to replace it.")
        with _Writer(target) as writer:
            for source in sources:
                while_reading(source.name)
                _write_source(writer, layout, source, masker, options, summary)
            for inventory in _inventories(bundle, sources, what.skipped):
                data = members.inventory(inventory.outputs, masker)
                path = layout.path(inventory.name)
                writer.add(path, masker.moment(inventory.written_at), [data])
                summary.members += 1
        summary.left_out = [each for each in what.skipped if _plain(each) not in read]
        summary.left_out += [each.name for each in what.files if each.kind == "binary"]
    summary.output = str(target)
    summary.pseudonyms = pseudonyms.counts
    return summary


def _write_source(
    writer: _Writer,
    layout: _Layout,
    source: SourceFile,
    masker: Masker,
    options: Options,
    summary: Summary,
) -> None:
    masker.begin(source.written_at, options.zone, options.year)
    make = members.esxtop_rows if source.kind == "esxtop" else members.log

    def lines() -> Iterator[bytes]:
        try:
            for line in make(source, masker):
                summary.lines += 1
                yield line
        except UnreadableError as problem:
            summary.problems.append(Problem(source.name, str(problem)))

    writer.add(layout.path_of(source), masker.moment(source.written_at), lines())
    summary.members += 1


def _inventories(bundle: Path, sources: list[SourceFile], skipped: list[str]) -> Iterator[File]:
    """Yield files with esxcli outputs; in an unpacked vm-support only those with expected names."""
    if bundle.is_file():
        if all(each.path != bundle for each in sources):
            yield from files_in([bundle], [])
        return
    is_support = any(map(_BUNDLE.fullmatch, bundle.absolute().parts))
    for name in skipped:
        path = Path(name)
        is_one = OUTPUT_NAME.search(name) or not (
            is_support or any(map(_BUNDLE.fullmatch, path.parts))
        )
        if is_one and not path.is_symlink():
            yield from files_in([path] if path.is_file() else fragments_of(path), [])


def _without_ending(name: str) -> str:
    return _COMPRESSED_ENDING.sub("", ARCHIVE_ENDING.sub("", name))


def _plain(name: str) -> str:
    return name.replace("!./", "!")


class _Layout:
    """The paths of members in the output archive."""

    def __init__(self, bundle: Path, masker: Masker) -> None:
        self._bundle = bundle
        self._masker = masker

    def output_name(self) -> str:
        """Return the bundle's own name with pseudonyms."""
        stem = _without_ending(self._bundle.absolute().name)
        return f"{self._part(stem, None)}.anonymised.tgz"

    def path(self, name: str) -> str:
        """Return the path of the member with this name in the plan."""
        return "/".join(self._part(each, None) for each in self._parts(name))

    def path_of(self, source: SourceFile) -> str:
        """Return the path of a log. It contains host, VM and datastore like the original path."""
        masker = self._masker
        *folders, file = self._parts(source.name)
        made = [self._part(each, source) for each in folders]
        if source.kind == "vmware_log" and source.vm and "volumes" not in folders[:-2]:
            datastore = masker.name("ds", source.datastore or _NO_VOLUME)
            made += ["vmfs", "volumes", datastore, masker.name("vm", source.vm)]
        host = source.host
        if host and folders[:1] != [host] and not any(map(_BUNDLE.fullmatch, folders)):
            made.insert(0, masker.name("host", host))
        if not host:
            made.insert(0, _OF_NO_HOST)
        return "/".join([*made, self._part(file, None)])

    def _parts(self, name: str) -> list[str]:
        root = shown_name(self._bundle)
        inner = name[len(root) :] if name.startswith(root) else name
        inner = inner.lstrip("!/") or self._bundle.name
        *archives, last = inner.split("!")
        whole = "/".join([*map(_without_ending, archives), last])
        return [part for part in whole.split("/") if part not in ("", ".", "..")]

    def _part(self, part: str, source: SourceFile | None) -> str:
        masker = self._masker
        if bundle := _BUNDLE.fullmatch(part):
            return f"esx-{masker.name('host', bundle['host'])}{masker.path(bundle['rest'])}"
        if source is not None:
            for kind, name in (
                ("vm", source.vm), ("ds", source.datastore), ("host", source.host)
            ):  # fmt: skip
                if part == name:
                    return masker.name(kind, name)
        return masker.path(part)


class _Writer:
    """Writes a .tgz atomically, readable only by its owner, without user names in headers."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._paths: set[str] = set()

    def __enter__(self) -> _Writer:
        try:
            place, temporary = tempfile.mkstemp(
                prefix=".anonymised-", dir=self._target.absolute().parent
            )
        except OSError as error:
            raise UserError(
                f"Cannot write {self._target}: {(error.strerror or '').lower()}."
            ) from error
        self._temporary = Path(temporary)  # mkstemp sets mode 600
        self._file = os.fdopen(place, "wb")
        self._gzip = gzip.GzipFile("", "wb", _COMPRESSION, self._file, mtime=0)
        self._tar = tarfile.open(fileobj=self._gzip, mode="w|", format=tarfile.GNU_FORMAT)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._tar.close()
                self._gzip.close()
            self._file.close()
            if kind is None:
                self._temporary.replace(self._target)
        except OSError as error:
            raise UserError(
                f"Cannot write {self._target}: {(error.strerror or '').lower()}."
            ) from error
        finally:
            self._temporary.unlink(missing_ok=True)

    def add(self, path: str, written_at: datetime, lines: Iterable[bytes]) -> None:
        """Add one member. It is compressed if its name ends with .gz."""
        with tempfile.SpooledTemporaryFile(_BYTES_IN_MEMORY) as content:
            _write(content, path, lines)
            member = tarfile.TarInfo(self._free(path))
            member.size = content.tell()
            member.mtime = int(written_at.timestamp())
            member.mode = _MODE
            content.seek(0)
            self._tar.addfile(member, content)

    def _free(self, path: str) -> str:
        """Return a path that no member has yet: two names may differ only in case."""
        free = path
        number = 1
        while free in self._paths:
            free = f"{path}.{number}"
            number += 1
        self._paths.add(free)
        return free


def _write(content: IO[bytes], path: str, lines: Iterable[bytes]) -> None:
    if path.endswith(".gz"):
        with gzip.GzipFile("", "wb", _COMPRESSION, content, mtime=0) as packed:
            packed.writelines(lines)
    elif path.endswith(".bz2"):
        with bz2.BZ2File(content, "wb") as packed:
            packed.writelines(lines)
    elif path.endswith(".xz"):
        with lzma.LZMAFile(content, "wb") as packed:
            packed.writelines(lines)
    elif path.endswith(".zst"):
        with zstandard.ZstdCompressor().stream_writer(content, closefd=False) as squeezed:
            for line in lines:
                squeezed.write(line)
    else:
        content.writelines(lines)
