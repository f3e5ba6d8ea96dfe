"""Converts vCenter's real-time counters to samples (schemas/esxtop_sample.v1, `origin = vcenter`).

Every host measures its devices and its VMs' disks in steps of 20 s and keeps one hour of them.
Queries ask for many objects at a time, as CSV. Each query contains a start time, so that no step is
read twice. This module decides what to query (`Rounds`, `questions`) and parses the answers
(`answers_in`, `samples`). It does not read the clock or the network.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple
from xml.etree import ElementTree

from pyVmomi import vim

from stunwatch.ingest.records import Record
from stunwatch.ingest.times import utc_text

TOPIC: Final = "esxi.vcenter"

STEP: Final = timedelta(seconds=20)
KEPT: Final = timedelta(hours=1)
"""How long a host keeps its steps."""

SPAN: Final = timedelta(minutes=2)
"""Maximum time span of one round. After an outage, all objects catch up together, span by span."""

AT_ONCE: Final = {"HostSystem": 10, "VirtualMachine": 100}
"""Objects per call. An answer then has about a megabyte."""

EVERY_INSTANCE: Final = "*"
_NAMESPACE: Final = "{urn:vim25}"
LARGEST_VALUE: Final = 1e12
"""Larger and negative values are ignored: vCenter returns -1 for a step in which an instance was
not measured."""


class Wanted(NamedTuple):
    """A vCenter counter, as group.counter.rollup, and the sample field for it."""

    counter: str
    field: str


COUNTERS: Final = {
    "HostSystem": (
        Wanted("disk.deviceLatency.average", "davg_ms"),
        Wanted("disk.kernelLatency.average", "kavg_ms"),
        Wanted("disk.totalLatency.average", "gavg_ms"),
        Wanted("disk.queueLatency.average", "qavg_ms"),
        Wanted("disk.commandsAveraged.average", "commands_per_second"),
    ),
    "VirtualMachine": (
        Wanted("virtualDisk.totalReadLatency.average", "gavg_read_ms"),
        Wanted("virtualDisk.totalWriteLatency.average", "gavg_write_ms"),
        Wanted("virtualDisk.numberReadAveraged.average", "reads_per_second"),
        Wanted("virtualDisk.numberWriteAveraged.average", "writes_per_second"),
    ),
}
"""By type of object. esxtop has more counters; these exist in every release."""

OBJECT_CLASSES: Final = {"HostSystem": "scsi_device", "VirtualMachine": "virtual_disk"}

# Factor to the unit of the field, by the unit of the counter.
_FACTORS: Final = {"millisecond": 1.0, "microsecond": 0.001, "number": 1.0}


class Measured(NamedTuple):
    """The sample field for a counter, and the factor for its values."""

    field: str
    factor: float


Counters = dict[str, dict[str, Measured]]
"""By type of object, then by the counter's id in this vCenter."""


@dataclass(frozen=True)
class Entity:
    """A host or a VM whose counters are queried."""

    moid: str
    kind: str
    """HostSystem or VirtualMachine."""
    host: str
    """The host's name as its own log lines spell it; for a VM, the host that it runs on."""
    vm: str = ""
    """The VM's folder."""


@dataclass(frozen=True)
class Question:
    """A query for one object's steps after `after`, up to and including `until`."""

    entity: Entity
    after: datetime
    until: datetime


@dataclass(frozen=True)
class Answer:
    """The measurements of one object: the times of its steps, and one number (text) for each step
    in every series."""

    moid: str
    times: list[datetime | None]
    """None if a step's timestamp is not valid."""
    series: list[tuple[str, str, list[str]]]
    """(counter id, instance, numbers)"""


@dataclass
class Rounds:
    """Tracks which steps were read, and which to query next."""

    taken: dict[str, datetime] = field(default_factory=dict)
    """The newest step that was read, by object."""
    until: datetime | None = None
    """All objects have been queried up to here; None before the first round."""

    def next_until(self, now: datetime) -> datetime:
        """Return the end of the next round. `now` is vCenter's time."""
        known = self.until or max(self.taken.values(), default=now - KEPT)
        return min(_at_a_step(now), _at_a_step(max(known, now - KEPT)) + SPAN)

    def questions(
        self, entities: Iterable[Entity], until: datetime, now: datetime
    ) -> Iterator[list[Question]]:
        """Yield queries for these objects; each list is one call with objects of one type."""
        waiting: dict[str, list[Question]] = {kind: [] for kind in AT_ONCE}
        for entity in entities:
            after = max(self.taken.get(entity.moid, now - KEPT), now - KEPT)
            if until - after < STEP:
                continue
            batch = waiting[entity.kind]
            batch.append(Question(entity, after, until))
            if len(batch) == AT_ONCE[entity.kind]:
                yield batch
                waiting[entity.kind] = []
        yield from filter(None, waiting.values())

    def take(self, answer: Answer, until: datetime) -> None:
        """Record which steps were read, up to `until` at most.

        Steps that are not available yet will be queried again.
        """
        if times := [at for at in answer.times if at is not None and at <= until]:
            self.taken[answer.moid] = max(times)


