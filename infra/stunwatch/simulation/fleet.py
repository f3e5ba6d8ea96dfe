"""What there is: hosts of several eras, arrays, datastores and VMs, all by one seed.

Every name holds the fleet's own name, so that several fleets can be replayed into one pipeline.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US


@dataclass(frozen=True, slots=True)
class Era:
    """How a version of ESX writes its logs, and what it does about snapshots."""

    name: str
    version: str
    build: int
    share: int
    """Of the fleet's hosts, in parts of the sum over all eras."""
    is_yearless: bool = False
    """Stamps in local time without a year, the kernel's uptime beside them."""
    levels: tuple[str, str] | None = None
    """vmware.log's mark of an informational and of a warning line; None if it has none."""
    hostd: str = "esxi6"
    has_column: bool = False
    """vmware.log has an opID column."""
    is_iterative: bool = False
    """A running VM's snapshot is removed through helper snapshots, again and again."""
    has_esxtop: bool = True
    has_count_down: bool = False
    """Reservation conflicts are retried and counted down."""


ERAS = (
    Era(
        "esx35",
        "3.5.0",
        207_095,
        3,
        is_yearless=True,
        hostd="esx3",
        is_iterative=True,
        has_esxtop=False,
        has_count_down=True,
    ),
    Era(
        "esx41",
        "4.1.0",
        502_767,
        3,
        is_yearless=True,
        hostd="esx4",
        is_iterative=True,
        has_esxtop=False,
        has_count_down=True,
    ),
    Era("esxi50", "5.0.0", 623_860, 3, hostd="esxi5", is_iterative=True),
    Era("esxi55", "5.5.0", 2_068_190, 3, levels=("I120", "W110"), hostd="esxi5", is_iterative=True),
    Era("esxi60", "6.0.0", 3_620_759, 3, levels=("I120", "W110")),
    Era("esxi65", "6.5.0", 7_967_591, 3, levels=("I125", "W115")),
    Era("esxi70", "7.0.3", 18_644_231, 3, levels=("I005", "W003")),
    Era(
        "esxi80",
        "8.0.2",
        22_380_479,
        4,
        levels=("In(05)", "Wa(03)"),
        hostd="esxi8",
        has_column=True,
    ),
)


@dataclass(slots=True)
class Array:
    """A storage array, and the fleet's LUNs on it."""

    name: str
    vendor_id: str
    """The first digits of its LUNs' naa names."""
    datastores: list[Datastore] = field(default_factory=list)


@dataclass(slots=True)
class Datastore:
    """A VMFS volume on one LUN."""

    name: str
    uuid: str
    device: str
    lun: int
    array: Array
    is_local: bool = False


@dataclass(slots=True)
class Host:
    """One ESX host."""

    number: int
    name: str
    """With its domain."""
    era: Era
    address: str
    """Of its vMotion interface."""
    cpus: int
    boot_us: int
    zone_minutes: int
    """Of its VMs' logs, where those name a zone."""
    by_syslog: bool
    """Its logs were collected by a syslog server, into one file."""
    esxtop_step_s: int
    """0: nobody runs esxtop there."""
    esxtop_zone: tuple[str, int]
    """Name and minutes east of UTC."""
    datastores: list[Datastore] = field(default_factory=list)
    vms: list[VirtualMachine] = field(default_factory=list)

    @property
    def label(self) -> str:
        """The name without its domain."""
        return self.name.partition(".")[0]

    @property
    def boot_device(self) -> str:
        """A local disk that answers no mode pages: the source of harmless errors."""
        return "mpx.vmhba0:C0:T0:L0"


@dataclass(slots=True)
class VirtualMachine:
    """One VM, its disks and habits."""

    number: int
    name: str
    host: Host
    datastore: Datastore
    disks: int
    world: int
    memory_pages: int
    is_cbt: bool
    is_quiesced: bool
    has_modes_only: bool
    """Its log tells stops by mode changes alone."""
    is_shipped: bool
    """Its vmware.log reaches us."""
    delta: int = 0
    """The number of the newest delta disk."""
    snapshot_id: int = 0

    @property
    def folder(self) -> str:
        """As the log writes it, by the volume's UUID."""
        return f"/vmfs/volumes/{self.datastore.uuid}/{self.name}"


@dataclass(slots=True)
class Fleet:
    """Everything there is, and the time that is simulated."""

    seed: int
    name: str
    started_us: int
    ended_us: int
    hosts: list[Host]
    arrays: list[Array]
    vms: list[VirtualMachine]
    chatter: float = 1.0
    """How much noise there is; 1: as on real hosts."""

    @property
    def datastores(self) -> list[Datastore]:
        """The shared ones."""
        return [each for array in self.arrays for each in array.datastores]

    def dice(self, *purpose: object) -> random.Random:
        """Random numbers of their own for a purpose: one story changes no other.

        They depend on the seed, not on the fleet's name: the same night under another name.
        """
        return random.Random("/".join(str(each) for each in (self.seed, *purpose)))


