"""Finds files with esxcli outputs, with their host and time.

Input is a file, a folder, an archive, or a vm-support bundle as folder or archive, also within
another archive, as vCenter exports them. Of a bundle, only files with expected names are read.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path, PurePath, PurePosixPath

from stunwatch.ingest.records import decode, fuller_host
from stunwatch.ingest.replay.archives import Member, Room, kind_of, open_archive, why_no_disk
from stunwatch.ingest.replay.fragments import fragment, grouped, join
from stunwatch.ingest.replay.sources import ARCHIVE_ENDING, moment, shown_name
from stunwatch.ingest.replay.streams import (
    LIMITS,
    Problem,
    UnreadableError,
    beginning,
    sentence_of,
    unpacks_to_more,
)
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
# Of other archives, these members are read too.
_TEXT_NAME = re.compile(r"\.(?:txt|json|out)\Z", re.IGNORECASE)
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
    groups = grouped(map(str, paths))
    for name in groups.whole:
        path = Path(name)
        try:
            mode = path.stat().st_mode
            if stat.S_ISDIR(mode):
                yield from _folder(path, problems)
            elif stat.S_ISREG(mode):
                yield from _one(path, problems)
            else:
                problems.append(Problem(name, "not a file or a folder"))
        except FileNotFoundError:
            problems.append(Problem(name, "no such file or folder"))
        except OSError as error:
            problems.append(Problem(name, sentence_of(error)))
        except UnreadableError as error:
            problems.append(Problem(name, str(error)))
    for whole, fragments in groups.fragments.items():
        yield from _joined(Path(whole), fragments, problems)


def _folder(root: Path, problems: list[Problem]) -> Iterator[File]:
    """Yield a folder's files with outputs; in a bundle only those with the expected names."""
    found = 0
    for folder, folders, names in os.walk(root):
        folders.sort()
        is_bundle = any(map(_BUNDLE.fullmatch, Path(folder).absolute().parts))
        groups = grouped(sorted(names))
        for name in (*groups.whole, *groups.fragments):
            path = Path(folder, name)
            if is_bundle and not OUTPUT_NAME.search(name):
                continue
            if name in groups.fragments:
                files = _joined(path, groups.fragments[name], problems)
            else:
                files = _file_of_folder(path, problems)
            for file in files:
                found += 1
                yield file
    if not found:
        problems.append(Problem(str(root), "no file in this folder contains the output of esxcli"))


def _file_of_folder(path: Path, problems: list[Problem]) -> Iterator[File]:
    """Yield the outputs in a file; nothing if it is something else. Links are not followed: the
    author of the bundle made them.
    """
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            return
        if (kind := _archive_kind(path)) is not None:
            yield from _archive(path, kind, shown_name(path), PurePosixPath(path.name), problems)
        elif status.st_size <= LARGEST_FILE:
            yield from _whole(path)
    except OSError as problem:
        problems.append(Problem(shown_name(path), sentence_of(problem)))
    except UnreadableError as problem:
        problems.append(Problem(shown_name(path), str(problem)))


def _joined(whole: Path, names: Mapping[int, str], problems: list[Problem]) -> Iterator[File]:
    """Yield the outputs in a file that vm-support split."""
    fragments = {number: whole.parent / name for number, name in names.items()}
    try:
        statuses = [each.lstat() for each in fragments.values()]
        is_regular = all(stat.S_ISREG(each.st_mode) for each in statuses)
        if not is_regular or sum(each.st_size for each in statuses) > LARGEST_FILE:
            return
        with tempfile.TemporaryDirectory(prefix="stunwatch-") as folder:
            joined = Path(folder, "0")
            if sentence := join(fragments, joined):
                problems.append(Problem(shown_name(whole), sentence))
            text = decode(beginning(joined, LARGEST_FILE))
    except OSError as problem:
        problems.append(Problem(shown_name(whole), sentence_of(problem)))
        return
    except UnreadableError as problem:
        problems.append(Problem(shown_name(whole), str(problem)))
        return
    written_at = moment(max(each.st_mtime for each in statuses))
    yield from _in_text(text, whole.absolute(), shown_name(whole), written_at)