def counters_of(offered: Iterable[vim.PerformanceManager.CounterInfo]) -> Counters:
    """Return those of the wanted counters that this vCenter has, by its own ids."""
    found = {
        f"{each.groupInfo.key}.{each.nameInfo.key}.{each.rollupType}": each for each in offered
    }
    return {
        kind: {
            str(found[each.counter].key): Measured(
                each.field, _FACTORS[found[each.counter].unitInfo.key]
            )
            for each in wanted
            if each.counter in found
        }
        for kind, wanted in COUNTERS.items()
    }


def query(question: Question, counters: Counters) -> vim.PerformanceManager.QuerySpec:
    """Return a question as a vCenter query. vCenter excludes the step at `startTime` itself."""
    kind = question.entity.kind
    return vim.PerformanceManager.QuerySpec(
        entity=getattr(vim, kind)(question.entity.moid),
        startTime=question.after,
        endTime=question.until,
        intervalId=int(STEP.total_seconds()),
        format="csv",
        metricId=[
            vim.PerformanceManager.MetricId(counterId=int(each), instance=EVERY_INSTANCE)
            for each in counters[kind]
        ],
    )


def answers_in(soap: bytes) -> Iterator[Answer]:
    """Yield the answers in the body of a QueryPerfResponse.

    Parsed here because pyVmomi creates an object for every number and is twelve times slower.
    Raises ElementTree.ParseError if the body is not XML.
    """
    body = ElementTree.fromstring(soap)  # noqa: S314 - vCenter's, over verified TLS
    for each in body.iter(f"{_NAMESPACE}returnval"):
        steps = (each.findtext(f"{_NAMESPACE}sampleInfoCSV") or "").split(",")
        yield Answer(
            moid=each.findtext(f"{_NAMESPACE}entity") or "",
            # 20,2024-05-06T07:08:20Z,20,2024-05-06T07:08:40Z
            times=[_time(step) for step in steps[1::2]],
            series=[
                (
                    value[0][0].text or "",
                    value[0][1].text or "",
                    (value[1].text or "").split(","),
                )
                for value in each.iterfind(f"{_NAMESPACE}value")
            ],
        )


def samples(
    answer: Answer, question: Question, counters: Counters, received_at: str
) -> Iterator[Record]:
    """Yield the samples of one answer, without steps that were not queried and missing values.

    For a virtual disk, the guest's latency of all commands is the mean of read and write latency,
    weighted by the number of each.
    """
    entity = question.entity
    first: Record = {
        "event_time": "",
        "received_at": received_at,
        "kind": "line",
        "source": "esxtop",
        "origin": "vcenter",
        "host": entity.host,
        "object_class": OBJECT_CLASSES[entity.kind],
    }
    wanted = [
        (number, utc_text(at))
        for number, at in enumerate(answer.times)
        if at is not None and question.after < at <= question.until
    ]
    for instance, fields in _by_instance(answer, counters[entity.kind]).items():
        device = f"{entity.vm}:{instance}" if entity.vm else instance
        for number, event_time in wanted:
            measured = {
                name: value * factor
                for name, factor, numbers in fields
                if (value := _value(numbers[number])) is not None
            }
            if not measured:
                continue
            if entity.vm:
                measured |= _of_both(measured)
            yield {
                **first,
                "event_time": event_time,
                "device": device,
                **measured,
                "run_id": "live",
                "time_quality": "exact",
            }


def _value(text: str) -> float | None:
    """Return a counter's value; None if there is none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value <= LARGEST_VALUE else None


def _time(step: str) -> datetime | None:
    """Parse `2024-05-06T07:08:20Z`; None if it is not a time with a zone."""
    try:
        at = datetime.fromisoformat(step)
        return at.astimezone(UTC) if at.tzinfo else None
    except (ValueError, OverflowError):
        return None


def _by_instance(
    answer: Answer, counters: Mapping[str, Measured]
) -> dict[str, list[tuple[str, float, list[str]]]]:
    """Return (field, factor, numbers) by instance. Totals over all instances are left out."""
    found: dict[str, list[tuple[str, float, list[str]]]] = {}
    steps = len(answer.times)
    for counter, instance, numbers in answer.series:
        measured = counters.get(counter)
        if measured is not None and instance and len(numbers) == steps:
            found.setdefault(instance, []).append((measured.field, measured.factor, numbers))
    return found


def _of_both(measured: Mapping[str, float]) -> dict[str, float]:
    """Return commands per second and the guest's latency per command, from reads and writes."""
    reads, writes = measured.get("reads_per_second"), measured.get("writes_per_second")
    if reads is None or writes is None:
        return {}
    commands = reads + writes
    waited = [
        count * measured[name]
        for name, count in (("gavg_read_ms", reads), ("gavg_write_ms", writes))
        if count and name in measured
    ]
    is_known = len(waited) == (reads > 0) + (writes > 0)
    gavg = {"gavg_ms": round(sum(waited) / commands, 3) if commands else 0.0} if is_known else {}
    return {**gavg, "commands_per_second": commands}


def _at_a_step(moment: datetime) -> datetime:
    """Return the last end of a step up to this moment."""
    seconds = int(moment.timestamp())
    return datetime.fromtimestamp(seconds - seconds % int(STEP.total_seconds()), UTC)
