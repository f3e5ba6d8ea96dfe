"""What there is in an evening: a few hosts that see the LUNs they are told to, and their VMs.

Times, loads and noise come from the seed; names, devices and UUIDs come from the site's name too,
so that any evenings can be replayed into one pipeline.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from stunwatch.simulation.fleet import (
    ERAS,
    MINUTE_US,
    Array,
    Datastore,
    Fleet,
    Host,
    VirtualMachine,
)

_ERAS = {era.name: era for era in ERAS}
_VM_NAMES = ("sql", "web", "app", "mail", "file", "dc", "build", "oracle", "erp prod ", "crm_")
_ESXTOP_ZONES = (("UTC", 0), ("UTC", 0), ("UTC", 0), ("Central European Time", 60))
DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Make:
    """A make of arrays, as esxcli tells it."""

    vendor: str
    model: str
    vendor_id: str
    """The first digits of its LUNs' naa names."""
    array_type: str
    """The storage array type plug-in that claims it."""
    policy: str = "VMW_PSP_RR"
    is_iscsi: bool = False
    """Each of its LUNs is a target of its own."""


NETAPP = Make("NETAPP", "LUN", "naa.60a98000", "VMW_SATP_ALUA")
CLARIION = Make("DGC", "VRAID", "naa.6006016", "VMW_SATP_ALUA_CX")
EQUALLOGIC = Make("EQLOGIC", "100E-00", "naa.6090a038", "VMW_SATP_EQL", is_iscsi=True)
HITACHI = Make("HITACHI", "OPEN-V", "naa.60060e80", "VMW_SATP_DEFAULT_AA")
LOCAL = Make("HP", "LOGICAL VOLUME", "naa.600508b1001c", "VMW_SATP_LOCAL", "VMW_PSP_FIXED")


@dataclass(slots=True)
class Site:
    """A fleet that is put together piece by piece."""

    fleet: Fleet
    dice: random.Random
    """Of what happens: the same with the cause and without."""
    names: random.Random
    """Of what things are called by machines."""
    makes: dict[str, Make]
    """By the array's name."""
    policies: dict[str, str]
    """By the array's name, where it is not what the make wants."""
    locals: dict[str, Datastore]
    """Each host's own disk, by the host's name."""

    @staticmethod
    def of(seed: int, name: str, started_us: int, minutes: int) -> Site:
        """With nothing in it yet. `name` is a word and nobody else's."""
        fleet = Fleet(seed, name, started_us, started_us + minutes * MINUTE_US, [], [], [])
        names = random.Random(f"site/{name}")
        return Site(fleet, random.Random(f"site/{seed}"), names, {}, {}, {})

    @property
    def arrays(self) -> list[Array]:
        """The shared ones."""
        return self.fleet.arrays

    def array(self, label: str, make: Make, luns: int) -> list[Datastore]:
        """An array with so many LUNs, each with a volume on it. Their numbers are nobody else's."""
        array = Array(f"{label}-{self.fleet.name}", make.vendor_id)
        self.makes[array.name] = make
        serial = self._digits(12)
        first = 1 + len(self.fleet.datastores)
        for number in range(1, luns + 1):
            name = f"{label}-{self.fleet.name}-{number:02}"
            if number == 3:
                name = f"{label} pool ({number}) {self.fleet.name}"
            lun = first + number - 1
            array.datastores.append(
                Datastore(name, self._uuid(), self._device(make, serial), lun, array)
            )
        self.fleet.arrays.append(array)
        return array.datastores

    def host(self, era: str, datastores: Sequence[Datastore], esxtop_step_s: int = 0) -> Host:
        """A host of an era that sees these LUNs; its esxtop steps are drawn if none are given."""
        dice, number = self.dice, len(self.fleet.hosts)
        host = Host(
            number=number,
            name=f"esx{number + 1:02}-{self.fleet.name}.sim.example",
            era=_ERAS[era],
            address=f"192.0.2.{number + 10}",
            cpus=dice.choice((8, 16, 24)),
            boot_us=self.fleet.started_us
            - dice.randrange(2, 200) * DAY_US
            - dice.randrange(DAY_US),
            zone_minutes=0,
            by_syslog=dice.random() < 0.3 and not _ERAS[era].is_yearless,
            esxtop_step_s=esxtop_step_s or dice.choice((10, 15, 20)),
            esxtop_zone=dice.choice(_ESXTOP_ZONES),
        )
        host.datastores = list(datastores)
        self.fleet.hosts.append(host)
        return host

    def local_disk(self, host: Host) -> Datastore:
        """A volume on a disk of the host's own."""
        array = Array(f"local-{host.label}", LOCAL.vendor_id)
        self.makes[array.name] = LOCAL
        made = Datastore(
            f"local-{host.label}", self._uuid(), self._device(LOCAL), 0, array, is_local=True
        )
        self.locals[host.name] = made
        host.datastores.append(made)
        return made

    def vms(self, host: Host, datastore: Datastore, count: int) -> list[VirtualMachine]:
        """So many more VMs on a host, their home in a datastore."""
        return [self._vm(host, datastore) for _ in range(count)]

    def make_of(self, datastore: Datastore) -> Make:
        """Of the array that it lies on."""
        return self.makes[datastore.array.name]

    def policy_of(self, datastore: Datastore) -> str:
        """Its path selection policy."""
        return self.policies.get(datastore.array.name, self.make_of(datastore).policy)

    def targets_of(self, datastore: Datastore) -> tuple[int, int]:
        """Its array's two ports: the first by the first adapter, the second by the other."""
        first = 2 * self.arrays.index(datastore.array)
        return first, first + 1

    def _vm(self, host: Host, datastore: Datastore) -> VirtualMachine:
        dice, number = self.dice, len(self.fleet.vms)
        vm = VirtualMachine(
            number=number,
            name=f"{dice.choice(_VM_NAMES)}{number:02}-{self.fleet.name}",
            host=host,
            datastore=datastore,
            disks=dice.choices((1, 2), (80, 20))[0],
            world=1100 + number if host.era.is_yearless else dice.randrange(33_000, 90_000),
            memory_pages=dice.choice((262_144, 524_288, 1_048_576)),
            is_cbt=dice.random() < 0.7,
            is_quiesced=dice.random() < 0.5,
            has_modes_only=False,
            is_shipped=True,
            snapshot_id=dice.randrange(1, 90),
        )
        self.fleet.vms.append(vm)
        host.vms.append(vm)
        return vm

    def _device(self, make: Make, serial: str = "") -> str:
        """A LUN's name begins with its array's."""
        begins = make.vendor_id + serial
        return begins + self._digits(36 - len(begins))

    def _uuid(self) -> str:
        return "-".join(self._digits(count) for count in (8, 8, 4, 12))

    def _digits(self, count: int) -> str:
        return f"{self.names.getrandbits(4 * count):0{count}x}"