def _one(path: Path, problems: list[Problem]) -> Iterator[File]:
    found = 0
    if (kind := _archive_kind(path)) is not None:
        told = len(problems)
        for file in _archive(path, kind, str(path), PurePosixPath(path.name), problems):
            found += 1
            yield file
        if not found and len(problems) == told:
            sentence = "no file in this archive contains the output of esxcli"
            problems.append(Problem(str(path), sentence))
        return
    if path.stat().st_size > LARGEST_FILE:
        problems.append(Problem(str(path), "too large for the output of esxcli"))
        return
    for file in _whole(path):
        found += 1
        yield file
    if not found:
        problems.append(Problem(str(path), _NOT_UNDERSTOOD))


def _whole(path: Path) -> Iterator[File]:
    written_at = moment(path.stat().st_mtime)
    text = decode(beginning(path, LARGEST_FILE))
    yield from _in_text(text, path.absolute(), shown_name(path), written_at)


def _in_text(text: str, place: Path, name: str, written_at: datetime) -> Iterator[File]:
    if outputs := outputs_in(text):
        yield File(name, str(place.parent), _bundle_in(place), written_at, outputs)


def _archive(
    path: Path,
    kind: str,
    name: str,
    place: PurePosixPath,
    problems: list[Problem],
    room: Room | None = None,
    depth: int = 1,
) -> Iterator[File]:
    """Yield the members with outputs. `place` is the archive's path within the outermost one."""
    room = room or Room(LIMITS.most_bytes(path.stat().st_size), LIMITS.logs)
    packed = open_archive(path, kind)
    fragments: dict[str, dict[int, Path]] = {}
    written_at: dict[str, float] = {}

    def take(unpacked: Path, inner: str) -> Iterator[File]:
        shown, within = f"{name}!{inner}", place / inner
        try:
            kind = _archive_kind(unpacked)
            if kind is not None and depth < LIMITS.depth:
                yield from _archive(unpacked, kind, shown, within, problems, room, depth + 1)
            elif kind is not None:
                problems.append(Problem(shown, f"an archive within {LIMITS.depth} archives"))
            elif outputs := outputs_in(decode(beginning(unpacked, LARGEST_FILE))):
                bundle = _bundle_in(within) or name
                yield File(shown, bundle, bundle, moment(written_at[inner]), outputs)
        except UnreadableError as problem:
            problems.append(Problem(shown, str(problem)))
        unpacked.unlink()

    with tempfile.TemporaryDirectory(prefix="stunwatch-") as folder:
        for number, member in enumerate(packed):
            inner, part = fragment(member.name) or (member.name, None)
            if member.fault or not _is_wanted(place / inner, member):
                continue
            if not room.files_left:
                sentence = f"it has more than {LIMITS.logs:,} files; the first were read"
                problems.append(Problem(name, sentence))
                break
            room.files_left -= 1
            unpacked = Path(folder, str(number))
            if sentence := _unpack(packed.content(), member, unpacked, room):
                problems.append(Problem(f"{name}!{member.name}", sentence))
                unpacked.unlink(missing_ok=True)
                continue
            written_at[inner] = max(written_at.get(inner, 0.0), member.written_at)
            if part is None:
                yield from take(unpacked, inner)
            else:
                fragments.setdefault(inner, {})[part] = unpacked
        for inner, parts in fragments.items():
            joined = Path(folder, "joined")
            if sentence := join(parts, joined, is_moved=True):
                problems.append(Problem(f"{name}!{inner}", sentence))
            yield from take(joined, inner)
    if packed.fault:
        problems.append(Problem(name, packed.fault))


def _is_wanted(inner: PurePosixPath, member: Member) -> bool:
    """Return True for an archive, and for a file that may contain outputs."""
    if ARCHIVE_ENDING.search(inner.name):
        return True
    if member.size_bytes > LARGEST_FILE:
        return False
    is_output = OUTPUT_NAME.search(inner.name) is not None
    return is_output or (not _bundle_in(inner) and _TEXT_NAME.search(inner.name) is not None)


def _unpack(content: Iterator[bytes], member: Member, to: Path, room: Room) -> str:
    """Write a member to a file; return why that is impossible, or an empty string."""
    try:
        if sentence := why_no_disk(to, member.size_bytes, LIMITS):
            return sentence
        with to.open("wb") as copy:
            for piece in content:
                room.bytes_left -= len(piece)
                if room.bytes_left < 0:
                    return unpacks_to_more(LIMITS)
                copy.write(piece)
    except OSError as problem:
        return f"it cannot be unpacked: {sentence_of(problem)}"
    return ""


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
