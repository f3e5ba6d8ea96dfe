"""Inventory from vCenter: shipped once, and again only if it has changed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import orjson
import pytest
from jsonschema import Draft202012Validator
from pyVmomi import SoapStubAdapter, vim
from pyVmomi.VmomiSupport import versionMap

from stunwatch.definitions import events
from stunwatch.ingest.vcenter.collectors.inventory import Collector
from stunwatch.ingest.vcenter.inventory import Surroundings, host_parts, machine, mappings_part
from stunwatch.ingest.vcenter.session import API_VERSION, READING_METHODS, Session
from stunwatch.ingest.vcenter.tasks import Snapshot, Task, named, task_in
from stunwatch.shipping import Batch
from tests.vcenter import vmomi
from tests.vcenter.simulator import Simulator

RECORDED = Path(__file__).parent / "recorded"
SCHEMAS = Path(__file__).parents[2] / "schemas"
VALID = {
    topic: event.message for topic, event in events().items() if "collector" in event.written_by
}
BACKUP = "LAB\\backup"
WRITTEN_BY_OTHERS = {
    *("PostEvent", "EnterMaintenanceMode_Task", "ExitMaintenanceMode_Task"),
    *("CreateSnapshot_Task", "RemoveSnapshot_Task"),
}
SURROUNDINGS = Surroundings({"domain-c7": "gold"}, {101: "owner"})


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2024-05-06T{text}").replace(tzinfo=UTC)


class Shipped:
    """Collects what would be sent to Kafka, and checks it against the schemas."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {topic: [] for topic in VALID}

    def send(self, topic: str, batch: Batch) -> None:
        schema = orjson.loads((SCHEMAS / f"{VALID[topic]}.schema.json").read_bytes())
        for each in batch:
            row = orjson.loads(each["value"])
            Draft202012Validator(schema).validate(row)
            self.rows[topic].append(row)

    @property
    def items(self) -> list[dict[str, Any]]:
        return self.rows["events.inventory"]

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [each for each in self.items if each["kind"] == kind]


CASES = sorted(path.name for path in RECORDED.glob("host_*.yaml"))


@pytest.mark.parametrize("name", CASES)
def test_a_recorded_host_gives_the_expected_facts(name: str) -> None:
    case = vmomi.load(RECORDED / name)
    vms = [machine(moid, vm, SURROUNDINGS) for moid, vm in case["vms"].items()]
    found = [
        *chain(*host_parts("host-21", case["host"], SURROUNDINGS).values()),
        *chain(*(vm.facts for vm in vms if vm)),
        *mappings_part(vm for vm in vms if vm),
    ]
    shown = [
        {"kind": each.kind, "told_by": each.told_by}
        | {name: value for name, value in each.said if value not in (None, "", [])}
        for each in found
    ]
    assert shown == case["facts"]


def task(kind: str, asked_at: str, vm: str = "vm-42") -> Task:
    return Task("task-1", kind, BACKUP, at(asked_at), "host-21", "h", vm, "web01", "")


OLD, OTHER = (1, "old", "03:00:00"), (2, "other", "04:00:00")


@pytest.mark.parametrize(
    ("kind", "before", "after", "name"),
    [
        ("snapshot_create", [], [(1, "nightly", "07:00:01")], "nightly"),
        # The host's clock may be behind.
        ("snapshot_create", [], [(1, "nightly", "06:59:57")], "nightly"),
        ("snapshot_create", [OLD], [OLD], ""),
        (
            "snapshot_create",
            [OLD],
            [OLD, (2, "nightly", "07:00:02"), (3, "later", "07:00:40")],
            "nightly",
        ),
        ("snapshot_remove", [OLD, OTHER], [OTHER], "old"),
        # Two were removed, and it is unknown which of them by this task.
        ("snapshot_remove", [OLD, OTHER], [], ""),
        ("snapshot_remove", [], [], ""),
        ("snapshot_remove_all", [OLD], [], ""),
    ],
)
def test_a_task_gets_the_name_of_its_snapshot(
    kind: str,
    before: list[tuple[int, str, str]],
    after: list[tuple[int, str, str]],
    name: str,
) -> None:
    had, has = (
        {"vm-42": [Snapshot(number, text, at(when)) for number, text, when in each]}
        for each in (before, after)
    )
    [told] = named([task(kind, "07:00:00")], had, has)
    assert told.snapshot_name == name


@pytest.mark.parametrize(
    ("description", "kind"),
    [
        ("VirtualMachine.createSnapshot", "snapshot_create"),
        ("vm.Snapshot.remove", "snapshot_remove"),
        ("Drm.ExecuteVMotionLRO", "migrate"),
        ("HostSystem.enterMaintenanceMode", "maintenance_enter"),
        ("VirtualMachine.reconfigure", None),
        ("com.example.notcreateSnapshot", None),
    ],
)
def test_only_tasks_of_known_kinds_are_kept(description: str, kind: str | None) -> None:
    found = task_in(event(description))
    assert (found.kind if found else None) == kind


def event(description: str) -> Any:
    return vim.event.TaskEvent(
        key=7,
        chainId=7,
        createdTime=at("07:00:00"),
        userName=BACKUP,
        info=vim.TaskInfo(key="task-1", descriptionId=description),
    )


@pytest.fixture
def vcenter(tmp_path: Path) -> Iterator[Simulator]:
    with Simulator(tmp_path, hosts=3, vms=4, datastores=2) as made:
        yield made


