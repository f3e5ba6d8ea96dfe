"""Plans a replay: which files to read, their kinds, their hosts or VMs, and their order.

The kind of a file is determined by its content. Logs in archives (tar or zip) are
unpacked to a temporary folder, so that they can be read oldest first too.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from itertools import pairwise
from pathlib import Path, PurePath, PurePosixPath
from types import TracebackType
from typing import Any, Final

from stunwatch.ingest.heads import HOST_FILE, VMWARE_LOG, Finder
from stunwatch.ingest.records import (
    COMPRESSED,
    LineRecords,
    Origin,
    decode,
    generation_of,
    strip_terminator,
)
from stunwatch.ingest.replay import documents, esxtop
from stunwatch.ingest.replay.archives import (
    KINDS,
    SPARSE,
    Archive,
    Member,
    Room,
    kind_of,
    open_archive,
    why_no_disk,
)
from stunwatch.ingest.replay.fragments import ENDING, fragment, grouped, join
from stunwatch.ingest.replay.sorting import is_unordered, write_sorted
from stunwatch.ingest.replay.streams import (
    LIMITS,
    Blocks,
    Limits,
    Problem,
    UnreadableError,
    beginning,
    end,
    sentence_of,
)
from stunwatch.ingest.replay.wrapped import Unwrapper, WrappedRecords, columns_in
from stunwatch.ingest.times import FIRST_YEAR, LAST_YEAR, Stamps, UptimeClock, utc_text
from stunwatch.ingest.vm_paths import TAILED_BY_DEFAULT, vm_of

# How many bytes and lines of a file are read to determine its kind. A file named like a log gets
# more lines, because a log may begin with a long dump.
_SNIFF_BYTES, _PROMISED_LINES, _SNIFF_LINES = 256 << 10, 400, 100
_HEAD_BYTES = 4 << 10  # longer than any head
_FEW_LINES = 5
_LAST_LINES = 3  # the last ones may be continuation lines
# Names of logs. A file with such a name is shipped, or reported, whatever it contains.
# macOS adds `._vmkernel.log` beside `vmkernel.log`; it is binary.
_LOG_NAME = re.compile(
    r"(?!\._)(?:(?:vmkernel|vmkwarning|vmksummary|vmware|hostd|vobd|vpxa|syslog|messages)"
    rf"(?:[-.]\d{{1,9}})?(?:\.(?:log|all|txt|\d{{1,9}})|{COMPRESSED})*"
    rf"|.*\.log(?:\.\d{{1,9}})?(?:{COMPRESSED})?)(?:{ENDING})?"
)
# A folder that contains one of these is a single host's.
_HOST_FILE = re.compile(
    r"(?:vmkernel|vmkwarning|hostd|vobd)(?:[-.]\d{1,9})?"
    rf"(?:\.(?:log|all|\d{{1,9}})|{COMPRESSED})*(?:{ENDING})?|var|vmfs|scratch"
)
# esx-<host>-<date>…, the folder and file name of a vm-support bundle
_BUNDLE = re.compile(r"esx-(?P<host>.{1,255}?)-\d{4}-\d\d-\d\d(?:--|\b).*")
# Folders that exist on any machine, so their names are not host names.
_NO_HOSTS = frozenset({"data", "log", "logs", "run", "scratch", "tmp", "var", "vmfs", "volumes"})
_ABOVE = re.compile(r"\A(?:\.{0,2}/)+")  # ./ and ../ and / before a member's path
_IPV4 = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}", re.ASCII)
ARCHIVE_ENDING: Final = re.compile(
    rf"\.(?:tar(?:{COMPRESSED})?|tgz|tzst|tbz2?|txz|zip)$", re.IGNORECASE
)
# Formats that replay does not unpack, by their first bytes.
_OTHER_PACKERS = {
    b"7z\xbc\xaf\x27\x1c": "7-Zip",
    b"Rar!\x1a\x07": "RAR",
    b"\x1f\x9d": "compress",
    b"\x04\x22\x4d\x18": "LZ4",
}
_SKIPPED_KEPT = 10_000  # how many names of skipped files are kept
_CONTROL_BYTES = bytes(set(range(32)) - set(b"\t\n\r\f\x1b")) + b"\x7f"


NO_VM_OF_FILE = (
    "it is not known which VM wrote it, so nothing of it is stored. Give --vm and --datastore, one"
    " VM at a time; or replay it from a path .../vmfs/volumes/<datastore>/<vm>/, or from one that"
    " STUNWATCH_VMWARE_LOG_PATH names"
)

SEE_REJECTED = " (`stunwatch sql rejected_by_reason`)"
"""Appended to messages about rejected lines. Without the pipeline there is nothing to query."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the user specifies because the files do not contain it.

    `host`, `vm` and `datastore` apply to lines that name none, `zone` to timestamps without a zone,
    `year` to the first timestamp without a year (see times.Stamps). `tailed` contains the globs
    that Fluent Bit tails: the last two folders of such a path are datastore and VM.
    """

    host: str | None = None
    vm: str | None = None
    datastore: str | None = None
    zone: tzinfo = UTC
    year: int | None = None
    tailed: str = TAILED_BY_DEFAULT


DEFAULTS = Options()


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file to ship."""

    path: Path  # where to read it
    name: str  # the name to show; `bundle.tgz!inner/path` for a file in an archive
    kind: str  # syslog, vmware_log, esxtop, or binary
    host: str | None
    vm: str | None
    datastore: str | None
    generation: str
    size_bytes: int  # on disk, possibly compressed
    written_at: datetime
    first_event_time: str  # the modification time if the file contains no time
    named_host: str | None = None  # the host that its first lines name
    is_wrapped: bool = False  # its lines are wrapped: see wrapped.py
    columns: tuple[str, ...] = ()  # if it is CSV, the names that its first line gives to columns
    is_newest_first: bool = False  # its lines are sorted from the newest to the oldest

    def records(
        self, origin: Origin, options: Options, uptimes: UptimeClock | None = None
    ) -> LineRecords:
        """Return what makes the records of the file's lines."""
        known: dict[str, Any] = {
            "written_at": self.written_at,
            "zone": options.zone,
            "year": options.year,
            "uptimes": uptimes,
        }
        if self.is_wrapped:
            return WrappedRecords(origin, **known, columns=self.columns)
        return LineRecords(origin, **known)

    @property
    def owner(self) -> tuple[str, str | None, str | None, str | None]:
        """(source, host, vm, datastore)."""
        return self.kind, self.host, self.vm, self.datastore


