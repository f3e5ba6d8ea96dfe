"""Converts a planned file to messages for Kafka."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime

from stunwatch.ingest.records import (
    BINARY,
    MAX_LINE_BYTES,
    NO_VM,
    Origin,
    Record,
    datastore_name,
    kafka_key,
    progress,
    rejection,
)
from stunwatch.ingest.replay import esxtop, lines
from stunwatch.ingest.replay.sources import DEFAULTS, Options, SourceFile
from stunwatch.ingest.replay.streams import (
    LIMITS,
    Blocks,
    Problem,
    UnreadableError,
    beginning,
    sentence_of,
)
from stunwatch.ingest.times import UptimeClock, utc_text

BACKFILL, ESXTOP, REJECTED = "esxi.backfill", "esxi.esxtop", "esxi.rejected"

Message = tuple[str, str, Record]  # topic, key, value

_SHOWN_BINARY_BYTES = 1 << 10


def _now() -> datetime:
    return datetime.now(UTC)


class Reading:
    """Reads one file. Iterate it once to get lists of messages.

    The last list of a log contains a progress record for each host or VM that has lines in it.

    Counters, valid during and after reading: `lines_read` = `lines_accepted` + `lines_rejected`;
    `records`, the messages made from accepted lines (an esxtop row makes many); `bytes_read` of the
    decompressed file; `consumed_bytes` of the file on disk. `problem` is set if the file could not
    be read to its end.
    """

    def __init__(
        self,
        source: SourceFile,
        run_id: str,
        options: Options = DEFAULTS,
        now: Callable[[], datetime] = _now,
        uptimes: UptimeClock | None = None,
    ) -> None:
        """`now` returns received_at. `uptimes` is shared by all files of one replay."""
        self.source = source
        self.lines_read = 0
        self.lines_accepted = 0
        self.lines_rejected = 0
        self.records = 0
        self.bytes_read = 0
        self.problem: Problem | None = None
        self._options = options
        self._now = now
        self._uptimes = uptimes or UptimeClock()
        self._blocks = Blocks(source.path)
        self._origin = Origin(
            run_id=run_id,
            source="unknown" if source.kind == "binary" else source.kind,
            host=source.host,
            vm=source.vm,
            datastore=source.datastore and datastore_name(source.datastore, source.host),
            file=source.name,
            generation=source.generation,
        )

    @property
    def consumed_bytes(self) -> int:
        """Return how many bytes of the file on disk have been read."""
        return self._blocks.consumed_bytes

    def __iter__(self) -> Iterator[list[Message]]:
        """Yield lists of messages: about a megabyte of log, or one row of esxtop."""
        kinds = {"binary": self._binary, "esxtop": self._esxtop}
        made = kinds.get(self.source.kind, self._log)()
        while True:
            try:
                messages = next(made, None)
            except Exception as problem:  # one bad file must not stop the others
                sentence = f"reading ended early ({type(problem).__name__})"
                self.problem = Problem(self.source.name, sentence)
                return
            if messages is None:
                return
            yield messages

    def _log(self) -> Iterator[list[Message]]:
        maker = self.source.records(self._origin, self._options, self._uptimes)
        make, is_wrapped = maker.make, self.source.is_wrapped
        # Keyed by (source, datastore, VM) or host: a syslog server's file has lines of many hosts.
        owners: dict[tuple[str | None, ...], Origin] = {}
        keys: dict[tuple[str | None, ...], str] = {}
        latest = ""
        for batch in self._batches(MAX_LINE_BYTES):
            received_at = utc_text(self._now())
            messages: list[Message] = []
            rejected = 0
            for raw, offset, line_bytes in batch:
                record = make(raw, received_at, offset, line_bytes)
                if "reason" in record:
                    rejected += 1
                    messages.append((REJECTED, kafka_key(record), record))
                    continue
                source = record["source"]
                # A host's log may have lines in vmware.log format; wrapped lines may be of any log.
                if is_wrapped and source == "vmware_log" and "vm" not in record:
                    record = self._without_vm(raw, received_at, offset, line_bytes)
                    rejected += 1
                    messages.append((REJECTED, kafka_key(record), record))
                    continue
                owner = record.get("vm" if source == "vmware_log" else "host")
                name = (source, record.get("datastore"), owner)
                key = keys.get(name)
                if key is None:
                    key = keys[name] = kafka_key(record)
                    owners[name] = self._owner(record)
                messages.append((BACKFILL, key, record))
                moment = record["event_time"][:-1]
                if moment > latest and record["time_quality"] != "arrival":
                    latest = moment
            self._count(len(batch), rejected, len(batch) - rejected)
            yield messages
        event_time, quality = maker.inherited_time("")
        if latest:
            event_time = f"{latest}Z"
        yield [
            self._progress(origin, event_time, quality, maker.program)
            for origin in owners.values() or [self._origin]
        ]

    def _esxtop(self) -> Iterator[list[Message]]:
        """Yield samples. There is no progress record: no detector waits for the end of samples."""
        maker = esxtop.EsxtopRecords(self._origin)
        for batch in self._batches(esxtop.MAX_ROW_BYTES):
            received_at = utc_text(self._now())
            for row, offset, line_bytes in batch:
                if esxtop.is_header(row):
                    maker.read_header(row)
                    continue
                made = maker.make(row, received_at, offset, line_bytes)
                is_rejected = "reason" in made[0]
                topic, key = REJECTED if is_rejected else ESXTOP, kafka_key(made[0])
                samples = 0 if is_rejected else sum(len(each["devices"]) for each in made)
                self._count(1, int(is_rejected), samples)
                yield [(topic, key, record) for record in made]

    def _binary(self) -> Iterator[list[Message]]:
        """Yield one rejection that shows how the file begins. No line was read, so no progress."""
        self.lines_read = self.lines_rejected = 1
        shown = beginning(self.source.path, _SHOWN_BINARY_BYTES)
        record = rejection(
            shown,
            BINARY,
            utc_text(self._now()),
            self._origin,
            offset=0,
            line_bytes=self.source.size_bytes,
        )
        yield [(REJECTED, kafka_key(record), record)]

    def _batches(self, max_bytes: int) -> Iterator[list[lines.Line]]:
        batches = lines.batches(self._readable(), max_bytes)
        if self.source.is_newest_first:
            batches = self._oldest_first(max_bytes)
        for batch in batches:
            _, offset, line_bytes = batch[-1]
            self.bytes_read = offset + line_bytes
            yield batch

    def _oldest_first(self, max_bytes: int) -> Iterator[list[lines.Line]]:
        """Yield the lines of a file from its end. They are copied to disk first, unpacked."""
        with tempfile.TemporaryFile(prefix="stunwatch-") as copy:
            try:
                for block in self._readable():
                    if shutil.disk_usage(tempfile.gettempdir()).free < LIMITS.spare_disk_bytes:
                        sentence = (
                            f"there is too little room in {tempfile.gettempdir()} to read it from"
                            " its end. TMPDIR names another folder"
                        )
                        self.problem = Problem(self.source.name, sentence)
                        return
                    copy.write(block)
            except OSError as problem:
                self.problem = Problem(self.source.name, sentence_of(problem))
                return
            yield from lines.backwards(copy, max_bytes)

    def _readable(self) -> Iterator[bytes]:
        try:
            yield from self._blocks
        except UnreadableError as problem:
            self.problem = Problem(self.source.name, str(problem))

    def _count(self, read: int, rejected: int, records: int) -> None:
        self.lines_read += read
        self.lines_rejected += rejected
        self.lines_accepted += read - rejected
        self.records += records

    def _without_vm(self, raw: bytes, received_at: str, offset: int, line_bytes: int) -> Record:
        """Return the rejection of a vmware.log line whose VM is unknown."""
        origin = replace(self._origin, source="vmware_log")
        return rejection(raw, NO_VM, received_at, origin, offset=offset, line_bytes=line_bytes)

    def _owner(self, record: Record) -> Origin:
        return replace(
            self._origin,
            source=record["source"],
            host=record.get("host"),
            vm=record.get("vm"),
            datastore=record.get("datastore"),
        )

    def _progress(
        self, origin: Origin, event_time: str, time_quality: str, program: str | None
    ) -> Message:
        record = progress(
            origin,
            utc_text(self._now()),
            event_time=event_time,
            time_quality=time_quality,
            offset=self.bytes_read,
            program="vmx" if origin.source == "vmware_log" else program,
        )
        return BACKFILL, kafka_key(record), record


def records(
    source: SourceFile,
    run_id: str,
    options: Options = DEFAULTS,
) -> Iterator[Message]:
    """Yield the messages of one file one by one; see Reading."""
    for messages in Reading(source, run_id, options):
        yield from messages
