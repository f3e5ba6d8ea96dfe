"""Log files for the end-to-end tests: one function per subject.

Each subject has its own hosts, VMs and days, so that one replay serves all of them.
"""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

from stunwatch.audit.events import CHECKS
from stunwatch.detectors.catalogue import detector
from tests.detectors.cases import cases_of, joins_of

CORPUS = Path(os.environ.get("STUNWATCH_CORPUS", Path(__file__).parents[3] / "shared/corpus"))
"""Published lines, if they exist on this machine."""

SEQUENCES = "published"
"""The datastore of the published VMs."""

AUDITED_HOST = "esx30.lab.example"
BAD_HOST = "esx09.bad.example"
LATENCY_HOST = "esx61.lab.example"
LATENCY_START = datetime(2024, 5, 6, 7, 0, 0)
WORDS_HOST = "esx21.words.example"
HOSTILE_HOST = "esx66.lab.example"
HOSTILE_DATASTORE = "ds-hostile"
TEACHING_HOST = "esx56.lab.example"


def write(root: Path) -> list[Path]:
    """Write all files below a folder; return the paths to replay."""
    for subject in (audited, latency, slow_storage, hostile_names, teaching):
        subject(root / subject.__name__)
    paths = [each for each in root.iterdir() if each.is_dir()]
    paths += bad_input(root / "bad_input")
    if CORPUS.exists():
        paths += [*sequences(root / "sequences"), seed_000(root / "seed_000")]
    return paths


def host_log(root: Path, host: str, name: str, text: str) -> Path:
    """Write a log of a host, in the directory layout of a vm-support bundle."""
    log = root / host / "scratch/log" / name
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(text)
    return log


def vm_log(root: Path, host: str, datastore: str, vm: str, text: str) -> Path:
    """Write a VM's vmware.log on its datastore."""
    log = root / host / "vmfs/volumes" / datastore / vm / "vmware.log"
    log.parent.mkdir(parents=True)
    log.write_text(text)
    return log


def stun_line(at: str, duration_us: int) -> str:
    return f"{at}| vcpu-0| I120: Checkpoint_Unstun: vm stopped for {duration_us} us\n"


# -- Input of `stunwatch audit`


def audited(root: Path) -> None:
    """Write every case of audited detectors, random stuns, and known stuns and countdowns."""
    for name in CHECKS:
        each = detector(name)
        for case in cases_of(each):
            word = f"case-{name}-{case.name}".replace("_", "-")
            if each.owner == "vm":
                audited_vm(root, word, (case / "input.log").read_text())
            else:
                host_log(root, word, "vmkernel.log", (case / "input.log").read_text())
    for number, join in enumerate(joins_of(detector("migrations"))):
        audited_vm(root, join.name.replace("_", "-"), (join / "vm.log").read_text())
        host_log(root, AUDITED_HOST, f"hostd.{number}.log", (join / "host.log").read_text())
    random = Random(20)
    for number in range(40):
        audited_vm(root, f"any{number:02}", "".join(anything(random)))
    # Stuns of 100 005, 100 015, … µs.
    audited_vm(root, "audited01", minutes(60, "audited01", datetime(2018, 3, 1, tzinfo=UTC)))
    audited_vm(root, "gap01", minutes(1_000, "gap01", datetime(2018, 6, 1, tzinfo=UTC)))
    audited_vm(root, "tail01", minutes(100, "tail01", datetime(2018, 8, 1, tzinfo=UTC)))
    countdown = (
        f"Jun  5 04:03:0{second} esx31 vmkernel: 21:10:09:0{second}.765 cpu1:1051)"
        f"SCSI: vm 1051: 117: Sync CR at {64 - 16 * second}\n"
        for second in range(5)
    )
    host_log(root, "esx31.lab.example", "vmkernel.log", "".join(countdown))


def audited_vm(root: Path, vm: str, text: str) -> Path:
    return vm_log(root, AUDITED_HOST, "ds-audit", vm, text)


def minutes(count: int, vm: str, first: datetime) -> str:
    """Return a log with one line per minute; every tenth is a stun."""
    lines = []
    for number in range(count):
        at = first + timedelta(minutes=number)
        message = f"note {number} of {vm}"
        if number % 10 == 5:
            message = f"Checkpoint_Unstun: vm stopped for {100_000 + number} us"
        lines.append(f"{at:%Y-%m-%dT%H:%M:%S}.000Z| vcpu-0| I120: {message}\n")
    return "".join(lines)


def anything(random: Random) -> Iterator[str]:
    """Yield lines about stuns in random order."""
    at = datetime(2023, 5, 1, tzinfo=UTC) + timedelta(days=random.randrange(60))
    lengths_us = [random.randrange(1_000, 4_000_000) for _ in range(4)]
    for _ in range(random.randrange(3, 30)):
        at += timedelta(milliseconds=random.choice([1, 30, 29, 300, 900, 2_000, 5_001, 60_000]))
        length_us, mode = random.choice(lengths_us), random.choice([0, 1, 2, 2, 2, 3, 6, 6])
        message = random.choice(
            [
                f"Checkpoint_Unstun: vm stopped for {length_us} us",
                f"CPT: vm was stunned for {length_us + random.choice([29_000, 31_000])} us",
                f"CPT current = 0, requesting {mode}",
                f"CPT: monitor ACKing mode {mode}",
                f"Done Sync monModules({mode}).",
            ]
        )
        stamp = f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"
        continued = random.choice(["", "", "", "", "+"])
        yield f"{stamp} In(05){continued} vcpu-0 - {message}\n"


