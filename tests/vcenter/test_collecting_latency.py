"""vCenter's counters: queries, parsed answers, and that no step is queried twice."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from jsonschema import Draft202012Validator
from pyVmomi import vmodl

from stunwatch.ingest.records import kafka_key
from stunwatch.ingest.vcenter import latency
from stunwatch.ingest.vcenter.collectors.latency import Collector
from stunwatch.ingest.vcenter.latency import Answer, Entity, Measured, Question, Rounds
from stunwatch.ingest.vcenter.names import folder_in, host_name
from stunwatch.ingest.vcenter.session import READING_METHODS, Session
from stunwatch.shipping import Batch
from tests.vcenter.simulator import Simulator

RECORDED = Path(__file__).parent / "recorded"
SCHEMA = Draft202012Validator(
    orjson.loads((Path(__file__).parents[2] / "schemas/esxtop_sample.v1.schema.json").read_bytes())
)


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2024-05-06T{text}").replace(tzinfo=UTC)


HOST = Entity("host-21", "HostSystem", "esx01.lab.example")
VM = Entity("vm-42", "VirtualMachine", "esx01.lab.example", vm="web01")
COUNTERS = {
    "HostSystem": {
        "455": Measured("davg_ms", 1.0),
        "456": Measured("kavg_ms", 1.0),
        "459": Measured("commands_per_second", 1.0),
    },
    "VirtualMachine": {
        "532": Measured("gavg_read_ms", 0.001),
        "176": Measured("gavg_write_ms", 1.0),
        "171": Measured("reads_per_second", 1.0),
        "172": Measured("writes_per_second", 1.0),
    },
}


def recorded() -> dict[str, Answer]:
    soap = (RECORDED / "counters_of_a_host_and_a_vm.xml").read_bytes()
    return {each.moid: each for each in latency.answers_in(soap)}


def measured_in(answer: Answer, entity: Entity, after: str) -> list[dict[str, Any]]:
    question = Question(entity, at(after), at("08:00:00"))
    found = list(latency.samples(answer, question, COUNTERS, "2024-05-06T07:09:00Z"))
    for each in found:
        SCHEMA.validate(each)
        assert (each["source"], each["origin"], each["run_id"]) == ("esxtop", "vcenter", "live")
        assert kafka_key(each) == "esx01"
    same = ("received_at", "kind", "source", "origin", "host", "run_id", "time_quality")
    return [{key: value for key, value in each.items() if key not in same} for each in found]


def test_missing_values_of_a_device_are_left_out() -> None:
    one = {"object_class": "scsi_device", "device": "naa.6000c29f00000001"}
    first, second = (
        {**one, "event_time": "2024-05-06T07:08:00Z", "davg_ms": 3.0, "kavg_ms": 0.0}
        | {"commands_per_second": 120.0},
        {**one, "event_time": "2024-05-06T07:08:20Z", "davg_ms": 412.0, "kavg_ms": 2.0}
        | {"commands_per_second": 64.0},
    )
    answer = recorded()["host-21"]
    assert measured_in(answer, HOST, "07:07:59") == [first, second]
    assert measured_in(answer, HOST, "07:08:00") == [second]
    assert measured_in(answer, HOST, "07:08:40") == []


def test_a_virtual_disk_gets_milliseconds_and_the_weighted_mean_latency() -> None:
    busy, idle = measured_in(recorded()["vm-42"], VM, "07:08:00")
    assert busy == {
        "event_time": "2024-05-06T07:08:20Z",
        "object_class": "virtual_disk",
        "device": "web01:scsi0:0",
        "gavg_read_ms": 4.0,
        "gavg_write_ms": 16.0,
        "reads_per_second": 30.0,
        "writes_per_second": 10.0,
        "gavg_ms": 7.0,
        "commands_per_second": 40.0,
    }
    assert (idle["gavg_ms"], idle["commands_per_second"]) == (0.0, 0.0)


def test_an_object_without_measurements_has_no_steps() -> None:
    answer = recorded()["host-22"]
    assert (answer.times, answer.series) == ([], [])
    rounds = Rounds({"host-22": at("07:00:00")})
    rounds.take(answer, at("07:09:00"))
    assert rounds.taken == {"host-22": at("07:00:00")}


def info(group: str, name: str, rollup: str, key: int, unit: str) -> Any:
    return SimpleNamespace(
        groupInfo=SimpleNamespace(key=group),
        nameInfo=SimpleNamespace(key=name),
        unitInfo=SimpleNamespace(key=unit),
        rollupType=rollup,
        key=key,
    )


def test_counters_are_mapped_by_the_vcenters_ids_and_units() -> None:
    offered = [
        info("disk", "deviceLatency", "average", 7, "millisecond"),
        info("disk", "deviceLatency", "maximum", 8, "millisecond"),
        info("virtualDisk", "totalReadLatency", "average", 9, "microsecond"),
        info("cpu", "usage", "average", 10, "percent"),
    ]
    assert latency.counters_of(offered) == {
        "HostSystem": {"7": Measured("davg_ms", 1.0)},
        "VirtualMachine": {"9": Measured("gavg_read_ms", 0.001)},
    }


@pytest.mark.parametrize(
    ("taken", "until", "now", "expected"),
    [
        ({}, None, "08:00:07", "07:02:00"),  # never queried: from an hour ago, two minutes a round
        ({"host-21": at("07:59:20")}, None, "08:00:07", "08:00:00"),
        ({"host-21": at("07:30:00")}, None, "08:00:07", "07:32:00"),
        ({}, at("07:58:20"), "08:00:07", "08:00:00"),
        ({}, at("05:00:00"), "08:00:07", "07:02:00"),  # away for longer than hosts keep steps
    ],
)
def test_all_objects_are_queried_up_to_the_same_time(
    taken: dict[str, datetime], until: datetime | None, now: str, expected: str
) -> None:
    assert Rounds(taken, until).next_until(at(now)) == at(expected)


def test_a_host_that_is_behind_is_queried_from_its_own_position() -> None:
    rounds = Rounds({"host-21": at("07:20:00"), "host-22": at("08:00:00")}, at("07:59:40"))
    others = [Entity("host-22", "HostSystem", "b"), Entity("host-23", "HostSystem", "c")]
    [asked] = rounds.questions([HOST, *others], at("08:00:00"), at("08:00:07"))
    assert [(each.entity.moid, each.after) for each in asked] == [
        ("host-21", at("07:20:00")),
        # host-22 has no new steps; host-23 was never queried
        ("host-23", at("07:00:07")),
    ]


def test_a_call_has_one_type_of_object_and_a_limited_size() -> None:
    hosts = [Entity(f"host-{each}", "HostSystem", "h") for each in range(25)]
    vms = [Entity(f"vm-{each}", "VirtualMachine", "h", vm="v") for each in range(101)]
    calls = list(Rounds().questions([*vms, *hosts], at("08:00:00"), at("08:00:07")))
    assert sorted(map(len, calls)) == [1, 5, 10, 10, 100]
    assert all(len({each.entity.kind for each in call}) == 1 for call in calls)


@pytest.mark.parametrize(
    ("path", "folder"),
    [("[san-01] app01/app01.vmx", "app01"), ("[a b] x/y/z.vmx", "y"), ("[nfs] lone.vmx", "")],
)
def test_a_vm_gets_the_name_of_its_folder(path: str, folder: str) -> None:
    assert folder_in(path) == folder


@pytest.mark.parametrize(
    ("in_vcenter", "own_name", "own_domain", "shown"),
    [
        ("esx01.lab.example", "esx01", "lab.example", "esx01.lab.example"),
        ("esx01.lab.example", "esx01", None, "esx01.lab.example"),
        ("192.0.2.7", "esx01", "lab.example", "esx01.lab.example"),
        ("esx01", "esx01.lab.example", "lab.example", "esx01.lab.example"),
        ("cn01.lab.example", "esx01", "lab.example", "esx01.lab.example"),
        ("esx01.lab.example", "localhost", "localdomain", "esx01.lab.example"),
        ("192.0.2.7", None, None, "192.0.2.7"),
    ],
)
def test_a_host_gets_the_name_in_its_own_log_lines(
    in_vcenter: str, own_name: str | None, own_domain: str | None, shown: str
) -> None:
    assert host_name(in_vcenter, own_name, own_domain) == shown


class Shipped:
    """Collects what would be sent to Kafka."""

    def __init__(self) -> None:
        self.samples: list[dict[str, Any]] = []

    def send(self, topic: str, batch: Batch) -> None:
        assert topic == "esxi.vcenter"
        self.samples += [orjson.loads(each["value"]) for each in batch]

    @property
    def steps(self) -> list[tuple[str, str, str]]:
        return [(each["host"], each["device"], each["event_time"]) for each in self.samples]


@pytest.fixture
def vcenter(tmp_path: Path) -> Iterator[Simulator]:
    with Simulator(tmp_path, hosts=3, vms=4, datastores=2) as made:
        yield made


def catch_up(collector: Collector) -> int:
    """Run rounds until there is nothing more to query."""
    rounds = 1
    while collector.round().is_behind:
        rounds += 1
    return rounds


def test_every_step_is_read_once_across_restarts_of_collector_and_vcenter(
    vcenter: Simulator,
) -> None:
    shipped = Shipped()
    session = Session(vcenter.address, vcenter.credentials)
    first = Collector(session, shipped.send, Rounds())
    assert catch_up(first) >= 29
    vcenter.stop()
    vcenter.start()
    # Another collector continues where the first one stopped.
    second = Collector(session, shipped.send, Rounds(first.rounds.taken))
    catch_up(second)
    session.close()

    assert len(set(shipped.steps)) == len(shipped.steps)
    by_device: dict[tuple[str, str], list[datetime]] = {}
    for host, device, event_time in shipped.steps:
        by_device.setdefault((host, device), []).append(datetime.fromisoformat(event_time))
    assert len(by_device) == 3 * 2 + 4
    for times in by_device.values():
        assert len(times) >= 178
        gaps = {later - earlier for earlier, later in pairwise(sorted(times))}
        assert gaps == {latency.STEP}
    assert vcenter.called() <= READING_METHODS


def test_names_in_samples_equal_those_in_log_lines(vcenter: Simulator) -> None:
    shipped = Shipped()
    session = Session(vcenter.address, vcenter.credentials)
    Collector(session, shipped.send, Rounds()).round()
    session.close()
    assert {each["host"] for each in shipped.samples} == {
        f"esx00{each}.lab.example" for each in (1, 2, 3)
    }
    devices = {each["device"] for each in shipped.samples if each["object_class"] == "scsi_device"}
    assert devices == {f"naa.6000c29f00000000000000000000000{each}" for each in (1, 2)}
    disks = {each["device"] for each in shipped.samples if each["object_class"] == "virtual_disk"}
    assert disks == {f"app000{each}:scsi0:0" for each in (1, 2, 3, 4)}


class WithoutOne:
    """A session whose vCenter refuses every call with one object, as if it were deleted."""

    content = SimpleNamespace(perfManager=None)

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def undecoded(self, _: object) -> WithoutOne:
        return self

    def QueryPerf(self, specs: list[Any]) -> bytes:
        named = [each.entity._moId for each in specs]
        self.calls.append(named)
        if "host-gone" in named:
            raise vmodl.fault.ManagedObjectNotFound()
        found = "".join(
            f"<returnval><entity>{each}</entity>"
            "<sampleInfoCSV>20,2024-05-06T07:59:40Z</sampleInfoCSV></returnval>"
            for each in named
        )
        return f'<body xmlns="urn:vim25">{found}</body>'.encode()


def test_a_deleted_object_does_not_lose_the_steps_of_others() -> None:
    session = WithoutOne()
    collector = Collector(session, Shipped().send, Rounds())  # type: ignore[arg-type]
    names = ("host-1", "host-gone", "host-3", "host-4", "host-5")
    asked = [Entity(each, "HostSystem", each) for each in names]
    batch = [Question(each, at("07:59:20"), at("07:59:40")) for each in asked]
    collector._counters = COUNTERS
    answers = [answer.moid for _, answer in collector._ask(batch)]
    assert answers == ["host-1", "host-3", "host-4", "host-5"]
    assert session.calls[-1] == ["host-3", "host-4", "host-5"]