@dataclass(slots=True)
class Plan:
    """What a replay ships, oldest first, and what it cannot read. Close it to free disk space."""

    files: list[SourceFile] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)  # files found that are not logs
    _unpacked: list[tempfile.TemporaryDirectory[str]] = field(default_factory=list)

    @property
    def is_bad(self) -> bool:
        """Return True if something could not be read, or if no file is a log."""
        no_logs = {each.path for each in self.problems if not each.is_failure}
        return any(each.is_failure for each in self.problems) or all(
            file.name in no_logs for file in self.files
        )

    @property
    def size_bytes(self) -> int:
        """Return the size of all files on disk, the total of the progress bar."""
        return sum(file.size_bytes for file in self.files)

    def close(self) -> None:
        """Delete the unpacked files."""
        while self._unpacked:
            self._unpacked.pop().cleanup()

    def __enter__(self) -> Plan:
        """Return the plan, which closes at the end of the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the plan, also after an error."""
        self.close()


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A file that may be a log."""

    path: Path
    name: str
    root: str  # the folder or archive in which it was found; "" if the user named the file itself
    inner: str  # its path below the root, with slashes
    root_is_host: bool
    written_at: datetime
    depth: int = 0  # the number of archives around it
    room: Room | None = None  # of the outermost archive
    is_split: bool = False  # it was a JSON document and has one object per line now
    is_sorted: bool = False  # its lines were sorted by time

    @property
    def is_promised(self) -> bool:
        """True if the user named it or its name is a log's. Such a file is always reported."""
        return not self.root or _LOG_NAME.fullmatch(PurePosixPath(self.inner).name) is not None


