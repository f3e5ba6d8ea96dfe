"""Finds files with esxcli outputs, with their host and time.

Input is a file, a folder, or a vm-support bundle. Of a bundle that is still an archive, only
`commands/` and `json/` are read. Nothing is unpacked to disk.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path, PurePath, PurePosixPath

from stunwatch.ingest.records import decode, fuller_host
from stunwatch.ingest.replay.archives import kind_of, open_archive
from stunwatch.ingest.replay.sources import moment, shown_name
from stunwatch.ingest.replay.streams import Problem, UnreadableError, beginning, sentence_of
from stunwatch.inventory.items import host_named_in
from stunwatch.inventory.outputs import Output, outputs_in

LARGEST_FILE = 64 << 20
"""Bytes. `core path list` of a host with 1,024 LUNs on 4 paths each has 4 MB."""

# In bundles: commands/localcli_storage-vmfs-extent-list.txt; since ESXi 6.7 similar names in json/.
OUTPUT_NAME = re.compile(
    r"(?:storage-(?:vmfs-extent-list|core-path-list|core-device(?:-vaai-status)?-(?:list|get)"
    r"|[nh][mp]p-device-list)|system-hostname-get|system-uuid-get|ip-interface-ipv4-get"
    r"|vm-process-list|esxcfg-scsidevs_-m).{0,255}\.(?:txt|json)\Z"
)
# esx-<host>-<date>…, as in ingest.replay
_BUNDLE = re.compile(r"esx-(?P<host>.{1,255}?)-\d{4}-\d\d-\d\d(?:--|\b).*")

_NO_HOST = (
    "no output contains the name of the host; add --host NAME, or the output of"
    " `esxcli system hostname get`"
)
_NOT_UNDERSTOOD = (
    "it contains no output of a supported command; these are: esxcli storage vmfs extent list, core"
    " device list, core path list, nmp device list, hpp device list, core device vaai status get;"
    " esxcli vm process list, system hostname get, system uuid get, network ip interface ipv4 get;"
    " esxcfg-scsidevs -m; vmkfstools -q of raw device mappings"
)


@dataclass(frozen=True)
class Source:
    """The outputs of one host at one time: from one file, or from all files of a bundle."""

    host: str
    observed_at: datetime
    outputs: list[Output]
    files: list[str]
    given_name: str | None = None
    """The host's name given by the user or by the bundle's name."""


@dataclass
class Reading:
    """The sources that were found, and the problems."""

    sources: list[Source] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


@dataclass(frozen=True)
class File:
    """A file that contains outputs."""

    name: str
    folder: str
    bundle: str
    """The vm-support bundle that contains it; empty if there is none."""
    written_at: datetime
    outputs: list[Output]

    @property
    def host(self) -> str | None:
        """Return the host's own name in this file."""
        return host_named_in(self.outputs)


def read(
    paths: Iterable[Path],
    host: str | None,
    observed_at: datetime | None,
    while_reading: Callable[[int], None] = lambda files: None,
) -> Reading:
    """Read everything. `host` and `observed_at` (UTC) take precedence over the files' contents.

    `while_reading` is called with the number of files read so far. Errors become problems of the
    result and are not raised.
    """
    reading = Reading()
    files: list[File] = []
    for file in files_in(paths, reading.problems):
        files.append(file)
        while_reading(len(files))
    bundles: dict[str, list[File]] = {}
    for number, file in enumerate(files):
        bundles.setdefault(file.bundle or str(number), []).append(file)
    named_in = _hosts_by_folder(files)
    for together in bundles.values():
        first = together[0]
        said = next((file.host for file in together if file.host), None)
        if said is None and len(named_in[first.folder]) == 1:
            [said] = named_in[first.folder]
        given = host or _host_in_name(first.bundle)
        found = _host_of(given, said)
        if found is None:
            reading.problems.append(Problem(first.name, _NO_HOST))
            continue
        reading.sources.append(
            Source(
                host=found,
                observed_at=observed_at or max(file.written_at for file in together),
                outputs=_merged(together),
                files=[file.name for file in together],
                given_name=given,
            )
        )
    return reading


def _hosts_by_folder(files: list[File]) -> dict[str, set[str]]:
    """Map folders to host names. The output of `system hostname get` may be in a separate file."""
    hosts: dict[str, set[str]] = {}
    for file in files:
        hosts.setdefault(file.folder, set()).update({file.host} if file.host else set())
    return hosts


