"""Which files to replay, what each one is, whose it is, and in which order.

A file's kind is found by its content. Archives (tar, also compressed) are unpacked into a
temporary folder as far as they hold logs, so that they too can be read oldest first.
"""

from __future__ import annotations

import os
import re
import stat
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from pathlib import Path, PurePath, PurePosixPath
from types import TracebackType
from typing import IO

from ingest.heads import HOST_FILE, Finder
from ingest.records import LineRecords, Origin, decode, generation_of, strip_terminator
from ingest.replay import esxtop
from ingest.replay.streams import (
    BlockFile,
    Blocks,
    Problem,
    UnreadableError,
    beginning,
    sentence_of,
)
from ingest.times import FIRST_YEAR, LAST_YEAR, utc_text

# How much of a file tells its kind, and how many lines of that at most: more where its name
# promises a log, for that may begin with a long dump.
_SNIFF_BYTES, _PROMISED_LINES, _SNIFF_LINES = 256 << 10, 400, 100
_HEAD_BYTES = 4 << 10  # no head is longer
# A name that promises a log: a file called so is shipped (or complained about) whatever is in it.
_LOG_NAME = re.compile(
    r"(?:vmkernel|vmkwarning|vmksummary|vmware|hostd|vobd|vpxa|syslog|messages)"
    r"(?:[-.]\d+)?(?:\.(?:log|all|txt|\d+|gz|zst))*|.*\.log(?:\.\d+)?(?:\.(?:gz|zst))?"
)
# A folder with one of these in it is a host's own.
_HOST_FILE = re.compile(
    r"(?:vmkernel|vmkwarning|hostd|vobd)(?:[-.]\d+)?(?:\.(?:log|all|\d+|gz|zst))*|var|vmfs|scratch"
)
# esx-<host>-<date>…, the folder and file name of a vm-support bundle
_BUNDLE = re.compile(r"esx-(?P<host>.+?)-\d{4}-\d\d-\d\d(?:--|\b).*")
_VM_FOLDER = re.compile(r"(?:.*[/!])?vmfs/volumes/(?P<datastore>[^/]+)/(?P<vm>[^/]+)/[^/]+")
# Folders that logs lie in on any machine, and so no host's name.
_NO_HOSTS = frozenset({"data", "log", "logs", "run", "scratch", "tmp", "var", "vmfs", "volumes"})
_ARCHIVE_ENDING = re.compile(r"\.(?:tgz|tar|tar\.gz|tar\.zst|tzst)$", re.IGNORECASE)
_CONTROL_BYTES = bytes(set(range(32)) - set(b"\t\n\r\f\x1b")) + b"\x7f"


@dataclass(frozen=True, slots=True)
class Options:
    """What the user knows better than the files.

    `host`, `vm` and `datastore` stand where a line names none; `zone` is that of stamps without
    one; `year` that of the first stamp without one (see times.Stamps).
    """

    host: str | None = None
    vm: str | None = None
    datastore: str | None = None
    zone: tzinfo = UTC
    year: int | None = None


DEFAULTS = Options()


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file to ship."""

    path: Path  # where its bytes are
    name: str  # as the user knows it; `bundle.tgz!inner/path` in an archive
    kind: str  # syslog, vmware_log, esxtop, or binary
    host: str | None
    vm: str | None
    datastore: str | None
    generation: str
    size_bytes: int  # on disk, maybe compressed
    written_at: datetime
    first_event_time: str  # that of writing where the file tells none

    @property
    def owner(self) -> tuple[str, str | None, str | None, str | None]:
        """(source, host, vm, datastore)."""
        return self.kind, self.host, self.vm, self.datastore


@dataclass(slots=True)
class Plan:
    """What a replay will ship, oldest first, and what it cannot. Closing it frees the disk."""

    files: list[SourceFile] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)  # met on the way, and no logs
    _unpacked: list[tempfile.TemporaryDirectory[str]] = field(default_factory=list)

    @property
    def size_bytes(self) -> int:
        """Of all files, as they lie on disk: the length of the progress bar."""
        return sum(file.size_bytes for file in self.files)

    def close(self) -> None:
        """Remove what was unpacked."""
        while self._unpacked:
            self._unpacked.pop().cleanup()

    def __enter__(self) -> Plan:
        """Close it at the end of the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it, whatever happened."""
        self.close()


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A file that may be a log."""

    path: Path
    name: str
    root: str  # the folder or archive that it was found in; "" if it was named itself
    inner: str  # its path in there, with slashes
    root_is_host: bool
    written_at: datetime

    @property
    def is_promised(self) -> bool:
        """It was named by the user or its name is a log's: whatever it holds is told of."""
        return not self.root or _LOG_NAME.fullmatch(PurePosixPath(self.inner).name) is not None