def plan(paths: Iterable[Path], options: Options = DEFAULTS, limits: Limits = LIMITS) -> Plan:
    """Examine every path: a file, a folder or an archive. Errors become problems of the plan."""
    return _Planner(options, limits).plan(paths)


class _Planner:
    def __init__(self, options: Options, limits: Limits) -> None:
        self._options = options
        self._limits = limits
        self._plan = Plan()
        self._seen: set[tuple[int, int]] = set()  # device and inode, to read each file once
        self._seen_again = 0

    def plan(self, paths: Iterable[Path]) -> Plan:
        try:
            groups = grouped(map(str, paths))
            for path in groups.whole:
                self._path(Path(path))
            for whole, fragments in groups.fragments.items():
                named = Path(whole)
                self._joined(named, fragments, "", named.name, root_is_host=False)
        except BaseException:
            self._plan.close()
            raise
        self._plan.files.sort(
            key=lambda file: (_sortable(file.first_event_time), _natural(file.name))
        )
        return self._plan

    def _problem(self, name: str, sentence: str, *, is_failure: bool = True) -> None:
        problems = self._plan.problems
        if len(problems) < self._limits.problems:
            problems.append(Problem(name, sentence, is_failure))
        elif len(problems) == self._limits.problems:
            problems.append(Problem(name, f"{sentence}. Further problems are not listed"))

    def _skip(self, name: str) -> None:
        whole, _ = fragment(name) or (name, 0)
        skipped = self._plan.skipped
        if len(skipped) < _SKIPPED_KEPT and skipped[-1:] != [whole]:
            skipped.append(whole)

    def _path(self, path: Path) -> None:
        try:
            status = path.stat()
        except FileNotFoundError:
            self._problem(shown_name(path), "there is no such file or folder")
            return
        except OSError as problem:
            self._problem(shown_name(path), sentence_of(problem))
            return
        if stat.S_ISDIR(status.st_mode):
            found = self._folder(path)
            if not found:
                self._problem(
                    shown_name(path), "there is no ESXi log in this folder", is_failure=False
                )
        elif stat.S_ISREG(status.st_mode):
            self._file(path, status, "", path.name, root_is_host=False)
        else:
            self._problem(shown_name(path), "it is neither a file nor a folder")

    def _folder(self, root: Path) -> bool:
        """Add the files below; return False if there is nothing to ship or to report."""
        before = self._told
        problems: list[OSError] = []
        root_name, root_is_host = root.absolute().resolve().name or "/", False
        for folder, folders, files in os.walk(root, onerror=problems.append):
            folders.sort()
            if Path(folder) == root:
                root_is_host = any(_HOST_FILE.fullmatch(name) for name in (*folders, *files))
            groups = grouped(sorted(files, key=_natural))
            for name in (*groups.whole, *groups.fragments):
                path = Path(folder, name)
                inner = decode(os.fsencode(path.relative_to(root)))
                if name in groups.fragments:
                    fragments = groups.fragments[name]
                    self._joined(path, fragments, root_name, inner, root_is_host=root_is_host)
                else:
                    self._found(path, root, root_name, inner, root_is_host=root_is_host)
        for problem in problems:
            self._problem(decode(os.fsencode(problem.filename)), sentence_of(problem))
        return self._told > before

    @property
    def _told(self) -> int:
        return len(self._plan.files) + len(self._plan.problems) + self._seen_again

    def _found(
        self, path: Path, root: Path, root_name: str, inner: str, *, root_is_host: bool
    ) -> None:
        """Add a regular file of a folder. Links are not followed: the folder is not trusted.

        Bundles are full of links: to other logs in the bundle, which are found anyway, and to paths
        that exist only on the host.
        """
        name, is_promised = shown_name(path), _LOG_NAME.fullmatch(path.name) is not None
        try:
            status = path.lstat()
            if stat.S_ISLNK(status.st_mode):
                self._skip(name)
                target = path.resolve()
                if is_promised and target.is_file() and not target.is_relative_to(root.resolve()):
                    self._problem(
                        name,
                        "it is a symbolic link that leads out of the folder. To replay the file"
                        " that it leads to, name that file",
                    )
                return
        except (OSError, RuntimeError) as problem:  # RuntimeError: a loop of links
            self._problem(name, sentence_of(problem))
            return
        if stat.S_ISREG(status.st_mode):
            self._file(path, status, root_name, inner, root_is_host=root_is_host)
        elif is_promised:
            self._problem(name, "it is not a regular file")

    def _joined(
        self, whole: Path, names: dict[int, str], root: str, inner: str, *, root_is_host: bool
    ) -> None:
        """Join the fragments of a file in a temporary folder and add the result."""
        name = shown_name(whole)
        fragments = {number: whole.parent / each for number, each in names.items()}
        first = fragments[min(fragments)]
        try:
            statuses = [each.lstat() for each in fragments.values()]
            if not all(stat.S_ISREG(each.st_mode) for each in statuses):
                self._problem(name, "not all of its fragments are regular files")
                return
            if root and _LOG_NAME.fullmatch(whole.name) is None:
                kind, _ = _kind(beginning(first, _SNIFF_BYTES, self._limits), is_promised=False)
                if kind is None:
                    self._skip(name)
                    return
            joined = self._new_folder() / "0"
            sentence = why_no_disk(joined, sum(each.st_size for each in statuses), self._limits)
            if sentence:
                self._problem(name, sentence)
                return
            if sentence := join(fragments, joined):
                self._problem(name, sentence)
        except OSError as problem:
            self._problem(name, sentence_of(problem))
            return
        except UnreadableError as problem:
            self._problem(name, str(problem))
            return
        written_at = moment(max(each.st_mtime for each in statuses))
        self._take(_Candidate(joined, name, root, inner, root_is_host, written_at))

    def _new_folder(self) -> Path:
        """Return a temporary folder, which closing the plan deletes."""
        folder = tempfile.TemporaryDirectory(prefix="stunwatch-")
        self._plan._unpacked.append(folder)
        return Path(folder.name)

    def _file(
        self, path: Path, status: os.stat_result, root: str, inner: str, *, root_is_host: bool
    ) -> None:
        identity = (status.st_dev, status.st_ino)
        if identity in self._seen:
            self._seen_again += 1
            return
        self._seen.add(identity)
        written_at = moment(status.st_mtime)
        self._take(_Candidate(path, shown_name(path), root, inner, root_is_host, written_at))

    def _take(self, candidate: _Candidate) -> None:
        """Ship the file, unpack it, report a problem, or skip it."""
        try:
            self._look(candidate)
        except OSError as problem:
            self._problem(candidate.name, sentence_of(problem))
        except Exception as problem:  # one bad file must not stop the others
            self._problem(candidate.name, f"it cannot be read ({type(problem).__name__})")

    def _look(self, candidate: _Candidate) -> None:
        name = candidate.name
        try:
            head = beginning(candidate.path, _SNIFF_BYTES, self._limits)
            if head.startswith(b"\0"):
                # A log that was copied and truncated begins with NULs up to its old length.
                head = beginning(candidate.path, _SNIFF_BYTES, self._limits, is_after_nuls=True)
        except UnreadableError as problem:
            self._problem(name, str(problem))
            return
        packer = _packer(head)
        if packer and (candidate.is_promised or not candidate.depth):
            self._problem(
                name,
                f"it is packed with {packer}, which replay does not unpack. Unpack it and replay"
                " the result",
                is_failure=candidate.is_promised,
            )
            return
        kind, is_wrapped = _kind(head, is_promised=candidate.is_promised)
        if kind in KINDS:
            self._archive(candidate, kind)
            return
        if kind == "document" and not candidate.is_split:
            self._document(candidate)
            return
        if kind is None or kind == "document":
            if not candidate.is_promised:
                self._skip(name)
                return
            if not head:
                self._problem(name, "the file is empty", is_failure=False)
                return
            if _is_binary(head):
                kind = "binary"
                self._problem(
                    name,
                    "the file holds binary data and is not a log; its lines are rejected"
                    + SEE_REJECTED,
                    is_failure=False,
                )
            else:
                kind = "syslog"
                self._problem(
                    name,
                    "the file is not recognised as an ESXi log; unknown lines are rejected"
                    + SEE_REJECTED,
                    is_failure=False,
                )
        self._add(candidate, kind, head, is_wrapped)

    def _add(self, candidate: _Candidate, kind: str, head: bytes, is_wrapped: bool) -> None:
        """Add a file to the plan."""
        try:
            file = self._source_file(candidate, kind, head, is_wrapped)
        except UnreadableError as problem:
            self._problem(candidate.name, str(problem))
            return
        # Only log servers write lines in no order.
        may_be_unordered = is_wrapped and not file.is_newest_first and not candidate.is_sorted
        if may_be_unordered and (in_order := self._sorted(file)) is not None:
            self._look(replace(candidate, path=in_order, is_sorted=True))
        else:
            self._plan.files.append(file)

    def _document(self, candidate: _Candidate) -> None:
        """Write the objects of a JSON document to a temporary file and add that."""
        lines = self._new_folder() / "0"
        if sentence := why_no_disk(lines, documents.LARGEST_BYTES, self._limits):
            self._problem(candidate.name, sentence)
            return
        try:
            has_lines = documents.split(candidate.path, lines, self._limits)
        except UnreadableError as problem:
            self._problem(candidate.name, str(problem), is_failure=candidate.is_promised)
            return
        if has_lines:
            self._look(replace(candidate, path=lines, is_split=True))
        elif candidate.is_promised:
            sentence = "it is a JSON document without log lines"
            self._problem(candidate.name, sentence, is_failure=False)
        else:
            self._skip(candidate.name)

    def _sorted(self, file: SourceFile) -> Path | None:
        """Sort the lines of a file into a temporary one; return None if they are in order."""
        maker = file.records(Origin(run_id="", source=file.kind, file=file.name), self._options)
        damage: list[UnreadableError] = []

        def time_of(line: bytes) -> str | None:
            maker.last_event_time = None
            maker.make(line, "")
            time = maker.last_event_time
            return None if time is None else _sortable(time)

        def blocks() -> Iterator[bytes]:
            damage.clear()
            try:
                yield from Blocks(file.path, self._limits)
            except UnreadableError as problem:
                damage.append(problem)

        if not is_unordered(blocks(), time_of):
            return None
        in_order = self._new_folder() / "0"
        sentence = why_no_disk(in_order, 2 * file.size_bytes, self._limits)
        try:
            if not sentence:
                write_sorted(blocks(), time_of, in_order)
        except OSError as problem:
            sentence = sentence_of(problem)
        except UnreadableError as problem:
            sentence = str(problem)
        if sentence:
            self._problem(file.name, f"its lines are not in the order of their times: {sentence}")
            return None
        for each in damage:
            self._problem(file.name, str(each))
        return in_order

    def _source_file(
        self, candidate: _Candidate, kind: str, head: bytes, is_wrapped: bool
    ) -> SourceFile:
        options = self._options
        vm = datastore = None
        if kind == "vmware_log":
            name = candidate.name if candidate.depth else str(Path(candidate.name).absolute())
            datastore, vm = vm_of(name, options.tailed) or (None, None)
            vm, datastore = options.vm or vm, options.datastore or datastore
            if vm is None and not is_wrapped:  # a wrapped line may contain its VM
                raise UnreadableError(NO_VM_OF_FILE)
        first_line = strip_terminator(head.partition(b"\n")[0])
        file = SourceFile(
            path=candidate.path,
            name=candidate.name,
            kind=kind,
            host=options.host or _host_of(candidate),
            vm=vm,
            datastore=datastore,
            generation=generation_of(first_line),
            size_bytes=candidate.path.stat().st_size,
            written_at=candidate.written_at,
            first_event_time=utc_text(candidate.written_at),
            is_wrapped=is_wrapped,
            columns=columns_in(decode(first_line)) if is_wrapped else (),
        )
        if kind not in ("syslog", "vmware_log"):
            return file
        found = self._first(file, _whole_lines(head))
        if found is not None:
            file = replace(file, first_event_time=found[0], named_host=found[1])
        if self._is_newest_first(file, head):
            last_lines = end(candidate.path, _SNIFF_BYTES, self._limits).split(b"\n")
            found = self._first(file, reversed(last_lines))
            first_event_time = found[0] if found else file.first_event_time
            file = replace(file, first_event_time=first_event_time, is_newest_first=True)
        return file

    def _first(self, file: SourceFile, lines: Iterable[bytes]) -> tuple[str, str | None] | None:
        """Return the event time of the first line that has one, and the host that it names."""
        origin = Origin(run_id="", source=file.kind, file=file.name)
        maker = file.records(origin, self._options)
        for raw in lines:
            record = maker.make(strip_terminator(raw), "")
            if maker.last_event_time is not None:
                return maker.last_event_time, record.get("host")
        return None

    def _is_newest_first(self, file: SourceFile, head: bytes) -> bool:
        """Return True if most lines of the file's beginning are older than the line before.

        Exports of Splunk, Kibana and Graylog are sorted so. Logs are not: nearly always the first
        line is older than the last one, and then no other line is parsed.
        """

        def times(lines: Iterable[bytes]) -> list[str]:
            each = (self._first(file, [line]) for line in lines)
            return [_sortable(one[0]) for one in each if one is not None]

        lines = _whole_lines(head)
        ends = times(lines[:1] + lines[-_LAST_LINES:])
        if len(ends) < 2 or ends[0] <= ends[-1]:
            return False
        found = times(lines[:_SNIFF_LINES])
        falls = sum(later < one for one, later in pairwise(found))
        rises = sum(later > one for one, later in pairwise(found))
        # A few lines are in order anyway (HELD_BACK), and one fall may be a change of year.
        return falls > 2 * rises + _FEW_LINES

    def _archive(self, archive: _Candidate, kind: str) -> None:
        """Unpack the logs of an archive and add them."""
        limits = self._limits
        if archive.depth == limits.depth:
            self._problem(
                archive.name,
                f"it is an archive within {limits.depth} archives. Unpack the outer ones and replay"
                " the folder",
            )
            return
        room = archive.room or Room(limits.most_bytes(archive.path.stat().st_size), limits.logs)
        archive = replace(archive, room=room)
        folder = self._new_folder()
        before = self._told
        candidates: list[_Candidate] = []
        fragments: dict[str, dict[int, _Candidate]] = {}
        packed = open_archive(archive.path, kind, limits)
        for number, member in enumerate(packed):
            candidate = _member(archive, member, folder / str(number))
            if member.fault:
                if candidate.is_promised or member.fault != SPARSE:
                    self._problem(candidate.name, member.fault)
                continue
            part_of = fragment(candidate.inner)
            if part_of is None:
                if self._unpack(packed, member, candidate, room):
                    candidates.append(candidate)
                continue
            whole, part = part_of
            # Only the first fragment shows whether the file is a log.
            is_log = 0 in fragments.get(whole, {})
            if self._unpack(packed, member, candidate, room, is_log=is_log):
                fragments.setdefault(whole, {})[part] = candidate
        if packed.fault:
            self._problem(archive.name, packed.fault)
        candidates += self._joined_members(fragments)
        candidates = _without_folder_of_all(candidates)
        root_is_host = any(_HOST_FILE.fullmatch(_first(each.inner)) for each in candidates)
        if not candidates and not archive.root and self._told == before:
            self._problem(archive.name, "there is no ESXi log in this archive", is_failure=False)
        for candidate in candidates:
            self._take(replace(candidate, root_is_host=root_is_host))

    def _joined_members(self, fragments: dict[str, dict[int, _Candidate]]) -> Iterator[_Candidate]:
        """Join the unpacked fragments of each log."""
        for whole, parts in fragments.items():
            if 0 not in parts and not parts[min(parts)].is_promised:
                continue  # a piece of another file that looks like a log
            paths = {number: each.path for number, each in parts.items()}
            newest = max(parts.values(), key=lambda each: each.written_at)
            name = newest.name.removesuffix(newest.inner) + whole
            joined = newest.path.with_suffix(".joined")
            try:
                sentence = join(paths, joined, is_moved=True)
            except OSError as problem:
                self._problem(name, sentence_of(problem))
                continue
            if sentence:
                self._problem(name, sentence)
            yield replace(newest, path=joined, name=name, inner=whole)

    def _unpack(
        self,
        packed: Archive,
        member: Member,
        candidate: _Candidate,
        room: Room,
        *,
        is_log: bool = False,
    ) -> bool:
        """Write a member to disk, unless it is not a log or is too large."""
        try:
            return self._written(packed, member, candidate, room, is_log=is_log)
        except Exception as problem:  # one bad member must not stop the others
            self._problem(candidate.name, f"it cannot be read ({type(problem).__name__})")
            return False

    def _written(
        self, packed: Archive, member: Member, candidate: _Candidate, room: Room, *, is_log: bool
    ) -> bool:
        content = packed.content()
        head = bytearray()
        while len(head) < _SNIFF_BYTES and (piece := next(content, b"")):
            head += piece
        path, sentence, written = candidate.path, "", 0
        try:
            path.write_bytes(head)
            written = len(head)
            try:
                start = beginning(path, _SNIFF_BYTES, self._limits)
                kind, _ = _kind(start, is_promised=False)
            except UnreadableError:
                kind = None
            if kind is None and not candidate.is_promised and not is_log:
                self._skip(candidate.name)
                path.unlink()
                return False
            sentence = self._why_no_room(path, member, room, written)
            if not sentence:
                with path.open("ab") as copy:
                    for piece in content:
                        written += len(piece)
                        if written > room.bytes_left:
                            sentence = self._too_large
                            break
                        copy.write(piece)
        except OSError as problem:
            sentence = f"it cannot be unpacked: {(problem.strerror or str(problem)).lower()}"
        if sentence:
            path.unlink(missing_ok=True)
            self._problem(candidate.name, sentence)
            return False
        room.bytes_left -= written
        room.files_left -= 1
        return True

    def _why_no_room(self, path: Path, member: Member, room: Room, written: int) -> str:
        limits = self._limits
        if room.files_left <= 0:
            return (
                f"the archive has more than {limits.logs:,} logs. Unpack it yourself and replay the"
                " folder"
            )
        if written > room.bytes_left:
            return self._too_large
        return why_no_disk(path, member.size_bytes - written, limits)

    @property
    def _too_large(self) -> str:
        return (
            f"the logs of the archive have more than {self._limits.ratio} times its size. To replay"
            " all of them, unpack it yourself and replay the folder"
        )