def _host_of(given: str | None, said: str | None) -> str | None:
    """Return the given name, or the host's own name if that is a longer form of it."""
    if given is None or said is None:
        return given or said
    return fuller_host(given, said)


def _merged(files: list[File]) -> list[Output]:
    """Merge outputs by command. A bundle has most of them twice, as text and as JSON."""
    merged: dict[str, Output] = {}
    for file in files:
        for output in file.outputs:
            known = merged.setdefault(output.command, Output(output.command, []))
            known.entries.extend(output.entries)
    return list(merged.values())


def files_in(paths: Iterable[Path], problems: list[Problem]) -> Iterator[File]:
    """Yield files with outputs, also in folders and archives. Errors are added to `problems`."""
    for path in paths:
        try:
            mode = path.stat().st_mode
            if stat.S_ISDIR(mode):
                yield from _folder(path, problems)
            elif stat.S_ISREG(mode):
                yield from _one(path, problems)
            else:
                problems.append(Problem(str(path), "not a file or a folder"))
        except FileNotFoundError:
            problems.append(Problem(str(path), "no such file or folder"))
        except OSError as error:
            problems.append(Problem(str(path), sentence_of(error)))
        except UnreadableError as error:
            problems.append(Problem(str(path), str(error)))


def _folder(root: Path, problems: list[Problem]) -> Iterator[File]:
    """Yield a folder's files with outputs; in a bundle only those with the expected names."""
    found = 0
    for folder, folders, names in os.walk(root):
        folders.sort()
        is_bundle = any(map(_BUNDLE.fullmatch, Path(folder).absolute().parts))
        for name in sorted(names):
            path = Path(folder, name)
            if is_bundle and not OUTPUT_NAME.search(name):
                continue
            status = path.lstat()
            # Links are not followed: the author of the bundle made them.
            if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_FILE:
                continue
            try:
                files = list(_whole(path))
            except UnreadableError as problem:
                problems.append(Problem(shown_name(path), str(problem)))
                continue
            found += len(files)
            yield from files
    if not found:
        problems.append(Problem(str(root), "no file in this folder contains the output of esxcli"))


def _one(path: Path, problems: list[Problem]) -> Iterator[File]:
    if (kind := _archive_kind(path)) is not None:
        yield from _archive(path, kind, problems)
        return
    if path.stat().st_size > LARGEST_FILE:
        problems.append(Problem(str(path), "too large for the output of esxcli"))
        return
    files = list(_whole(path))
    if not files:
        problems.append(Problem(str(path), _NOT_UNDERSTOOD))
    yield from files


def _whole(path: Path) -> Iterator[File]:
    outputs = outputs_in(decode(beginning(path, LARGEST_FILE)))
    if outputs:
        place = path.absolute()
        written_at = moment(path.stat().st_mtime)
        yield File(shown_name(path), str(place.parent), _bundle_in(place), written_at, outputs)


def _archive(path: Path, kind: str, problems: list[Problem]) -> Iterator[File]:
    found = 0
    packed = open_archive(path, kind)
    for member in packed:
        inner = PurePosixPath(path.name, member.name)
        is_readable = not member.fault and member.size_bytes <= LARGEST_FILE
        if not is_readable or not OUTPUT_NAME.search(inner.name):
            continue
        outputs = outputs_in(decode(b"".join(packed.content())))
        if outputs:
            found += 1
            bundle = _bundle_in(inner) or str(path)
            written_at = moment(member.written_at)
            yield File(f"{path}!{member.name}", bundle, bundle, written_at, outputs)
    if packed.fault:
        problems.append(Problem(str(path), packed.fault))
    elif not found:
        problems.append(Problem(str(path), "no file in this archive contains the output of esxcli"))


def _archive_kind(path: Path) -> str | None:
    try:
        return kind_of(beginning(path, 512))
    except UnreadableError:
        return None


def _bundle_in(path: PurePath) -> str:
    """Return the part of a path up to the bundle's folder; empty if there is none."""
    for number, part in enumerate(path.parts, start=1):
        if _BUNDLE.fullmatch(part):
            return str(PurePosixPath(*path.parts[:number]))
    return ""


def _host_in_name(bundle: str) -> str | None:
    match = _BUNDLE.fullmatch(PurePosixPath(bundle).name)
    return match["host"] if match else None
