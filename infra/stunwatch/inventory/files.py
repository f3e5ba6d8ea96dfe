"""Which files hold esxcli's outputs, of which host, and from when.

A file, a folder, or a vm-support bundle: unpacked, or as the archive it came in, of which only
`commands/` and `json/` are read. Nothing is unpacked to disk.
"""

from __future__ import annotations

import os
import re
import stat
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePath, PurePosixPath

from ingest.records import decode, fuller_host
from ingest.replay.streams import (
    BlockFile,
    Blocks,
    Problem,
    UnreadableError,
    beginning,
    sentence_of,
)
from stunwatch.inventory.items import host_named_in
from stunwatch.inventory.outputs import Output, outputs_in

LARGEST_FILE = 64 << 20
"""Bytes. `core path list` of a host with 1 024 LUNs on 4 paths each has 4 MB."""

# In a bundle, commands/localcli_storage-vmfs-extent-list.txt, and the like since ESXi 6.7 in json/.
_OUTPUT = re.compile(
    r".*(?:storage-(?:vmfs-extent-list|core-path-list|core-device(?:-vaai-status)?-(?:list|get)"
    r"|[nh][mp]p-device-list)|system-hostname-get|system-uuid-get|ip-interface-ipv4-get"
    r"|vm-process-list|esxcfg-scsidevs_-m).*\.(?:txt|json)"
)
# esx-<host>-<date>…, as ingest.replay finds them
_BUNDLE = re.compile(r"esx-(?P<host>.+?)-\d{4}-\d\d-\d\d(?:--|\b).*")

_NO_HOST = (
    "no output says whose it is; give --host NAME, or put the output of"
    " `esxcli system hostname get` beside it"
)
_NOT_UNDERSTOOD = (
    "it holds no output that is understood; these are: esxcli storage vmfs extent list, core device"
    " list, core path list, nmp device list, hpp device list, core device vaai status get; esxcli"
    " vm process list, system hostname get, system uuid get, network ip interface ipv4 get;"
    " esxcfg-scsidevs -m; vmkfstools -q of raw device mappings"
)


@dataclass(frozen=True)
class Source:
    """One host's outputs of one time: a file, or all files of a bundle."""

    host: str
    observed_at: datetime
    outputs: list[Output]
    files: list[str]
    given_name: str | None = None
    """What the user, or the bundle's name, calls the host."""


@dataclass
class Reading:
    """What was found, and what could not be used."""

    sources: list[Source] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


@dataclass(frozen=True)
class _File:
    name: str
    folder: str
    bundle: str
    """The vm-support bundle that it lies in; empty where in none."""
    written_at: datetime
    outputs: list[Output]

    @property
    def host(self) -> str | None:
        """What the host calls itself in this file."""
        return host_named_in(self.outputs)


def read(
    paths: Iterable[Path],
    host: str | None,
    observed_at: datetime | None,
    while_reading: Callable[[int], None] = lambda files: None,
) -> Reading:
    """Read everything. `host` and `observed_at` (UTC) win over what the files say of it.

    `while_reading` is told how many files were read. Nothing that is wrong raises.
    """
    reading = Reading()
    files: list[_File] = []
    for file in _files(paths, reading.problems):
        files.append(file)
        while_reading(len(files))
    bundles: dict[str, list[_File]] = {}
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


def _hosts_by_folder(files: list[_File]) -> dict[str, set[str]]:
    """The output of `system hostname get` may lie in a file beside the others."""
    hosts: dict[str, set[str]] = {}
    for file in files:
        hosts.setdefault(file.folder, set()).update({file.host} if file.host else set())
    return hosts


def _host_of(given: str | None, said: str | None) -> str | None:
    """What was given, unless the host's own name is a fuller form of it."""
    if given is None or said is None:
        return given or said
    return fuller_host(given, said)


def _merged(files: list[_File]) -> list[Output]:
    """Each command once; a bundle has most of them twice, as text and as JSON."""
    merged: dict[str, Output] = {}
    for file in files:
        for output in file.outputs:
            known = merged.setdefault(output.command, Output(output.command, []))
            known.entries.extend(output.entries)
    return list(merged.values())