def plan(paths: Iterable[Path], options: Options = DEFAULTS) -> Plan:
    """Look at every path: a file, a folder or an archive. Nothing that is wrong raises."""
    return _Planner(options).plan(paths)


class _Planner:
    def __init__(self, options: Options) -> None:
        self._options = options
        self._plan = Plan()
        self._seen: set[tuple[int, int]] = set()  # by device and inode: a file is read once
        self._seen_again = 0

    def plan(self, paths: Iterable[Path]) -> Plan:
        try:
            for path in paths:
                self._path(path)
        except BaseException:
            self._plan.close()
            raise
        self._plan.files.sort(key=lambda file: (file.first_event_time[:-1], _natural(file.name)))
        return self._plan

    def _problem(self, name: str, sentence: str) -> None:
        self._plan.problems.append(Problem(name, sentence))

    def _path(self, path: Path) -> None:
        try:
            status = path.stat()
        except FileNotFoundError:
            self._problem(str(path), "there is no such file or folder")
            return
        except OSError as problem:
            self._problem(str(path), sentence_of(problem))
            return
        if stat.S_ISDIR(status.st_mode):
            found = self._folder(path)
            if not found:
                self._problem(str(path), "there is no ESXi log in this folder")
        elif stat.S_ISREG(status.st_mode):
            self._file(path, str(path), "", path.name, root_is_host=False)
        else:
            self._problem(str(path), "it is neither a file nor a folder")

    def _folder(self, root: Path) -> bool:
        """Take what is below; False if nothing was found that could be told of."""
        before = self._told
        problems: list[OSError] = []
        root_name, root_is_host = root.absolute().resolve().name or "/", False
        for folder, folders, files in os.walk(root, onerror=problems.append):
            folders.sort()
            if Path(folder) == root:
                root_is_host = any(_HOST_FILE.fullmatch(name) for name in (*folders, *files))
            for name in sorted(files, key=_natural):
                path = Path(folder, name)
                inner = path.relative_to(root).as_posix()
                self._file(path, str(path), root_name, inner, root_is_host=root_is_host)
        for problem in problems:
            self._problem(str(problem.filename), sentence_of(problem))
        return self._told > before

    @property
    def _told(self) -> int:
        return len(self._plan.files) + len(self._plan.problems) + self._seen_again

    def _file(self, path: Path, name: str, root: str, inner: str, *, root_is_host: bool) -> None:
        try:
            status = path.stat()
        except FileNotFoundError:  # a link to nowhere: bundles are full of them
            self._plan.skipped.append(name)
            return
        except OSError as problem:
            self._problem(name, sentence_of(problem))
            return
        if not stat.S_ISREG(status.st_mode):
            return
        identity = (status.st_dev, status.st_ino)
        if identity in self._seen:
            self._seen_again += 1
            return
        self._seen.add(identity)
        written_at = _moment(status.st_mtime)
        self._take(_Candidate(path, name, root, inner, root_is_host, written_at))

    def _take(self, candidate: _Candidate) -> None:
        """Ship the file, unpack it, say what is wrong with it, or pass over it."""
        name = candidate.name
        try:
            head = beginning(candidate.path, _SNIFF_BYTES)
        except UnreadableError as problem:
            self._problem(name, str(problem))
            return
        kind = _kind(head, is_promised=candidate.is_promised)
        if kind == "tar":
            self._archive(candidate)
            return
        if kind is None:
            if not candidate.is_promised:
                self._plan.skipped.append(name)
                return
            if not head.strip(b"\0"):
                self._problem(name, "it is empty")
                return
            if _is_binary(head):
                kind = "binary"
                self._problem(name, "it holds binary data and no log; see the rejected lines")
            else:
                kind = "syslog"
                self._problem(
                    name,
                    "its beginning does not look like an ESXi log; "
                    "lines that no pattern knows go to the rejected lines",
                )
        self._plan.files.append(self._source_file(candidate, kind, head))

    def _source_file(self, candidate: _Candidate, kind: str, head: bytes) -> SourceFile:
        options = self._options
        vm = datastore = None
        if kind == "vmware_log":
            where = _VM_FOLDER.fullmatch(candidate.name) or _VM_FOLDER.fullmatch(
                str(candidate.path.absolute())
            )
            vm = options.vm or (where["vm"] if where else None)
            datastore = options.datastore or (where["datastore"] if where else None)
        first_line = strip_terminator(head.partition(b"\n")[0])
        return SourceFile(
            path=candidate.path,
            name=candidate.name,
            kind=kind,
            host=options.host or _host_of(candidate),
            vm=vm,
            datastore=datastore,
            generation=generation_of(first_line),
            size_bytes=candidate.path.stat().st_size,
            written_at=candidate.written_at,
            first_event_time=self._first_event_time(candidate, kind, head),
        )

    def _first_event_time(self, candidate: _Candidate, kind: str, head: bytes) -> str:
        if kind in ("syslog", "vmware_log"):
            lines = LineRecords(
                Origin(run_id="", source=kind, file=candidate.name),
                written_at=candidate.written_at,
                zone=self._options.zone,
                year=self._options.year,
            )
            for raw in _whole_lines(head):
                lines.make(strip_terminator(raw), "")
                if lines.last_event_time is not None:
                    return lines.last_event_time
        return utc_text(candidate.written_at)

    def _archive(self, archive: _Candidate) -> None:
        """Unpack what a tar holds of logs, and take it."""
        folder = tempfile.TemporaryDirectory(prefix="stunwatch-")
        self._plan._unpacked.append(folder)
        members: list[_Candidate] = []
        blocks = BlockFile(Blocks(archive.path))
        sentence = None
        try:
            with tarfile.open(fileobj=blocks, mode="r|") as tar:  # type: ignore[call-overload]
                for member in tar:
                    if member.isreg() and not member.issparse():
                        candidate = _member(archive, member, Path(folder.name, str(len(members))))
                        if self._unpack(_content(tar, member), candidate):
                            members.append(candidate)
                if _has_more(tar.fileobj):
                    sentence = "the archive is damaged; a part of it was read"
        except tarfile.TarError as problem:
            sentence = f"the archive is damaged ({problem})"
        except OSError as problem:
            sentence = f"it cannot be unpacked: {problem.strerror}"
        if blocks.problem is not None or sentence is not None:
            self._problem(archive.name, str(blocks.problem or sentence))
        root_is_host = any(_HOST_FILE.fullmatch(_first(member.inner)) for member in members)
        if not members and not archive.root:
            self._problem(archive.name, "there is no ESXi log in this archive")
        for candidate in members:
            self._take(replace(candidate, root_is_host=root_is_host))

    def _unpack(self, content: Iterator[bytes], candidate: _Candidate) -> bool:
        """Write a member to disk, unless its beginning shows that it is none of ours."""
        with candidate.path.open("wb") as copy:
            copy.write(next(content, b""))
            copy.flush()
            try:
                kind = _kind(beginning(candidate.path, _SNIFF_BYTES), is_promised=False)
            except UnreadableError:
                kind = None
            if kind is None and not candidate.is_promised:
                self._plan.skipped.append(candidate.name)
                candidate.path.unlink()
                return False
            copy.writelines(content)
        return True


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> Iterator[bytes]:
    """A member's bytes. Of one that ends early, what is there, which extractfile() would drop."""
    stream = tar.fileobj
    assert stream is not None
    stream.seek(member.offset_data)
    missing = member.size
    while missing > 0 and (chunk := stream.read(min(missing, _SNIFF_BYTES))):
        yield chunk
        missing -= len(chunk)