def shown_name(path: Path) -> str:
    """Return a path as text that JSON accepts: file names may not be UTF-8."""
    return decode(os.fsencode(path))


def _member(archive: _Candidate, member: Member, path: Path) -> _Candidate:
    inner = _ABOVE.sub("", member.name)
    return _Candidate(
        path=path,
        name=f"{archive.name}!{inner}",
        root=_root_name(PurePosixPath(archive.name)),
        inner=inner,
        root_is_host=False,
        written_at=moment(member.written_at),
        depth=archive.depth + 1,
        room=archive.room,
    )


def _without_folder_of_all(candidates: list[_Candidate]) -> list[_Candidate]:
    """Remove the folder that contains all logs of an archive, if it contains folders of hosts.

    Windows packs a folder so: `case-17.zip!case-17/esx01/vmkernel.log`.
    """
    for each in candidates:
        top, _, below = each.inner.partition("/")
        folder, slash, _ = below.partition("/")
        if top != each.root or not slash or not _may_be_host(folder):
            return candidates
    return [replace(each, inner=each.inner.partition("/")[2]) for each in candidates]


def _may_be_host(folder: str) -> bool:
    is_named = any(map(str.isalpha, folder)) or _IPV4.fullmatch(folder) is not None
    return is_named and folder not in _NO_HOSTS and not _HOST_FILE.fullmatch(folder)