def _files(paths: Iterable[Path], problems: list[Problem]) -> Iterator[_File]:
    for path in paths:
        try:
            mode = path.stat().st_mode
            if stat.S_ISDIR(mode):
                yield from _folder(path, problems)
            elif stat.S_ISREG(mode):
                yield from _one(path, problems)
            else:
                problems.append(Problem(str(path), "it is neither a file nor a folder"))
        except FileNotFoundError:
            problems.append(Problem(str(path), "there is no such file or folder"))
        except OSError as error:
            problems.append(Problem(str(path), sentence_of(error)))


def _folder(root: Path, problems: list[Problem]) -> Iterator[_File]:
    """Every file of a folder that holds an output; in a bundle those whose names promise one."""
    found = 0
    for folder, folders, names in os.walk(root):
        folders.sort()
        is_bundle = any(map(_BUNDLE.fullmatch, Path(folder).absolute().parts))
        for name in sorted(names):
            path = Path(folder, name)
            if is_bundle and not _OUTPUT.fullmatch(name):
                continue
            if not path.is_file() or path.stat().st_size > LARGEST_FILE:
                continue
            for file in _whole(path):
                found += 1
                yield file
    if not found:
        problems.append(Problem(str(root), "no file in this folder holds an output of esxcli"))


def _one(path: Path, problems: list[Problem]) -> Iterator[_File]:
    if _is_tar(path):
        yield from _archive(path, problems)
        return
    if path.stat().st_size > LARGEST_FILE:
        problems.append(Problem(str(path), "it is too large for an output of esxcli"))
        return
    files = list(_whole(path))
    if not files:
        problems.append(Problem(str(path), _NOT_UNDERSTOOD))
    yield from files


def _whole(path: Path) -> Iterator[_File]:
    outputs = outputs_in(decode(path.read_bytes()))
    if outputs:
        place = path.absolute()
        written_at = datetime.fromtimestamp(int(path.stat().st_mtime), UTC)
        yield _File(str(path), str(place.parent), _bundle_in(place), written_at, outputs)


def _archive(path: Path, problems: list[Problem]) -> Iterator[_File]:
    found = 0
    sentence: str | None = None
    blocks = BlockFile(Blocks(path))
    try:
        with tarfile.open(fileobj=blocks, mode="r|") as tar:  # type: ignore[call-overload]
            for member in tar:
                inner = PurePosixPath(path.name, member.name)
                if not member.isreg() or not _OUTPUT.fullmatch(inner.name):
                    continue
                content = tar.extractfile(member)
                if content is None or member.size > LARGEST_FILE:
                    continue
                outputs = outputs_in(decode(content.read()))
                if outputs:
                    found += 1
                    written_at = datetime.fromtimestamp(int(member.mtime), UTC)
                    name = f"{path}!{member.name}"
                    bundle = _bundle_in(inner) or str(path)
                    yield _File(name, bundle, bundle, written_at, outputs)
    except tarfile.TarError as error:
        sentence = f"the archive is damaged ({error})"
    if blocks.problem is not None or sentence is not None:
        problems.append(Problem(str(path), str(blocks.problem or sentence)))
    elif not found:
        problems.append(Problem(str(path), "no file in this archive holds an output of esxcli"))


def _is_tar(path: Path) -> bool:
    try:
        return beginning(path, 512)[257:262] == b"ustar"
    except UnreadableError:
        return False


def _bundle_in(path: PurePath) -> str:
    """The part of a path up to the bundle's folder; empty where it lies in none."""
    for number, part in enumerate(path.parts, start=1):
        if _BUNDLE.fullmatch(part):
            return str(PurePosixPath(*path.parts[:number]))
    return ""


def _host_in_name(bundle: str) -> str | None:
    match = _BUNDLE.fullmatch(PurePosixPath(bundle).name)
    return match["host"] if match else None