def _has_more(rest: IO[bytes] | None) -> bool:
    """Whether more than padding lies behind the last member: tarfile stops at a bad header."""
    while rest is not None and (chunk := rest.read(_SNIFF_BYTES)):
        if chunk.strip(b"\0"):
            return True
    return False


def _member(archive: _Candidate, member: tarfile.TarInfo, path: Path) -> _Candidate:
    inner = member.name.lstrip("./")
    return _Candidate(
        path=path,
        name=f"{archive.name}!{inner}",
        root=_root_name(PurePosixPath(archive.name)),
        inner=inner,
        root_is_host=False,
        written_at=_moment(member.mtime),
    )


def _first(inner: str) -> str:
    return inner.partition("/")[0]


def _root_name(root: PurePath) -> str:
    return _ARCHIVE_ENDING.sub("", root.name)


def _host_of(candidate: _Candidate) -> str | None:
    """The host of a file by where it lies: a bundle's name, or the first folder below the path."""
    for part in reversed(re.split("[/!]", _ARCHIVE_ENDING.sub("", candidate.name))):
        bundle = _BUNDLE.fullmatch(_ARCHIVE_ENDING.sub("", part))
        if bundle is not None:
            return bundle["host"]
    if not candidate.root:
        return None
    folder, _, below = candidate.inner.partition("/")
    host = candidate.root if candidate.root_is_host else folder if below else ""
    return host if host and host not in _NO_HOSTS else None