def _packer(head: bytes) -> str:
    """Return the name of a format that replay does not unpack; empty for any other file."""
    return next((name for magic, name in _OTHER_PACKERS.items() if head.startswith(magic)), "")


def _first(inner: str) -> str:
    return inner.partition("/")[0]


def _root_name(root: PurePath) -> str:
    return ARCHIVE_ENDING.sub("", root.name)


def _host_of(candidate: _Candidate) -> str | None:
    """Return a file's host by its location: a bundle's name, or the first folder below the path."""
    for part in reversed(re.split("[/!]", ARCHIVE_ENDING.sub("", candidate.name))):
        bundle = _BUNDLE.fullmatch(ARCHIVE_ENDING.sub("", part))
        if bundle is not None:
            return bundle["host"]
    if not candidate.root:
        return None
    folder, _, below = candidate.inner.partition("/")
    host = candidate.root if candidate.root_is_host else folder if below else ""
    return host if host and host not in _NO_HOSTS else None


def _sortable(event_time: str) -> str:
    return event_time.removesuffix("Z")


def _natural(name: str) -> list[tuple[str, int]]:
    """Return a sort key that puts vmware-10.log after vmware-9.log."""
    return [(text, int(number or 0)) for text, number in re.findall(r"(\D*)(\d{0,19})", name)]


