"""Tracks the hosts, VMs, datastores and clusters of a vCenter.

fleet = Fleet(session)
while True:
    stirred = fleet.wait(30)    # the VMs that were changed
    fleet.machines              # all VMs as they are now, by managed-object id

One property filter returns everything once, and then only what changes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyVmomi import vim, vmodl

from stunwatch.ingest.vcenter.names import host_name
from stunwatch.ingest.vcenter.session import Session
from stunwatch.ingest.vcenter.tags import read_tags

PROPERTIES: Final[Mapping[Any, tuple[str, ...]]] = {
    vim.VirtualMachine: (
        "name",
        "runtime.host",
        "datastore",
        "config.files",
        "customValue",
        # These change with operations that stun a VM.
        "recentTask",
        "snapshot",
        "runtime.powerState",
        "runtime.consolidationNeeded",
    ),
    vim.HostSystem: (
        "name",
        "parent",
        "config.network.dnsConfig.hostName",
        "config.network.dnsConfig.domainName",
    ),
    vim.ComputeResource: ("name",),
    vim.Datastore: ("name", "parent"),
    # The path of a datacenter consists of the folders above it.
    vim.Datacenter: ("name", "parent"),
    vim.Folder: ("name", "parent"),
}
TAGS_EVERY_S: Final = 300.0
FIRST_ANSWER_S: Final = 60
"""How long a vCenter may take for the first answer, which contains all objects."""

# [san-01] app01/app01.vmx, or [san-01] app01/
_DATASTORE_PATH = re.compile(r"\[(?P<datastore>.{1,255}?)\] ?(?P<path>.*)")

Reference = tuple[str, str]
"""A managed object: its type and its id."""


@dataclass(frozen=True)
class Machine:
    """A VM and the location of its logs."""

    id: str
    """The managed-object id, `vm-42`. It does not change while the VM is in this vCenter."""
    name: str
    """The display name, which users may change."""
    host: str
    cluster: str
    datacenter: str
    """Its inventory path: `europe/lab`."""
    datastore: str
    log_folder: str
    """The folder on the datastore: `app01`."""
    attributes: Mapping[str, str]
    tags: frozenset[str] = frozenset()
    """`category/name`; only if the fleet reads tags."""

    @property
    def folder_name(self) -> str:
        """Return the folder's name: the VM's name in all other sources, unchanged by a rename."""
        return self.log_folder.rpartition("/")[2]

    @property
    def share(self) -> str:
        """Return the datastore with its datacenter, a unique name. Work is divided by it."""
        return f"{self.datacenter}/{self.datastore}"

    @property
    def key(self) -> str:
        """Return the location of its logs."""
        return f"{self.share}/{self.log_folder}"


@dataclass(frozen=True)
class Selection:
    """Selects VMs. An empty field selects all."""

    clusters: frozenset[str] = frozenset()
    datastores: frozenset[str] = frozenset()
    attributes: frozenset[tuple[str, str]] = frozenset()
    """Custom attributes, (name, value). A VM must have one of them."""
    tags: frozenset[str] = frozenset()
    """`category/name`. A VM must have one of them."""

    def takes(self, machine: Machine) -> bool:
        """Return True if the VM is selected."""
        return (
            (not self.clusters or machine.cluster in self.clusters)
            and (not self.datastores or machine.datastore in self.datastores)
            and (not self.attributes or not self.attributes.isdisjoint(machine.attributes.items()))
            and (not self.tags or not self.tags.isdisjoint(machine.tags))
        )


class Fleet:
    """Tracks a vCenter's VMs. Use it from one thread only."""

    def __init__(self, session: Session, *, with_tags: bool = False) -> None:
        """`with_tags`: also read tags, every few minutes, because updates do not contain them."""
        self._session = session
        self._with_tags = with_tags
        self._tags: dict[str, frozenset[str]] = {}
        self._tags_at = float("-inf")
        self._logins = 0
        self._collector: Any = None
        self._version = ""
        self._known: dict[Reference, dict[str, Any]] = {}
        self._attribute_names: dict[int, str] = {}
        self.machines: dict[str, Machine] = {}

    def wait(self, seconds: int) -> set[str]:
        """Wait up to `seconds` for changes, and return as soon as there are any.

        Returns the ids of the VMs that changed; the first call returns all VMs. After a new login,
        everything is read again and the ids of the VMs that differ are returned.

        Raises VCenterError or a subclass.
        """
        tagged = self._read_tags()
        if self._collector is None or self._session.logins != self._logins:
            return self._begin()
        if tagged:
            self._place(tagged)
            return {id for _, id in tagged}
        try:
            told = self._take(self._updates(seconds))
        except (vmodl.fault.ManagedObjectNotFound, vmodl.query.InvalidCollectorVersion):
            self._collector = None
            return set()
        self._place(told)
        return {id for kind, id in told if kind == _MACHINE}

    def _read_tags(self) -> set[Reference]:
        """Return the VMs whose tags changed since the last read."""
        if not self._with_tags or time.monotonic() < self._tags_at + TAGS_EVERY_S:
            return set()
        before, self._tags = self._tags, read_tags(self._session)
        self._tags_at = time.monotonic()
        ids = before.keys() | self._tags.keys()
        changed = {id for id in ids if before.get(id) != self._tags.get(id)}
        return {(_MACHINE, id) for id in changed if id in self.machines}

    def _begin(self) -> set[str]:
        content = self._session.content
        self._logins = self._session.logins
        fields = content.customFieldsManager
        self._attribute_names = {each.key: each.name for each in fields.field} if fields else {}
        self._collector = content.propertyCollector.CreatePropertyCollector()
        self._collector.CreateFilter(_filter(content), False)
        self._version = ""
        self._known = {}
        told = self._take(self._updates(FIRST_ANSWER_S))
        if self._session.logins != self._logins:
            # The session expired in the meantime, and its filter with it.
            self._collector = None
            return set()
        before, self.machines = self.machines, {}
        self._place(told)
        return {
            id
            for id in before.keys() | self.machines.keys()
            if before.get(id) != self.machines.get(id)
        }

    def _updates(self, seconds: int) -> Iterator[Any]:
        options = vmodl.query.PropertyCollector.WaitOptions(maxWaitSeconds=seconds)
        is_more = True
        while is_more:
            updates = self._collector.WaitForUpdatesEx(self._version, options)
            if updates is None:
                return
            self._version = updates.version
            for each in updates.filterSet:
                yield from each.objectSet
            is_more = bool(updates.truncated)

    def _take(self, updates: Iterable[Any]) -> set[Reference]:
        """Store the updates; return the objects that they concern."""
        told = set()
        for update in updates:
            reference = _reference(update.obj)
            told.add(reference)
            if update.kind == "leave":
                self._known.pop(reference, None)
                continue
            known = self._known.setdefault(reference, {})
            for change in update.changeSet:
                known[change.name] = change.val if change.op == "assign" else None
        return told

    def _place(self, told: set[Reference]) -> None:
        """Update the given VMs; all VMs if another object changed too."""
        machines = {id for kind, id in told if kind == _MACHINE}
        if len(machines) < len(told):
            machines = {id for kind, id in self._known if kind == _MACHINE}
        for id in machines:
            machine = self._machine(id)
            if machine is None:
                self.machines.pop(id, None)
            else:
                self.machines[id] = machine

    def _machine(self, id: str) -> Machine | None:
        """Return a VM, or None if the location of its logs is not known yet."""
        known = self._known.get((_MACHINE, id), {})
        files, host = known.get("config.files"), self._get(known.get("runtime.host"))
        if not files or not host:
            return None
        place = _DATASTORE_PATH.fullmatch(files.logDirectory or files.vmPathName or "")
        if place is None:
            return None
        folder = place["path"].rstrip("/")
        if not files.logDirectory:
            folder = folder.rpartition("/")[0]
        # Two datacenters may have datastores with the same name.
        datastores = [self._get(each) for each in known.get("datastore") or ()]
        datastore = next(
            (each for each in datastores if each.get("name") == place["datastore"]), {}
        )
        return Machine(
            id=id,
            name=known["name"],
            host=host_name(
                host["name"],
                host.get("config.network.dnsConfig.hostName") or "",
                host.get("config.network.dnsConfig.domainName") or "",
            ),
            cluster=self._get(host.get("parent")).get("name", ""),
            datacenter=self._datacenter(datastore),
            datastore=place["datastore"],
            log_folder=folder,
            attributes={
                self._attribute_names[each.key]: each.value
                for each in known.get("customValue") or ()
                if each.key in self._attribute_names
            },
            tags=self._tags.get(id, frozenset()),
        )

    def _datacenter(self, known: Mapping[str, Any]) -> str:
        """Return the path of an object's datacenter."""
        names: list[str] = []
        parent = known.get("parent")
        while parent is not None and (above := self._get(parent)):
            if names or isinstance(parent, vim.Datacenter):
                names.append(above["name"])
            parent = above.get("parent")
        return "/".join(reversed(names))

    def _get(self, managed_object: Any) -> dict[str, Any]:
        """Return an object's known properties; empty for None and for the root folder."""
        return {} if managed_object is None else self._known.get(_reference(managed_object), {})


_MACHINE: Final = "VirtualMachine"


def _reference(managed_object: Any) -> Reference:
    return managed_object._wsdlName, managed_object._moId


def _filter(content: Any) -> Any:
    """Return a filter for all objects of the types in PROPERTIES, in any folder."""
    collector = vmodl.query.PropertyCollector
    view = content.viewManager.CreateContainerView(content.rootFolder, list(PROPERTIES), True)
    through = collector.TraversalSpec(
        name="view", path="view", skip=False, type=vim.view.ContainerView
    )
    return collector.FilterSpec(
        objectSet=[collector.ObjectSpec(obj=view, skip=True, selectSet=[through])],
        propSet=[
            collector.PropertySpec(type=each, pathSet=list(paths), all=False)
            for each, paths in PROPERTIES.items()
        ],
        reportMissingObjectsInResults=True,
    )