def _natural(name: str) -> list[tuple[str, int]]:
    """A sort key under which vmware-10.log comes after vmware-9.log."""
    return [(text, int(number or 0)) for text, number in re.findall(r"(\D*)(\d*)", name)]


def _moment(seconds: float) -> datetime:
    """A time of writing; the epoch in place of one that no calendar has."""
    try:
        moment = datetime.fromtimestamp(int(seconds), UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)
    return moment if FIRST_YEAR <= moment.year <= LAST_YEAR else datetime.fromtimestamp(0, UTC)


def _kind(head: bytes, *, is_promised: bool) -> str | None:
    """syslog, vmware_log, esxtop or tar, by a file's first bytes; None for anything else.

    Where the name promises a log, one line that looks like one is enough; elsewhere it must be
    one line in four, so that a text that quotes a log is none.
    """
    if head[257:262] == b"ustar":
        return "tar"
    if esxtop.is_header(head):
        return "esxtop"
    finder = Finder(HOST_FILE)
    counts = {"syslog": 0, "vmware_log": 0}
    lines = 0
    for raw in _whole_lines(head)[: _PROMISED_LINES if is_promised else _SNIFF_LINES]:
        line = strip_terminator(raw)
        if not line:
            continue
        lines += 1
        found = finder.find(decode(line[:_HEAD_BYTES]))
        if found is not None and not found[0].is_vague:
            counts[found[0].source] += 1
    telling = sum(counts.values())
    if not telling or (not is_promised and telling * 4 < lines):
        return None
    return max(counts, key=lambda source: counts[source])


def _whole_lines(head: bytes) -> list[bytes]:
    lines = head.split(b"\n")
    if len(head) >= _SNIFF_BYTES and len(lines) > 1:
        lines.pop()  # it goes on
    return lines


def _is_binary(head: bytes) -> bool:
    text = head.rstrip(b"\0")
    controls = len(text) - len(text.translate(None, _CONTROL_BYTES))
    return b"\0" in text or controls * 20 > len(text)
