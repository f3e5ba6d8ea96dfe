"""A planned file becomes messages for Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime

from ingest.records import (
    BINARY,
    MAX_LINE_BYTES,
    LineRecords,
    Origin,
    Record,
    kafka_key,
    progress,
    rejection,
)
from ingest.replay import esxtop, lines
from ingest.replay.sources import DEFAULTS, Options, SourceFile
from ingest.replay.streams import Blocks, Problem, UnreadableError, beginning
from ingest.times import UptimeClock, utc_text

BACKFILL, ESXTOP, REJECTED = "esxi.backfill", "esxi.esxtop", "esxi.rejected"

Message = tuple[str, str, Record]  # topic, key, value

_SHOWN_BINARY_BYTES = 1 << 10


def _now() -> datetime:
    return datetime.now(UTC)


class Reading:
    """Reads one file; iterate it once, for lists of messages.

    A log's last list holds its progress, one record for each owner of its lines.

    While it goes on and after: `lines_read` = `lines_accepted` + `lines_rejected`; `records`, the
    messages made of accepted lines (esxtop makes many of one); `bytes_read` of the decompressed
    file, `consumed_bytes` of it as it lies on disk; `problem` if it could not be read to its end.
    """

    def __init__(
        self,
        source: SourceFile,
        run_id: str,
        options: Options = DEFAULTS,
        now: Callable[[], datetime] = _now,
        uptimes: UptimeClock | None = None,
    ) -> None:
        """`now` gives received_at; `uptimes` is for all files of one replay."""
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
            datastore=source.datastore,
            file=source.name,
            generation=source.generation,
        )

    @property
    def consumed_bytes(self) -> int:
        """How far the file has been read, as it lies on disk."""
        return self._blocks.consumed_bytes

    def __iter__(self) -> Iterator[list[Message]]:
        """Lists of messages: of about a megabyte of log, or of one row of esxtop."""
        if self.source.kind == "binary":
            return self._binary()
        return self._esxtop() if self.source.kind == "esxtop" else self._log()

    def _log(self) -> Iterator[list[Message]]:
        maker = LineRecords(
            self._origin,
            written_at=self.source.written_at,
            zone=self._options.zone,
            year=self._options.year,
            uptimes=self._uptimes,
        )
        make = maker.make
        # by (source, vm or host): a file from a syslog server has lines of many
        owners: dict[tuple[str, str | None], Origin] = {}
        keys: dict[tuple[str, str | None], str] = {}
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
                name = (source, record.get("vm" if source == "vmware_log" else "host"))
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
        """No progress at the end: nothing waits for the silence of samples."""
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
                self._count(1, int(is_rejected), 0 if is_rejected else len(made))
                yield [(topic, key, record) for record in made]

    def _binary(self) -> Iterator[list[Message]]:
        """One rejection that shows how the file begins, and no progress: it tells of nothing."""
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
        for batch in lines.batches(self._readable(), max_bytes):
            _, offset, line_bytes = batch[-1]
            self.bytes_read = offset + line_bytes
            yield batch

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
    """The messages of one file, one by one; see Reading."""
    for messages in Reading(source, run_id, options):
        yield from messages
