"""Generates the fleet of a seed: hosts of several releases, arrays, datastores and VMs.

Every name contains the fleet's own name, so that several fleets can be replayed into one pipeline.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US


@dataclass(frozen=True, slots=True)
class Era:
    """A release of ESX: how it writes logs and how it handles snapshots."""

    name: str
    version: str
    build: int
    share: int
    """The number of hosts with it, relative to the sum over all releases."""
    is_yearless: bool = False
    """Timestamps are local time without a year, next to the kernel's uptime."""
    levels: tuple[str, str] | None = None
    """vmware.log's markers of informational and warning lines; None if it has none."""
    hostd: str = "esxi6"
    has_column: bool = False
    """vmware.log has a column for the operation ID."""
    is_iterative: bool = False
    """The snapshot of a running VM is removed in several passes with helper snapshots."""
    has_esxtop: bool = True
    has_count_down: bool = False
    """Reservation conflicts are retried, with a count-down in the log."""


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
    """The first digits of the naa names of its LUNs."""
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
    """Address of its vMotion interface."""
    cpus: int
    boot_us: int
    zone_minutes: int
    """Time zone of its VMs' logs, if they contain one."""
    by_syslog: bool
    """A syslog server collected its logs in one file."""
    esxtop_step_s: int
    """0: esxtop is not run on it."""
    esxtop_zone: tuple[str, int]
    """Name, and minutes east of UTC."""
    relay: str = ""
    """The relay that its syslog lines passed: see RELAYS."""
    failed_form: str = "one_line"
    """How the kernel logs a failed command: from ESXi 7 on, in two consecutive lines."""
    has_named_column: bool = False
    """vmware.log has a column `opID=`, empty if there is no operation: on some ESXi 7.0 hosts."""
    datastores: list[Datastore] = field(default_factory=list)
    vms: list[VirtualMachine] = field(default_factory=list)

    @property
    def label(self) -> str:
        """Return the name without its domain."""
        return self.name.partition(".")[0]

    @property
    def has_coarse_stamps(self) -> bool:
        """Return True if the timestamps of its own logs arrive with whole seconds."""
        return self.era.is_yearless or self.relay == "rsyslog"

    @property
    def boot_device(self) -> str:
        """Return a local disk that rejects mode page requests: the source of harmless errors."""
        return "mpx.vmhba0:C0:T0:L0"


@dataclass(slots=True)
class VirtualMachine:
    """One VM, its disks and its settings."""

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
    """Its log shows stuns only by mode changes."""
    is_shipped: bool
    """Its vmware.log is collected."""
    is_by_syslog: bool = False
    """Its log is sent by syslog with its host's, so its datastore is unknown."""
    delta: int = 0
    """The number of the newest delta disk."""
    snapshot_id: int = 0

    @property
    def shown_datastore(self) -> str:
        """Return the datastore, if it can be known from the log; else an empty string."""
        return "" if self.is_by_syslog else self.datastore.name

    @property
    def folder(self) -> str:
        """Return the folder's path in the log, which contains the volume's UUID."""
        return f"/vmfs/volumes/{self.datastore.uuid}/{self.name}"


@dataclass(slots=True)
class Fleet:
    """The whole fleet, and the simulated period."""

    seed: int
    name: str
    started_us: int
    ended_us: int
    hosts: list[Host]
    arrays: list[Array]
    vms: list[VirtualMachine]
    chatter: float = 1.0
    """The amount of noise; 1 is as on real hosts."""

    @property
    def datastores(self) -> list[Datastore]:
        """Return the shared datastores."""
        return [each for array in self.arrays for each in array.datastores]

    def rng(self, *purpose: object) -> random.Random:
        """Return a random generator for one purpose, so that no change affects other purposes.

        It depends on the seed and not on the fleet's name: another name gives the same night.
        """
        return random.Random("/".join(str(each) for each in (self.seed, *purpose)))


# {n} is a number. Real names contain spaces, quotes, other scripts, and text as in log lines.
_VM_NAMES = (
    "sql{n}", "web{n}", "app{n}", "mail{n}", "file{n}", "dc{n}", "build{n}", "oracle{n}",
    "erp prod {n}", "Print Server ({n})", "o'neill {n}", 'the "old" crm {n}', "größe-{n}",
    "测试机-{n}", "vm_{n}.lab", "db{n} [copy]", "backup: proxy {n}", "-flat-{n}-delta",
)  # fmt: skip
_ARRAYS = (("granite", "naa.60a98000"), ("basalt", "naa.6006016"), ("slate", "naa.624a9370"))
_ZONES = ((0, 40), (60, 15), (-300, 15), (330, 10))
_ESXTOP_ZONES = (("UTC", 0), ("Central European Time", 60), ("Pacific Standard Time", -480))


RELAYS = ("", "rsyslog", "two_stamps", "two_iso_stamps", "pri_inside", "agent", "json")
"""Relays that a host's syslog lines may have passed (relays.py); empty: none."""


