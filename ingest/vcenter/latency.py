"""vCenter's real-time counters become samples (schemas/esxtop_sample.v1 with `origin = vcenter`).

Every host measures in steps of 20 s and keeps an hour of them, of its devices and of its VMs'
disks. They are asked for many at a time, as CSV, and no step twice: an ask says from when on. This
module works out what to ask (`Rounds`, `questions`) and reads answers (`answers_in`, `samples`);
nothing here reads a clock or the network but what it is handed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple
from xml.etree import ElementTree

from pyVmomi import vim

from ingest.records import Record
from ingest.times import utc_text

TOPIC: Final = "esxi.vcenter"

STEP: Final = timedelta(seconds=20)
KEPT: Final = timedelta(hours=1)
"""How far back a host remembers steps."""

SPAN: Final = timedelta(minutes=2)
"""So much time is asked of all before more is asked of any: after an absence all come back to the
present side by side. jobs/detect.py takes samples that are three minutes behind others."""

AT_ONCE: Final = {"HostSystem": 10, "VirtualMachine": 100}
"""Objects in one call: answers of about a megabyte."""

EVERY_INSTANCE: Final = "*"
_NAMESPACE: Final = "{urn:vim25}"
_NOTHING: Final = "-1"
"""What stands for a step in which an instance was not measured."""


class Wanted(NamedTuple):
    """A counter as vCenter names it, group.counter.rollup, and the field that it becomes."""

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
"""By the kind of object that is asked. esxtop knows more; these are what every release has."""

OBJECT_CLASSES: Final = {"HostSystem": "scsi_device", "VirtualMachine": "virtual_disk"}

# The units that a field has, by those that a counter may come in.
_FACTORS: Final = {"millisecond": 1.0, "microsecond": 0.001, "number": 1.0}


class Measured(NamedTuple):
    """What becomes of one counter's numbers."""

    field: str
    factor: float


Counters = dict[str, dict[str, Measured]]
"""By kind of object, by the id that this vCenter gave the counter."""


@dataclass(frozen=True)
class Entity:
    """A host or a VM whose counters are asked for."""

    moid: str
    kind: str
    """HostSystem or VirtualMachine."""
    host: str
    """The host's name as its own log lines have it; of a VM the host that it runs on."""
    vm: str = ""
    """The VM's folder."""


@dataclass(frozen=True)
class Question:
    """One object's steps after `after`, up to and with `until`."""

    entity: Entity
    after: datetime
    until: datetime


@dataclass(frozen=True)
class Answer:
    """What one object measured: its steps' times, and of each series as many numbers (text)."""

    moid: str
    times: list[datetime]
    series: list[tuple[str, str, list[str]]]
    """(counter id, instance, numbers)"""


@dataclass
class Rounds:
    """Which steps were taken already, and which to ask for next."""

    taken: dict[str, datetime] = field(default_factory=dict)
    """By object: the newest step that was taken."""
    until: datetime | None = None
    """Up to here everybody was asked; None before the first round."""

    def next_until(self, now: datetime) -> datetime:
        """Up to when to ask everybody now (vCenter's own time)."""
        known = self.until or max(self.taken.values(), default=now - KEPT)
        return min(_at_a_step(now), _at_a_step(max(known, now - KEPT)) + SPAN)

    def questions(
        self, entities: Iterable[Entity], until: datetime, now: datetime
    ) -> Iterator[list[Question]]:
        """What to ask of these objects, in lists of one kind for one call each."""
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

    def take(self, answer: Answer) -> None:
        """Remember what was taken. Steps that are not there yet will be asked for again."""
        if answer.times:
            self.taken[answer.moid] = max(answer.times)


def counters_of(offered: Iterable[vim.PerformanceManager.CounterInfo]) -> Counters:
    """What of the wanted counters this vCenter offers, by its own ids."""
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
    """A question as vCenter takes it. The step at `startTime` itself is left out of its answer."""
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
    """The answers in the body of a QueryPerfResponse.

    Read here and not by pyVmomi, which makes an object of every number's wrapping: twelve times
    slower. Raises ElementTree.ParseError for what is no XML.
    """
    body = ElementTree.fromstring(soap)  # noqa: S314 - vCenter's, over verified TLS
    for each in body.iter(f"{_NAMESPACE}returnval"):
        steps = (each.findtext(f"{_NAMESPACE}sampleInfoCSV") or "").split(",")
        yield Answer(
            moid=each.findtext(f"{_NAMESPACE}entity") or "",
            # 20,2024-05-06T07:08:20Z,20,2024-05-06T07:08:40Z
            times=[datetime.fromisoformat(step).astimezone(UTC) for step in steps[1::2]],
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
    """The samples of one answer, without steps that were not asked for and numbers there are not.

    Of a virtual disk, the guest's latency of reads and writes together is their mean by the number
    of each.
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
        if question.after < at <= question.until
    ]
    for instance, fields in _by_instance(answer, counters[entity.kind]).items():
        device = f"{entity.vm}:{instance}" if entity.vm else instance
        for number, event_time in wanted:
            measured = {
                name: float(numbers[number]) * factor
                for name, factor, numbers in fields
                if numbers[number] and numbers[number] != _NOTHING
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


def _by_instance(
    answer: Answer, counters: Mapping[str, Measured]
) -> dict[str, list[tuple[str, float, list[str]]]]:
    """By instance: (field, factor, numbers). What is of all instances together is none of them."""
    found: dict[str, list[tuple[str, float, list[str]]]] = {}
    steps = len(answer.times)
    for counter, instance, numbers in answer.series:
        measured = counters.get(counter)
        if measured is not None and instance and len(numbers) == steps:
            found.setdefault(instance, []).append((measured.field, measured.factor, numbers))
    return found


def _of_both(measured: Mapping[str, float]) -> dict[str, float]:
    """Commands a second, and the guest's latency of a command, from those of reads and writes."""
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
    """The last end of a step up to this moment."""
    seconds = int(moment.timestamp())
    return datetime.fromtimestamp(seconds - seconds % int(STEP.total_seconds()), UTC)