# -- Damaged input

BAD_DURATIONS_US = [90_001 + second for second in range(9)]


def bad_input(root: Path) -> list[Path]:
    """Write a truncated archive, unknown heads, invalid UTF-8, a huge line and an empty folder."""
    folder = root / BAD_HOST / "vmfs/volumes/ds/vm09"
    folder.mkdir(parents=True)
    good = [
        stun_line(f"2019-05-06T07:08:{second:02}.000Z", duration_us)
        for second, duration_us in enumerate(BAD_DURATIONS_US)
    ]
    packed = gzip.compress(
        "".join(
            f"2019-05-05T07:{number // 600:02}:{number // 10 % 60:02}.{number % 10}00Z| vmx| I120: "
            f"line {number * 7919}\n"
            for number in range(9000)
        ).encode()
    )
    (folder / "vmware-1.log.gz").write_bytes(packed[: len(packed) // 2])
    (folder / "vmware.log").write_bytes(
        "".join(good[:3]).encode()
        + b"no head that anybody knows\n"
        + b"2019-05-06T07:08:10.000Z| vmx| I120: caf\xe9 \xff\xfe\n"
        + b"2019-05-06T07:08:11.000Z| vmx| I120: "
        + b"x" * 10_000_000
        + b"\n"
        + "".join(good[3:]).encode()
    )
    (folder / "vmware-2.log").write_bytes(b"")
    (root / "vmkernel.log").write_bytes(bytes(range(256)) * 4096)
    (root / "nothing").mkdir()
    return [root / BAD_HOST, root / "vmkernel.log", root / "nothing"]


# -- Slow storage


def latency(root: Path) -> None:
    """Write esxtop output of three devices: an incident, a spike, and neither."""
    series = {
        "naa.6100": [3.0] * 12 + [400.0] * 30 + [3.0] * 78,
        "naa.6101": [4.0] * 50 + [90.0] + [4.0] * 69,
        "naa.6102": [5.0] * 120,
    }
    folder = root / LATENCY_HOST
    folder.mkdir(parents=True)
    write_csv(folder / "esxtop.csv", series, 5)


def write_csv(
    path: Path,
    series: dict[str, list[float]],
    step_seconds: int,
    host: str = LATENCY_HOST,
    start: datetime = LATENCY_START,
) -> None:
    """Write esxtop's batch output from DAVG by device, with a hundred commands per second."""
    counters = ("Average Driver MilliSec/Command", "Average Kernel MilliSec/Command")
    header = ['"(PDH-CSV 4.0) (UTC)(0)"']
    for device in series:
        place = f"\\\\{host}\\Physical Disk SCSI Device({device})"
        header += [f'"{place}\\{each}"' for each in (*counters, "Commands/sec")]
    rows = [",".join(header)]
    for number in range(len(next(iter(series.values())))):
        at = start + timedelta(seconds=number * step_seconds)
        values = [f'"{at:%m/%d/%Y %H:%M:%S}"']
        for davgs in series.values():
            values += [f'"{davgs[number]}"', '"0.02"', '"100.00"']
        rows.append(",".join(values))
    path.write_text("\n".join(rows) + "\n")


SLOW = "naa.600144f0a1b2c3d40000607182930001"
OPEN = "naa.600144f0a1b2c3d40000607182930002"


def _worse(device: str, before_us: int, after_us: int) -> str:
    return (
        f"Device {device} performance has deteriorated. I/O latency increased from average value "
        f"of {before_us} microseconds to {after_us} microseconds."
    )


def _better(device: str, before_us: int, after_us: int) -> str:
    return (
        f"Device {device} performance has improved. I/O latency reduced from {before_us} "
        f"microseconds to {after_us} microseconds."
    )


VMKERNEL = [
    f"2016-02-03T04:05:06.789Z cpu3:33001)WARNING: ScsiDeviceIO: 1223: {_worse(SLOW, 2000, 64000)}",
    "2016-02-03T04:05:07.000Z cpu3:33001)NMP: nmp_ThrottleLogForDevice:2322: last error status",
    f"2016-02-03T04:05:30.000Z cpu5:33003)WARNING: ScsiDeviceIO: 1223: {_worse(OPEN, 900, 31000)}",
    f"2016-02-03T04:06:00.000Z cpu3:33001)WARNING: ScsiDeviceIO: 1223: {_worse(SLOW, 3000, 99000)}",
    f"2016-02-03T04:08:00.250Z cpu3:33001)ScsiDeviceIO: 1203: {_better(SLOW, 99000, 20000)}",
]
VOBD = [
    "2016-02-03T04:05:07.290Z: [scsiCorrelator] 70001us: [vob.scsi.device.io.latency.high] "
    + _worse(SLOW, 2000, 64000),
    "2016-02-03T04:05:07.791Z: [scsiCorrelator] 70002us: [esx.problem.scsi.device.io.latency.high] "
    + _worse(SLOW, 2000, 64000),
    "2016-02-03T04:08:01.251Z: [scsiCorrelator] 70003us: "
    f"[esx.clear.scsi.device.io.latency.improved] {_better(SLOW, 99000, 20000)}",
]
STORAGE_RM = [
    f"<14>2016-02-03T04:05:00.100Z {WORDS_HOST} storageRM:  <ds-words> 3301 avglatency= 0.83 "
    "iops= 84 threshold= 30 Win = 30.00 ws= 30 devqdepth= 30 iocount= 4 noio= 0.00 coio= 0.05",
    f"<14>2016-02-03T04:05:04.100Z {WORDS_HOST} storageRM:  <ds words 2> 3302 avglatency= 41.5 "
    "iops= 9 threshold= 30 Win = 12.00 ws= 30 devqdepth= 12 iocount= 3 noio= 0.00 coio= 0.90",
    f"<14>2016-02-03T04:05:05.100Z {WORDS_HOST} storageRM:  <ds-words>  retry : 1,  Device or "
    "resource busy Error -1 opening file /vmfs/volumes//ds-words/.iorm.sf/slotsfile",
    f"<14>2016-02-03T04:05:06.100Z {WORDS_HOST} storageRM:  <ds-words> 3303 avglatency= -nan "
    "iops= 0 threshold= 30",
    f"<14>2016-02-03T04:05:07.100Z {WORDS_HOST} shell:  <ds-words> 3304 avglatency= 5.00 iops= 1 ",
    f"<14>2016-02-03T04:05:08.100Z {WORDS_HOST} storageRM:  <ds-words> 3305 avglatency= 12 "
    "iops= 0.5",
]


def slow_storage(root: Path) -> None:
    """Write a host's own log lines about its latency."""
    folder = root / WORDS_HOST
    folder.mkdir(parents=True)
    for name, lines in (
        ("vmkernel.log", VMKERNEL),
        ("vobd.log", VOBD),
        ("syslog.log", STORAGE_RM),
    ):
        (folder / name).write_text("".join(f"{line}\n" for line in lines))


# -- Names and inventory

HOSTILE_NAMES = (
    "'; DROP TABLE stuns_stored; --",
    "<img src=x onerror=alert(1)>",
    "${jndi:ldap:x}$(id)`id`%n%s",
    "{{ 7 * 7 }}{% raw %}",
    '=HYPERLINK("x","y")',
    "\x1b[2J\x1b]0;owned\x07red",
    "[bold]markup[red]",
    "Checkpoint_Unstun: vm stopped for 5 us",
)
"""Names that VMs may have: SQL, HTML, templates, a spreadsheet formula, terminal commands."""


def hostile_names(root: Path) -> None:
    """Write one VM per name, stunned once for its position in the list, in microseconds."""
    for number, name in enumerate(HOSTILE_NAMES, 1):
        text = (
            f"2024-06-01T02:00:{number:02}.000Z In(05) vcpu-0"
            f" - Checkpoint_Unstun: vm stopped for {number} us\n"
        )
        vm_log(root, HOSTILE_HOST, HOSTILE_DATASTORE, name, text)


def teaching(root: Path) -> None:
    """Write a line that contains a LUN and the datastore on it."""
    text = (
        "2021-04-01T01:00:00.000Z: [scsiCorrelator] 8063581us:"
        " [esx.problem.storage.redundancy.degraded] Path redundancy to storage device naa.56"
        ' degraded. Path vmhba2:C0:T1:L4 is down. Affected datastores: "taught".\n'
    )
    log = root / TEACHING_HOST / "vobd.log"
    log.parent.mkdir(parents=True)
    log.write_text(text)


# -- Published lines, if they exist on this machine


def sequences(root: Path) -> list[Path]:
    """Return the published sequences; those of VMs with the VM in their paths."""
    paths = [root]
    for path in sorted(CORPUS.glob("sequences/*.log")):
        text = path.read_text()
        if re.search(r"\b(vmx|vcpu-\d)", text.partition("\n")[0]):
            vm_log(root, "esx05", SEQUENCES, path.stem, text)
        else:
            paths.append(path)
    return paths


def seed_000(root: Path) -> Path:
    """Write the lines that the first seed document quotes as one VM's log."""
    text = "".join(path.read_text() for path in sorted(CORPUS.with_name("seeds").glob("000_*")))
    lines = seed_000_lines(text)
    vm_log(root, "esx05", "seeds", "seed", "".join(f"{line}\n" for line in lines))
    return root


def seed_000_lines(text: str) -> list[str]:
    return [each.rstrip() for each in re.findall(r"\d{4}-\d\d-\d\dT[\d:.]+Z\| v[\w-]+\| .*", text)]