def make_fleet(
    *, seed: int, name: str, hosts: int, vms: int, started_us: int, minutes: int
) -> Fleet:
    """Return the fleet of a seed. `hosts` and `vms` are at least 1; `name` is one word."""
    rng = random.Random(f"fleet/{seed}")
    fleet = Fleet(seed, name, started_us, started_us + minutes * MINUTE_US, [], [], [])
    for label, vendor_id in _ARRAYS[: max(1, min(3, hosts // 4))]:
        fleet.arrays.append(_array(rng, fleet.name, label, vendor_id, hosts))
    for number, era in enumerate(_eras(hosts)):
        fleet.hosts.append(_host(rng, fleet, number, era))
    # In turn, so that a fleet of the default size has lines of every form.
    for number, host in enumerate(each for each in fleet.hosts if each.by_syslog):
        host.relay = RELAYS[(seed + number) % len(RELAYS)]
    for number in range(vms):
        host = fleet.hosts[number % hosts]
        fleet.vms.append(_vm(rng, fleet, host, number))
        host.vms.append(fleet.vms[-1])
    return fleet


def _eras(hosts: int) -> list[Era]:
    """Return the release of each host, in proportion; each at least once if there are enough."""
    drawn = [era for era in ERAS for _ in range(era.share)]
    step = len(drawn) / hosts
    return [drawn[min(len(drawn) - 1, int((number + 0.5) * step))] for number in range(hosts)]


def _digits(rng: random.Random, count: int) -> str:
    return f"{rng.getrandbits(4 * count):0{count}x}"


def _uuid(rng: random.Random) -> str:
    return "-".join(_digits(rng, count) for count in (8, 8, 4, 12))


def _array(rng: random.Random, fleet: str, name: str, vendor_id: str, hosts: int) -> Array:
    array = Array(f"{name}-{fleet}", vendor_id)
    for number in range(max(2, min(6, hosts // 4))):
        device = vendor_id + _digits(rng, 36 - len(vendor_id))
        label = f"{name} pool ({number}) {fleet}" if number == 1 else f"{name}-{fleet}-{number}"
        array.datastores.append(Datastore(label, _uuid(rng), device, number + 1, array))
    return array


def _host(rng: random.Random, fleet: Fleet, number: int, era: Era) -> Host:
    zone_minutes = rng.choices([each[0] for each in _ZONES], [each[1] for each in _ZONES])[0]
    host = Host(
        number=number,
        name=f"esx{number + 1:02}-{fleet.name}.sim.example",
        era=era,
        address=f"192.0.2.{number + 10}" if number < 200 else f"198.51.100.{number - 199}",
        cpus=rng.choice((8, 16, 24, 48)),
        boot_us=fleet.started_us - rng.randrange(2 * 86_400_000, 200 * 86_400_000) * 1000,
        zone_minutes=zone_minutes if era.name in {"esxi55", "esxi60", "esxi65"} else 0,
        by_syslog=not era.is_yearless and rng.random() < 0.45,
        esxtop_step_s=rng.choice((5, 10, 20, 20)) if era.has_esxtop else 0,
        esxtop_zone=_ESXTOP_ZONES[0] if rng.random() < 0.7 else rng.choice(_ESXTOP_ZONES[1:]),
    )
    own_dice = fleet.rng("form", number)
    host.has_named_column = era.name == "esxi70" and own_dice.random() < 0.5
    if era.name in {"esxi70", "esxi80"}:
        host.failed_form = own_dice.choice(
            ("one_line", "two_lines", "two_lines", "two_lines_of_hpp")
        )
    # ESX with VMFS-3 and ESXi share no LUNs. Each host sees two of the three arrays.
    arrays = rng.sample(fleet.arrays, min(2, len(fleet.arrays)))
    host.datastores = [each for array in arrays for each in array.datastores]
    return host


def _vm(rng: random.Random, fleet: Fleet, host: Host, number: int) -> VirtualMachine:
    name = rng.choice(_VM_NAMES).format(n=f"{number:03}{fleet.name}")
    vm = VirtualMachine(
        number=number,
        name=name,
        host=host,
        datastore=rng.choice(host.datastores),
        disks=rng.choices((1, 2, 3), (60, 30, 10))[0],
        world=rng.randrange(33_000, 90_000) if not host.era.is_yearless else 1100 + number,
        memory_pages=rng.choice((262_144, 524_288, 1_048_576, 2_097_152)),
        is_cbt=host.era.name != "esx35" and rng.random() < 0.7,
        is_quiesced=rng.random() < 0.6,
        has_modes_only=host.era.name == "esx35" and rng.random() < 0.5,
        is_shipped=rng.random() < 0.9,
        snapshot_id=rng.randrange(1, 90),
    )
    # Older releases have no operation ID there. A name with a space would end the program's name.
    is_able = host.by_syslog and host.era.has_column and vm.is_shipped and name.isalnum()
    vm.is_by_syslog = is_able and fleet.rng("VM by syslog", number).random() < 0.6
    return vm
