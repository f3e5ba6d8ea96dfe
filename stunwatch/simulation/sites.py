"""Builds the site of a scenario: a few hosts with given LUNs, and their VMs.

Times, loads and noise depend on the seed. Names, devices and UUIDs also depend on the site's name,
so that any scenarios can be replayed into one pipeline.
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
    """A make of arrays, as in esxcli outputs."""

    vendor: str
    model: str
    vendor_id: str
    """The first digits of the naa names of its LUNs."""
    array_type: str
    """The storage array type plug-in (SATP) that claims it."""
    policy: str = "VMW_PSP_RR"
    is_iscsi: bool = False
    """Each of its LUNs has its own target."""


NETAPP = Make("NETAPP", "LUN", "naa.60a98000", "VMW_SATP_ALUA")
CLARIION = Make("DGC", "VRAID", "naa.6006016", "VMW_SATP_ALUA_CX")
EQUALLOGIC = Make("EQLOGIC", "100E-00", "naa.6090a038", "VMW_SATP_EQL", is_iscsi=True)
HITACHI = Make("HITACHI", "OPEN-V", "naa.60060e80", "VMW_SATP_DEFAULT_AA")
LOCAL = Make("HP", "LOGICAL VOLUME", "naa.600508b1001c", "VMW_SATP_LOCAL", "VMW_PSP_FIXED")


@dataclass(slots=True)
class Site:
    """A fleet that is built step by step."""

    fleet: Fleet
    rng: random.Random
    """Random generator for events: the same with the cause and without."""
    names: random.Random
    """Random generator for names that machines assign."""
    makes: dict[str, Make]
    """By the array's name."""
    policies: dict[str, str]
    """Path policies by the array's name, if they differ from the make's default."""
    locals: dict[str, Datastore]
    """Each host's own disk, by the host's name."""

    @staticmethod
    def of(seed: int, name: str, started_us: int, minutes: int) -> Site:
        """Return an empty site. `name` is a unique word."""
        fleet = Fleet(seed, name, started_us, started_us + minutes * MINUTE_US, [], [], [])
        names = random.Random(f"site/{name}")
        return Site(fleet, random.Random(f"site/{seed}"), names, {}, {}, {})

    @property
    def arrays(self) -> list[Array]:
        """Return the shared arrays."""
        return self.fleet.arrays

    def array(self, label: str, make: Make, luns: int) -> list[Datastore]:
        """Add an array with `luns` LUNs, each with a volume. LUN numbers are unique in the site."""
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
        """Add a host of a release that sees these LUNs. Without esxtop steps, they are random."""
        rng, number = self.rng, len(self.fleet.hosts)
        host = Host(
            number=number,
            name=f"esx{number + 1:02}-{self.fleet.name}.sim.example",
            era=_ERAS[era],
            address=f"192.0.2.{number + 10}",
            cpus=rng.choice((8, 16, 24)),
            boot_us=self.fleet.started_us - rng.randrange(2, 200) * DAY_US - rng.randrange(DAY_US),
            zone_minutes=0,
            by_syslog=rng.random() < 0.3 and not _ERAS[era].is_yearless,
            esxtop_step_s=esxtop_step_s or rng.choice((10, 15, 20)),
            esxtop_zone=rng.choice(_ESXTOP_ZONES),
        )
        host.datastores = list(datastores)
        self.fleet.hosts.append(host)
        return host

    def local_disk(self, host: Host) -> Datastore:
        """Add a volume on the host's own disk."""
        array = Array(f"local-{host.label}", LOCAL.vendor_id)
        self.makes[array.name] = LOCAL
        made = Datastore(
            f"local-{host.label}", self._uuid(), self._device(LOCAL), 0, array, is_local=True
        )
        self.locals[host.name] = made
        host.datastores.append(made)
        return made

    def vms(self, host: Host, datastore: Datastore, count: int) -> list[VirtualMachine]:
        """Add VMs on a host, with their files in a datastore."""
        return [self._vm(host, datastore) for _ in range(count)]

    def make_of(self, datastore: Datastore) -> Make:
        """Return the make of the datastore's array."""
        return self.makes[datastore.array.name]

    def policy_of(self, datastore: Datastore) -> str:
        """Return the datastore's path selection policy."""
        return self.policies.get(datastore.array.name, self.make_of(datastore).policy)

    def targets_of(self, datastore: Datastore) -> tuple[int, int]:
        """Return the array's ports for the first and the second adapter."""
        first = 2 * self.arrays.index(datastore.array)
        return first, first + 1

    def _vm(self, host: Host, datastore: Datastore) -> VirtualMachine:
        rng, number = self.rng, len(self.fleet.vms)
        vm = VirtualMachine(
            number=number,
            name=f"{rng.choice(_VM_NAMES)}{number:02}-{self.fleet.name}",
            host=host,
            datastore=datastore,
            disks=rng.choices((1, 2), (80, 20))[0],
            world=1100 + number if host.era.is_yearless else rng.randrange(33_000, 90_000),
            memory_pages=rng.choice((262_144, 524_288, 1_048_576)),
            is_cbt=rng.random() < 0.7,
            is_quiesced=rng.random() < 0.5,
            has_modes_only=False,
            is_shipped=True,
            snapshot_id=rng.randrange(1, 90),
        )
        self.fleet.vms.append(vm)
        host.vms.append(vm)
        return vm

    def _device(self, make: Make, serial: str = "") -> str:
        """Return a LUN's name, which begins with its array's digits."""
        begins = make.vendor_id + serial
        return begins + self._digits(36 - len(begins))

    def _uuid(self) -> str:
        return "-".join(self._digits(count) for count in (8, 8, 4, 12))

    def _digits(self, count: int) -> str:
        return f"{self.names.getrandbits(4 * count):0{count}x}"