def moment(seconds: float) -> datetime:
    """Convert a modification time; one that is out of range becomes the epoch."""
    epoch = datetime.fromtimestamp(0, UTC)
    try:
        found = datetime.fromtimestamp(int(seconds), UTC)
    except (ValueError, OverflowError, OSError):
        return epoch
    return found if FIRST_YEAR <= found.year <= LAST_YEAR else epoch


def _kind(head: bytes, *, is_promised: bool) -> tuple[str | None, bool]:
    """Return the kind of a file by its first bytes, and whether most of its lines are wrapped.

    The kind is syslog, vmware_log, esxtop, tar, zip or document (one of JSON); None for anything
    else.

    If the name is a log's, one line that looks like a log is enough. Otherwise one line in four
    must look like a log, so that a text that quotes a log is not taken for one.
    """
    if (archive := kind_of(head)) is not None:
        return archive, False
    if esxtop.is_header(head):
        return "esxtop", False
    finder = Finder(HOST_FILE)
    whole_lines = _whole_lines(head)
    columns = columns_in(decode(strip_terminator(whole_lines[0])))
    unwrapper = Unwrapper(Stamps(written_at=datetime.now(UTC)), columns)
    counts = {"syslog": 0, "vmware_log": 0}
    lines = wrapped = 0
    for raw in whole_lines[: _PROMISED_LINES if is_promised else _SNIFF_LINES]:
        line = strip_terminator(raw)
        if not line:
            continue
        lines += 1
        found = finder.find(decode(line[:_HEAD_BYTES]))
        if found is None or b"\x1b" in line:
            inner = (finder.find(each.line) for each in unwrapper.unwrap(decode(line)))
            found = next((each for each in inner if each is not None), None)
            wrapped += found is not None
        if found is not None and not found[0].is_vague:
            # A syslog file may hold the logs of VMs; each line then has its host and VM.
            is_vms = found[0].name.startswith(VMWARE_LOG)
            counts["vmware_log" if is_vms else "syslog"] += 1
    telling = sum(counts.values())
    if not telling or (not is_promised and telling * 4 < lines):
        return "document" if documents.is_document(head) else None, False
    return max(counts, key=lambda source: counts[source]), wrapped * 2 > telling


def _whole_lines(head: bytes) -> list[bytes]:
    lines = head.split(b"\n")
    if len(head) >= _SNIFF_BYTES and len(lines) > 1:
        lines.pop()  # incomplete
    return lines


def _is_binary(head: bytes) -> bool:
    text = head.rstrip(b"\0")
    controls = len(text) - len(text.translate(None, _CONTROL_BYTES))
    return b"\0" in text or controls * 20 > len(text)