# {n} is a number. Names that people give: spaces, quotes, other scripts, and a log line.
_VM_NAMES = (
    "sql{n}", "web{n}", "app{n}", "mail{n}", "file{n}", "dc{n}", "build{n}", "oracle{n}",
    "erp prod {n}", "Print Server ({n})", "o'neill {n}", 'the "old" crm {n}', "größe-{n}",
    "测试机-{n}", "vm_{n}.lab", "db{n} [copy]", "backup: proxy {n}", "-flat-{n}-delta",
)  # fmt: skip
_ARRAYS = (("granite", "naa.60a98000"), ("basalt", "naa.6006016"), ("slate", "naa.624a9370"))
_ZONES = ((0, 40), (60, 15), (-300, 15), (330, 10))
_ESXTOP_ZONES = (("UTC", 0), ("Central European Time", 60), ("Pacific Standard Time", -480))


def make_fleet(
    *, seed: int, name: str, hosts: int, vms: int, started_us: int, minutes: int
) -> Fleet:
    """The fleet of a seed. `hosts` and `vms` are at least 1; `name` is a word."""
    dice = random.Random(f"fleet/{seed}")
    fleet = Fleet(seed, name, started_us, started_us + minutes * MINUTE_US, [], [], [])
    for label, vendor_id in _ARRAYS[: max(1, min(3, hosts // 4))]:
        fleet.arrays.append(_array(dice, fleet.name, label, vendor_id, hosts))
    for number, era in enumerate(_eras(hosts)):
        fleet.hosts.append(_host(dice, fleet, number, era))
    for number in range(vms):
        host = fleet.hosts[number % hosts]
        fleet.vms.append(_vm(dice, fleet, host, number))
        host.vms.append(fleet.vms[-1])
    return fleet


def _eras(hosts: int) -> list[Era]:
    """In proportion, and of each at least one if there are hosts enough."""
    drawn = [era for era in ERAS for _ in range(era.share)]
    step = len(drawn) / hosts
    return [drawn[min(len(drawn) - 1, int((number + 0.5) * step))] for number in range(hosts)]


def _digits(dice: random.Random, count: int) -> str:
    return f"{dice.getrandbits(4 * count):0{count}x}"


def _uuid(dice: random.Random) -> str:
    return "-".join(_digits(dice, count) for count in (8, 8, 4, 12))


def _array(dice: random.Random, fleet: str, name: str, vendor_id: str, hosts: int) -> Array:
    array = Array(f"{name}-{fleet}", vendor_id)
    for number in range(max(2, min(6, hosts // 4))):
        device = vendor_id + _digits(dice, 36 - len(vendor_id))
        label = f"{name} pool ({number}) {fleet}" if number == 1 else f"{name}-{fleet}-{number}"
        array.datastores.append(Datastore(label, _uuid(dice), device, number + 1, array))
    return array


def _host(dice: random.Random, fleet: Fleet, number: int, era: Era) -> Host:
    zone_minutes = dice.choices([each[0] for each in _ZONES], [each[1] for each in _ZONES])[0]
    host = Host(
        number=number,
        name=f"esx{number + 1:02}-{fleet.name}.sim.example",
        era=era,
        address=f"192.0.2.{number + 10}" if number < 200 else f"198.51.100.{number - 199}",
        cpus=dice.choice((8, 16, 24, 48)),
        boot_us=fleet.started_us - dice.randrange(2 * 86_400_000, 200 * 86_400_000) * 1000,
        zone_minutes=zone_minutes if era.name in {"esxi55", "esxi60", "esxi65"} else 0,
        by_syslog=not era.is_yearless and dice.random() < 0.3,
        esxtop_step_s=dice.choice((5, 10, 20, 20)) if era.has_esxtop else 0,
        esxtop_zone=_ESXTOP_ZONES[0] if dice.random() < 0.7 else dice.choice(_ESXTOP_ZONES[1:]),
    )
    # ESX with VMFS-3 and ESXi share no LUNs; each host sees two arrays of the three.
    arrays = dice.sample(fleet.arrays, min(2, len(fleet.arrays)))
    host.datastores = [each for array in arrays for each in array.datastores]
    return host


def _vm(dice: random.Random, fleet: Fleet, host: Host, number: int) -> VirtualMachine:
    name = dice.choice(_VM_NAMES).format(n=f"{number:03}{fleet.name}")
    return VirtualMachine(
        number=number,
        name=name,
        host=host,
        datastore=dice.choice(host.datastores),
        disks=dice.choices((1, 2, 3), (60, 30, 10))[0],
        world=dice.randrange(33_000, 90_000) if not host.era.is_yearless else 1100 + number,
        memory_pages=dice.choice((262_144, 524_288, 1_048_576, 2_097_152)),
        is_cbt=host.era.name != "esx35" and dice.random() < 0.7,
        is_quiesced=dice.random() < 0.6,
        has_modes_only=host.era.name == "esx35" and dice.random() < 0.5,
        is_shipped=dice.random() < 0.9,
        snapshot_id=dice.randrange(1, 90),
    )
