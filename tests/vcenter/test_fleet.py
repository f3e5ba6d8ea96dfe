"""The VMs of a simulated vCenter, and their changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stunwatch.ingest.vcenter import fleet as fleets
from stunwatch.ingest.vcenter.fleet import Fleet, Machine, Selection
from stunwatch.ingest.vcenter.session import READING_METHODS, NotReadingError, Session
from tests.vcenter.simulator import Simulator


@pytest.fixture
def vcenter(tmp_path: Path) -> Iterator[Simulator]:
    with Simulator(tmp_path, clusters=2, hosts=3, vms=6, datastores=2) as made:
        yield made


@pytest.fixture
def session(vcenter: Simulator) -> Iterator[Session]:
    made = Session(vcenter.address, vcenter.credentials)
    yield made
    made.close()


def named(fleet: Fleet, name: str) -> Machine:
    return next(each for each in fleet.machines.values() if each.name == name)


def wait_until(fleet: Fleet, is_so: Callable[[], bool]) -> set[str]:
    """Wait until a condition is true; return the ids of changed VMs until then."""
    told: set[str] = set()
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline
        told |= fleet.wait(1)
    return told


def test_the_first_call_returns_all_vms(vcenter: Simulator, session: Session) -> None:
    fleet = Fleet(session)
    assert fleet.wait(1) == set(fleet.machines)
    assert {each.name for each in fleet.machines.values()} == set(vcenter.folders())
    machine = named(fleet, "app0002")
    assert machine == Machine(
        id=machine.id,
        name="app0002",
        host="esx002.lab.example",
        cluster="cluster-2",
        datacenter="lab",
        datastore="san-02",
        log_folder="app0002",
        attributes={},
    )
    assert (machine.share, machine.key) == ("lab/san-02", "lab/san-02/app0002")
    assert fleet.wait(1) == set()


def test_later_calls_return_only_changed_vms(vcenter: Simulator, session: Session) -> None:
    fleet = Fleet(session)
    fleet.wait(1)
    machine = named(fleet, "app0001")
    vcenter.snapshot("app0001")
    assert wait_until(fleet, lambda: bool(fleet.wait(1))) <= {machine.id}
    vcenter.migrate("app0001", "esx003.lab.example")
    wait_until(fleet, lambda: named(fleet, "app0001").host == "esx003.lab.example")
    vcenter.move("app0001", "san-02")
    wait_until(fleet, lambda: named(fleet, "app0001").key == "lab/san-02/app0001")
    assert vcenter.called() >= {"WaitForUpdatesEx", "CreateFilter"}
    assert not {"RetrievePropertiesEx", "RetrieveProperties"} & vcenter.called()


def test_after_a_lost_session_changed_vms_are_returned(
    vcenter: Simulator, session: Session
) -> None:
    fleet = Fleet(session)
    fleet.wait(1)
    vcenter.end_sessions()
    vcenter.migrate("app0001", "esx003.lab.example")
    moved = named(fleet, "app0001").id
    told = wait_until(fleet, lambda: named(fleet, "app0001").host == "esx003.lab.example")
    assert told == {moved}
    vcenter.stop()
    vcenter.start()
    # The simulator does not keep the move across its restart.
    told = wait_until(fleet, lambda: named(fleet, "app0001").host == "esx001.lab.example")
    assert told == {moved}


def test_tags_and_attributes_are_read(
    vcenter: Simulator, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleets, "TAGS_EVERY_S", 0.0)
    vcenter.set_attribute("app0002", "backup", "nightly")
    vcenter.add_tag("app0003", "tier", "gold")
    fleet = Fleet(session, with_tags=True)
    fleet.wait(1)
    assert named(fleet, "app0002").attributes == {"backup": "nightly"}
    assert named(fleet, "app0003").tags == {"tier/gold"}
    vcenter.add_tag("app0004", "backup", "weekly")
    wait_until(fleet, lambda: named(fleet, "app0004").tags == {"backup/weekly"})
    with pytest.raises(NotReadingError, match="tagging/tag/id:1"):
        session.ask_rest("DELETE", "/rest/com/vmware/cis/tagging/tag/id:1")


def test_a_selection_matches_only_the_given_values() -> None:
    machine = Machine(
        id="vm-1",
        name="app0001",
        host="esx001",
        cluster="gold",
        datacenter="lab",
        datastore="san-01",
        log_folder="app0001",
        attributes={"backup": "nightly"},
        tags=frozenset({"tier/gold"}),
    )
    assert Selection().takes(machine)
    assert Selection(clusters=frozenset({"gold", "silver"})).takes(machine)
    assert Selection(attributes=frozenset({("backup", "nightly")})).takes(machine)
    assert Selection(tags=frozenset({"tier/gold"})).takes(machine)
    assert not Selection(tags=frozenset({"tier/silver"})).takes(machine)
    assert not Selection(datastores=frozenset({"san-01"})).takes(
        replace(machine, datastore="san-02")
    )
    assert not Selection(
        clusters=frozenset({"gold"}), attributes=frozenset({("backup", "weekly")})
    ).takes(machine)


def test_no_allowed_method_changes_anything() -> None:
    """Tasks end with _Task. Methods that change something start with other words than these."""
    own = {"Login", "Logout"} | {
        each
        for each in READING_METHODS
        if each.endswith(("Collector", "Filter", "View", "ForEvents", "ForTasks", "PageSize"))
    }
    verbs = ("Retrieve", "Continue", "Cancel", "Query", "Read", "Fetch", "Has", "WaitFor", "Check")
    assert {each for each in READING_METHODS - own if not each.startswith(verbs)} == {"CurrentTime"}