class Administrator:
    """Another user who changes things, through a different session that may write."""

    def __init__(self, vcenter: Simulator) -> None:
        soap = SoapStubAdapter(
            host=vcenter.address.host,
            port=vcenter.address.port,
            version=versionMap[API_VERSION],
            sslContext=vcenter.address.context(),
        )
        self.content = vim.ServiceInstance("ServiceInstance", soap).RetrieveContent()
        self.content.sessionManager.Login(vcenter.credentials.user, vcenter.credentials.password)

    def log(self, event_type: type, **about: Any) -> None:
        """Log an event, because the simulator does not log everything that a vCenter does."""
        given = {"key": 0, "chainId": 0, "createdTime": datetime.now(UTC), "userName": BACKUP}
        self.content.eventManager.PostEvent(event_type(**given | about))

    def log_task(self, description_id: str, key: str, **about: Any) -> None:
        info = vim.TaskInfo(
            key=key,
            task=vim.Task(key),
            descriptionId=description_id,
            state="queued",
            cancelled=False,
            cancelable=False,
            reason=vim.TaskReasonUser(userName=BACKUP),
            queueTime=datetime.now(UTC),
            eventChainId=0,
        )
        self.log(vim.event.TaskEvent, info=info, fullFormattedMessage=f"Task: {key}", **about)

    def find(self, kind: type, name: str) -> Any:
        view = self.content.viewManager.CreateContainerView(self.content.rootFolder, [kind], True)
        return next(each for each in view.view if each.name == name)


def test_a_second_sweep_ships_nothing(vcenter: Simulator) -> None:
    shipped = Shipped()
    session = Session(vcenter.address, vcenter.credentials)
    collector = Collector(session, shipped.send)
    assert collector.sweep() == len(shipped.items)
    hosts = {f"esx00{each}.lab.example" for each in (1, 2, 3)}
    assert {each["host"] for each in shipped.items} == hosts
    assert {(each["host"], each["cluster"]) for each in shipped.of_kind("host")} == {
        (host, "cluster-1") for host in hosts
    }
    assert {(each["device"], each["datastore"]) for each in shipped.of_kind("extent")} == {
        (f"naa.6000c29f00000000000000000000000{each}", f"san-0{each}") for each in (1, 2)
    }
    assert {(each["vm"], each["datastore"]) for each in shipped.of_kind("virtual_machine")} == {
        ("app0001", "san-01"),
        ("app0002", "san-02"),
        ("app0003", "san-01"),
        ("app0004", "san-01"),
    }
    assert len(shipped.of_kind("listing")) == 2 * len(hosts)
    assert collector.sweep() == 0
    # The fingerprints are kept across a restart.
    assert Collector(session, shipped.send, collector.memory).sweep() == 0
    session.close()
    assert vcenter.called() <= READING_METHODS


def test_the_start_and_end_of_maintenance_are_shipped(vcenter: Simulator) -> None:
    shipped = Shipped()
    session = Session(vcenter.address, vcenter.credentials)
    collector = Collector(session, shipped.send)
    collector.sweep()
    collector.follow()
    administrator = Administrator(vcenter)
    host = administrator.find(vim.HostSystem, "esx002.lab.example")
    named = vim.event.HostEventArgument(host=host, name=host.name)
    for change, event_type, is_in in (
        (host.EnterMaintenanceMode, vim.event.EnteredMaintenanceModeEvent, True),
        (host.ExitMaintenanceMode, vim.event.ExitMaintenanceModeEvent, False),
    ):
        before = len(shipped.items)
        change(timeout=0)
        administrator.log(event_type, host=named)
        items, _ = collector.follow()
        assert items == len(shipped.items) - before
        [told] = [each for each in shipped.items[before:] if each["kind"] == "host"]
        assert (told["host"], told["is_in_maintenance"]) == ("esx002.lab.example", is_in)
    assert collector.follow() == (0, 0)
    session.close()


def test_snapshot_tasks_have_their_user_and_snapshot_name(vcenter: Simulator) -> None:
    shipped = Shipped()
    session = Session(vcenter.address, vcenter.credentials)
    collector = Collector(session, shipped.send)
    collector.sweep()
    collector.follow()
    administrator = Administrator(vcenter)
    vm = administrator.find(vim.VirtualMachine, "app0003")
    about = {
        "vm": vim.event.VmEventArgument(vm=vm, name="app0003"),
        "host": vim.event.HostEventArgument(
            host=administrator.find(vim.HostSystem, "esx003.lab.example"), name="as it was added"
        ),
    }
    administrator.log_task("VirtualMachine.createSnapshot", "task-1", **about)
    vm.CreateSnapshot(name="nightly", memory=False, quiesce=False)
    assert collector.follow()[1] == 1
    administrator.log_task("vm.Snapshot.remove", "task-2", **about)
    [tree] = vm.snapshot.rootSnapshotList
    tree.snapshot.RemoveSnapshot_Task(removeChildren=False)
    assert collector.follow()[1] == 1
    session.close()

    told = shipped.rows["events.task"]
    assert [
        (each["kind"], each["user_name"], each["vm"], each["datastore"], each["snapshot_name"])
        for each in told
    ] == [
        # In the simulator, the user of an event is the one who logs it.
        ("snapshot_create", vcenter.credentials.user, "app0003", "san-01", "nightly"),
        ("snapshot_remove", vcenter.credentials.user, "app0003", "san-01", "nightly"),
    ]
    assert {each["host"] for each in told} == {"esx003.lab.example"}
    assert len({each["event_id"] for each in told}) == 2
    assert vcenter.called() - WRITTEN_BY_OTHERS <= READING_METHODS
