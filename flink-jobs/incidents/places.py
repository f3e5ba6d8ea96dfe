"""Where things are: which device carries a datastore, and what array a device belongs to.

Learned from `events.inventory`: outputs that were loaded, and log lines that name both a device and
a volume. The newest word counts. Without any of it everything still works, with wider scopes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_NAA_6 = re.compile(r"naa\.6[0-9a-f]{31}")
_SERIAL_END = 4 + 16
"""Of `naa.6` + company (6 hex digits) + the vendor's own (9), which most arrays fill with their
serial number; what follows numbers the LUN."""

_TEXTS = (
    *("device", "datastore", "datastore_uuid", "vendor", "model", "array_type", "path_policy"),
    *("alias", "host", "observed_at"),
)
"""What an item says in words, where it says it."""


@dataclass
class Device:
    """What inventory says of a device."""

    said_at: str = ""
    datastores: set[str] = field(default_factory=set)
    vendor: str = ""
    model: str = ""
    array_type: str = ""
    path_policy: str = ""
    is_local: bool = False
    is_perennially_reserved: bool = False
    has_raw_mapping: bool = False


@dataclass
class Places:
    """All that inventory says. Names of devices and datastores are as the hosts write them."""

    devices: dict[str, Device] = field(default_factory=dict)
    carriers: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Of a datastore's name or UUID: when it was said, and the first device of it."""
    names: dict[str, str] = field(default_factory=dict)
    """Of a datastore's UUID, its name."""
    aliases: dict[str, str] = field(default_factory=dict)
    """Of another name of a host, the name that is shown."""
    extents_listed_at: str = ""
    """When some host last listed all its extents: only then is it known what lies on a LUN."""

    def learn(self, item: Mapping[str, Any]) -> None:
        """Take in an item (schemas/inventory_item.v1).

        Raises KeyError or TypeError where it breaks its schema; then nothing was learned.
        """
        for name in _TEXTS:
            if not isinstance(item.get(name, ""), str | None):
                raise TypeError(f"{name} {item[name]!r} is no text")
        kind = item["kind"]
        if item["is_deleted"]:
            return
        if kind == "extent" and item["device"]:
            self._extent(item)
        elif kind == "device":
            self._device(item)
        elif kind == "raw_device_mapping" and item["device"]:
            self.devices.setdefault(item["device"], Device()).has_raw_mapping = True
        elif kind == "host_alias":
            self.aliases[item["alias"]] = item["host"]
        elif kind == "listing" and item["told_by"] in ("vmfs extent list", "vcenter extents"):
            self.extents_listed_at = max(self.extents_listed_at, item["observed_at"])

    def _extent(self, item: Mapping[str, Any]) -> None:
        said = item["observed_at"]
        uuid, name, device = item["datastore_uuid"], item["datastore"], item["device"]
        for datastore in filter(None, (uuid, name)):
            before = self.carriers.get(datastore)
            # Of several extents the first one stands for the datastore.
            if before is None or (before[0] < said and before[1] != device):
                self.carriers[datastore] = said, device
        if uuid and name:
            self.names[uuid] = name
        if name or uuid:
            self.devices.setdefault(device, Device()).datastores.add(name or uuid)

    def _device(self, item: Mapping[str, Any]) -> None:
        device = self.devices.setdefault(item["device"], Device())
        device.vendor = item.get("vendor") or device.vendor
        device.model = item.get("model") or device.model
        device.array_type = item.get("array_type") or device.array_type
        device.path_policy = item.get("path_policy") or device.path_policy
        device.is_local = item.get("is_local") or device.is_local
        device.is_perennially_reserved = (
            item.get("is_perennially_reserved") or device.is_perennially_reserved
        )

    def host(self, name: str) -> str:
        """The name that is shown for a host's name or address."""
        return self.aliases.get(name, name)

    def device_of(self, datastore: str) -> str:
        """The device that carries a datastore (name or UUID); empty where nobody said."""
        return self.carriers[datastore][1] if datastore in self.carriers else ""

    def datastore_name(self, datastore: str) -> str:
        """The name of a datastore that is given by name or UUID."""
        return self.names.get(datastore, datastore)

    def datastores_on(self, device: str) -> set[str]:
        """The names of the datastores on a device."""
        known = self.devices.get(device)
        return {self.datastore_name(each) for each in known.datastores} if known else set()

    def array_of(self, device: str) -> str:
        """What names the device's array; empty where nothing tells."""
        if _NAA_6.fullmatch(device):
            return device[:_SERIAL_END]
        return ""

    def is_same_array(self, device: str, other: str) -> bool | None:
        """Whether two devices belong to one array; None where nothing tells."""
        arrays = self.array_of(device), self.array_of(other)
        if all(arrays) and arrays[0] == arrays[1]:
            return True
        makes = [
            (known.vendor.strip().upper(), known.model.strip().upper())
            for each in (device, other)
            if (known := self.devices.get(each)) and known.vendor
        ]
        return False if len(set(makes)) == 2 else None

    def arrays_known(self) -> int:
        """How many arrays inventory tells of, local disks left out."""
        return len(
            {self.array_of(name) for name, each in self.devices.items() if not each.is_local} - {""}
        )
